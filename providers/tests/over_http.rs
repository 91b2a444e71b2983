//! Both adapters through the front door, over real HTTP on loopback.
#![allow(clippy::unwrap_used)] // A test fails by panicking.
#![cfg(all(feature = "openai", feature = "antfly-reranker"))]

use antfly_providers::testing::{Reply, Server};
use antfly_providers::{
    Client, EmbedRequest, EntryConfig, Env, FinishReason, GenerateRequest, Kind, Limiter,
    Operation, RerankRequest, Time,
};

fn client() -> Client {
    antfly_providers::client_builder()
        .unwrap()
        .limiter(Limiter::new(Time::thread()))
        .env(Env::from_pairs([("OPENAI_API_KEY", "sk-test-0123456789")]))
        .build()
        .unwrap()
}

fn entry(operation: Operation, provider: &str, server: &Server) -> EntryConfig {
    let mut entry = EntryConfig::new(operation, provider, "m").with_url(server.url());
    entry.retry.max_attempts = 1;
    entry
}

#[tokio::test]
async fn openai_embeds_generates_and_streams() {
    let server = Server::start([
        Reply::json(
            200,
            r#"{"data":[{"index":1,"embedding":[2.0]},{"index":0,"embedding":[1.0]}]}"#,
        )
        .header("x-request-id", "req-1"),
        Reply::json(200, include_str!("../src/openai_wire/fixtures/chat.json")),
        Reply::sse(include_str!("../src/openai_wire/fixtures/stream_text.sse").lines()),
    ]);
    let client = client();
    let embedder = client
        .embedder(&entry(Operation::Embed, "openai", &server))
        .unwrap();
    let vectors = embedder
        .embed(EmbedRequest::texts(["a", "b"]))
        .await
        .unwrap();
    assert_eq!(
        (vectors.as_flat(), vectors.request_id.as_deref()),
        (&[1.0, 2.0][..], Some("req-1"))
    );

    let generator = client
        .generator(&entry(Operation::Generate, "openai", &server))
        .unwrap();
    let whole = generator
        .generate(GenerateRequest::prompt("hi"))
        .await
        .unwrap();
    assert_eq!(whole.text, "Hello!");
    let stream = generator
        .stream(GenerateRequest::prompt("hi"))
        .await
        .unwrap();
    let streamed = stream.collect_generation().await.unwrap();
    assert_eq!(
        (streamed.text.as_str(), streamed.finish_reason),
        ("Hello", Some(FinishReason::Stop))
    );

    let requests = server.requests();
    assert_eq!(requests.len(), 3);
    for request in &requests {
        assert_eq!(
            request.header("authorization"),
            Some("Bearer sk-test-0123456789")
        );
    }
}

#[tokio::test]
async fn e09_f11_openais_refusals_keep_kind_and_message_and_lose_the_key() {
    let server = Server::start([
        Reply::json(
            429,
            include_str!("../src/openai_wire/fixtures/error_quota.json"),
        ),
        Reply::json(
            401,
            r#"{"error":{"message":"bad key sk-test-0123456789","code":"invalid_api_key"}}"#,
        ),
        Reply::sse([
            r#"{"error":{"type":"server_error","code":"rate_limit_exceeded","message":"slow"}}"#,
        ]),
    ]);
    let generator = client()
        .generator(&entry(Operation::Generate, "openai", &server))
        .unwrap();
    let quota = generator
        .generate(GenerateRequest::prompt("hi"))
        .await
        .unwrap_err();
    assert_eq!(
        (quota.kind(), quota.status()),
        (Kind::QuotaExhausted, Some(429))
    );
    let auth = generator
        .generate(GenerateRequest::prompt("hi"))
        .await
        .unwrap_err();
    assert_eq!(auth.kind(), Kind::Auth);
    assert!(!format!("{auth} {auth:?}").contains("0123456789"));
    let limited = generator
        .stream(GenerateRequest::prompt("hi"))
        .await
        .unwrap_err();
    assert_eq!((limited.kind(), limited.attempts()), (Kind::RateLimited, 1));
}

#[tokio::test]
async fn the_antfly_reranker_ranks_and_refuses_what_contradicts_the_request() {
    let server = Server::start([
        Reply::json(
            200,
            r#"{"data":[{"index":0,"score":0.1},{"index":1,"score":0.9}]}"#,
        ),
        Reply::json(200, r#"{"scores":[0.9,0.1]}"#),
        Reply::json(
            200,
            r#"{"data":[{"index":0,"score":0.1},{"index":3,"score":0.9}]}"#,
        ),
        Reply::json(200, r#"{"data":[{"index":0,"score":0.1}]}"#),
    ]);
    let ranker = client()
        .reranker(&entry(Operation::Rerank, "antfly", &server))
        .unwrap();
    let mut request = RerankRequest::new("q", ["a", "b"]);
    request.top_n = Some(1);
    let best = ranker.rerank(request.clone()).await.unwrap();
    assert_eq!((best.results.len(), best.results[0].index), (1, 1));
    assert_eq!(
        ranker.rerank(request.clone()).await.unwrap().results[0].index,
        0
    );
    // I01 and I04.
    for _ in 0..2 {
        let e = ranker.rerank(request.clone()).await.unwrap_err();
        assert_eq!(e.kind(), Kind::InvalidResponse);
    }
    let sent = server.requests();
    assert_eq!(sent[0].header("authorization"), None);
    assert_eq!(
        sent[0].json(),
        serde_json::json!({"model": "m", "query": "q", "prompts": ["a", "b"]})
    );
}
