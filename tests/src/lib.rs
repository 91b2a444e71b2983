//! Helpers of the behaviour tests.
#![forbid(unsafe_code)]
