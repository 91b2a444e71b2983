//! What the tests share is in each target's own `support`; here only the README's examples are compiled.
#![forbid(unsafe_code)]

/// The README's Rust examples, as doc tests.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
pub struct Readme;
