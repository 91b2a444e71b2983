//! Futures polled by hand on a clock that moves only when told.
#![allow(dead_code, missing_docs, unreachable_pub)]

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use antfly_limiter::{
    Admission, Admit, AdmitError, Alarm, AlarmKey, Driver, Instant, Lease, Limiter, ManualClock,
    Permit, Policy, PolicyBuilder, ScopeKey, Time,
};

pub struct World {
    pub clock: ManualClock,
    pub limiter: Limiter,
}

pub fn world() -> World {
    let (time, clock) = Time::manual();
    // A time of day, so that nothing leans on the epoch.
    clock.advance(Duration::from_secs(1000));
    World {
        clock,
        limiter: Limiter::new(time),
    }
}

pub fn key(name: &str) -> ScopeKey {
    ScopeKey::new([("scope", name)])
}

pub fn policy(f: impl FnOnce(PolicyBuilder) -> PolicyBuilder) -> Policy {
    f(Policy::builder()).build().expect("a valid policy")
}

impl World {
    pub fn lease(&self, f: impl FnOnce(PolicyBuilder) -> PolicyBuilder) -> Lease {
        self.limiter
            .lease(&key("a"), policy(f))
            .expect("no conflict")
    }
}

#[derive(Default)]
pub struct Flag(AtomicUsize);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// A future and whether it was woken since it was last polled.
pub struct Task<F> {
    future: Pin<Box<F>>,
    flag: Arc<Flag>,
}

impl<F: Future> Task<F> {
    pub fn new(future: F) -> Self {
        Self {
            future: Box::pin(future),
            flag: Arc::default(),
        }
    }

    pub fn poll(&mut self) -> Poll<F::Output> {
        self.flag.0.store(0, Ordering::SeqCst);
        let waker = Waker::from(self.flag.clone());
        self.future.as_mut().poll(&mut Context::from_waker(&waker))
    }

    /// Polled if it was woken.
    pub fn run(&mut self) -> Poll<F::Output> {
        if self.woken() {
            self.poll()
        } else {
            Poll::Pending
        }
    }

    pub fn woken(&self) -> bool {
        self.flag.0.load(Ordering::SeqCst) > 0
    }
}

pub type Waiter = Task<Admit>;

/// A waiter that has been polled once and waits.
pub fn waiting(lease: &Lease, cost: u64) -> Waiter {
    let mut waiter = Task::new(lease.admit(cost, None));
    assert!(waiter.poll().is_pending(), "it was expected to wait");
    waiter
}

pub fn waiting_until(lease: &Lease, cost: u64, wait: Duration) -> Waiter {
    let deadline = lease.time().now().saturating_add(wait);
    let mut waiter = Task::new(lease.admit(cost, Some(deadline)));
    assert!(waiter.poll().is_pending(), "it was expected to wait");
    waiter
}

pub fn granted(poll: Poll<Result<Permit, AdmitError>>) -> Permit {
    match poll {
        Poll::Ready(Ok(permit)) => permit,
        other => panic!("expected a permit, got {other:?}"),
    }
}

pub fn refused(poll: Poll<Result<Permit, AdmitError>>) -> AdmitError {
    match poll {
        Poll::Ready(Err(error)) => error,
        other => panic!("expected an error, got {other:?}"),
    }
}

/// Whether a two-step admission is ready, and if not, whom to wake.
pub fn poll_ready(admission: &mut Admission) -> (Poll<Result<(), AdmitError>>, Arc<Flag>) {
    let flag = Arc::<Flag>::default();
    let waker = Waker::from(flag.clone());
    (admission.poll_ready(&mut Context::from_waker(&waker)), flag)
}

pub fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

/// A clock that jumps: alarms ring only after it has arrived, as they do when a process wakes from suspension.
#[derive(Default)]
pub struct Jumping {
    state: Mutex<JumpingState>,
}

#[derive(Default)]
struct JumpingState {
    now: Instant,
    next_id: u64,
    alarms: BTreeMap<AlarmKey, Arc<dyn Alarm>>,
}

impl std::fmt::Debug for Jumping {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Jumping")
    }
}

impl Jumping {
    fn lock(&self) -> std::sync::MutexGuard<'_, JumpingState> {
        self.state.lock().expect("not poisoned")
    }

    pub fn jump(&self, by: Duration) {
        let to = self.now().saturating_add(by);
        self.set(to);
        loop {
            let due = {
                let mut state = self.lock();
                match state.alarms.first_entry() {
                    Some(first) if first.key().at() <= to => first.remove(),
                    _ => return,
                }
            };
            due.ring();
        }
    }

    /// Shows another time and rings nothing.
    pub fn set(&self, to: Instant) {
        self.lock().now = to;
    }

    pub fn armed(&self) -> usize {
        self.lock().alarms.len()
    }
}

impl Driver for Jumping {
    fn now(&self) -> Instant {
        self.lock().now
    }

    fn arm(&self, at: Instant, alarm: Arc<dyn Alarm>) -> AlarmKey {
        let mut state = self.lock();
        state.next_id += 1;
        let key = AlarmKey::new(at, state.next_id);
        state.alarms.insert(key, alarm);
        key
    }

    fn disarm(&self, key: AlarmKey) {
        self.lock().alarms.remove(&key);
    }
}
