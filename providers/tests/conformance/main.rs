//! Every adapter of this crate, proved by the framework's conformance kit. One file an adapter: how its server speaks.
#![forbid(unsafe_code)]
#![allow(missing_docs, clippy::unwrap_used)] // A test fails by panicking.

#[cfg(feature = "antfly")]
mod antfly;
mod chat;
#[cfg(feature = "gemini")]
mod gemini;
#[cfg(feature = "in-process")]
mod in_process;
mod openai;
mod table;
#[cfg(feature = "vertex")]
mod vertex;
