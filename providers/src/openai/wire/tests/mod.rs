//! Bodies out and plain answers back, over the whole adapter. `vectors` and `stream` have tests of their own beside them.

mod answers;
mod requests;
