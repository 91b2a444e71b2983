//! TLS end to end: a private authority, and tunnels through a proxy, for both ways out: the framework's own client and the AWS SDK's.
#![forbid(unsafe_code)]
#![allow(missing_docs)]
#![allow(clippy::unwrap_used)] // A test fails by panicking.

mod model;
mod sign_in;
mod world;
