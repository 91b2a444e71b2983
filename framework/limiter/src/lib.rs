//! Admit async work against request rate, token weight, concurrency and cooldown in one decision.
//!
//! A [`Limiter`] is a registry of *scopes*, each named by a [`ScopeKey`] and ruled by one [`Policy`]. Work takes a
//! [`Lease`] on a scope, asks it for admission ([`Lease::admit`]) and holds the [`Permit`] for as long as it runs.
//!
//! ```
//! use antfly_limiter::{Limiter, Policy, ScopeKey, Time};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let limiter = Limiter::new(Time::thread());
//! let key = ScopeKey::new([("provider", "example"), ("model", "small")]);
//! let policy = Policy::builder().requests_per_minute(120).burst(2).max_concurrency(4).build()?;
//! let lease = limiter.lease(&key, policy)?;
//! let permit = lease.try_admit(0)?;
//! // ... the work ...
//! drop(permit);
//! # Ok(())
//! # }
//! ```
//!
//! # What it promises
//!
//! - One decision under one lock: everything is taken together or nothing is. A refusal, an error or a cancelled wait
//!   changes nothing.
//! - First in, first out, whatever the weight. Those at the head that could go are *invited*; each pays only when its
//!   own poll *claims*. An invitation that is not claimed within 5 ms lapses, the next is invited, and the sleeper
//!   keeps its seniority: a future that was polled once and then left alone stalls nobody.
//! - In any window of `t` seconds at most `burst + requests_per_minute * (t + 0.005) / 60` admissions.
//! - A wait that cannot fit its deadline fails as soon as that is certain.
//!
//! # How to read it
//!
//! `bucket` is the arithmetic and `scope` the state machine; both are pure: no lock, no clock. `queue` is the line of
//! waiters. `state` puts them together and
//! `shared` puts that under one lock with one timer. [`Lease`], [`Admission`] and [`Permit`] are the
//! handles on it, [`Limiter`] the registry, [`Time`] the only clock.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod admission;
mod bucket;
mod error;
mod heap;
mod key;
mod lease;
mod permit;
mod policy;
mod queue;
mod registry;
mod scope;
mod shared;
mod snapshot;
mod state;
mod sync;
mod time;
mod wakes;

pub use admission::{Admission, Admit, Claim};
pub use error::{AdmitError, DeadlineCause, PolicyConflict, PolicyError, TryAdmitError};
pub use key::ScopeKey;
pub use lease::Lease;
pub use permit::Permit;
pub use policy::{Pacing, Policy, PolicyBuilder};
pub use registry::Limiter;
pub use snapshot::{Counters, ScopeSnapshot};
pub use time::{Alarm, AlarmKey, Driver, Elapsed, Instant, ManualClock, Sleep, Time};

/// Compiles and runs what the front page shows.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeDoctests;
