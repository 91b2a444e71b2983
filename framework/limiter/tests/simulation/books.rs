//! What must hold of one scope, checked with every event. Kept from the outside: nothing here looks into the limiter.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use antfly_limiter::{AdmitError, DeadlineCause, Instant, Pacing, Policy};

use crate::executor::INVITATION;
use crate::level::{Level, UNIT};
use crate::provider::Outage;

/// The catch-up for timers that wake late.
const GRACE: u128 = 5_000_000;
/// Between the steps of a restart after a cooldown.
const STEP: u64 = 100_000_000;

/// How often what happened; a run in which something never happened proves nothing about it.
#[derive(Clone, Copy, Default, Debug)]
pub struct Tally {
    pub started: u64,
    pub waited: u64,
    pub done: u64,
    pub broken: u64,
    pub told: u64,
    pub refused_without_hint: u64,
    pub out_of_time: u64,
    pub too_large: u64,
    pub cancelled: u64,
    pub adopted: u64,
    pub conflicts: u64,
    pub stale: u64,
    pub most_in_line: u64,
    pub slow_restarts: u64,
    /// How long after the end of an outage the first success came, at worst, in seconds.
    pub slowest_recovery: u64,
}

/// What one came for.
#[derive(Clone, Copy)]
pub struct Wish {
    pub task: usize,
    pub cost: u64,
    pub deadline: Option<Instant>,
}

#[derive(Clone, Copy)]
struct Waiter {
    wish: Wish,
    since: Instant,
    /// Since when it has been there to be told.
    there: Instant,
    /// Until when it is excused, having stepped aside.
    excused: Instant,
}

pub struct Books {
    pub name: &'static str,
    policy: Policy,
    live: usize,
    active: u64,
    line: BTreeMap<u64, Waiter>,
    /// Those in line who have let their turn pass for now.
    aside: BTreeSet<u64>,
    next: u64,
    cooldown: Instant,
    /// The end of the completion delay.
    earliest: Instant,
    requests: Level,
    tokens: Level,
    /// What the catch-up of an earlier policy may have left.
    grace_before: u128,
    /// While an unlimited scope restarts: since when, and how many have gone.
    restart: Option<(Instant, u64)>,
    busy: Busy,
    last_suspension: Instant,
    awaited: Vec<Outage>,
    pub tally: Tally,
}

/// How long there was a line, and how many left it.
#[derive(Default)]
struct Busy {
    since: Option<Instant>,
    nanos: u128,
    periods: u128,
    left: u128,
}

impl Books {
    pub fn new(name: &'static str, policy: Policy, now: Instant, outages: &[Outage]) -> Self {
        let mut books = Self {
            name,
            policy: Policy::UNLIMITED,
            live: 0,
            active: 0,
            line: BTreeMap::new(),
            aside: BTreeSet::new(),
            next: 0,
            cooldown: Instant::ZERO,
            earliest: Instant::ZERO,
            requests: Level::default(),
            tokens: Level::default(),
            grace_before: 0,
            restart: None,
            busy: Busy::default(),
            last_suspension: Instant::ZERO,
            awaited: outages.iter().rev().copied().collect(),
            tally: Tally::default(),
        };
        books.adopt(now, policy);
        books.grace_before = 0;
        books
    }

    pub fn policy(&self) -> Policy {
        self.policy
    }

    /// Permits, waiters and leases, to compare with what the limiter says of itself.
    pub fn holds(&self) -> (u64, usize, usize) {
        (self.active, self.line.len(), self.live)
    }

    /// Whether the limiter has to remember the scope, or may still.
    pub fn remembered(&self, now: Instant) -> bool {
        let owes = self.requests.now(now) > 0 || self.tokens.now(now) > 0;
        self.live > 0 || owes || self.cooldown > now || self.earliest > now
    }

    /// A lease was asked for, and whether it was had.
    pub fn leased(&mut self, now: Instant, policy: Policy, had: bool) {
        let other = policy != self.policy;
        assert_eq!(
            had,
            !other || self.live == 0,
            "{}: one policy at a time",
            self.name
        );
        self.tally.conflicts += u64::from(!had);
        if had && other {
            self.adopt(now, policy);
            self.tally.adopted += 1;
        }
        self.live += usize::from(had);
    }

    pub fn parted(&mut self) {
        self.live -= 1;
    }

    /// One comes for admission.
    pub fn arrives(&mut self, now: Instant, wish: Wish, excused: &[Instant]) -> u64 {
        self.note_empty_line(now, excused);
        if self.line.is_empty() {
            self.busy.since = Some(now);
        }
        self.next += 1;
        self.line.insert(
            self.next,
            Waiter {
                wish,
                since: now,
                there: now,
                excused: Instant::ZERO,
            },
        );
        self.tally.most_in_line = self.tally.most_in_line.max(self.line.len() as u64);
        self.next
    }

    /// One steps out of line to come back later, without losing its place.
    pub fn steps_aside(&mut self, now: Instant, seq: u64, excused: &[Instant]) {
        self.aside.insert(seq);
        self.tally.stale += 1;
        self.note_empty_line(now, excused);
    }

    pub fn comes_back(&mut self, now: Instant, seq: u64) {
        self.aside.remove(&seq);
        let waiter = self.line.get_mut(&seq).expect("it kept its place");
        (waiter.there, waiter.excused) = (now, now.saturating_add(INVITATION));
    }

    /// One gives up its place, for whatever reason.
    pub fn leaves(&mut self, now: Instant, seq: u64, excused: &[Instant]) -> Instant {
        self.aside.remove(&seq);
        let waiter = self.line.remove(&seq).expect("it was in line");
        if self.line.is_empty()
            && let Some(since) = self.busy.since.take()
        {
            self.busy.nanos += u128::from(now.as_nanos() - since.as_nanos());
            self.busy.periods += u128::from(since < now);
        }
        self.note_empty_line(now, excused);
        waiter.since
    }

    /// One starts.
    pub fn starts(&mut self, now: Instant, seq: u64, cost: u64, excused: &[Instant]) {
        let name = self.name;
        for (other, waiter) in self.line.range(..seq) {
            let excused = excused[waiter.wish.task].max(waiter.excused);
            let away = self.aside.contains(other) || now < excused;
            // One that is past hope has failed, though it may not have come to hear of it yet.
            assert!(
                away || self.is_hopeless(now, &waiter.wish),
                "{name}: {seq} at {now:?} overtakes {other}, first in, first out"
            );
        }
        assert!(
            now >= self.cooldown,
            "{name}: a start at {now:?}, told {:?}",
            self.cooldown
        );
        assert!(
            now >= self.earliest,
            "{name}: a start at {now:?}, paced to {:?}",
            self.earliest
        );
        self.active += 1;
        assert!(
            self.active <= self.concurrency(),
            "{name}: {} at a time at {now:?}",
            self.active
        );
        if let Some(rate) = self.policy.requests_per_minute() {
            let owed = self.requests.rise(now, UNIT);
            let allowed =
                UNIT * u128::from(self.policy.burst()) + self.grace(rate) + self.grace_before;
            assert!(
                owed <= allowed,
                "{name}: {owed} of {allowed} in a window that ends at {now:?}"
            );
        }
        if let Some(rate) = self.policy.tokens_per_minute() {
            let owed = self.tokens.rise(now, UNIT * u128::from(cost));
            assert!(
                owed <= UNIT * u128::from(rate),
                "{name}: {owed} units of {rate} tokens at {now:?}"
            );
        }
        if let Some((from, gone)) = &mut self.restart {
            *gone += 1;
            let steps = (now.as_nanos() - from.as_nanos()) / STEP;
            let allowed = (1 << (steps.min(40) + 1)) - 1;
            assert!(
                *gone <= allowed,
                "{name}: {gone} within {steps} steps of a restart at {from:?}"
            );
            self.tally.slow_restarts += 1;
        }
        let since = self.leaves(now, seq, excused);
        self.tally.started += 1;
        if since < now {
            self.tally.waited += 1;
            self.busy.left += 1;
        }
    }

    pub fn finishes(&mut self, now: Instant) {
        self.active -= 1;
        if let (Pacing::Completion, Some(rate)) =
            (self.policy.pacing(), self.policy.requests_per_minute())
        {
            let delay = Duration::from_nanos(60_000_000_000_u64.div_ceil(u64::from(rate)));
            self.earliest = now.saturating_add(delay);
        }
    }

    /// A success, so the outages before it are over.
    pub fn succeeds(&mut self, now: Instant) {
        self.tally.done += 1;
        while let Some(outage) = self.awaited.pop_if(|outage| outage.to <= now) {
            let took = now.saturating_duration_since(outage.to.max(self.last_suspension));
            assert!(
                took < Duration::from_secs(2 * 3600),
                "{}: {took:?} to recover",
                self.name
            );
            self.tally.slowest_recovery = self.tally.slowest_recovery.max(took.as_secs());
        }
    }

    /// The scope is told to wait.
    pub fn told(&mut self, now: Instant, until: Instant) {
        self.tally.told += 1;
        if until > now && until > self.cooldown {
            self.cooldown = until;
            self.restart = self.policy.is_unlimited().then_some((until, 0));
        }
    }

    /// The process was suspended up to now.
    pub fn suspended(&mut self, until: Instant, rest: Duration) {
        self.last_suspension = until;
        if let Some(since) = &mut self.busy.since {
            *since = since.saturating_add(rest);
        }
    }

    /// One that came for admission is refused: nobody is that could have been admitted in time.
    pub fn refused(&mut self, now: Instant, seq: u64, error: &AdmitError) {
        let (name, Waiter { wish, there, .. }) = (self.name, self.line[&seq]);
        let AdmitError::Deadline { retry_after, cause } = *error else {
            let budget = self.policy.tokens_per_minute().map_or(u64::MAX, u64::from);
            assert!(
                wish.cost > budget,
                "{name}: {error} at a cost of {}",
                wish.cost
            );
            self.tally.too_large += 1;
            return;
        };
        self.tally.out_of_time += 1;
        let deadline = wish.deadline.expect("only a deadline can be missed");
        assert!(
            self.misses(now, &wish, deadline, cause),
            "{name}: refused at {now:?} for {cause:?} though {deadline:?} could be met"
        );
        assert_eq!(retry_after.is_some(), cause == DeadlineCause::Cooldown);
        if let Some(rest) = retry_after {
            let told = now.saturating_add(rest);
            assert!(
                told <= self.cooldown.max(now),
                "{name}: told {rest:?} at {now:?}"
            );
        }
        // A late timer and a late poll at most.
        let prompt = deadline
            .max(there)
            .saturating_add(Duration::from_millis(30));
        assert!(
            now <= prompt || self.last_suspension >= there,
            "{name}: told at {now:?} of {deadline:?}"
        );
    }

    /// The end of it all.
    pub fn close(&self) {
        assert_eq!(self.holds(), (0, 0, 0), "{}", self.name);
        assert!(self.awaited.is_empty(), "{}: never recovered", self.name);
    }

    /// That a rate which alone kept a line waiting was used: no slot was lost.
    pub fn assert_work_conserving(&self) {
        let rate = u128::from(self.policy.requests_per_minute().expect("a rate"));
        let slots = self.busy.nanos * rate / UNIT;
        let least = (slots * 98 / 100).saturating_sub(self.busy.periods);
        assert!(
            slots > 1000 && self.busy.left >= least,
            "{}: {} of {slots} slots",
            self.name,
            self.busy.left
        );
    }

    fn is_hopeless(&self, now: Instant, wish: &Wish) -> bool {
        use DeadlineCause::{CompletionDelay, Cooldown, Passed, Requests, Tokens};
        let causes = [Passed, Cooldown, CompletionDelay, Requests, Tokens];
        let misses = |deadline| {
            causes
                .iter()
                .any(|&cause| self.misses(now, wish, deadline, cause))
        };
        wish.deadline.is_some_and(misses)
    }

    /// Whether it is certain, and for this cause, that the deadline is missed by one that has not started by now.
    fn misses(&self, now: Instant, wish: &Wish, deadline: Instant, cause: DeadlineCause) -> bool {
        let late = u128::from(deadline.as_nanos());
        match cause {
            DeadlineCause::Passed => now >= deadline,
            DeadlineCause::Cooldown => self.cooldown > deadline,
            DeadlineCause::CompletionDelay => self.earliest > deadline,
            DeadlineCause::Requests => self.policy.requests_per_minute().is_some_and(|_| {
                let capacity = UNIT * u128::from(self.policy.burst());
                self.requests.due(now, UNIT, capacity) > late
            }),
            DeadlineCause::Tokens => self.policy.tokens_per_minute().is_some_and(|limit| {
                let (units, capacity) = (UNIT * u128::from(wish.cost), UNIT * u128::from(limit));
                self.tokens.due(now, units, capacity) > late
            }),
            other => panic!("{}: {other:?}", self.name),
        }
    }

    fn adopt(&mut self, now: Instant, policy: Policy) {
        self.grace_before = self.requests.rate.into();
        self.grace_before *= GRACE;
        if let Some(rate) = policy.requests_per_minute() {
            self.requests.set_rate(now, rate);
        }
        if let Some(rate) = policy.tokens_per_minute() {
            self.tokens.set_rate(now, rate);
        }
        self.policy = policy;
    }

    fn concurrency(&self) -> u64 {
        match self.policy.pacing() {
            Pacing::Completion => 1,
            _ => self.policy.max_concurrency().map_or(u64::MAX, u64::from),
        }
    }

    fn grace(&self, rate: u32) -> u128 {
        match self.policy.pacing() {
            Pacing::Completion => 0,
            _ => u128::from(rate) * GRACE,
        }
    }

    /// A line that is empty ends a restart.
    fn note_empty_line(&mut self, now: Instant, excused: &[Instant]) {
        let away = |(seq, waiter): (&u64, &Waiter)| {
            self.aside.contains(seq) || excused[waiter.wish.task] == Instant::MAX
        };
        if self.restart.is_some() && now >= self.cooldown && self.line.iter().all(away) {
            self.restart = None;
        }
    }
}
