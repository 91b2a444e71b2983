//! What must hold however unkind the surroundings are.
#![allow(missing_docs)]

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use antfly_limiter::{AdmitError, DeadlineCause, Instant, Limiter, Policy, Time};
use common::*;

#[test]
fn a_process_suspended_for_an_hour_earns_no_more_than_five_milliseconds() {
    let driver = Arc::new(Jumping::default());
    driver.set(Instant::from_nanos(1_000_000_000_000));
    let limiter = Limiter::new(Time::new(driver.clone()));
    let lease = limiter
        .lease(
            &key("a"),
            policy(|p| p.requests_per_minute(300_000).burst(3)),
        )
        .unwrap();
    for _ in 0..3 {
        lease.try_admit(0).unwrap().finish();
    }
    let mut waiters: Vec<_> = (0..1000).map(|_| waiting(&lease, 0)).collect();
    driver.jump(secs(3600));
    waiters.retain_mut(|waiter| waiter.poll().is_pending());
    assert_eq!(
        1000 - waiters.len(),
        3 + 25,
        "the burst and 5 ms at 5,000 a second"
    );
}

#[test]
fn one_that_was_invited_in_time_and_comes_after_its_deadline_is_refused() {
    let driver = Arc::new(Jumping::default());
    let limiter = Limiter::new(Time::new(driver.clone()));
    let lease = limiter
        .lease(&key("a"), policy(|p| p.max_concurrency(1)))
        .unwrap();
    let permit = lease.try_admit(0).unwrap();
    let mut waiter = waiting_until(&lease, 0, ms(3));
    drop(permit);
    driver.set(Instant::from_nanos(3_000_001));
    let passed = AdmitError::Deadline {
        retry_after: None,
        cause: DeadlineCause::Passed,
    };
    assert_eq!(refused(waiter.run()), passed);
    assert_eq!(lease.snapshot().active, 0);
}

#[test]
fn sleepers_that_show_up_again_earn_no_catch_up() {
    let world = world();
    let lease = world.lease(|p| p.requests_per_minute(300_000));
    lease.try_admit(0).unwrap().finish();
    let mut waiters: Vec<_> = (0..20).map(|_| waiting(&lease, 0)).collect();
    world.clock.advance(secs(1));
    waiters.retain_mut(|waiter| waiter.poll().is_pending());
    assert_eq!(waiters.len(), 19);
}

#[test]
fn one_that_comes_late_before_its_lapse_was_noticed_is_not_forgotten() {
    let driver = Arc::new(Jumping::default());
    let limiter = Limiter::new(Time::new(driver.clone()));
    let lease = limiter
        .lease(&key("a"), policy(|p| p.requests_per_minute(60)))
        .unwrap();
    lease.try_admit(0).unwrap().finish();
    let mut waiter = waiting(&lease, 0);
    driver.jump(secs(1));
    assert!(waiter.woken());
    driver.set(Instant::from_nanos(1_006_000_000));
    let _permit = granted(waiter.run());
}

#[test]
fn a_suspended_restart_after_a_cooldown_goes_on_where_it_was() {
    let driver = Arc::new(Jumping::default());
    let limiter = Limiter::new(Time::new(driver.clone()));
    let lease = limiter.lease(&key("a"), Policy::UNLIMITED).unwrap();
    lease.cool_for(secs(1));
    let mut waiters: Vec<_> = (0..20).map(|_| waiting(&lease, 0)).collect();
    driver.jump(secs(3600));
    waiters.retain_mut(|waiter| waiter.poll().is_pending());
    assert_eq!(waiters.len(), 19);
}

#[test]
fn the_runtime_that_first_used_a_scope_may_shut_down() {
    let limiter = Limiter::new(Time::thread());
    let lease = limiter
        .lease(&key("a"), policy(|p| p.requests_per_minute(1200)))
        .unwrap();
    let first = tokio::runtime::Runtime::new().unwrap();
    let second = tokio::runtime::Runtime::new().unwrap();
    first.block_on(async { lease.admit(0, None).await.unwrap().finish() });
    let waits_there = first.spawn({
        let lease = lease.clone();
        async move { lease.admit(0, None).await }
    });
    let waits_here = second.spawn({
        let lease = lease.clone();
        async move {
            tokio::task::yield_now().await;
            lease.admit(0, None).await.unwrap().finish();
        }
    });
    first.shutdown_background();
    second.block_on(async {
        let waited = tokio::time::timeout(secs(10), waits_here).await;
        assert!(waited.is_ok(), "{:?}", lease.snapshot());
        lease.admit(0, None).await.unwrap().finish();
        drop(waits_there);
    });
}

#[test]
fn threads_that_race_never_break_a_limit_nor_lose_a_wake_up() {
    let limiter = Limiter::new(Time::thread());
    let lease = limiter
        .lease(
            &key("a"),
            policy(|p| {
                p.max_concurrency(3)
                    .requests_per_minute(6_000_000)
                    .burst(100)
            }),
        )
        .unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let (running, done) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU64::new(0)));
    runtime.block_on(async {
        let mut tasks = Vec::new();
        for n in 0..2000_u32 {
            let (lease, running, done) = (lease.clone(), running.clone(), done.clone());
            tasks.push(tokio::spawn(async move {
                if n % 5 == 0 {
                    // Cancelled at whatever instant that happens to be.
                    let _ = tokio::time::timeout(
                        Duration::from_micros(u64::from(n)),
                        lease.admit(0, None),
                    )
                    .await;
                    return;
                }
                let permit = lease.admit(0, None).await.unwrap();
                assert!(running.fetch_add(1, Ordering::SeqCst) < 3);
                tokio::task::yield_now().await;
                running.fetch_sub(1, Ordering::SeqCst);
                drop(permit);
                done.fetch_add(1, Ordering::SeqCst);
            }));
        }
        for task in tasks {
            tokio::time::timeout(secs(30), task).await.unwrap().unwrap();
        }
    });
    assert_eq!(done.load(Ordering::SeqCst), 1600);
    let snapshot = lease.snapshot();
    assert_eq!((snapshot.active, snapshot.queued), (0, 0));
}

#[test]
fn a_clock_that_steps_back_while_others_wait_delays_but_never_wedges() {
    let world = world();
    let lease = world.lease(|p| p.requests_per_minute(60));
    lease.try_admit(0).unwrap().finish();
    let mut waiter = waiting(&lease, 0);
    let now = world.clock.now();
    world
        .clock
        .set(Instant::from_nanos(now.as_nanos() - 500_000_000));
    assert!(waiter.poll().is_pending());
    world.clock.advance(ms(1500));
    let _permit = granted(waiter.run());
}

#[test]
fn a_waker_that_panics_costs_nobody_else_the_wake_up() {
    use std::future::Future;
    use std::task::{Context, Wake, Waker};
    struct Panics;
    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            panic!("a waker that panics");
        }
    }
    let world = world();
    let lease = world.lease(|p| p.max_concurrency(2));
    let permits: Vec<_> = (0..2).map(|_| lease.try_admit(0).unwrap()).collect();
    let waker = Waker::from(Arc::new(Panics));
    let mut bad = Box::pin(lease.admit(0, None));
    assert!(
        bad.as_mut()
            .poll(&mut Context::from_waker(&waker))
            .is_pending()
    );
    let mut good = waiting(&lease, 0);
    lease.cool_for(secs(1));
    drop(permits);
    let advanced = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        world.clock.advance(secs(1))
    }));
    assert!(advanced.is_err());
    assert!(good.woken());
    world.clock.advance(ms(5));
    let _permit = granted(good.run());
}
