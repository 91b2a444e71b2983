//! What the lock of a scope guards.

use std::time::Duration;

use crate::error::{AdmitError, DeadlineCause};
use crate::policy::Policy;
use crate::queue::Queue;
use crate::scope::{Ahead, Scope, Verdict};
use crate::shared::Ticket;
use crate::snapshot::Counters;
use crate::time::{AlarmKey, Instant};
use crate::wakes::Wakes;

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) core: Scope,
    pub(crate) leases: u32,
    /// When the registry looks whether the scope can be forgotten; zero if it has no such plan.
    pub(crate) sweep: Instant,
    pub(crate) queue: Option<Box<Queue>>,
    pub(crate) counters: Counters,
}

impl State {
    pub(crate) fn new(policy: Policy, now: Instant) -> Self {
        Self {
            core: Scope::new(policy, now),
            leases: 0,
            sweep: Instant::ZERO,
            queue: None,
            counters: Counters::default(),
        }
    }

    pub(crate) fn planned(&self) -> Option<Instant> {
        Some(self.sweep).filter(|&at| at > Instant::ZERO)
    }

    pub(crate) fn timer(&self) -> Option<AlarmKey> {
        self.queue.as_ref().and_then(|queue| queue.timer)
    }

    pub(crate) fn queue(&mut self) -> &mut Queue {
        let policy = self.core.policy();
        self.queue
            .get_or_insert_with(|| Box::new(Queue::new(policy)))
    }

    pub(crate) fn in_line(&self) -> usize {
        self.queue.as_ref().map_or(0, |queue| queue.in_line())
    }

    /// The verdict on one that arrives now; `None` if others are in line.
    pub(crate) fn go_at_once(&mut self, now: Instant, cost: u64) -> Option<Verdict> {
        if let Some(budget) = self.core.exceeds(cost) {
            return Some(Verdict::Never(budget));
        }
        if self.in_line() > 0 {
            return None;
        }
        self.core.line_is_empty();
        Some(self.core.verdict(now, cost, Ahead::default(), false))
    }

    pub(crate) fn grant(&mut self, now: Instant, cost: u64, queued: bool) {
        self.core.admit(now, cost, queued);
        self.counters.admitted += 1;
        self.counters.tokens_admitted = self.counters.tokens_admitted.saturating_add(cost);
    }

    pub(crate) fn estimate(&mut self, now: Instant, cost: u64) -> Option<Duration> {
        let now = self.core.see(now);
        if self.in_line() == 0 {
            self.core.line_is_empty();
        }
        let line = self
            .queue
            .as_ref()
            .map_or(Ahead::default(), |queue| queue.line());
        self.core
            .estimate(now, cost, line)
            .map(|at| at.saturating_duration_since(now))
    }

    /// Why one that arrives now and cannot go at once need not wait.
    pub(crate) fn hopeless(&self, now: Instant, ticket: &Ticket) -> Option<AdmitError> {
        if let Some(budget) = self.core.exceeds(ticket.cost) {
            return Some(AdmitError::ExceedsBudget {
                cost: ticket.cost,
                budget,
            });
        }
        let deadline = ticket.deadline?;
        let (horizon, cause) = self.core.horizon();
        let refuse = |cause| {
            let cooldown = self
                .core
                .cooldown_until()
                .filter(|_| cause == DeadlineCause::Cooldown);
            let retry_after = cooldown.map(|until| until.saturating_duration_since(now));
            Some(AdmitError::Deadline { retry_after, cause })
        };
        if deadline < horizon && horizon > now {
            return refuse(cause);
        }
        let pressure = self.core.token_pressure();
        if pressure
            .is_some_and(|it| Scope::token_slack(&self.core.policy(), ticket.cost, deadline) < it)
        {
            return refuse(DeadlineCause::Tokens);
        }
        if deadline <= now {
            refuse(DeadlineCause::Passed)
        } else {
            None
        }
    }

    /// Lets lapse, fail and invite whatever is due; says when to look again.
    pub(crate) fn settle(&mut self, now: Instant, wakes: &mut Wakes) -> Option<Instant> {
        let queue = self.queue.as_mut().filter(|queue| queue.len() > 0)?;
        queue.lapse(now, wakes);
        if !queue.watches_nothing() {
            let cooldown = self.core.cooldown_until().unwrap_or(Instant::ZERO);
            queue.fail_hopeless(now, self.core.horizon(), cooldown, wakes);
            if let Some(pressure) = self.core.token_pressure() {
                queue.fail_unaffordable(now, pressure, wakes);
            }
        }
        let mut due = None;
        while let Some(id) = queue.candidate() {
            if queue.booked() == Ahead::default() {
                self.core.heads_the_line(now, queue.cost(id));
            }
            match self.core.verdict(now, queue.cost(id), queue.booked(), true) {
                Verdict::Admit => queue.invite(id, now, wakes),
                Verdict::WaitUntil(at) => {
                    due = Some(at);
                    break;
                }
                Verdict::WaitForFinish | Verdict::Never(_) => break,
            }
        }
        queue.fail_late(now, wakes);
        if queue.in_line() == 0 {
            self.core.line_is_empty();
        }
        let event = queue.next_event(now);
        due.into_iter()
            .chain(event)
            .filter(|&at| at < Instant::MAX)
            .min()
    }
}
