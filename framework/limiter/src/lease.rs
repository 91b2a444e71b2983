//! A live handle on a scope.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::admission::{Admission, Admit};
use crate::error::TryAdmitError;
use crate::key::ScopeKey;
use crate::permit::Permit;
use crate::policy::Policy;
use crate::registry::Limiter;
use crate::shared::Shared;
use crate::snapshot::ScopeSnapshot;
use crate::time::{Instant, Time};

/// A live handle on a scope; while it lives the scope keeps its policy.
///
/// Clones share it. It ends with the last of its clones, permits and waiters.
#[derive(Clone)]
pub struct Lease(Arc<Held>);

struct Held {
    scope: Arc<Shared>,
    limiter: Limiter,
}

impl Lease {
    pub(crate) fn new(limiter: Limiter, scope: Arc<Shared>) -> Self {
        Self(Arc::new(Held { scope, limiter }))
    }

    pub(crate) fn scope(&self) -> &Arc<Shared> {
        &self.0.scope
    }

    /// The scope.
    #[must_use]
    pub fn key(&self) -> &ScopeKey {
        &self.0.scope.key
    }

    /// The policy of the scope.
    #[must_use]
    pub fn policy(&self) -> Policy {
        self.scope().policy()
    }

    /// The limiter it was taken from.
    #[must_use]
    pub fn limiter(&self) -> &Limiter {
        &self.0.limiter
    }

    /// The clock of the limiter.
    #[must_use]
    pub fn time(&self) -> &Time {
        &self.0.scope.time
    }

    /// Waits for admission at a cost in tokens, until `deadline` at the latest. A wait of exactly that length fits.
    ///
    /// The place in line is taken by the first poll. Dropping the future at any point changes nothing and lets the
    /// next be considered at once. It is safe to poll it once and leave it alone: it stalls nobody.
    pub fn admit(&self, cost: u64, deadline: Option<Instant>) -> Admit {
        Admit::new(self.admission(cost, deadline))
    }

    /// The two-step form of [`admit`](Self::admit): wait until it could go, look at the world, then claim.
    pub fn admission(&self, cost: u64, deadline: Option<Instant>) -> Admission {
        Admission::new(self.clone(), cost, deadline)
    }

    /// Takes a permit if one can be had at once and nobody waits in line.
    ///
    /// # Errors
    ///
    /// [`TryAdmitError`] with the estimated wait; nothing is reserved.
    pub fn try_admit(&self, cost: u64) -> Result<Permit, TryAdmitError> {
        let at = self.scope().try_admit(cost)?;
        Ok(Permit::new(self.clone(), cost, at))
    }

    /// How long one that joined the line now would wait if all ahead of it stay and go as soon as they can; where
    /// requests and tokens are both scarce, at least how long. `None` if that depends on when permits finish, or if it
    /// could never go.
    #[must_use]
    pub fn estimated_wait(&self, cost: u64) -> Option<Duration> {
        self.scope().estimated_wait(cost)
    }

    /// Starts no attempt of the scope before `until`. Cooldowns only grow: an earlier instant than the one in force, or
    /// one that has passed, changes nothing. Waiters whose deadline that makes hopeless fail at once.
    pub fn cool_until(&self, until: Instant) {
        self.scope().cool_until(until);
    }

    /// [`cool_until`](Self::cool_until), counted from now.
    pub fn cool_for(&self, duration: Duration) {
        self.cool_until(self.time().now().saturating_add(duration));
    }

    /// The end of the cooldown, if one is on.
    #[must_use]
    pub fn cooldown(&self) -> Option<Instant> {
        self.scope().cooldown()
    }

    /// Ends the cooldown; says whether one was on.
    pub fn clear_cooldown(&self) -> bool {
        self.scope().clear_cooldown()
    }

    /// The scope as it is now.
    #[must_use]
    pub fn snapshot(&self) -> ScopeSnapshot {
        self.scope().snapshot()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.limiter.part(&self.scope);
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease")
            .field("scope", self.key())
            .field("policy", &self.policy())
            .finish_non_exhaustive()
    }
}
