//! For the tests of adapters (feature `testing`): [`Server`] answers with scripted raw bytes over real HTTP on loopback, and
//! [`ManualClock`] is a clock that moves only when told. [`conformance`] proves an adapter with both.

pub mod conformance;
mod server;

pub use antfly_limiter::ManualClock;
pub use server::*;
