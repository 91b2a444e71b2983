//! The rules of admission, one test each.
#![allow(missing_docs)]

mod common;

use std::task::Poll;
use std::time::Duration;

use antfly_limiter::{AdmitError, Claim, DeadlineCause, Pacing, Policy, TryAdmitError};
use common::*;

#[test]
fn an_unlimited_scope_admits_at_once() {
    let world = world();
    let lease = world.limiter.lease(&key("a"), Policy::UNLIMITED).unwrap();
    let permits: Vec<_> = (0..100)
        .map(|_| lease.try_admit(1 << 40).unwrap())
        .collect();
    assert_eq!(lease.snapshot().active, 100);
    drop(permits);
    assert_eq!(lease.snapshot().active, 0);
}

#[test]
fn a_request_bucket_starts_full_and_fills_at_its_rate() {
    let world = world();
    let lease = world.lease(|p| p.requests_per_minute(120).burst(2));
    drop(lease.try_admit(0).unwrap());
    drop(lease.try_admit(0).unwrap());
    let error = lease.try_admit(0).unwrap_err();
    assert_eq!(error.estimated_wait(), Some(ms(500)));
    world.clock.advance(Duration::from_nanos(499_999_999));
    assert!(lease.try_admit(0).is_err());
    world.clock.advance(Duration::from_nanos(1));
    assert!(lease.try_admit(0).is_ok());
}

#[test]
fn a_cost_equal_to_the_budget_passes_and_one_above_fails_before_any_wait() {
    let world = world();
    let lease = world.lease(|p| p.tokens_per_minute(1000));
    let too_much = AdmitError::ExceedsBudget {
        cost: 1001,
        budget: 1000,
    };
    assert_eq!(refused(Task::new(lease.admit(1001, None)).poll()), too_much);
    assert_eq!(
        lease.try_admit(1001).unwrap_err(),
        TryAdmitError::ExceedsBudget {
            cost: 1001,
            budget: 1000
        }
    );
    assert_eq!(lease.snapshot().token_debt, 0.0);
    granted(Task::new(lease.admit(1000, None)).poll()).finish();
    lease.cool_for(secs(10));
    assert_eq!(
        refused(Task::new(lease.admit(1001, None)).poll()),
        too_much,
        "even behind a cooldown"
    );
}

#[test]
fn all_limits_are_taken_together_or_none_is() {
    let world = world();
    let lease = world.lease(|p| {
        p.requests_per_minute(60)
            .burst(10)
            .tokens_per_minute(100)
            .max_concurrency(1)
    });
    let first = lease.try_admit(60).unwrap();
    let before = lease.snapshot();
    assert!(lease.try_admit(10).is_err(), "concurrency");
    drop(first);
    assert!(lease.try_admit(60).is_err(), "tokens");
    let after = lease.snapshot();
    assert_eq!(
        (before.request_debt, before.token_debt),
        (after.request_debt, after.token_debt)
    );
}

#[test]
fn those_in_line_go_in_the_order_they_came() {
    let world = world();
    let lease = world.lease(|p| p.requests_per_minute(60));
    lease.try_admit(0).unwrap().finish();
    let mut waiters: Vec<_> = (0..5).map(|_| waiting(&lease, 0)).collect();
    for turn in 0..5 {
        world.clock.advance(secs(1));
        for (index, waiter) in waiters.iter_mut().enumerate().rev() {
            assert_eq!(
                waiter.run().is_ready(),
                index == turn,
                "waiter {index} in turn {turn}"
            );
        }
    }
}

#[test]
fn several_that_could_go_are_woken_together_and_claim_in_order() {
    let world = world();
    let lease = world.lease(|p| p.requests_per_minute(60).burst(3).max_concurrency(3));
    let permits: Vec<_> = (0..3).map(|_| lease.try_admit(0).unwrap()).collect();
    world.clock.advance(secs(3));
    let (mut a, mut b, mut c, d) = (
        waiting(&lease, 0),
        waiting(&lease, 0),
        waiting(&lease, 0),
        waiting(&lease, 0),
    );
    drop(permits);
    assert!(a.woken() && b.woken() && c.woken() && !d.woken());
    assert!(
        c.run().is_pending() && b.run().is_pending(),
        "not before the first"
    );
    let _a = granted(a.run());
    assert!(!c.woken());
    let _b = granted(b.run());
    let _c = granted(c.run());
    assert!(!d.woken());
}

#[test]
fn nobody_overtakes_the_line() {
    let world = world();
    let lease = world.lease(|p| p.tokens_per_minute(100));
    lease.try_admit(50).unwrap().finish();
    let large = waiting(&lease, 100);
    let small = waiting(&lease, 1);
    assert!(lease.try_admit(1).is_err());
    assert!(!large.woken() && !small.woken());
}

#[test]
fn completion_pacing_waits_its_interval_after_each_finish() {
    let world = world();
    let lease = world.lease(|p| p.requests_per_minute(7).pacing(Pacing::Completion));
    let permit = lease.try_admit(0).unwrap();
    let mut next = waiting(&lease, 0);
    world.clock.advance(secs(100));
    assert!(!next.woken(), "one at a time");
    drop(permit);
    let interval = 60_000_000_000_u64.div_ceil(7);
    assert_eq!(
        world.clock.next_alarm(),
        Some(
            world
                .clock
                .now()
                .saturating_add(Duration::from_nanos(interval))
        )
    );
    world.clock.advance(Duration::from_nanos(interval - 1));
    assert!(next.poll().is_pending());
    world.clock.advance(Duration::from_nanos(1));
    let _permit = granted(next.run());
}

#[test]
fn completion_pacing_has_no_catch_up() {
    let world = world();
    let lease = world.lease(|p| p.requests_per_minute(60_000).pacing(Pacing::Completion));
    lease.try_admit(0).unwrap().finish();
    let (mut a, mut b) = (waiting(&lease, 0), waiting(&lease, 0));
    world.clock.advance(ms(4));
    granted(a.run()).finish();
    assert!(b.poll().is_pending());
    world.clock.advance(Duration::from_micros(999));
    assert!(b.poll().is_pending());
    world.clock.advance(Duration::from_micros(1));
    let _b = granted(b.run());
}

#[test]
fn a_deadline_that_passes_ends_the_wait() {
    let world = world();
    let lease = world.lease(|p| p.max_concurrency(1));
    let _permit = lease.try_admit(0).unwrap();
    let mut waiter = waiting_until(&lease, 0, secs(2));
    let mut patient = waiting(&lease, 0);
    world.clock.advance(secs(2));
    let error = refused(waiter.run());
    assert_eq!(
        error,
        AdmitError::Deadline {
            retry_after: None,
            cause: DeadlineCause::Passed
        }
    );
    assert!(patient.run().is_pending());
    assert_eq!(lease.snapshot().queued, 1);
}

#[test]
fn each_waiter_has_its_own_deadline_though_a_scope_has_one_timer() {
    let world = world();
    let lease = world.lease(|p| p.max_concurrency(1));
    let _permit = lease.try_admit(0).unwrap();
    let mut waiters: Vec<_> = [5, 3, 9, 1, 7]
        .map(|s| (s, waiting_until(&lease, 0, secs(s))))
        .into_iter()
        .collect();
    assert_eq!(world.clock.armed(), 1);
    for second in 1..=9 {
        world.clock.advance(secs(1));
        for (deadline, waiter) in &mut waiters {
            if *deadline == second {
                let _ = refused(waiter.run());
            } else {
                assert!(!waiter.woken());
            }
        }
    }
    assert_eq!(world.clock.armed(), 0);
}

#[test]
fn a_wait_of_exactly_the_deadline_fits() {
    let world = world();
    let lease = world.lease(|p| p.requests_per_minute(60));
    lease.try_admit(0).unwrap().finish();
    let mut waiter = waiting_until(&lease, 0, secs(1));
    world.clock.advance(secs(1));
    let _permit = granted(waiter.run());
    lease.cool_for(secs(5));
    let mut waiter = waiting_until(&lease, 0, secs(5));
    world.clock.advance(secs(5));
    let _permit = granted(waiter.run());
}

#[test]
fn a_deadline_that_its_own_cost_cannot_meet_fails_at_once() {
    let world = world();
    let lease = world.lease(|p| p.tokens_per_minute(60));
    lease.try_admit(60).unwrap().finish();
    let deadline = |s| Some(world.clock.now().saturating_add(secs(s)));
    let error = refused(Task::new(lease.admit(10, deadline(9))).poll());
    assert_eq!(
        error,
        AdmitError::Deadline {
            retry_after: None,
            cause: DeadlineCause::Tokens
        }
    );
    assert!(Task::new(lease.admit(10, deadline(10))).poll().is_pending());
    let lease = world
        .limiter
        .lease(&key("b"), policy(|p| p.requests_per_minute(6)))
        .unwrap();
    lease.try_admit(0).unwrap().finish();
    let error = refused(Task::new(lease.admit(0, deadline(9))).poll());
    assert_eq!(
        error,
        AdmitError::Deadline {
            retry_after: None,
            cause: DeadlineCause::Requests
        }
    );
}

#[test]
fn one_that_becomes_hopeless_in_line_fails_as_soon_as_that_is_certain() {
    let world = world();
    let lease = world.lease(|p| p.tokens_per_minute(60));
    lease.try_admit(60).unwrap().finish();
    let mut first = waiting(&lease, 30);
    let mut second = waiting_until(&lease, 30, secs(40));
    world.clock.advance(secs(30));
    assert!(
        second.poll().is_pending(),
        "what is only booked is not certain"
    );
    let _permit = granted(first.run());
    let error = refused(second.run());
    assert_eq!(
        error,
        AdmitError::Deadline {
            retry_after: None,
            cause: DeadlineCause::Tokens
        }
    );
}

#[test]
fn a_completion_delay_past_the_deadline_fails_at_once() {
    let world = world();
    let lease = world.lease(|p| p.requests_per_minute(1).pacing(Pacing::Completion));
    let permit = lease.try_admit(0).unwrap();
    let mut waiter = waiting_until(&lease, 0, secs(100));
    world.clock.advance(secs(50));
    drop(permit);
    let error = refused(waiter.run());
    assert_eq!(
        error,
        AdmitError::Deadline {
            retry_after: None,
            cause: DeadlineCause::CompletionDelay
        }
    );
}

#[test]
fn the_estimate_counts_the_line() {
    let world = world();
    let lease = world.lease(|p| p.requests_per_minute(60).tokens_per_minute(60));
    assert_eq!(lease.estimated_wait(0), Some(Duration::ZERO));
    lease.try_admit(60).unwrap().finish();
    let _a = waiting(&lease, 5);
    let _b = waiting(&lease, 5);
    assert_eq!(lease.estimated_wait(0), Some(secs(10)));
    assert_eq!(lease.estimated_wait(10), Some(secs(20)));
    assert_eq!(lease.estimated_wait(61), None);
    let lease = world
        .limiter
        .lease(&key("b"), policy(|p| p.max_concurrency(1)))
        .unwrap();
    let _permit = lease.try_admit(0).unwrap();
    assert_eq!(lease.estimated_wait(0), None);
}

#[test]
fn a_late_timer_is_caught_up_within_five_milliseconds() {
    let world = world();
    let lease = world.lease(|p| p.requests_per_minute(300_000));
    lease.try_admit(0).unwrap().finish();
    let mut waiters: Vec<_> = (0..100).map(|_| waiting(&lease, 0)).collect();
    // One slot each 200 us. A hand that stalls for 2 ms finds all ten due.
    let due = world.clock.now();
    world.clock.set(due.saturating_add(ms(2)));
    let mut count = || {
        waiters
            .iter_mut()
            .filter_map(|w| if w.run().is_ready() { Some(()) } else { None })
            .count()
    };
    assert_eq!(count(), 10);
}

#[test]
fn slots_that_passed_while_the_head_lacked_tokens_are_not_caught_up() {
    let world = world();
    let lease = world.lease(|p| p.requests_per_minute(300_000).tokens_per_minute(60));
    lease.try_admit(60).unwrap().finish();
    let head = waiting(&lease, 60);
    let mut waiters: Vec<_> = (0..20).map(|_| waiting(&lease, 0)).collect();
    world.clock.advance(secs(1));
    drop(head);
    waiters.retain_mut(|waiter| waiter.run().is_pending());
    assert_eq!(waiters.len(), 19);
}

#[test]
fn a_stale_credential_keeps_its_place_and_pays_nothing() {
    let world = world();
    let lease = world.lease(|p| p.requests_per_minute(60));
    lease.try_admit(0).unwrap().finish();
    let mut first = lease.admission(0, None);
    let (poll, flag) = poll_ready(&mut first);
    assert!(poll.is_pending());
    let mut second = waiting(&lease, 0);
    world.clock.advance(secs(1));
    drop(flag);
    assert_eq!(poll_ready(&mut first).0, Poll::Ready(Ok(())));
    assert!(matches!(first.claim(Some(world.clock.now())), Claim::Stale));
    let _permit = granted(second.run());
    let mut third = waiting(&lease, 0);
    assert!(poll_ready(&mut first).0.is_pending());
    world.clock.advance(secs(1));
    assert!(third.run().is_pending(), "the first has its seniority");
    assert!(poll_ready(&mut first).0.is_ready());
    let not_after = world.clock.now().saturating_add(Duration::from_nanos(1));
    assert!(matches!(first.claim(Some(not_after)), Claim::Granted(_)));
    assert!(matches!(first.claim(None), Claim::NotYet));
}

#[test]
fn a_stale_claim_before_any_wait_takes_a_place() {
    let world = world();
    let lease = world.lease(|p| p.requests_per_minute(60));
    let mut first = lease.admission(0, None);
    assert!(poll_ready(&mut first).0.is_ready());
    assert!(matches!(first.claim(Some(world.clock.now())), Claim::Stale));
    assert!(lease.try_admit(0).is_ok(), "it stands in nobody's way");
    let mut second = waiting(&lease, 0);
    world.clock.advance(ms(900));
    assert!(poll_ready(&mut first).0.is_pending());
    world.clock.advance(ms(100));
    assert!(second.run().is_pending());
    assert!(matches!(first.claim(None), Claim::Granted(_)));
    assert_eq!(first.waited(), Duration::ZERO);
}

#[test]
fn a_claim_checks_the_cooldown_again() {
    let world = world();
    let lease = world.lease(|p| p.max_concurrency(1));
    let permit = lease.try_admit(0).unwrap();
    let mut admission = lease.admission(0, None);
    assert!(poll_ready(&mut admission).0.is_pending());
    drop(permit);
    assert!(poll_ready(&mut admission).0.is_ready());
    lease.cool_for(secs(1));
    assert!(matches!(admission.claim(None), Claim::NotYet));
    assert!(poll_ready(&mut admission).0.is_pending());
    world.clock.advance(secs(1));
    assert!(matches!(admission.claim(None), Claim::Granted(_)));
}

#[test]
fn how_long_it_waited_is_counted_from_the_first_poll() {
    let world = world();
    let lease = world.lease(|p| p.max_concurrency(1));
    let _permit = lease.try_admit(0).unwrap();
    let mut admission = lease.admission(0, None);
    world.clock.advance(secs(1));
    assert_eq!(admission.waited(), Duration::ZERO);
    assert!(poll_ready(&mut admission).0.is_pending());
    world.clock.advance(secs(3));
    assert_eq!(admission.waited(), secs(3));
}

#[test]
fn a_finished_wait_leaves_no_timer() {
    let world = world();
    let lease = world.lease(|p| p.requests_per_minute(60));
    lease.try_admit(0).unwrap().finish();
    let waiters: Vec<_> = (0..100).map(|_| waiting(&lease, 0)).collect();
    assert_eq!(world.clock.armed(), 1);
    drop(waiters);
    assert_eq!(world.clock.armed(), 0);
    assert_eq!(lease.snapshot().counters.cancelled, 100);
}

#[test]
fn one_whose_tokens_are_there_exactly_at_its_deadline_waits_for_them() {
    let world = world();
    let lease = world.lease(|p| p.tokens_per_minute(60));
    lease.try_admit(60).unwrap().finish();
    let mut waiter = waiting_until(&lease, 60, secs(60));
    world.clock.advance(secs(60));
    let _permit = granted(waiter.run());
}
