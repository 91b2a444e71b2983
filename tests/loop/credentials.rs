//! Credentials: outside the quota, single flight, fresh at the claim.

use std::task::Poll;
use std::time::Duration;

use antfly_framework::provider::Operation;
use antfly_framework::testing::Gate;
use antfly_framework::{CallOptions, EmbedRequest, Kind};
use serde_json::json;

use crate::support::{Answer, drive, fake};

fn texts() -> EmbedRequest {
    EmbedRequest::texts(["a"])
}

#[tokio::test]
async fn fifty_concurrent_first_calls_make_one_credential_load() {
    let (client, entry, world, clock) = fake("fifty", Operation::Embed, json!({}));
    let gate = Gate::new();
    *world.gate.lock().unwrap() = Some(gate.clone());
    let embedder = client.embedder(&entry).unwrap();
    let calls = futures::future::join_all((0..50).map(|_| embedder.embed(texts())));
    let mut calls = std::pin::pin!(calls);
    assert!(futures::poll!(calls.as_mut()).is_pending());
    let scope = embedder.scope_snapshot();
    assert_eq!(
        (scope.active, scope.queued, scope.counters.admitted),
        (0, 0, 0),
        "nothing held while it loads"
    );
    gate.open();
    let done = drive(&clock, calls).await;
    assert!(done.iter().all(Result::is_ok));
    assert_eq!(
        world.log().iter().filter(|l| l.starts_with("load")).count(),
        1
    );
    assert_eq!(embedder.scope_snapshot().counters.admitted, 50);
}

#[tokio::test]
async fn a_credential_that_went_stale_in_the_queue_is_refreshed_before_the_claim() {
    let limits = json!({"rate_limit": {"requests_per_minute": 6}});
    let (client, entry, world, clock) = fake("stale", Operation::Embed, limits);
    *world.good_for.lock().unwrap() = Some(Duration::from_secs(5));
    let embedder = client.embedder(&entry).unwrap();
    drive(&clock, embedder.embed(texts())).await.unwrap();
    // The next slot is 10 s away; the credential is good for 5 s.
    let start = clock.now();
    drive(&clock, embedder.embed(texts())).await.unwrap();
    assert_eq!(
        clock.now().saturating_duration_since(start),
        Duration::from_secs(10)
    );
    assert_eq!(world.log(), ["load", "send 1", "load", "send 1"]);
    assert_eq!(embedder.scope_snapshot().counters.admitted, 2);
}

#[tokio::test]
async fn a_refresh_at_the_head_of_the_queue_keeps_its_place_and_holds_nothing() {
    let limits = json!({"rate_limit": {"requests_per_minute": 6}});
    let (client, entry, world, clock) = fake("place", Operation::Embed, limits);
    *world.good_for.lock().unwrap() = Some(Duration::from_secs(5));
    let embedder = client.embedder(&entry).unwrap();
    drive(&clock, embedder.embed(texts())).await.unwrap();
    let mut first = Box::pin(embedder.embed(texts()));
    assert!(futures::poll!(first.as_mut()).is_pending());
    let gate = Gate::new();
    *world.gate.lock().unwrap() = Some(gate.clone());
    clock.advance(Duration::from_secs(10));
    // Invited, stale, refreshing: still in line, and no permit is held meanwhile.
    assert!(futures::poll!(first.as_mut()).is_pending());
    let scope = embedder.scope_snapshot();
    assert_eq!((scope.active, scope.queued), (0, 1));
    *world.gate.lock().unwrap() = None;
    gate.open();
    drive(&clock, first).await.unwrap();
    assert_eq!(world.log().last().map(String::as_str), Some("send 1"));
}

#[tokio::test]
async fn k02_an_expired_token_is_forced_once_and_then_an_auth_error() {
    let (client, entry, world, clock) = fake(
        "k02",
        Operation::Embed,
        json!({"retry": {"max_attempts": 1}}),
    );
    for _ in 0..3 {
        world.answer(Answer::Expired);
    }
    let embedder = client.embedder(&entry).unwrap();
    let e = drive(&clock, embedder.embed(texts())).await.unwrap_err();
    assert_eq!((e.kind(), e.attempts()), (Kind::Auth, 2));
    assert_eq!(world.log(), ["load", "send 1", "load!", "send 2"]);
    assert_eq!(
        embedder.scope_snapshot().counters.admitted,
        2,
        "the second attempt is admitted too"
    );
    world.answers.lock().unwrap().clear();
    world.answer(Answer::Expired);
    drive(&clock, embedder.embed(texts())).await.unwrap();
}

#[tokio::test]
async fn a_source_that_hides_its_expiry_is_asked_again_just_before_the_claim() {
    let limits = json!({"rate_limit": {"requests_per_minute": 60}});
    let (client, entry, world, clock) = fake("hidden", Operation::Embed, limits);
    *world.hidden.lock().unwrap() = true;
    let embedder = client.embedder(&entry).unwrap();
    drive(&clock, embedder.embed(texts())).await.unwrap();
    assert_eq!(world.log(), ["load", "load", "send 1"]);
}

#[tokio::test]
async fn a_slow_credential_costs_the_deadline_and_no_quota() {
    let (client, entry, world, clock) = fake(
        "slow",
        Operation::Embed,
        json!({"rate_limit": {"requests_per_minute": 1}}),
    );
    *world.gate.lock().unwrap() = Some(Gate::new());
    let embedder = client.embedder(&entry).unwrap();
    let options = CallOptions::default().with_timeout(Duration::from_secs(2));
    let e = drive(&clock, embedder.embed_with(texts(), options))
        .await
        .unwrap_err();
    assert_eq!((e.kind(), e.attempts()), (Kind::DeadlineExceeded, 0));
    let scope = embedder.scope_snapshot();
    assert_eq!(
        (scope.active, scope.queued, scope.counters.admitted),
        (0, 0, 0)
    );
    *world.gate.lock().unwrap() = None;
    let mut next = Box::pin(embedder.embed(texts()));
    // The abandoned load does not stand in the way for ever.
    let first = futures::poll!(next.as_mut());
    if let Poll::Ready(done) = first {
        done.unwrap();
    }
}

#[tokio::test]
async fn a_hidden_source_that_is_never_ready_in_one_poll_is_not_asked_for_ever() {
    let (client, entry, world, _clock) = fake("lazy", Operation::Embed, json!({}));
    *world.hidden.lock().unwrap() = true;
    *world.lazy.lock().unwrap() = true;
    let embedder = client.embedder(&entry).unwrap();
    let call = tokio::time::timeout(Duration::from_secs(10), embedder.embed(texts()));
    call.await.unwrap().unwrap();
    assert_eq!(world.log(), ["load", "load", "send 1"]);
}
