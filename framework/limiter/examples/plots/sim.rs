//! Calls through one scope, in the time of a clock that moves from one event to the next.

use std::future::Future as _;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use antfly_limiter::{Admit, Instant, Limiter, Permit, Policy, ScopeKey, Time};

/// One call: when it comes, what it costs, how long its exchange takes, and how long it has in all. In seconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    pub(crate) at: f64,
    pub(crate) cost: u64,
    pub(crate) takes: f64,
    pub(crate) within: Option<f64>,
}

/// What became of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum End {
    /// Admitted and finished at these times.
    Done(f64, f64),
    /// Refused at this time.
    Refused(f64),
}

/// What became of every call, in their order. `cooldowns`: when the provider says 429, and for how long.
pub(crate) fn run(policy: Policy, calls: &[Call], cooldowns: &[(f64, f64)]) -> Vec<End> {
    let (time, clock) = Time::manual();
    let limiter = Limiter::new(time);
    let Ok(lease) = limiter.lease(&ScopeKey::new([("plot", "one")]), policy) else {
        return Vec::new();
    };
    let start = clock.now();
    let at = |seconds: f64| start.saturating_add(Duration::from_secs_f64(seconds));
    let mut states: Vec<State> = calls.iter().map(|_| State::Coming).collect();
    let mut told = 0;
    loop {
        let now = clock.now();
        while let Some((when, lasts)) = cooldowns.get(told)
            && at(*when) <= now
        {
            lease.cool_for(Duration::from_secs_f64(*lasts));
            told += 1;
        }
        let mut moved = false;
        for (call, state) in calls.iter().zip(&mut states) {
            moved |= state.step(call, now, &at, |cost, deadline| {
                Box::pin(lease.admit(cost, deadline))
            });
        }
        if moved {
            continue;
        }
        let events = calls
            .iter()
            .zip(&states)
            .filter_map(|(call, state)| match state {
                State::Coming => Some(at(call.at)),
                State::Running { until, .. } => Some(*until),
                _ => None,
            });
        let told = cooldowns.get(told).map(|(when, _)| at(*when));
        match events.chain(told).chain(clock.next_alarm()).min() {
            Some(next) if states.iter().any(|s| !s.is_over()) => clock.set(next),
            _ => break,
        }
    }
    let seconds = |t: Instant| t.saturating_duration_since(start).as_secs_f64();
    states
        .into_iter()
        .map(|state| match state {
            State::Over(from, Some(until)) => End::Done(seconds(from), seconds(until)),
            State::Over(when, None) => End::Refused(seconds(when)),
            _ => End::Refused(f64::NAN),
        })
        .collect()
}

enum State {
    Coming,
    Waiting(Pin<Box<Admit>>),
    Running {
        _permit: Permit,
        from: Instant,
        until: Instant,
    },
    Over(Instant, Option<Instant>),
}

impl State {
    fn is_over(&self) -> bool {
        matches!(self, State::Over(..))
    }

    /// Goes on as far as it can now; whether it went on at all.
    fn step(
        &mut self,
        call: &Call,
        now: Instant,
        at: &impl Fn(f64) -> Instant,
        admit: impl Fn(u64, Option<Instant>) -> Pin<Box<Admit>>,
    ) -> bool {
        let next = match self {
            State::Coming if at(call.at) <= now => {
                let deadline = call.within.map(|within| at(call.at + within));
                State::Waiting(admit(call.cost, deadline))
            }
            State::Waiting(admit) => {
                match admit.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                    Poll::Pending => return false,
                    Poll::Ready(Err(_)) => State::Over(now, None),
                    Poll::Ready(Ok(permit)) => {
                        let takes = Duration::from_secs_f64(call.takes);
                        State::Running {
                            _permit: permit,
                            from: now,
                            until: now.saturating_add(takes),
                        }
                    }
                }
            }
            State::Running { from, until, .. } if *until <= now => State::Over(*from, Some(*until)),
            _ => return false,
        };
        *self = next;
        true
    }
}
