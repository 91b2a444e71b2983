//! A scope under its lock: the state machine, the line and one timer.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::task::Waker;
use std::time::Duration;

use crate::bucket::UNIT;
use crate::error::{AdmitError, DeadlineCause, TryAdmitError};
use crate::key::ScopeKey;
use crate::policy::Policy;
use crate::queue::Place;
use crate::scope::{Ahead, Verdict};
use crate::snapshot::ScopeSnapshot;
use crate::state::State;
use crate::sync::{AtomicBool, Mutex, lock};
use crate::time::{Alarm, Instant, Time};
use crate::wakes::Wakes;

#[derive(Debug)]
pub(crate) struct Shared {
    /// Itself, for its timer to hold.
    me: Weak<Self>,
    pub(crate) key: ScopeKey,
    pub(crate) time: Time,
    /// Whether anyone waits, as of late: a hint that spares those who will have to wait a first look.
    waited_for: AtomicBool,
    state: Mutex<State>,
}

/// One request for admission, from the caller's side.
#[derive(Debug)]
pub(crate) struct Ticket {
    pub(crate) cost: u64,
    pub(crate) deadline: Option<Instant>,
    pub(crate) slot: Option<u32>,
    pub(crate) since: Option<Instant>,
}

/// What a caller wants of a [`Ticket`].
#[derive(Debug)]
pub(crate) enum Want {
    /// Go if it can, else stand in line.
    Claim,
    /// Go if it can, else say that a waker is needed to stand in line.
    ClaimOrAsk,
    /// Go if it can, else be woken.
    ClaimOrWait(Waker),
    /// Be told when it could go.
    Wait(Waker),
}

#[derive(Debug)]
pub(crate) enum Step {
    Granted(Instant),
    Ready,
    Pending,
    NeedsWaker,
    Refused(AdmitError),
}

impl Shared {
    pub(crate) fn new(key: ScopeKey, time: Time, policy: Policy) -> Arc<Self> {
        let state = State::new(policy, time.now());
        Arc::new_cyclic(|me| Self {
            me: me.clone(),
            key,
            time,
            waited_for: AtomicBool::new(false),
            state: Mutex::new(state),
        })
    }

    /// Joins the scope, taking the policy over if it is drained.
    pub(crate) fn join(&self, policy: Policy) -> Result<(), Policy> {
        let now = self.time.now();
        let mut state = lock(&self.state);
        let active = state.core.policy();
        if policy != active {
            if state.leases > 0 {
                return Err(active);
            }
            state.core.adopt(now, policy);
        }
        state.leases += 1;
        Ok(())
    }

    /// Ends a lease; the registry calls this under its own lock. Says when the scope can be forgotten, if that was the
    /// last, with the sweep that was planned before.
    pub(crate) fn part(&self) -> Option<(Instant, Option<Instant>)> {
        let mut state = lock(&self.state);
        state.leases = state.leases.saturating_sub(1);
        if state.leases > 0 {
            return None;
        }
        state.queue = None;
        Some((state.core.owes_until(), state.planned()))
    }

    /// What the registry must know to forget: whether no lease is held, until when it owes, the planned sweep.
    pub(crate) fn idle(&self) -> Option<(Instant, Option<Instant>)> {
        let state = lock(&self.state);
        (state.leases == 0).then(|| (state.core.owes_until(), state.planned()))
    }

    pub(crate) fn policy(&self) -> Policy {
        lock(&self.state).core.policy()
    }

    pub(crate) fn plan_sweep(&self, at: Option<Instant>) {
        lock(&self.state).sweep = at.unwrap_or(Instant::ZERO);
    }

    pub(crate) fn try_admit(&self, cost: u64) -> Result<Instant, TryAdmitError> {
        let now = self.time.now();
        let mut wakes = Wakes::default();
        let mut guard = lock(&self.state);
        let state = &mut *guard;
        let now = state.core.see(now);
        let result = match state.go_at_once(now, cost) {
            Some(Verdict::Never(budget)) => {
                state.counters.refused += 1;
                Err(TryAdmitError::ExceedsBudget { cost, budget })
            }
            Some(Verdict::Admit) => {
                state.grant(now, cost, false);
                self.pump(state, now, &mut wakes);
                Ok(now)
            }
            _ => {
                state.counters.refused += 1;
                Err(TryAdmitError::WouldWait {
                    estimated_wait: state.estimate(now, cost),
                })
            }
        };
        drop(guard);
        wakes.wake();
        result
    }

    /// Whether one that comes now will probably have to wait.
    pub(crate) fn is_waited_for(&self) -> bool {
        self.waited_for.load(Ordering::Relaxed)
    }

    pub(crate) fn estimated_wait(&self, cost: u64) -> Option<Duration> {
        let now = self.time.now();
        lock(&self.state).estimate(now, cost)
    }

    /// Moves a ticket on.
    pub(crate) fn step(&self, ticket: &mut Ticket, want: Want) -> Step {
        let now = self.time.now();
        let mut wakes = Wakes::default();
        let mut guard = lock(&self.state);
        let state = &mut *guard;
        let now = state.core.see(now);
        let step = match ticket.slot {
            None => self.arrive(state, ticket, want, now, &mut wakes),
            Some(id) => self.advance(state, ticket, id, want, now, &mut wakes),
        };
        if matches!(step, Step::Refused(_)) {
            state.counters.refused += 1;
        }
        drop(guard);
        wakes.wake();
        step
    }

    /// Keeps the place of a ticket whose holder cannot go now, so that it stands in nobody's way.
    pub(crate) fn step_aside(&self, ticket: &mut Ticket) -> Step {
        let now = self.time.now();
        let mut wakes = Wakes::default();
        let mut guard = lock(&self.state);
        let state = &mut *guard;
        let now = state.core.see(now);
        ticket.since.get_or_insert(now);
        let mut step = Step::Pending;
        if let Some(id) = ticket.slot {
            self.pump(state, now, &mut wakes);
            let queue = state.queue();
            match queue.place(id) {
                Place::Invited => queue.fall_asleep(id, now, &mut wakes),
                Place::Failed(cause) => {
                    step = self.refuse_failed(state, ticket, id, cause, now, &mut wakes)
                }
                _ => {}
            }
        } else if let Some(error) = state.hopeless(now, ticket) {
            step = Step::Refused(error);
        } else {
            let asleep = state.in_line() == 0;
            ticket.slot = Some(
                state
                    .queue()
                    .join(ticket.cost, ticket.deadline, None, asleep),
            );
        }
        self.pump(state, now, &mut wakes);
        if matches!(step, Step::Refused(_)) {
            state.counters.refused += 1;
        }
        drop(guard);
        wakes.wake();
        step
    }

    /// Gives a place in the line up.
    pub(crate) fn cancel(&self, id: u32) {
        self.change(|state, now, wakes| {
            state.counters.cancelled +=
                u64::from(!matches!(state.queue().place(id), Place::Failed(_)));
            state.queue().remove(id, now, wakes);
        });
    }

    /// Gives a permit back.
    pub(crate) fn finish(&self) {
        let mut wakes = Wakes::default();
        let mut guard = lock(&self.state);
        let state = &mut *guard;
        let waited_for = state.queue.as_ref().is_some_and(|queue| queue.len() > 0);
        if waited_for || state.core.finish_needs_now() {
            let now = state.core.see(self.time.now());
            state.core.finish(now);
            self.pump(state, now, &mut wakes);
        } else {
            state.core.finish(Instant::ZERO);
        }
        drop(guard);
        wakes.wake();
    }

    pub(crate) fn cool_until(&self, until: Instant) {
        self.change(|state, now, _| {
            if state.core.cool(now, until) {
                state.counters.cooldowns += 1;
                if let Some(queue) = &mut state.queue {
                    queue.uninvite_all();
                }
            }
        });
    }

    pub(crate) fn clear_cooldown(&self) -> bool {
        self.change(|state, now, _| state.core.clear_cooldown(now))
    }

    pub(crate) fn cooldown(&self) -> Option<Instant> {
        let now = self.time.now();
        let mut state = lock(&self.state);
        state.core.see(now);
        state.core.cooldown_until()
    }

    #[allow(clippy::cast_precision_loss, reason = "a figure to look at")]
    pub(crate) fn snapshot(&self) -> ScopeSnapshot {
        let now = self.time.now();
        let mut state = lock(&self.state);
        let now = state.core.see(now);
        let (requests, tokens) = state.core.debts();
        let (cooldown_until, completion_until) =
            (state.core.cooldown_until(), state.core.completion_until());
        let remaining =
            |until: Option<Instant>| until.map(|until| until.saturating_duration_since(now));
        ScopeSnapshot {
            key: self.key.clone(),
            policy: state.core.policy(),
            active: state.core.active(),
            queued: state.queue.as_ref().map_or(0, |queue| queue.len()),
            leases: state.leases as usize,
            request_debt: requests as f64 / UNIT as f64,
            token_debt: tokens as f64 / UNIT as f64,
            cooldown_until,
            cooldown_remaining: remaining(cooldown_until),
            completion_until,
            completion_remaining: remaining(completion_until),
            counters: state.counters,
        }
    }

    fn change<T>(&self, f: impl FnOnce(&mut State, Instant, &mut Wakes) -> T) -> T {
        let now = self.time.now();
        let mut wakes = Wakes::default();
        let mut guard = lock(&self.state);
        let state = &mut *guard;
        let now = state.core.see(now);
        let result = f(state, now, &mut wakes);
        self.pump(state, now, &mut wakes);
        drop(guard);
        wakes.wake();
        result
    }

    /// A ticket that has no place yet.
    fn arrive(
        &self,
        state: &mut State,
        ticket: &mut Ticket,
        want: Want,
        now: Instant,
        wakes: &mut Wakes,
    ) -> Step {
        ticket.since.get_or_insert(now);
        let late = ticket.deadline.is_some_and(|deadline| deadline < now);
        if !late && state.go_at_once(now, ticket.cost) == Some(Verdict::Admit) {
            if matches!(want, Want::Wait(_)) {
                return Step::Ready;
            }
            state.grant(now, ticket.cost, false);
            self.pump(state, now, wakes);
            return Step::Granted(now);
        }
        if let Some(error) = state.hopeless(now, ticket) {
            return Step::Refused(error);
        }
        let waker = match want {
            Want::ClaimOrAsk => return Step::NeedsWaker,
            Want::Claim => None,
            Want::ClaimOrWait(waker) | Want::Wait(waker) => Some(waker),
        };
        let line_forms = state.in_line() == 0;
        if line_forms {
            state.core.line_forms(now);
        }
        let id = state
            .queue()
            .join(ticket.cost, ticket.deadline, waker, false);
        ticket.slot = Some(id);
        // Behind others, all it may need is an earlier timer.
        let deadline = ticket.deadline.unwrap_or(Instant::MAX);
        if line_forms
            || (deadline < Instant::MAX && state.timer().is_none_or(|timer| timer.at() > deadline))
        {
            self.pump(state, now, wakes);
        }
        Step::Pending
    }

    /// A ticket that has a place.
    fn advance(
        &self,
        state: &mut State,
        ticket: &mut Ticket,
        id: u32,
        want: Want,
        now: Instant,
        wakes: &mut Wakes,
    ) -> Step {
        let late = ticket.deadline.is_some_and(|deadline| deadline < now);
        if state.queue().overslept(id, now) {
            state.queue().fall_asleep(id, now, wakes);
            if state.in_line() == 0 {
                state.core.line_forms(now);
            }
            state.queue().rejoin(id);
        }
        if late || !state.queue().may_claim(id) {
            self.pump(state, now, wakes);
        }
        if let Place::Failed(cause) = state.queue().place(id) {
            return self.refuse_failed(state, ticket, id, cause, now, wakes);
        }
        if state.queue().may_claim(id) {
            if matches!(want, Want::Wait(_)) {
                return Step::Ready;
            }
            let cost = ticket.cost;
            if state.core.verdict(now, cost, Ahead::default(), true) == Verdict::Admit {
                state.grant(now, cost, true);
                state.queue().remove(id, now, wakes);
                ticket.slot = None;
                self.pump(state, now, wakes);
                return Step::Granted(now);
            }
            state.queue().uninvite(id, now, wakes);
            self.pump(state, now, wakes);
        }
        match want {
            Want::ClaimOrWait(waker) | Want::Wait(waker) => {
                let old = state.queue().set_waker(id, waker);
                wakes.discard(old);
                // Whatever happened meanwhile that it would have been told of, it is told of now.
                state.queue().tell(id, wakes);
                Step::Pending
            }
            Want::ClaimOrAsk => Step::NeedsWaker,
            Want::Claim => Step::Pending,
        }
    }

    fn refuse_failed(
        &self,
        state: &mut State,
        ticket: &mut Ticket,
        id: u32,
        cause: DeadlineCause,
        now: Instant,
        wakes: &mut Wakes,
    ) -> Step {
        let rest = state
            .queue()
            .failed_until(id)
            .saturating_duration_since(now);
        state.queue().remove(id, now, wakes);
        ticket.slot = None;
        self.pump(state, now, wakes);
        let retry_after = Some(rest).filter(|_| cause == DeadlineCause::Cooldown);
        Step::Refused(AdmitError::Deadline { retry_after, cause })
    }

    /// Lets lapse, fail and invite whatever is due, and sets the timer for the rest.
    fn pump(&self, state: &mut State, mut now: Instant, wakes: &mut Wakes) {
        while let Some(at) = state.settle(now, wakes) {
            // A timer that is too early rings for nothing, which is cheaper than to move it each time.
            if state.timer().is_some_and(|timer| timer.at() <= at) {
                break;
            }
            self.disarm(state);
            let Some(me) = self.me.upgrade() else { break };
            state.queue().timer = Some(self.time.arm(at, me));
            // The clock may have passed the alarm before it was armed.
            now = state.core.see(self.time.now());
            if now < at {
                break;
            }
            self.disarm(state);
        }
        let waited_for = state.queue.as_ref().is_some_and(|queue| queue.len() > 0);
        if !waited_for {
            self.disarm(state);
        }
        self.waited_for.store(waited_for, Ordering::Relaxed);
    }

    fn disarm(&self, state: &mut State) {
        if let Some(timer) = state.queue.as_mut().and_then(|queue| queue.timer.take()) {
            self.time.disarm(timer);
        }
    }
}

impl Alarm for Shared {
    fn ring(&self) {
        // A ring that was disarmed too late finds a later alarm armed already, and leaves it.
        self.change(|state, now, _| {
            if let Some(queue) = &mut state.queue {
                queue.timer = queue.timer.filter(|timer| timer.at() > now);
            }
        });
    }
}
