//! The pure state machine of a scope: `(state, now)` to a verdict. No lock, no clock, no queue.

use crate::bucket::{Bucket, UNIT};
use crate::error::DeadlineCause;
use crate::policy::{Pacing, Policy};
use crate::time::Instant;

/// How far back a slot may count when a timer woke late, and how long an invitation stands: 5 ms in nanoseconds.
pub(crate) const GRACE: u64 = 5_000_000;
/// Between two steps of the restart after a cooldown: 100 ms in nanoseconds.
const STEP: u64 = 100_000_000;

/// What may happen to a request for admission.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// It may go now.
    Admit,
    /// Time alone stands in its way, until this instant at the earliest.
    WaitUntil(Instant),
    /// A permit must finish first.
    WaitForFinish,
    /// It costs more than this whole budget.
    Never(u64),
}

/// What those ahead will take when they claim.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Ahead {
    pub(crate) requests: u64,
    pub(crate) tokens: u128,
}

/// The restart of an unlimited scope after a cooldown: 1, then 2, 4, 8 ... every step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Ramp {
    next_at: Instant,
    next_size: u64,
    left: u64,
}

#[derive(Debug)]
pub(crate) struct Scope {
    policy: Policy,
    requests: Bucket,
    tokens: Bucket,
    active: u64,
    cooldown_until: Instant,
    completion_until: Instant,
    /// Slots may count from here: since when nothing but the request rate has kept the queue waiting.
    slots_from: Instant,
    /// Until when the head of the line has lacked tokens.
    tokens_due: Instant,
    /// The largest time seen; an older reading counts as this one.
    now: Instant,
    /// Boxed, because hardly a scope has one.
    ramp: Option<Box<Ramp>>,
}

impl Scope {
    pub(crate) fn new(policy: Policy, now: Instant) -> Self {
        let mut scope = Self {
            policy: Policy::UNLIMITED,
            requests: Bucket::default(),
            tokens: Bucket::default(),
            active: 0,
            cooldown_until: Instant::ZERO,
            completion_until: Instant::ZERO,
            slots_from: now,
            tokens_due: Instant::ZERO,
            now,
            ramp: None,
        };
        scope.adopt(now, policy);
        scope
    }

    /// The time to reckon with: never older than one seen before.
    pub(crate) fn see(&mut self, now: Instant) -> Instant {
        self.now = self.now.max(now);
        self.now
    }

    pub(crate) fn policy(&self) -> Policy {
        self.policy
    }

    pub(crate) fn active(&self) -> u64 {
        self.active
    }

    /// Takes a new policy; the scope must be drained. Debt, cooldown and completion delay stay; the debt of a limit the
    /// new policy lacks keeps its old rate.
    pub(crate) fn adopt(&mut self, now: Instant, policy: Policy) {
        let now = self.see(now);
        if let Some(rate) = policy.requests_per_minute() {
            self.requests.set_rate(now, rate);
        }
        if let Some(rate) = policy.tokens_per_minute() {
            self.tokens.set_rate(now, rate);
        }
        self.policy = policy;
        self.ramp = None;
        if self.cooldown_until > now {
            self.restart_slowly(self.cooldown_until);
        }
    }

    /// The token budget, if `cost` is above it.
    pub(crate) fn exceeds(&self, cost: u64) -> Option<u64> {
        self.policy
            .tokens_per_minute()
            .map(u64::from)
            .filter(|&budget| cost > budget)
    }

    /// Whether one more may go behind those `ahead`. `queued` says that it comes from the line, whose slots count from
    /// when they were due.
    pub(crate) fn verdict(
        &mut self,
        now: Instant,
        cost: u64,
        ahead: Ahead,
        queued: bool,
    ) -> Verdict {
        let now = self.see(now);
        if let Some(budget) = self.exceeds(cost) {
            return Verdict::Never(budget);
        }
        if self.active.saturating_add(ahead.requests) >= self.concurrency() {
            return Verdict::WaitForFinish;
        }
        let at = self.cooldown_until.max(self.completion_until);
        let at = at.max(self.buckets_due(self.slot_base(now, queued), now, cost, ahead));
        if at > now {
            return Verdict::WaitUntil(at);
        }
        match self.ramp_left(now) {
            Some((left, next_at)) if ahead.requests >= left => Verdict::WaitUntil(next_at),
            _ => Verdict::Admit,
        }
    }

    /// Pays for an admission that got [`Verdict::Admit`] with nothing ahead at the same `now`.
    pub(crate) fn admit(&mut self, now: Instant, cost: u64, queued: bool) {
        let now = self.see(now);
        if let Some(capacity) = self.request_capacity() {
            let base = self.slot_base(now, queued);
            self.requests.charge_when_due(base, UNIT, capacity);
        }
        if self.policy.tokens_per_minute().is_some() {
            self.tokens.charge(now, units(cost));
        }
        self.active += 1;
        if let Some(ramp) = &mut self.ramp {
            ramp.left = ramp.left.saturating_sub(1);
        }
    }

    /// Whether `finish` needs the time even when nobody waits.
    pub(crate) fn finish_needs_now(&self) -> bool {
        self.policy.pacing() == Pacing::Completion
    }

    /// Gives a permit back.
    pub(crate) fn finish(&mut self, now: Instant) {
        let now = self.see(now);
        if self.active >= self.concurrency() {
            self.slots_from = self.slots_from.max(now);
        }
        self.active = self.active.saturating_sub(1);
        if let (Pacing::Completion, Some(rate)) =
            (self.policy.pacing(), self.policy.requests_per_minute())
        {
            let delay = 60_000_000_000_u64.div_ceil(u64::from(rate));
            self.completion_until = self.completion_until.max(plus(now, delay));
        }
    }

    /// Keeps everyone out until `until`; says whether that is news.
    pub(crate) fn cool(&mut self, now: Instant, until: Instant) -> bool {
        let now = self.see(now);
        if until <= now || until <= self.cooldown_until {
            return false;
        }
        self.cooldown_until = until;
        self.slots_from = self.slots_from.max(until);
        self.restart_slowly(until);
        true
    }

    /// Ends the cooldown; says whether one was on.
    pub(crate) fn clear_cooldown(&mut self, now: Instant) -> bool {
        let now = self.see(now);
        if self.cooldown_until <= now {
            return false;
        }
        self.cooldown_until = Instant::ZERO;
        self.slots_from = now;
        self.restart_slowly(now);
        true
    }

    /// The line, empty until now, is not: slots may count from here.
    pub(crate) fn line_forms(&mut self, now: Instant) {
        let now = self.see(now);
        self.slots_from = self.slots_from.max(now);
    }

    /// One of this cost is at the head of the line: while it lacks tokens, no slot counts.
    pub(crate) fn heads_the_line(&mut self, now: Instant, cost: u64) {
        let now = self.see(now);
        if let Some(capacity) = self.token_capacity() {
            let due = self.tokens.due(now, units(cost), capacity);
            self.tokens_due = if due > now {
                due
            } else {
                self.tokens_due.min(now)
            };
        }
    }

    /// The line is empty, which ends the slow restart.
    pub(crate) fn line_is_empty(&mut self) {
        if self.now >= self.cooldown_until {
            self.ramp = None;
        }
    }

    /// Everyone whose deadline is before this instant is hopeless, whatever the cost, and why.
    pub(crate) fn horizon(&self) -> (Instant, DeadlineCause) {
        let mut worst = (self.cooldown_until, DeadlineCause::Cooldown);
        if self.completion_until > worst.0 {
            worst = (self.completion_until, DeadlineCause::CompletionDelay);
        }
        if let Some(capacity) = self.request_capacity() {
            // From the line's point of view, which may count a slot from a little earlier than now.
            let due = self
                .requests
                .due(self.slot_base(self.now, true), UNIT, capacity);
            if due > worst.0 {
                worst = (due, DeadlineCause::Requests);
            }
        }
        worst
    }

    /// The tokens' own clock: a waiter is hopeless if its [`Scope::token_slack`] is below this.
    pub(crate) fn token_pressure(&self) -> Option<i128> {
        let capacity = signed(self.token_capacity()?);
        let repaid = i128::from(self.now.as_nanos()) * i128::from(self.tokens_rate());
        Some(
            signed(self.tokens.debt(self.now))
                .saturating_add(repaid)
                .saturating_sub(capacity),
        )
    }

    /// What is repaid by `deadline` less what `cost` needs; fixed while the policy is.
    pub(crate) fn token_slack(policy: &Policy, cost: u64, deadline: Instant) -> i128 {
        let rate = policy.tokens_per_minute().unwrap_or(0);
        i128::from(deadline.as_nanos()) * i128::from(rate) - signed(units(cost))
    }

    /// The earliest instant behind those `ahead` if they all go as soon as they can; `None` if that depends on when
    /// permits finish, or can never be.
    pub(crate) fn estimate(&mut self, now: Instant, cost: u64, ahead: Ahead) -> Option<Instant> {
        let now = self.see(now);
        match self.verdict(now, cost, ahead, true) {
            Verdict::Never(_) | Verdict::WaitForFinish => None,
            Verdict::Admit => Some(now),
            Verdict::WaitUntil(_) => {
                // Nobody spends anything before it starts.
                let start = now.max(self.cooldown_until).max(self.completion_until);
                let slots = if start > now {
                    start
                } else {
                    self.slot_base(now, true)
                };
                let at = start.max(self.buckets_due(slots, start, cost, ahead));
                let Some(ramp) = &self.ramp else {
                    return Some(at).filter(|&at| at < Instant::MAX);
                };
                let (mut left, mut size, mut at) =
                    (ramp.left, ramp.next_size, ramp.next_at.max(now));
                if self.cooldown_until > now {
                    left = 0;
                    at = self.cooldown_until;
                }
                while left <= ahead.requests {
                    left = left.saturating_add(size);
                    size = size.saturating_mul(2);
                    if left <= ahead.requests {
                        at = plus(at, STEP);
                    }
                }
                Some(at).filter(|&at| at < Instant::MAX)
            }
        }
    }

    /// When nothing will be owed; meaningful while nothing is active.
    pub(crate) fn owes_until(&self) -> Instant {
        self.requests
            .clear_at()
            .max(self.tokens.clear_at())
            .max(self.cooldown_until)
            .max(self.completion_until)
    }

    pub(crate) fn cooldown_until(&self) -> Option<Instant> {
        Some(self.cooldown_until).filter(|&until| until > self.now)
    }

    pub(crate) fn completion_until(&self) -> Option<Instant> {
        Some(self.completion_until).filter(|&until| until > self.now)
    }

    /// Requests and tokens owed, in units.
    pub(crate) fn debts(&self) -> (u128, u128) {
        (self.requests.debt(self.now), self.tokens.debt(self.now))
    }

    fn concurrency(&self) -> u64 {
        match self.policy.pacing() {
            Pacing::Completion => 1,
            Pacing::TokenBucket => self.policy.max_concurrency().map_or(u64::MAX, u64::from),
        }
    }

    fn request_capacity(&self) -> Option<u128> {
        self.policy
            .requests_per_minute()
            .map(|_| UNIT * u128::from(self.policy.burst()))
    }

    fn token_capacity(&self) -> Option<u128> {
        self.policy
            .tokens_per_minute()
            .map(|limit| UNIT * u128::from(limit))
    }

    fn tokens_rate(&self) -> u32 {
        self.policy.tokens_per_minute().unwrap_or(0)
    }

    /// The earliest instant a slot may count from.
    fn slot_base(&self, now: Instant, queued: bool) -> Instant {
        if !queued || self.policy.pacing() == Pacing::Completion {
            return now;
        }
        let grace = Instant::from_nanos(now.as_nanos().saturating_sub(GRACE));
        grace
            .max(self.slots_from)
            .max(self.tokens_due)
            .max(self.requests.at())
            .min(now)
    }

    /// When both buckets have room behind those `ahead`, if slots count from `slots` and tokens from `now`.
    fn buckets_due(&self, slots: Instant, now: Instant, cost: u64, ahead: Ahead) -> Instant {
        let requests = self.request_capacity().map(|capacity| {
            let units = UNIT * (u128::from(ahead.requests) + 1);
            self.requests.due(slots, units, capacity)
        });
        let tokens = self.token_capacity().map(|capacity| {
            let units = units(cost).saturating_add(ahead.tokens);
            self.tokens.due(now, units, capacity)
        });
        requests.max(tokens).unwrap_or(Instant::ZERO)
    }

    fn restart_slowly(&mut self, from: Instant) {
        if self.policy.is_unlimited() {
            self.ramp = Some(Box::new(Ramp {
                next_at: from,
                next_size: 1,
                left: 0,
            }));
        }
    }

    /// How many may still go in this step, and when the next begins.
    fn ramp_left(&mut self, now: Instant) -> Option<(u64, Instant)> {
        let ramp = self.ramp.as_mut()?;
        if ramp.next_at <= now {
            ramp.left = ramp.next_size;
            ramp.next_size = ramp.next_size.saturating_mul(2);
            ramp.next_at = plus(now, STEP);
        }
        Some((ramp.left, ramp.next_at))
    }
}

/// A cost in bucket units.
pub(crate) fn units(cost: u64) -> u128 {
    u128::from(cost) * UNIT
}

fn plus(at: Instant, nanos: u64) -> Instant {
    Instant::from_nanos(at.as_nanos().saturating_add(nanos))
}

fn signed(units: u128) -> i128 {
    i128::try_from(units).unwrap_or(i128::MAX)
}
