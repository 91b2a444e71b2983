//! Leases, conflicts and drained scopes.
#![allow(missing_docs)]

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use antfly_limiter::{Instant, Limiter, Pacing, Policy, Time};
use common::*;

fn rate(rpm: u32) -> Policy {
    policy(|p| p.requests_per_minute(rpm))
}

#[test]
fn an_equal_policy_joins_and_a_different_one_is_refused_by_name() {
    let world = world();
    let lease = world.limiter.lease(&key("a"), rate(60)).unwrap();
    let same = world
        .limiter
        .lease(&key("a"), policy(|p| p.requests_per_minute(60).burst(1)))
        .unwrap();
    assert_eq!(same.snapshot().leases, 2);
    let conflict = world
        .limiter
        .lease(&key("a"), Policy::UNLIMITED)
        .unwrap_err();
    assert_eq!(
        (conflict.scope(), conflict.active(), conflict.requested()),
        (&key("a"), rate(60), Policy::UNLIMITED)
    );
    assert_eq!(
        conflict.to_string(),
        "the scope scope=a is active with policy (requests_per_minute 60), so (unlimited) is refused"
    );
    drop((lease, same));
    assert!(world.limiter.lease(&key("a"), Policy::UNLIMITED).is_ok());
}

#[test]
fn clones_permits_and_waiters_keep_a_lease() {
    let world = world();
    let lease = world
        .limiter
        .lease(&key("a"), policy(|p| p.max_concurrency(1)))
        .unwrap();
    let clone = lease.clone();
    assert_eq!(clone.snapshot().leases, 1);
    let permit = lease.try_admit(0).unwrap();
    let waiter = waiting(&lease, 0);
    drop((lease, clone));
    let other = |ok: bool| assert_eq!(world.limiter.lease(&key("a"), rate(1)).is_ok(), ok);
    other(false);
    drop(permit);
    other(false);
    drop(waiter);
    other(true);
}

#[test]
fn a_drained_scope_keeps_its_debt_its_delay_and_its_cooldown() {
    let world = world();
    let lease = world
        .limiter
        .lease(&key("a"), policy(|p| p.requests_per_minute(60).burst(3)))
        .unwrap();
    for _ in 0..3 {
        lease.try_admit(0).unwrap().finish();
    }
    drop(lease);
    let lease = world.limiter.lease(&key("a"), rate(6)).unwrap();
    assert_eq!(
        lease.estimated_wait(0),
        Some(secs(30)),
        "as units, repaid at the new rate"
    );
    lease.cool_for(secs(100));
    drop(lease);
    let lease = world.limiter.lease(&key("a"), Policy::UNLIMITED).unwrap();
    assert_eq!(lease.estimated_wait(0), Some(secs(100)));
    drop(lease);
    let paced = policy(|p| p.requests_per_minute(1).pacing(Pacing::Completion));
    let lease = world.limiter.lease(&key("b"), paced).unwrap();
    lease.try_admit(0).unwrap().finish();
    drop(lease);
    let lease = world.limiter.lease(&key("b"), Policy::UNLIMITED).unwrap();
    assert_eq!(lease.estimated_wait(0), Some(secs(60)));
}

#[test]
fn a_limit_dropped_for_a_moment_launders_nothing() {
    let world = world();
    let limited = policy(|p| p.requests_per_minute(60).burst(10).tokens_per_minute(600));
    let lease = world.limiter.lease(&key("a"), limited).unwrap();
    for _ in 0..10 {
        lease.try_admit(60).unwrap().finish();
    }
    drop(lease);
    let lease = world.limiter.lease(&key("a"), Policy::UNLIMITED).unwrap();
    lease.try_admit(5).unwrap().finish();
    world.clock.advance(secs(4));
    drop(lease);
    let lease = world.limiter.lease(&key("a"), limited).unwrap();
    let snapshot = lease.snapshot();
    assert_eq!(
        (snapshot.request_debt, snapshot.token_debt),
        (6.0, 560.0),
        "dormant, repaid at the old rate"
    );
}

#[test]
fn completion_pacing_honours_debt_left_by_an_earlier_policy() {
    let world = world();
    let lease = world
        .limiter
        .lease(&key("a"), policy(|p| p.requests_per_minute(60).burst(10)))
        .unwrap();
    for _ in 0..10 {
        lease.try_admit(0).unwrap().finish();
    }
    drop(lease);
    let paced = policy(|p| p.requests_per_minute(60).pacing(Pacing::Completion));
    let lease = world.limiter.lease(&key("a"), paced).unwrap();
    assert_eq!(lease.estimated_wait(0), Some(secs(10)));
}

#[test]
fn an_idle_scope_is_forgotten_only_when_it_owes_nothing() {
    let world = world();
    let limiter = &world.limiter;
    drop(limiter.lease(&key("a"), rate(60)).unwrap());
    assert_eq!(limiter.scope_count(), 0);
    let lease = limiter.lease(&key("a"), rate(60)).unwrap();
    lease.try_admit(0).unwrap().finish();
    lease.cool_until(Instant::MAX);
    drop(lease);
    world.clock.advance(secs(1_000_000));
    assert_eq!(limiter.scope_count(), 1);
    assert!(limiter.clear_cooldown(&key("a")));
    assert_eq!(limiter.scope_count(), 0);
    assert!(!limiter.clear_cooldown(&key("a")));
}

#[test]
fn a_scope_taken_up_again_before_it_was_swept_stays() {
    let world = world();
    let lease = world.limiter.lease(&key("a"), rate(60)).unwrap();
    lease.try_admit(0).unwrap().finish();
    drop(lease);
    let lease = world.limiter.lease(&key("a"), rate(60)).unwrap();
    world.clock.advance(secs(2));
    assert_eq!(world.limiter.scope_count(), 1);
    lease.try_admit(0).unwrap().finish();
    drop(lease);
    assert_eq!(world.limiter.scope_count(), 1);
    world.clock.advance(secs(1));
    assert_eq!(world.limiter.scope_count(), 0);
}

#[test]
fn use_alone_sweeps_what_is_idle() {
    let world = world();
    let touch = |n: usize| {
        let lease = world.limiter.lease(&key(&n.to_string()), rate(60)).unwrap();
        lease.try_admit(0).unwrap().finish();
    };
    (0..1000).for_each(touch);
    world.clock.advance(secs(2));
    // Each of these forgets more than it adds.
    (1000..2000).for_each(touch);
    let seen = world.limiter.snapshot().len();
    assert_eq!(seen, 1000);
}

#[test]
fn a_snapshot_tells_what_a_scope_is_doing() {
    let world = world();
    let lease = world
        .limiter
        .lease(
            &key("a"),
            policy(|p| {
                p.requests_per_minute(60)
                    .burst(4)
                    .tokens_per_minute(600)
                    .max_concurrency(2)
            }),
        )
        .unwrap();
    let _permits = [lease.try_admit(10).unwrap(), lease.try_admit(20).unwrap()];
    let _waiter = waiting(&lease, 5);
    drop(waiting(&lease, 5));
    assert!(lease.try_admit(1000).is_err());
    lease.cool_for(secs(3));
    let all = world.limiter.snapshot();
    assert_eq!(all.len(), 1);
    let snapshot = &all[0];
    assert_eq!(*snapshot, lease.snapshot());
    assert_eq!(
        (snapshot.active, snapshot.queued, snapshot.leases),
        (2, 1, 1)
    );
    assert_eq!((snapshot.request_debt, snapshot.token_debt), (2.0, 30.0));
    assert_eq!(snapshot.cooldown_remaining, Some(secs(3)));
    assert_eq!(
        snapshot.cooldown_until,
        Some(world.clock.now().saturating_add(secs(3)))
    );
    assert_eq!(
        (snapshot.completion_until, snapshot.completion_remaining),
        (None, None)
    );
    let counters = snapshot.counters;
    assert_eq!(
        (counters.admitted, counters.refused, counters.cancelled),
        (2, 1, 1)
    );
    assert_eq!((counters.cooldowns, counters.tokens_admitted), (1, 30));
}

#[test]
fn a_last_lease_dropped_while_another_joins_never_splits_the_scope() {
    let (time, _clock) = Time::manual();
    let limiter = Limiter::new(time);
    let stop = Arc::new(AtomicBool::new(false));
    let policy = policy(|p| p.max_concurrency(1));
    std::thread::scope(|scope| {
        let held = Arc::new(AtomicBool::new(false));
        let workers: Vec<_> = (0..4)
            .map(|_| {
                let (limiter, stop, held) = (limiter.clone(), stop.clone(), held.clone());
                scope.spawn(move || {
                    while !stop.load(Ordering::Relaxed) {
                        let lease = limiter.lease(&key("a"), policy).unwrap();
                        if let Ok(permit) = lease.try_admit(0) {
                            assert!(!held.swap(true, Ordering::SeqCst), "two permits at once");
                            held.store(false, Ordering::SeqCst);
                            drop(permit);
                        }
                    }
                })
            })
            .collect();
        std::thread::sleep(ms(200));
        stop.store(true, Ordering::Relaxed);
        workers
            .into_iter()
            .for_each(|worker| worker.join().unwrap());
    });
    assert_eq!(limiter.scope_count(), 0);
}

#[test]
fn there_is_one_global_registry() {
    let lease = Limiter::global().lease(&key("global"), rate(1)).unwrap();
    assert!(Limiter::global().lease(&key("global"), rate(2)).is_err());
    drop(lease);
}
