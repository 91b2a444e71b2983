//! The attempt loop and the three routes: HTTP, an SDK's engine, in-process.
#![forbid(unsafe_code)]
#![allow(missing_docs)]

mod credentials;
mod deadlines;
mod engine;
mod http_route;
mod local;
mod support;
