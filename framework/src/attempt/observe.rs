//! What became of each attempt, for whoever watches: one record a request that left.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU16, Ordering};
use std::time::Duration;

use antfly_limiter::{Instant, Permit, ScopeKey};

use crate::provider::Operation;

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// With an answer.
    Ok,
    /// It failed and the call goes on with another one.
    Retry,
    /// It was redirected; the hop is an attempt of its own.
    Redirect,
    /// It failed and so did the call, or the caller went away.
    Error,
}

impl Outcome {
    /// `ok`, `retry`, `redirect` or `error`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Outcome::Ok => "ok",
            Outcome::Retry => "retry",
            Outcome::Redirect => "redirect",
            Outcome::Error => "error",
        }
    }

    const fn code(self) -> u8 {
        self as u8
    }

    const fn from_code(code: u8) -> Self {
        match code {
            0 => Outcome::Ok,
            1 => Outcome::Retry,
            2 => Outcome::Redirect,
            _ => Outcome::Error,
        }
    }
}

/// One attempt: when it left, what it cost, how it ended. Holds no content and no secret.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct AttemptRecord {
    /// When it left, on the client's clock.
    pub at: Instant,
    /// The scope it was admitted to.
    pub scope: ScopeKey,
    /// The entry's name; empty when it has none.
    pub entry: String,
    /// The operation.
    pub operation: Operation,
    /// Number within its call, from 1, redirect hops counted.
    pub attempt: u32,
    /// What it cost, or would have cost had there been a budget, in tokens.
    pub tokens: u64,
    /// How long it waited for admission.
    pub waited: Duration,
    /// The status of the answer; absent when the transport failed.
    pub status: Option<u16>,
    /// How it ended.
    pub outcome: Outcome,
}

/// Is told of every attempt when it has ended. Must not block.
pub trait AttemptObserver: fmt::Debug + Send + Sync {
    /// One attempt has ended.
    fn attempt(&self, record: &AttemptRecord);
}

/// One admitted attempt in flight: its permit and its record, shared by all who still work on it. The last one to let go
/// reports the record and then gives the permit back.
pub(crate) struct Held {
    record: AttemptRecord,
    status: AtomicU16,
    outcome: AtomicU8,
    /// Whether a request left at all.
    left: AtomicBool,
    observer: Option<Arc<dyn AttemptObserver>>,
    // Dropped after the record has been reported (see `Drop`).
    permit: Permit,
}

impl Held {
    pub(crate) fn new(
        record: AttemptRecord,
        permit: Permit,
        observer: Option<Arc<dyn AttemptObserver>>,
    ) -> Arc<Self> {
        Arc::new(Held {
            record,
            status: AtomicU16::new(0),
            outcome: AtomicU8::new(Outcome::Error.code()),
            left: AtomicBool::new(true),
            observer,
            permit,
        })
    }

    pub(crate) fn set_status(&self, status: u16) {
        self.status.store(status, Ordering::Relaxed);
    }

    pub(crate) fn set_outcome(&self, outcome: Outcome) {
        self.outcome.store(outcome.code(), Ordering::Relaxed);
    }

    /// Nothing was sent after all: the permit goes back and there is no record.
    pub(crate) fn never_left(&self) {
        self.left.store(false, Ordering::Relaxed);
    }

    pub(crate) fn number(&self) -> u32 {
        self.record.attempt
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if !*self.left.get_mut() {
            return;
        }
        let status = *self.status.get_mut();
        self.record.status = (status != 0).then_some(status);
        self.record.outcome = Outcome::from_code(*self.outcome.get_mut());
        let r = &self.record;
        tracing::debug!(
            scope = %r.scope,
            operation = r.operation.as_str(),
            attempt = r.attempt,
            tokens = r.tokens,
            waited_ms = r.waited.as_secs_f64() * 1e3,
            status = r.status,
            outcome = r.outcome.as_str(),
            "attempt ended"
        );
        if let Some(observer) = &self.observer {
            observer.attempt(r);
        }
        let _ = &self.permit;
    }
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Held")
            .field("record", &self.record)
            .finish_non_exhaustive()
    }
}
