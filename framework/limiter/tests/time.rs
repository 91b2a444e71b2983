//! The clocks.
#![allow(missing_docs)]

mod common;

use std::task::Poll;
use std::time::Duration;

use antfly_limiter::{Instant, Time};
use common::*;

#[test]
fn instants_saturate() {
    assert_eq!(Instant::MAX.saturating_add(Duration::MAX), Instant::MAX);
    assert_eq!(Instant::ZERO.saturating_add(Duration::MAX), Instant::MAX);
    assert_eq!(
        Instant::ZERO.saturating_duration_since(Instant::MAX),
        Duration::ZERO
    );
}

#[test]
fn a_manual_clock_rings_in_order_and_shows_each_alarms_own_time() {
    let (time, clock) = Time::manual();
    let mut late = Task::new(time.sleep(secs(3)));
    let mut early = Task::new(time.sleep(secs(1)));
    assert!(late.poll().is_pending() && early.poll().is_pending());
    assert_eq!(
        (clock.armed(), clock.next_alarm()),
        (2, Some(Instant::from_nanos(1_000_000_000)))
    );
    clock.advance(secs(2));
    assert!(early.run().is_ready());
    assert!(!late.woken());
    drop(late);
    assert_eq!((clock.armed(), clock.next_alarm()), (0, None));
    clock.set(Instant::from_nanos(5));
    assert_eq!(clock.now(), Instant::from_nanos(5));
}

#[test]
fn a_timeout_polls_its_future_first() {
    let (time, clock) = Time::manual();
    clock.advance(secs(1));
    let ready = Task::new(time.timeout_at(Instant::ZERO, async { 7 })).poll();
    assert_eq!(ready, Poll::Ready(Ok(7)));
    let mut never = Task::new(time.timeout_at(
        Instant::from_nanos(2_000_000_000),
        std::future::pending::<()>(),
    ));
    assert!(never.poll().is_pending());
    clock.advance(secs(1));
    assert!(matches!(never.run(), Poll::Ready(Err(_))));
}

#[test]
fn the_thread_clock_sleeps_without_a_runtime_and_never_wakes_early() {
    let time = Time::thread();
    for nanos in [0, 1, 300_000, 3_000_000] {
        let at = time.now().saturating_add(Duration::from_nanos(nanos));
        let mut sleep = Task::new(time.sleep_until(at));
        let mut done = sleep.poll().is_ready();
        while !done {
            std::thread::yield_now();
            done = sleep.run().is_ready();
        }
        assert!(time.now() >= at);
    }
}

#[cfg(feature = "tokio")]
#[test]
fn the_tokio_clock_sleeps_and_disarms() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let time = Time::tokio();
        let start = time.now();
        time.sleep(ms(5)).await;
        assert!(time.now().saturating_duration_since(start) >= ms(5));
        assert!(Task::new(time.sleep(secs(60))).poll().is_pending());
    });
}
