//! Traffic in virtual time, every choice from a seed.
//!
//! - `small`: a dozen clients for minutes, every admission kept and looked at afterwards, many seeds and policies.
//! - `days`: thousands of callers for days against a modelled provider; what must hold is checked as it happens.
//!   `SIM_SEED`, `SIM_DAYS` and `SIM_CALLERS` choose another run or a longer one, and a failure prints them:
//!   `SIM_DAYS=60 SIM_SEED=7 cargo test --release -p antfly-limiter --test simulation -- --nocapture`.
#![allow(missing_docs, unreachable_pub)]

#[path = "../common/mod.rs"]
mod common;

mod books;
mod caller;
mod clock;
mod days;
mod dice;
mod executor;
mod level;
mod provider;
mod small;
mod world;
