//! Every order in which threads could do what they do to a scope, within a bound on preemptions.
//!
//! Built and run with
//!
//! ```sh
//! RUSTFLAGS="--cfg antfly_loom" cargo test -p antfly-limiter --lib --test loom --release --target-dir target/loom
//! ```
//!
//! loom replaces the locks and atomics of the crate itself, the manual clock's included. A waiter that is never woken is
//! a deadlock, which loom reports, since nobody moves the clock unless a test does. `LOOM_MAX_PREEMPTIONS=6` is the long form.
#![cfg(antfly_loom)]
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout)]

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use antfly_limiter::{
    Admit, Claim, Lease, Limiter, ManualClock, Policy, PolicyBuilder, ScopeKey, Time,
};
use loom::sync::atomic::AtomicBool;
use loom::sync::{Condvar, Mutex};
use loom::thread;

/// Explores `f` with up to four switches that no thread asked for, or as many as the environment says.
fn explore(f: impl Fn() + Sync + Send + 'static) {
    // This reads LOOM_MAX_PREEMPTIONS.
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(4));
    builder.max_branches = 100_000;
    let orders = Arc::new(AtomicU64::new(0));
    let start = std::time::Instant::now();
    builder.check({
        let orders = orders.clone();
        move || {
            orders.fetch_add(1, Ordering::Relaxed);
            f();
        }
    });
    let orders = orders.load(Ordering::Relaxed);
    println!("{orders} orders in {:?}", start.elapsed());
    assert!(orders > 1, "{orders} orders: nothing raced");
}

#[derive(Default)]
struct Parker {
    told: Mutex<bool>,
    changed: Condvar,
}

impl Wake for Parker {
    fn wake(self: Arc<Self>) {
        *self.told.lock().unwrap() = true;
        self.changed.notify_one();
    }
}

/// Polls when woken and never otherwise.
fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let parker = Arc::<Parker>::default();
    let waker = Waker::from(parker.clone());
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        let mut told = parker.told.lock().unwrap();
        while !*told {
            told = parker.changed.wait(told).unwrap();
        }
        *told = false;
    }
}

fn poll<F: Future + ?Sized>(future: &mut Pin<Box<F>>) -> Poll<F::Output> {
    future
        .as_mut()
        .poll(&mut Context::from_waker(Waker::noop()))
}

struct World {
    limiter: Limiter,
    clock: ManualClock,
}

fn world() -> World {
    let (time, clock) = Time::manual();
    World {
        limiter: Limiter::new(time),
        clock,
    }
}

impl World {
    fn lease(&self, policy: Policy) -> Lease {
        self.limiter.lease(&key(), policy).unwrap()
    }
}

fn key() -> ScopeKey {
    ScopeKey::new([("scope", "a")])
}

fn policy(f: impl FnOnce(PolicyBuilder) -> PolicyBuilder) -> Policy {
    f(Policy::builder()).build().unwrap()
}

/// One that stands in line, polled once with a waker that tells nobody.
fn in_line(lease: &Lease) -> Pin<Box<Admit>> {
    let mut waiter = Box::pin(lease.admit(0, None));
    assert!(poll(&mut waiter).is_pending(), "it was expected to wait");
    waiter
}

/// Nobody holds or waits for anything any more, and what was paid is what was granted.
fn assert_whole(lease: &Lease, admitted: u64) {
    let it = lease.snapshot();
    assert_eq!(
        (it.active, it.queued, it.counters.admitted),
        (0, 0, admitted)
    );
    if lease.policy().requests_per_minute().is_some() {
        assert_eq!(
            it.request_debt, admitted as f64,
            "on a clock that stands still"
        );
    }
}

fn one_at_a_time() -> Policy {
    policy(|p| p.max_concurrency(1).requests_per_minute(60).burst(10))
}

#[test]
fn a_release_racing_an_arrival_loses_no_wake_up() {
    explore(|| {
        let lease = world().lease(one_at_a_time());
        let permit = lease.try_admit(0).unwrap();
        let arriving = thread::spawn({
            let lease = lease.clone();
            move || drop(block_on(lease.admit(0, None)).unwrap())
        });
        drop(permit);
        arriving.join().unwrap();
        assert_whole(&lease, 2);
    });
}

#[test]
fn releases_racing_arrivals_lose_no_wake_up_and_break_no_limit() {
    explore(|| {
        let lease = world().lease(one_at_a_time());
        let busy = Arc::new(AtomicBool::new(false));
        let work = |lease: Lease, busy: Arc<AtomicBool>| {
            let permit = block_on(lease.admit(0, None)).unwrap();
            assert!(!busy.swap(true, Ordering::SeqCst), "two at a time");
            busy.store(false, Ordering::SeqCst);
            drop(permit);
        };
        let threads = [0, 1].map(|_| {
            let (lease, busy) = (lease.clone(), busy.clone());
            thread::spawn(move || work(lease, busy))
        });
        work(lease.clone(), busy);
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
        assert_whole(&lease, 3);
    });
}

#[test]
fn a_cancel_racing_an_invitation_passes_it_on() {
    explore(|| {
        let lease = world().lease(one_at_a_time());
        let permit = lease.try_admit(0).unwrap();
        let cancelled = in_line(&lease);
        let next = in_line(&lease);
        let releasing = thread::spawn(move || drop(permit));
        let cancelling = thread::spawn(move || drop(cancelled));
        drop(block_on(next).unwrap());
        releasing.join().unwrap();
        cancelling.join().unwrap();
        assert_whole(&lease, 2);
    });
}

#[test]
fn a_waiter_dropped_at_the_instant_of_its_grant_takes_nothing_along() {
    explore(|| {
        let lease = world().lease(one_at_a_time());
        let permit = lease.try_admit(0).unwrap();
        let mut dropped = in_line(&lease);
        let next = in_line(&lease);
        let releasing = thread::spawn(move || drop(permit));
        let going = thread::spawn(move || {
            let granted = poll(&mut dropped).is_ready();
            drop(dropped);
            granted
        });
        drop(block_on(next).unwrap());
        releasing.join().unwrap();
        let granted = going.join().unwrap();
        assert_whole(&lease, 2 + u64::from(granted));
    });
}

#[test]
fn one_polled_elsewhere_with_a_new_waker_while_it_is_woken_is_told() {
    explore(|| {
        let lease = world().lease(one_at_a_time());
        let permit = lease.try_admit(0).unwrap();
        let waiter = in_line(&lease);
        let elsewhere = thread::spawn(move || drop(block_on(waiter).unwrap()));
        drop(permit);
        elsewhere.join().unwrap();
        assert_whole(&lease, 2);
    });
}

#[test]
fn those_invited_together_go_in_order_and_tell_each_other() {
    explore(|| {
        let lease = world().lease(policy(|p| p.max_concurrency(2)));
        let permits = [lease.try_admit(0).unwrap(), lease.try_admit(0).unwrap()];
        let (first, second) = (in_line(&lease), in_line(&lease));
        let gone = Arc::new(AtomicBool::new(false));
        let going = thread::spawn({
            let gone = gone.clone();
            move || {
                let permit = block_on(first).unwrap();
                gone.store(true, Ordering::SeqCst);
                permit
            }
        });
        let releasing = thread::spawn(move || drop(permits));
        let permit = block_on(second).unwrap();
        let both = [permit, going.join().unwrap()];
        assert!(gone.load(Ordering::SeqCst));
        releasing.join().unwrap();
        assert_eq!((lease.snapshot().active, lease.snapshot().queued), (2, 0));
        drop(both);
    });
}

/// Whoever sees the cooldown starts nothing after it, and nothing starts once it has been set.
fn a_claim_racing_a_cooldown(claim: fn(&Lease, &mut Pin<Box<Admit>>) -> bool, ahead: bool) {
    explore(move || {
        let world = world();
        let lease = world.lease(policy(|p| p.max_concurrency(1)));
        let mut waiter = Box::pin(lease.admit(0, None));
        if ahead {
            let permit = lease.try_admit(0).unwrap();
            assert!(poll(&mut waiter).is_pending());
            drop(permit);
        }
        let cooling = thread::spawn({
            let lease = lease.clone();
            move || {
                lease.cool_for(Duration::from_secs(1));
                lease.snapshot().counters.admitted
            }
        });
        let cooled = lease.cooldown().is_some();
        let granted = claim(&lease, &mut waiter);
        assert!(
            !(cooled && granted),
            "it started inside a cooldown that it could see"
        );
        let admitted = cooling.join().unwrap();
        assert_eq!(
            lease.snapshot().counters.admitted,
            admitted,
            "it started after the cooldown was set"
        );
        // And the cooldown holds nobody longer than it is.
        world.clock.advance(Duration::from_secs(1));
        if !granted {
            drop(block_on(waiter).unwrap());
        }
    });
}

#[test]
fn a_claim_from_the_line_that_passes_is_before_the_cooldown() {
    a_claim_racing_a_cooldown(|_, waiter| poll(waiter).is_ready(), true);
}

#[test]
fn an_arrival_that_passes_is_before_the_cooldown() {
    a_claim_racing_a_cooldown(|_, waiter| poll(waiter).is_ready(), false);
}

#[test]
fn a_try_that_passes_is_before_the_cooldown() {
    a_claim_racing_a_cooldown(|lease, _| lease.try_admit(0).is_ok(), false);
}

#[test]
fn one_that_was_told_to_be_ready_claims_before_the_cooldown_or_not_at_all() {
    explore(|| {
        let world = world();
        let lease = world.lease(policy(|p| p.max_concurrency(1)));
        let permit = lease.try_admit(0).unwrap();
        let mut admission = lease.admission(0, None);
        assert!(matches!(admission.claim(None), Claim::NotYet));
        drop(permit);
        let cooling = thread::spawn({
            let lease = lease.clone();
            move || {
                lease.cool_for(Duration::from_secs(1));
                lease.snapshot().counters.admitted
            }
        });
        let ready = admission
            .poll_ready(&mut Context::from_waker(Waker::noop()))
            .is_ready();
        let cooled = lease.cooldown().is_some();
        let granted = matches!(admission.claim(None), Claim::Granted(_));
        assert!(!granted || (ready && !cooled));
        assert_eq!(cooling.join().unwrap(), lease.snapshot().counters.admitted);
        world.clock.advance(Duration::from_secs(1));
        if !granted {
            block_on(admission.ready()).unwrap();
            assert!(matches!(admission.claim(None), Claim::Granted(_)));
        }
    });
}

#[test]
fn a_429_cools_before_its_permit_goes_back_and_nobody_slips_through() {
    explore(|| {
        let world = world();
        let lease = world.lease(policy(|p| p.max_concurrency(1)));
        let permit = lease.try_admit(0).unwrap();
        let mut waiter = in_line(&lease);
        let told = thread::spawn(move || {
            permit.lease().cool_for(Duration::from_secs(1));
            drop(permit);
        });
        let arriving = thread::spawn({
            let lease = lease.clone();
            move || assert!(lease.try_admit(0).is_err())
        });
        assert!(poll(&mut waiter).is_pending());
        told.join().unwrap();
        arriving.join().unwrap();
        assert!(poll(&mut waiter).is_pending());
        world.clock.advance(Duration::from_secs(1));
        drop(block_on(waiter).unwrap());
    });
}

#[test]
fn the_last_lease_dropped_while_others_join_leaves_one_quota() {
    explore(|| {
        let world = world();
        let policy = policy(|p| p.max_concurrency(1));
        let last = world.lease(policy);
        let join = move |limiter: Limiter| {
            let lease = limiter.lease(&key(), policy).unwrap();
            let permit = lease.try_admit(0).ok();
            (lease, permit)
        };
        let parting = thread::spawn(move || drop(last));
        let joining = thread::spawn({
            let limiter = world.limiter.clone();
            move || join(limiter)
        });
        let here = join(world.limiter.clone());
        let there = joining.join().unwrap();
        parting.join().unwrap();
        assert_eq!(world.limiter.scope_count(), 1);
        assert_eq!(
            u32::from(here.1.is_some()) + u32::from(there.1.is_some()),
            1,
            "one scope, one permit"
        );
        assert_eq!(here.0.snapshot().leases, 2);
        drop((here, there));
        assert_eq!(world.limiter.scope_count(), 0);
    });
}

#[test]
fn the_last_lease_dropped_while_another_policy_joins_leaves_one_policy() {
    explore(|| {
        let world = world();
        let (old, new) = (
            policy(|p| p.max_concurrency(1)),
            policy(|p| p.max_concurrency(2)),
        );
        let last = world.lease(old);
        let joining = thread::spawn({
            let limiter = world.limiter.clone();
            move || limiter.lease(&key(), new)
        });
        drop(last);
        let here = world.limiter.lease(&key(), old);
        let there = joining.join().unwrap();
        assert!(
            here.is_ok() != there.is_ok(),
            "one of the two, and not both"
        );
        assert_eq!(world.limiter.scope_count(), 1);
        if let Err(conflict) = &here {
            assert_eq!((conflict.active(), conflict.requested()), (new, old));
        }
    });
}

#[test]
fn a_scope_adopted_while_its_last_permit_goes_back_keeps_its_debt() {
    explore(|| {
        let world = world();
        let (old, new) = (
            policy(|p| p.requests_per_minute(60)),
            policy(|p| p.requests_per_minute(6)),
        );
        let lease = world.lease(old);
        let permit = lease.try_admit(0).unwrap();
        drop(lease);
        let joining = thread::spawn({
            let limiter = world.limiter.clone();
            move || limiter.lease(&key(), new)
        });
        drop(permit);
        let joined = joining.join().unwrap();
        let lease = joined.unwrap_or_else(|_| world.lease(new));
        assert!(lease.try_admit(0).is_err(), "what was spent is still owed");
        assert_eq!(lease.snapshot().request_debt, 1.0);
        // Once it owes nothing it is forgotten, and that once only.
        world.clock.advance(Duration::from_secs(10));
        drop(lease);
        assert_eq!(world.limiter.scope_count(), 0);
    });
}

#[test]
fn a_scope_swept_while_it_is_joined_is_not_forgotten() {
    explore(|| {
        let world = world();
        let rate = policy(|p| p.requests_per_minute(60));
        world.lease(rate).try_admit(0).unwrap().finish();
        world.clock.advance(Duration::from_secs(1));
        let joining = thread::spawn({
            let limiter = world.limiter.clone();
            move || {
                let lease = limiter.lease(&key(), rate).unwrap();
                assert!(lease.try_admit(0).is_ok());
                lease
            }
        });
        let count = world.limiter.scope_count();
        assert!(count <= 1);
        let lease = joining.join().unwrap();
        assert_eq!(world.limiter.scope_count(), 1);
        assert!(world.lease(rate).try_admit(0).is_err(), "the same scope");
        drop(lease);
    });
}

#[test]
fn a_waiter_that_arrives_while_its_slot_comes_due_is_woken() {
    explore(|| {
        let world = world();
        let lease = world.lease(policy(|p| p.requests_per_minute(60)));
        lease.try_admit(0).unwrap().finish();
        let arriving = thread::spawn({
            let lease = lease.clone();
            move || block_on(lease.admit(0, None)).unwrap().admitted_at()
        });
        world.clock.advance(Duration::from_secs(1));
        assert_eq!(arriving.join().unwrap(), world.clock.now());
        assert_eq!(world.clock.armed(), 0);
    });
}

#[test]
fn a_timer_that_rings_while_it_is_moved_leaves_one_that_rings() {
    explore(|| {
        let world = world();
        let lease = world.lease(policy(|p| p.requests_per_minute(60)));
        lease.try_admit(0).unwrap().finish();
        let waiter = in_line(&lease);
        let cooling = thread::spawn({
            let lease = lease.clone();
            move || lease.cool_for(Duration::from_secs(2))
        });
        world.clock.advance(Duration::from_secs(1));
        cooling.join().unwrap();
        let waiting = thread::spawn(move || block_on(waiter).unwrap().admitted_at());
        world.clock.advance(Duration::from_secs(3));
        assert!(waiting.join().unwrap().as_nanos() >= 2_000_000_000);
    });
}

#[test]
fn a_deadline_that_comes_while_the_place_is_freed_ends_the_wait_one_way_or_the_other() {
    explore(|| {
        let world = world();
        let lease = world.lease(one_at_a_time());
        let permit = lease.try_admit(0).unwrap();
        let deadline = world.clock.now().saturating_add(Duration::from_millis(1));
        let waiting = thread::spawn({
            let lease = lease.clone();
            move || block_on(lease.admit(0, Some(deadline))).is_ok()
        });
        let releasing = thread::spawn(move || drop(permit));
        world.clock.advance(Duration::from_millis(1));
        let granted = waiting.join().unwrap();
        releasing.join().unwrap();
        let it = lease.snapshot();
        assert_eq!((it.active, it.queued), (0, 0));
        assert_eq!(
            (it.counters.admitted, it.counters.refused),
            (1 + u64::from(granted), u64::from(!granted))
        );
        assert_eq!(world.clock.armed(), 0);
    });
}

#[test]
fn a_sleeper_that_arrives_while_the_clock_moves_is_woken() {
    explore(|| {
        let (time, clock) = Time::manual();
        let at = time.now().saturating_add(Duration::from_secs(1));
        let sleeping = thread::spawn({
            let time = time.clone();
            move || block_on(time.sleep_until(at))
        });
        clock.advance(Duration::from_secs(1));
        sleeping.join().unwrap();
        assert_eq!(clock.armed(), 0);
    });
}
