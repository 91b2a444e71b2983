//! The product's own text on provider rate limits, sentence by sentence. `../SPEC.md` says which test pins which sentence.
//!
//! Requests travel over real HTTP on loopback; time is a clock that moves only when a test moves it.

#![allow(
    clippy::unwrap_used,
    reason = "a helper of a test fails the test as the test itself would"
)]

mod admission;
mod completion;
mod cooldown;
mod drained;
mod fingerprint;
mod in_process;
mod legacy;
mod media;
mod permits;
mod policy;
mod reranker;
mod scope;
mod support;
mod token_bucket;
mod tokens;
