//! For the tests of adapters (feature `testing`): [`Server`] answers with scripted raw bytes over real HTTP on loopback, and
//! [`ManualClock`] is a clock that moves only when told. [`conformance`] proves an adapter with both.

pub mod conformance;
mod server;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http::HeaderMap;

use crate::config::{EntryConfig, Env};
use crate::error::Result;
use crate::provider::{Plugin, Provider, Setup};
use crate::secret::Secrets;

use antfly_limiter::Time;

pub use antfly_limiter::ManualClock;
pub use server::*;

/// The adapter of an entry, without a client: for tests of what it declares and how it translates.
///
/// # Errors
/// Those of the plugin.
pub fn resolve(plugin: &Plugin, entry: &EntryConfig, env: &Env) -> Result<Arc<dyn Provider>> {
    let secrets = Secrets::new(None, env.clone());
    (plugin.resolve)(&Setup {
        entry,
        env,
        secrets: &secrets,
        engine: None,
        time: &Time::thread(),
    })
}

/// The longest wait that the headers of an answer ask for, as the attempt loop reads them.
pub fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    crate::attempt::retry_after::hint(headers, now)
}
