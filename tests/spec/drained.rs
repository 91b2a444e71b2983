//! A drained scope under a new policy.

use antfly_framework::testing::{Gate, Reply};
use antfly_framework::{GenerateRequest, Kind, Operation};
use serde_json::{Value, json};

use crate::support::*;

fn limits(limits: Value) -> Value {
    json!({ "rate_limit": limits, "retry": { "max_attempts": 1 } })
}

#[tokio::test]
async fn a_server_cooldown_survives_drained_policy_replacement() {
    let world = World::new();
    let server = first([error(429).header("retry-after", 30)]);
    let old = world.embedder(&server, limits(json!({ "requests_per_minute": 600 })));
    assert_eq!(refused(old.once().await).kind(), Kind::RateLimited);
    drop(old);
    world.clock.advance(secs(10));
    let new = world.embedder(&server, limits(json!({ "max_concurrency": 2 })));
    assert_eq!(new.snap().cooldown_remaining, Some(secs(20)));
    let call = new.call();
    new.queued(1).await;
    world.clock.advance(secs(20) - nanos(1));
    new.still_queued(1).await;
    world.clock.advance(nanos(1));
    done(call).await.unwrap();
    assert_eq!(world.starts(2).await, [secs(0), secs(30)]);
}

#[tokio::test]
async fn a_completion_delay_survives_drained_policy_replacement() {
    for replacement in [
        json!({ "requests_per_minute": 6000, "burst": 9 }),
        json!({}),
    ] {
        let world = World::new();
        let server = good();
        let old = json!({ "requests_per_minute": 6, "pacing": "completion" });
        let old = world.embedder(&server, limits(old));
        old.once().await.unwrap();
        drop(old);
        world.clock.advance(secs(4));
        let new = world.embedder(&server, limits(replacement));
        assert_eq!(new.snap().completion_remaining, Some(secs(6)));
        let call = new.call();
        new.queued(1).await;
        world.clock.advance(secs(6) - nanos(1));
        new.still_queued(1).await;
        world.clock.advance(nanos(1));
        done(call).await.unwrap();
        assert_eq!(world.starts(2).await, [secs(0), secs(10)]);
    }
}

#[tokio::test]
async fn outstanding_request_debt_is_preserved_and_repaid_at_the_new_rate() {
    let world = World::new();
    let server = good();
    let old = world.embedder(&server, limits(json!({ "requests_per_minute": 60 })));
    old.once().await.unwrap();
    drop(old);
    let new = world.embedder(&server, limits(json!({ "requests_per_minute": 6 })));
    assert_eq!(new.snap().request_debt, 1.0);
    let call = new.call();
    new.queued(1).await;
    world.clock.advance(secs(10) - nanos(1));
    new.still_queued(1).await;
    world.clock.advance(nanos(1));
    done(call).await.unwrap();
    assert_eq!(world.starts(2).await, [secs(0), secs(10)]);
}

#[tokio::test]
async fn outstanding_token_debt_is_preserved() {
    let world = World::new();
    let server = good();
    let old = world.embedder(&server, limits(json!({ "tokens_per_minute": 1000 })));
    old.once().await.unwrap();
    let spent = old.snap().token_debt;
    assert_eq!(spent, server.requests()[0].body.len() as f64);
    drop(old);
    let new = world.embedder(
        &server,
        limits(json!({ "tokens_per_minute": 500, "burst": 3 })),
    );
    assert_eq!(new.snap().token_debt, spent);
}

#[tokio::test]
async fn dropping_a_limit_for_a_moment_launders_nothing() {
    let world = World::new();
    let server = good();
    let limited = || limits(json!({ "requests_per_minute": 6 }));
    world.embedder(&server, limited()).once().await.unwrap();
    world
        .embedder(&server, limits(json!({})))
        .once()
        .await
        .unwrap();
    let again = world.embedder(&server, limited());
    let call = again.call();
    again.queued(1).await;
    world.clock.advance(secs(10) - nanos(1));
    again.still_queued(1).await;
    world.clock.advance(nanos(1));
    done(call).await.unwrap();
}

#[tokio::test]
async fn a_scope_is_not_drained_while_a_clone_a_call_or_a_stream_is_left() {
    let world = World::new();
    let gate = Gate::new();
    let server = first([
        Reply::sse([STREAM[0]])
            .pause(&gate)
            .event(STREAM[1])
            .event(STREAM[2]),
        slow_body(&gate),
    ]);
    let old = || {
        world.generator(
            &server,
            limits(json!({ "requests_per_minute": 60, "burst": 2 })),
        )
    };
    let replace = || {
        let more = at(&server, limits(json!({ "requests_per_minute": 61 })));
        world.try_open(&entry(Operation::Generate, more))
    };
    let handle = old();
    let clone = handle.clone();
    drop(handle);
    assert_eq!(refused(replace()).kind(), Kind::PolicyConflict);

    let stream = clone.stream(GenerateRequest::prompt("hi")).await.unwrap();
    drop(clone);
    assert_eq!(refused(replace()).kind(), Kind::PolicyConflict);
    drop(stream);
    until("the stream's permit", || replace().is_ok()).await;

    let call = Caller::Generator(old()).call();
    server.wait_for_requests(2).await;
    assert_eq!(refused(replace()).kind(), Kind::PolicyConflict);
    gate.open();
    done(call).await.unwrap();
    assert!(replace().is_ok());
}
