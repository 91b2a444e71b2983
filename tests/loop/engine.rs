//! The SDK route: one request an attempt, every attempt admitted, cooldown before the permit goes back.

use std::time::Duration;

use antfly_framework::provider::Operation;
use antfly_framework::{
    CallOptions, CancellationToken, EmbedRequest, Error, FinishReason, GenerateRequest, Kind,
    StreamEvent,
};
use serde_json::json;

use crate::support::{Answer, drive, fake};

fn text(t: &str) -> antfly_framework::Result<StreamEvent> {
    Ok(StreamEvent::Text(t.into()))
}

fn finish() -> antfly_framework::Result<StreamEvent> {
    Ok(StreamEvent::Finish {
        reason: FinishReason::Stop,
        raw: "end_turn".into(),
    })
}

#[tokio::test]
async fn every_retry_is_a_new_admission_and_the_engine_sends_once_each() {
    let (client, entry, world, clock) = fake("retries", Operation::Embed, json!({}));
    world.answer(Answer::Status(500));
    world.answer(Answer::Fail(Kind::Overloaded, None));
    let embedder = client.embedder(&entry).unwrap();
    drive(&clock, embedder.embed(EmbedRequest::texts(["a"])))
        .await
        .unwrap();
    assert_eq!(world.log(), ["load", "send 1", "send 2", "send 3"]);
    assert_eq!(embedder.scope_snapshot().counters.admitted, 3);
}

#[tokio::test]
async fn a_throttled_attempt_cools_the_scope_for_everyone() {
    let (client, entry, world, clock) = fake("throttled", Operation::Embed, json!({}));
    world.answer(Answer::Fail(
        Kind::RateLimited,
        Some(Duration::from_secs(20)),
    ));
    let embedder = client.embedder(&entry).unwrap();
    let start = clock.now();
    let (a, b) = (
        embedder.embed(EmbedRequest::texts(["a"])),
        embedder.embed(EmbedRequest::texts(["b"])),
    );
    let mut a = Box::pin(a);
    assert!(futures::poll!(a.as_mut()).is_pending(), "told to wait");
    drive(&clock, b).await.unwrap();
    assert!(clock.now().saturating_duration_since(start) >= Duration::from_secs(20));
    drive(&clock, a).await.unwrap();
}

#[tokio::test]
async fn f15_a_wait_that_cannot_fit_the_deadline_fails_at_once_and_keeps_the_cooldown() {
    let (client, entry, world, clock) = fake("f15", Operation::Embed, json!({}));
    world.answer(Answer::Fail(
        Kind::RateLimited,
        Some(Duration::from_secs(15)),
    ));
    let embedder = client.embedder(&entry).unwrap();
    let start = clock.now();
    let call = embedder.embed_with(
        EmbedRequest::texts(["a"]),
        CallOptions::default().with_timeout(Duration::from_secs(10)),
    );
    let e = drive(&clock, call).await.unwrap_err();
    assert_eq!((e.kind(), e.attempts()), (Kind::RateLimited, 1));
    assert_eq!(e.retry_after(), Some(Duration::from_secs(15)));
    assert_eq!(clock.now(), start, "no useless sleep");
    let left = embedder.scope_snapshot().cooldown_remaining;
    assert_eq!(left, Some(Duration::from_secs(15)));
}

#[tokio::test]
async fn f07_a_wait_of_exactly_the_deadline_fits() {
    let (client, entry, world, clock) = fake("f07", Operation::Embed, json!({}));
    world.answer(Answer::Fail(
        Kind::RateLimited,
        Some(Duration::from_secs(10)),
    ));
    let embedder = client.embedder(&entry).unwrap();
    let call = embedder.embed_with(
        EmbedRequest::texts(["a"]),
        CallOptions::default().with_timeout(Duration::from_secs(10)),
    );
    drive(&clock, call).await.unwrap();
}

#[tokio::test]
async fn an_engines_stream_that_breaks_after_its_finish_reason_is_whole() {
    let (client, entry, world, clock) = fake("whole", Operation::Generate, json!({}));
    let broken = || Err(Error::new(Kind::StreamInterrupted, "the connection broke"));
    let throttled = || Err(Error::new(Kind::RateLimited, "throttlingException"));
    world.answer(Answer::Stream(vec![text("a"), finish(), broken()]));
    world.answer(Answer::Stream(vec![text("a"), broken()]));
    world.answer(Answer::Stream(vec![text("a"), finish(), throttled()]));
    let generator = client.generator(&entry).unwrap();
    let mut ends = Vec::new();
    for _ in 0..3 {
        let mut stream = drive(&clock, generator.stream(GenerateRequest::prompt("p")))
            .await
            .unwrap();
        let mut failed = None;
        while let Some(event) = drive(&clock, stream.next()).await {
            failed = event.err().map(|e| e.kind());
        }
        ends.push(failed);
        assert_eq!(generator.scope_snapshot().active, 0);
    }
    // What the provider says itself is told, whenever it comes.
    assert_eq!(ends[0], None);
    assert_eq!(ends[1], Some(Kind::StreamInterrupted));
    assert_eq!(ends[2], Some(Kind::RateLimited));
}

#[tokio::test]
async fn a_stream_holds_its_permit_until_the_end_has_been_polled() {
    let (client, entry, world, clock) = fake("stream", Operation::Generate, json!({}));
    world.answer(Answer::Stream(vec![text("a"), text("b"), finish()]));
    let generator = client.generator(&entry).unwrap();
    let mut stream = drive(&clock, generator.stream(GenerateRequest::prompt("p")))
        .await
        .unwrap();
    for _ in 0..3 {
        assert!(drive(&clock, stream.next()).await.is_some());
        assert_eq!(generator.scope_snapshot().active, 1);
    }
    assert!(drive(&clock, stream.next()).await.is_none());
    assert_eq!(generator.scope_snapshot().active, 0);
}

#[tokio::test]
async fn b15_a_throttling_frame_is_retried_before_the_first_item_and_surfaces_after_it() {
    let (client, entry, world, clock) = fake("frame", Operation::Generate, json!({}));
    let throttled = || Err(Error::new(Kind::RateLimited, "throttlingException"));
    world.answer(Answer::Stream(vec![throttled()]));
    world.answer(Answer::Stream(vec![text("a"), throttled()]));
    let generator = client.generator(&entry).unwrap();
    let mut stream = drive(&clock, generator.stream(GenerateRequest::prompt("p")))
        .await
        .unwrap();
    assert_eq!(
        drive(&clock, stream.next()).await.unwrap().unwrap(),
        StreamEvent::Text("a".into())
    );
    let e = drive(&clock, stream.next()).await.unwrap().unwrap_err();
    assert_eq!(e.kind(), Kind::RateLimited);
    assert!(drive(&clock, stream.next()).await.is_none());
    assert_eq!(world.log(), ["load", "send 1", "send 2"]);
    assert_eq!(generator.scope_snapshot().active, 0);
}

#[tokio::test]
async fn cancelling_a_wait_gives_a_typed_error_and_reserves_nothing() {
    let (client, entry, _world, clock) = fake(
        "cancel",
        Operation::Embed,
        json!({"rate_limit": {"requests_per_minute": 1}}),
    );
    let embedder = client.embedder(&entry).unwrap();
    drive(&clock, embedder.embed(EmbedRequest::texts(["a"])))
        .await
        .unwrap();
    let cancel = CancellationToken::new();
    let options = CallOptions::default().with_cancel(cancel.clone());
    let mut call = Box::pin(embedder.embed_with(EmbedRequest::texts(["b"]), options));
    assert!(futures::poll!(call.as_mut()).is_pending());
    assert_eq!(embedder.scope_snapshot().queued, 1);
    cancel.cancel();
    let e = call.await.unwrap_err();
    assert_eq!((e.kind(), e.attempts()), (Kind::Cancelled, 0));
    let scope = embedder.scope_snapshot();
    assert_eq!(
        (scope.queued, scope.active, scope.counters.admitted),
        (0, 0, 1)
    );
}

#[tokio::test]
async fn parts_are_admitted_in_input_order_and_answers_keep_it() {
    let (client, entry, world, clock) = fake("parts", Operation::Embed, json!({}));
    for n in [4, 4, 2] {
        world.answer(Answer::Vectors(n));
    }
    let embedder = client.embedder(&entry).unwrap();
    let ten: Vec<String> = (0..10).map(|i| i.to_string()).collect();
    let vectors = drive(&clock, embedder.embed(EmbedRequest::texts(ten)))
        .await
        .unwrap();
    assert_eq!((vectors.len(), vectors.dim()), (10, 2));
    assert_eq!(embedder.scope_snapshot().counters.admitted, 3);
}

#[tokio::test]
async fn a_wrong_count_of_vectors_names_the_item() {
    let (client, entry, world, clock) = fake("count", Operation::Embed, json!({}));
    world.answer(Answer::Vectors(4));
    world.answer(Answer::Vectors(3));
    let embedder = client.embedder(&entry).unwrap();
    let eight: Vec<String> = (0..8).map(|i| i.to_string()).collect();
    let parts = drive(
        &clock,
        embedder.embed_parts(EmbedRequest::texts(eight.clone()), CallOptions::default()),
    );
    let parts = parts.await.unwrap();
    assert!(
        parts[0].result.is_ok(),
        "one bad part costs only its own items"
    );
    let e = parts[1].result.as_ref().unwrap_err();
    assert_eq!((e.kind(), e.item()), (Kind::InvalidResponse, Some(4)));
    assert_eq!(parts[1].items, 4..8);
}
