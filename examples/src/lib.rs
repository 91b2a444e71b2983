//! One idea a file, in `examples/`; `tests/run.rs` runs each of them. Run one with
//! `cargo run -p antfly-examples --example quickstart`.
#![forbid(unsafe_code)]
