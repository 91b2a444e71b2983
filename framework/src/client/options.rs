//! What a caller may say about one call.

use std::time::Duration;

use antfly_limiter::Instant;
use tokio_util::sync::CancellationToken;

use crate::handle::Handle;

/// Bounds and wishes of one call. The default: the entry's `timeout_ms`, no cancellation, no raw answer.
///
/// ```
/// # use std::time::Duration;
/// # use antfly_framework::{CallOptions, CancellationToken};
/// let stop = CancellationToken::new();
/// let options = CallOptions::default()
///     .with_timeout(Duration::from_secs(20))
///     .with_cancel(stop.clone());
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct CallOptions {
    /// Time for the call in all: credentials, waits, attempts, backoff and body. Of a stream too, to its end.
    pub timeout: Option<Duration>,
    /// The same as a point on the client's clock; the earlier of the two counts.
    pub deadline: Option<Instant>,
    /// Ends the call, or its stream, when cancelled.
    pub cancel: Option<CancellationToken>,
    /// Asks for the answer as the provider sent it ([`crate::Generation::raw`]).
    pub raw: bool,
}

impl CallOptions {
    /// Gives the call this much time, from when it is made.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Gives the call time until this instant of the client's clock.
    #[must_use]
    pub fn with_deadline(mut self, deadline: Instant) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// Adds a cancellation.
    #[must_use]
    pub fn with_cancel(mut self, cancel: CancellationToken) -> Self {
        self.cancel = Some(cancel);
        self
    }

    /// Asks for the raw answer.
    #[must_use]
    pub fn with_raw(mut self) -> Self {
        self.raw = true;
        self
    }

    /// The caller's own bound, if there is one, from now.
    pub(crate) fn own_bound(&self, handle: &Handle) -> Option<Bound> {
        let now = handle.time.now();
        let by_timeout = self.timeout.map(|timeout| now.saturating_add(timeout));
        let deadline = match (by_timeout, self.deadline) {
            (Some(a), Some(b)) => a.min(b),
            (Some(one), None) | (None, Some(one)) => one,
            (None, None) => return None,
        };
        Some(Bound {
            deadline,
            length: deadline.saturating_duration_since(now),
        })
    }

    /// The bound of a call: the caller's, else the entry's.
    pub(crate) fn bound(&self, handle: &Handle) -> Bound {
        self.own_bound(handle).unwrap_or_else(|| Bound {
            deadline: handle.time.now().saturating_add(handle.entry.timeout),
            length: handle.entry.timeout,
        })
    }
}

/// The time of one call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bound {
    /// When it is over.
    pub(crate) deadline: Instant,
    /// How long that was when the call was made: what an error says of it.
    pub(crate) length: Duration,
}

impl Bound {
    /// What follows the first item of a stream that the caller gave no deadline.
    pub(crate) const NONE: Bound = Bound {
        deadline: Instant::MAX,
        length: Duration::MAX,
    };
}
