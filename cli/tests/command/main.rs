//! The binary from outside: what goes in, what comes out, and what it exits with.

#![allow(clippy::unwrap_used)] // A test that can't go on says so by failing.

mod antfly;
mod check;
mod embed;
mod generate;
mod interrupt;
mod rerank;
mod support;
mod usage;
