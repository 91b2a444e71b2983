//! What a scope looks like from outside.

use std::time::Duration;

use crate::key::ScopeKey;
use crate::policy::Policy;
use crate::time::Instant;

/// A scope at one instant, read under its lock.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct ScopeSnapshot {
    /// The scope.
    pub key: ScopeKey,
    /// The policy in force, or the last one if no lease is held.
    pub policy: Policy,
    /// Permits held.
    pub active: u64,
    /// Waiters, including those that were invited and have not come.
    pub queued: usize,
    /// Leases held; clones of one count once.
    pub leases: usize,
    /// Requests spent and not yet repaid, dormant debt included.
    pub request_debt: f64,
    /// Tokens spent and not yet repaid, dormant debt included.
    pub token_debt: f64,
    /// The end of the cooldown, if one is on.
    pub cooldown_until: Option<Instant>,
    /// The rest of the cooldown.
    pub cooldown_remaining: Option<Duration>,
    /// The end of the completion delay, if one is on.
    pub completion_until: Option<Instant>,
    /// The rest of the completion delay.
    pub completion_remaining: Option<Duration>,
    /// What has happened since the scope was last remembered.
    pub counters: Counters,
}

/// What has happened in a scope since it was last remembered; an idle scope that owes nothing is forgotten.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Counters {
    /// Permits given.
    pub admitted: u64,
    /// Admissions that ended with an error.
    pub refused: u64,
    /// Waiters dropped before they were admitted or refused.
    pub cancelled: u64,
    /// Cooldowns set or extended.
    pub cooldowns: u64,
    /// Cost of all permits given, in tokens, whether or not the policy limits tokens.
    pub tokens_admitted: u64,
}
