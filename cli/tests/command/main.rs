//! The binary from outside: what goes in, what comes out, and what it exits with.

#![allow(clippy::unwrap_used)] // A test that can't go on says so by failing.

mod antfly;
mod check;
mod embed;
mod generate;
#[cfg(feature = "in-process")]
mod in_process;
mod interrupt;
#[cfg(all(feature = "in-process", unix))]
mod offline;
mod rerank;
mod support;
mod usage;
