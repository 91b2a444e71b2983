//! The HTTP route: redirects hop by hop, cooldown at the head, permits that live as long as bodies do.

use std::time::Duration;

use antfly_framework::provider::Operation;
use antfly_framework::testing::{Gate, Reply, Server};
use antfly_framework::{Client, EmbedRequest, EntryConfig, Env, Kind, Time};
use serde_json::json;

fn client() -> Client {
    Client::builder()
        .registry(antfly_providers::registry().unwrap())
        .limiter(antfly_framework::Limiter::new(Time::thread()))
        .env(Env::empty())
        .jitter_seed(1)
        .build()
        .unwrap()
}

fn entry(server: &Server, more: serde_json::Value) -> EntryConfig {
    let mut json = json!({
        "provider": "openai", "model": "m", "url": server.url(), "api_key": "sk-sentinel-0123456789",
        "retry": {"initial_backoff_ms": 1, "max_backoff_ms": 2},
    });
    json.as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    EntryConfig::from_json(Operation::Embed, "embedders.e", json).unwrap()
}

fn vectors() -> Reply {
    Reply::json(
        200,
        json!({"data": [{"index": 0, "embedding": [1.0, 2.0]}]}),
    )
}

#[tokio::test]
async fn a_redirect_hop_is_admitted_charged_to_the_scope_and_loses_credentials_for_good() {
    let other = Server::start([]);
    let home = Server::start([]);
    other.push(Reply::status(307).header("location", format!("{}/back", home.url())));
    home.push(Reply::status(308).header("location", format!("{}/away", other.url())));
    home.push(vectors());
    let headers = json!({"headers": {"x-tenant": "t"}});
    let embedder = client().embedder(&entry(&home, headers)).unwrap();
    embedder.embed(EmbedRequest::texts(["a"])).await.unwrap();
    assert_eq!(embedder.scope_snapshot().counters.admitted, 3);
    let (first, back) = (&home.requests()[0], &home.requests()[1]);
    assert!(first.header("authorization").is_some() && first.header("x-tenant").is_some());
    for hop in [&other.requests()[0], back] {
        assert!(hop.header("authorization").is_none() && hop.header("x-tenant").is_none());
        assert_eq!((hop.method.as_str(), &hop.body), ("POST", &first.body));
    }
}

#[tokio::test]
async fn a_slot_is_free_only_when_the_body_has_been_read() {
    let gate = Gate::new();
    let body = r#"{"data": [{"index": 0, "embedding": [1.0]}]}"#;
    let slow = Reply::stream(200, "application/json")
        .chunk(body[..10].to_owned())
        .pause(&gate)
        .chunk(body[10..].to_owned());
    let server = Server::start([slow, vectors()]);
    let embedder = client()
        .embedder(&entry(
            &server,
            json!({"rate_limit": {"max_concurrency": 1}}),
        ))
        .unwrap();
    let first = tokio::spawn({
        let embedder = embedder.clone();
        async move { embedder.embed(EmbedRequest::texts(["a"])).await }
    });
    server.wait_for_requests(1).await;
    let mut second = Box::pin(embedder.embed(EmbedRequest::texts(["b"])));
    assert!(futures::poll!(second.as_mut()).is_pending());
    let scope = embedder.scope_snapshot();
    assert_eq!(
        (scope.active, scope.queued, server.requests().len()),
        (1, 1, 1)
    );
    gate.open();
    first.await.unwrap().unwrap();
    second.await.unwrap();
    assert_eq!(server.peak_open_requests(), 1);
}

#[tokio::test]
async fn a_dropped_call_drops_its_connection_and_then_its_permit() {
    let server = Server::start([Reply::hang(), vectors()]);
    let embedder = client()
        .embedder(&entry(
            &server,
            json!({"rate_limit": {"max_concurrency": 1}}),
        ))
        .unwrap();
    let call = tokio::spawn({
        let embedder = embedder.clone();
        async move { embedder.embed(EmbedRequest::texts(["a"])).await }
    });
    server.wait_for_requests(1).await;
    assert_eq!(embedder.scope_snapshot().active, 1);
    call.abort();
    assert!(call.await.unwrap_err().is_cancelled());
    server.wait_for_disconnect().await;
    assert_eq!(embedder.scope_snapshot().active, 0);
    embedder.embed(EmbedRequest::texts(["b"])).await.unwrap();
}

#[tokio::test]
async fn a_429_cools_the_scope_at_its_head_before_its_body_has_come() {
    let gate = Gate::new();
    let slow = Reply::stream(429, "application/json")
        .header("retry-after", "30")
        .pause(&gate)
        .chunk("{}");
    let server = Server::start([slow]);
    let embedder = client()
        .embedder(&entry(&server, json!({"timeout_ms": 5000})))
        .unwrap();
    let call = tokio::spawn({
        let embedder = embedder.clone();
        async move { embedder.embed(EmbedRequest::texts(["a"])).await }
    });
    // The head is out, the body is not: whoever asks now is refused for its deadline, with what was told.
    while embedder.scope_snapshot().cooldown_remaining.is_none() {
        tokio::task::yield_now().await;
    }
    assert_eq!(embedder.scope_snapshot().active, 1);
    let e = embedder
        .embed(EmbedRequest::texts(["b"]))
        .await
        .unwrap_err();
    assert_eq!(e.kind(), Kind::DeadlineExceeded);
    assert!(e.retry_after().is_some_and(|w| w > Duration::from_secs(20)));
    gate.open();
    let e = call.await.unwrap().unwrap_err();
    assert_eq!(
        (e.kind(), e.status(), e.attempts()),
        (Kind::RateLimited, Some(429), 1)
    );
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn calls_are_send_and_can_be_spawned() {
    fn spawnable<T: Send + 'static>(_: &T) {}
    let server = Server::always(vectors());
    let embedder = client().embedder(&entry(&server, json!({}))).unwrap();
    let call = async move { embedder.embed(EmbedRequest::texts(["a"])).await };
    spawnable(&call);
    call.await.unwrap();
}

#[tokio::test]
async fn what_cannot_be_requested_is_refused_before_any_wait_and_counts_no_attempt() {
    let server = Server::start([]);
    let long = json!({"url": format!("{}/{}", server.url(), "x".repeat(70_000))});
    let embedder = client().embedder(&entry(&server, long)).unwrap();
    let e = embedder
        .embed(EmbedRequest::texts(["a"]))
        .await
        .unwrap_err();
    assert_eq!((e.kind(), e.attempts()), (Kind::InvalidRequest, 0));
    assert_eq!(embedder.scope_snapshot().counters.admitted, 0);
}
