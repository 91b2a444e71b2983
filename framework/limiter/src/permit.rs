//! The right to have one attempt in flight.

use std::fmt;

use crate::key::ScopeKey;
use crate::lease::Lease;
use crate::time::Instant;

/// The right to have one attempt in flight. Dropping it ends the attempt: it frees its place in the concurrency limit
/// and starts the completion delay. What it cost is never refunded.
#[must_use = "the attempt ends when the permit is dropped"]
pub struct Permit {
    lease: Lease,
    cost: u64,
    admitted_at: Instant,
}

impl Permit {
    pub(crate) fn new(lease: Lease, cost: u64, admitted_at: Instant) -> Self {
        Self {
            lease,
            cost,
            admitted_at,
        }
    }

    /// The scope it belongs to.
    #[must_use]
    pub fn key(&self) -> &ScopeKey {
        self.lease.key()
    }

    /// The lease it keeps alive.
    #[must_use]
    pub fn lease(&self) -> &Lease {
        &self.lease
    }

    /// What it cost, in tokens.
    #[must_use]
    pub fn cost(&self) -> u64 {
        self.cost
    }

    /// When it was given.
    #[must_use]
    pub fn admitted_at(&self) -> Instant {
        self.admitted_at
    }

    /// Ends the attempt, as dropping does.
    pub fn finish(self) {}
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.lease.scope().finish();
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit")
            .field("scope", self.key())
            .field("cost", &self.cost)
            .field("admitted_at", &self.admitted_at)
            .finish_non_exhaustive()
    }
}
