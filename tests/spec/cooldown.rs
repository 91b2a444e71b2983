//! A 429 and whom it holds back.

use std::time::Duration;

use antfly_framework::testing::{Gate, Reply};
use antfly_framework::{CallOptions, Kind};
use serde_json::{Value, json};

use crate::support::*;

/// One named configuration gets this 429 while another's call waits; the other leaves after `wait`, to the nanosecond.
async fn held_back(reply: Reply, wait: Duration) {
    for limits in [
        json!({ "max_concurrency": 1 }),
        json!({ "max_concurrency": 1, "requests_per_minute": 6000, "burst": 9 }),
        json!({ "requests_per_minute": 6000, "pacing": "completion" }),
    ] {
        let world = World::new();
        let gate = Gate::new();
        let server = first([reply.clone().after(&gate)]);
        let more = |retry: Value| json!({ "rate_limit": limits, "retry": retry });
        let told = world.embedder(&server, more(json!({ "max_attempts": 1 })));
        let other = world.embedder(&server, more(json!({})));
        let call = told.call();
        server.wait_for_requests(1).await;
        let waiting = other.call();
        other.queued(1).await;
        gate.open();
        let error = refused(done(call).await);
        assert_eq!(error.kind(), Kind::RateLimited);
        assert_eq!(error.retry_after(), Some(wait));
        // New callers and waiting ones alike.
        assert_eq!(other.snap().cooldown_remaining, Some(wait));
        let late = other.call();
        other.queued(2).await;
        world.clock.advance(wait - nanos(1));
        other.still_queued(2).await;
        assert_eq!(other.admitted(), 1);
        world.clock.advance(nanos(1));
        done(waiting).await.unwrap();
        world.drive(late).await.unwrap();
        assert_eq!(world.starts(3).await[..2], [secs(0), wait]);
    }
}

#[tokio::test]
async fn a_429_shares_its_retry_after_seconds_with_the_scopes_other_callers() {
    held_back(error(429).header("retry-after", 7), secs(7)).await;
}

#[tokio::test]
async fn a_429_shares_its_retry_after_http_date_with_the_scopes_other_callers() {
    let reply = error(429)
        .header("date", "Wed, 21 Oct 2026 07:28:00 GMT")
        .header("retry-after", "Wed, 21 Oct 2026 07:28:09 GMT");
    held_back(reply, secs(9)).await;
}

#[tokio::test]
async fn a_cooldown_holds_the_caller_that_was_told_too_and_its_retry_leaves_no_earlier() {
    for operation in OPERATIONS {
        let world = World::new();
        let server = first([error(429).header("retry-after", 7)]);
        let caller = world.open(operation, &server, json!({}));
        let call = caller.call();
        until("the wait", || {
            let due = world.clock.next_alarm();
            due.is_some_and(|at| at.saturating_duration_since(world.clock.now()) == secs(7))
        })
        .await;
        world.clock.advance(secs(7) - nanos(1));
        quiet().await;
        assert_eq!(caller.admitted(), 1);
        world.clock.advance(nanos(1));
        done(call).await.unwrap();
        assert_eq!(world.starts(2).await, [secs(0), secs(7)], "{operation}");
    }
}

#[tokio::test]
async fn a_429_holds_others_back_from_its_head_on_before_its_body_is_read() {
    let world = World::new();
    let gate = Gate::new();
    let refusal = Reply::status(429)
        .header("content-type", "application/json")
        .header("retry-after", 7)
        .chunk(r#"{"error":{"message":"slow"#)
        .pause(&gate)
        .chunk(r#" down"}}"#);
    let server = first([refusal]);
    let caller = world.embedder(&server, json!({ "retry": { "max_attempts": 1 } }));
    let told = caller.call();
    until("the cooldown", || {
        caller.snap().cooldown_remaining == Some(secs(7))
    })
    .await;
    assert_eq!(caller.snap().active, 1);
    let other = caller.call();
    caller.queued(1).await;
    gate.open();
    assert_eq!(refused(done(told).await).kind(), Kind::RateLimited);
    caller.still_queued(1).await;
    world.clock.advance(secs(7));
    done(other).await.unwrap();
    assert_eq!(world.starts(2).await, [secs(0), secs(7)]);
}

#[tokio::test]
async fn a_cooldown_does_not_reach_another_scope() {
    let world = World::new();
    let server = first([error(429).header("retry-after", 7)]);
    let once = json!({ "retry": { "max_attempts": 1 } });
    let told = world.embedder(&server, once);
    assert_eq!(refused(told.once().await).kind(), Kind::RateLimited);
    let other = world.embedder(&server, json!({ "model": "other" }));
    other.once().await.unwrap();
    assert_eq!(world.elapsed(), secs(0));
}

#[tokio::test]
async fn cooldowns_only_grow() {
    let world = World::new();
    let gates = [Gate::new(), Gate::new()];
    let server = first([
        error(429).header("retry-after", 20).after(&gates[0]),
        error(429).header("retry-after", 5).after(&gates[1]),
    ]);
    let caller = world.embedder(&server, json!({ "retry": { "max_attempts": 1 } }));
    let one = caller.call();
    server.wait_for_requests(1).await;
    let two = caller.call();
    server.wait_for_requests(2).await;
    for (gate, call) in gates.iter().zip([one, two]) {
        gate.open();
        assert_eq!(refused(done(call).await).kind(), Kind::RateLimited);
        assert_eq!(caller.snap().cooldown_remaining, Some(secs(20)));
    }
}

#[tokio::test]
async fn a_cooldown_that_reaches_past_the_deadline_fails_the_waiting_call_at_once() {
    let world = World::new();
    let gate = Gate::new();
    let server = first([error(429).header("retry-after", 30).after(&gate)]);
    let more = json!({ "rate_limit": { "max_concurrency": 1 }, "retry": { "max_attempts": 1 } });
    let caller = world.embedder(&server, more);
    let told = caller.call();
    server.wait_for_requests(1).await;
    let hopeless = caller.call_with(CallOptions::default().with_timeout(secs(29)));
    caller.queued(1).await;
    gate.open();
    assert_eq!(refused(done(told).await).kind(), Kind::RateLimited);
    let error = refused(done(hopeless).await);
    assert_eq!(error.kind(), Kind::DeadlineExceeded);
    assert_eq!(error.retry_after(), Some(secs(30)));
    assert_eq!(world.elapsed(), secs(0));
    assert_eq!(server.requests().len(), 1);
}
