//! One timer thread for the process.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock, PoisonError};
use std::time::Duration;

use super::{Alarm, AlarmKey, Driver, Instant};
use crate::sync::{Condvar, Mutex, lock};

/// The thread wakes at most this often, however many alarms there are. A slot that is late by this much is caught up.
const ROUND: Duration = Duration::from_millis(2);

pub(super) fn shared() -> Arc<dyn Driver> {
    static DRIVER: OnceLock<Arc<Thread>> = OnceLock::new();
    DRIVER.get_or_init(|| Arc::new(Thread::new())).clone()
}

#[derive(Debug)]
struct Thread {
    epoch: std::time::Instant,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    running: bool,
    /// Until when the thread sleeps, and so has to be told of an alarm before that. It is not woken when that alarm is disarmed:
    /// a later one armed meanwhile finds it asleep no longer than needed.
    asleep_until: Option<Instant>,
    next_id: u64,
    alarms: BTreeMap<AlarmKey, Arc<dyn Alarm>>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

impl Thread {
    #[allow(
        clippy::disallowed_methods,
        reason = "this is the driver that all other code takes its time from"
    )]
    fn new() -> Self {
        Self {
            epoch: std::time::Instant::now(),
            shared: Arc::default(),
        }
    }
}

#[allow(
    clippy::disallowed_methods,
    reason = "this is the driver that all other code takes its time from"
)]
fn since(epoch: std::time::Instant) -> Instant {
    Instant::ZERO.saturating_add(std::time::Instant::now().saturating_duration_since(epoch))
}

impl Driver for Thread {
    fn now(&self) -> Instant {
        since(self.epoch)
    }

    fn arm(&self, at: Instant, alarm: Arc<dyn Alarm>) -> AlarmKey {
        let mut state = lock(&self.shared.state);
        state.next_id += 1;
        let key = AlarmKey::new(at, state.next_id);
        let first = state.alarms.keys().next().is_none_or(|&first| key < first);
        state.alarms.insert(key, alarm);
        if !state.running {
            let (epoch, shared) = (self.epoch, self.shared.clone());
            let spawned = std::thread::Builder::new()
                .name("antfly-limiter".into())
                .spawn(move || run(epoch, &shared));
            // Out of threads: the next arm tries again.
            state.running = spawned.is_ok();
        } else if first && state.asleep_until.is_some_and(|until| at < until) {
            state.asleep_until = None;
            self.shared.changed.notify_one();
        }
        key
    }

    fn disarm(&self, key: AlarmKey) {
        let alarm = lock(&self.shared.state).alarms.remove(&key);
        drop(alarm);
    }
}

fn run(epoch: std::time::Instant, shared: &Shared) {
    let mut round = Instant::ZERO;
    loop {
        turn(|| since(epoch), shared, &mut round);
    }
}

/// Rings the first alarm if it is due, else waits for that or for a change.
fn turn(now: impl Fn() -> Instant, shared: &Shared, round: &mut Instant) {
    let mut state = lock(&shared.state);
    let now = now();
    let next = state.alarms.keys().next().map(|key| key.at());
    // When alarms follow each other closely, they are rung in rounds.
    let next = next.map(|at| {
        if at <= *round {
            at
        } else {
            at.max(round.saturating_add(ROUND))
        }
    });
    match next {
        Some(at) if at <= now => {
            if at > *round {
                *round = now;
            }
            let alarm = state.alarms.pop_first();
            drop(state);
            if let Some((_, alarm)) = alarm {
                // A waker that panics must not take everyone's clock with it.
                let _ = catch_unwind(AssertUnwindSafe(|| alarm.ring()));
                let _ = catch_unwind(AssertUnwindSafe(|| drop(alarm)));
            }
        }
        Some(at) => {
            let wait = at
                .saturating_duration_since(now)
                .min(Duration::from_secs(3600));
            state.asleep_until = Some(now.saturating_add(wait));
            let waited = shared.changed.wait_timeout(state, wait);
            let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
            state.asleep_until = None;
        }
        None => {
            state.asleep_until = Some(Instant::MAX);
            let waited = shared.changed.wait(state);
            waited.unwrap_or_else(PoisonError::into_inner).asleep_until = None;
        }
    }
}

#[cfg(all(test, antfly_loom))]
mod loom {
    use super::*;
    use crate::sync::AtomicBool;
    use std::sync::atomic::Ordering;

    #[derive(Default)]
    struct Bell(AtomicBool);

    impl Alarm for Bell {
        fn ring(&self) {
            assert!(!self.0.swap(true, Ordering::SeqCst), "rung twice");
        }
    }

    /// loom's `wait_timeout` never times out, so alarms here are either due or have to be told of.
    #[test]
    fn an_alarm_armed_while_the_thread_goes_to_wait_is_rung() {
        ::loom::model(|| {
            let driver = Arc::new(Thread::new());
            lock(&driver.shared.state).running = true;
            let far = driver.arm(Instant::MAX, Arc::<Bell>::default());
            let bell = Arc::<Bell>::default();
            let arming = ::loom::thread::spawn({
                let (driver, bell) = (driver.clone(), bell.clone());
                move || {
                    driver.arm(Instant::from_nanos(1), bell);
                    driver.disarm(far);
                }
            });
            let (now, mut round) = (Instant::from_nanos(1_000_000_000), Instant::ZERO);
            while !bell.0.load(Ordering::SeqCst) {
                turn(|| now, &driver.shared, &mut round);
            }
            arming.join().expect("does not panic");
        });
    }
}
