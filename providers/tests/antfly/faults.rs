//! Faults as this server tells them: `{"error": "text"}` and a status, or inside a 200. The framing and the shapes that are
//! OpenAI's are tested on that wire.

use antfly_providers::testing::{Reply, Server};
use antfly_providers::{EmbedRequest, Error, GenerateRequest, Kind};
use serde_json::{Value, json};

use crate::support::*;

/// What an embedder, a generator and a stream make of these replies, and how many requests it took.
async fn told(replies: impl Fn() -> Vec<Reply>) -> [(Error, usize); 3] {
    let server = Server::start(replies());
    let embed = embedder(&server, json!({}))
        .embed(EmbedRequest::texts(["a", "b"]))
        .await
        .unwrap_err();
    let embed = (embed, server.requests().len());
    let server = Server::start(replies());
    let generator = generator(&server, json!({}));
    let plain = generator
        .generate(GenerateRequest::prompt("a"))
        .await
        .unwrap_err();
    let plain = (plain, server.requests().len());
    let server = Server::start(replies());
    let generator = self::generator(&server, json!({}));
    let stream = generator
        .stream(GenerateRequest::prompt("a"))
        .await
        .unwrap_err();
    [embed, plain, (stream, server.requests().len())]
}

fn says(status: u16) -> Reply {
    Reply::json(status, json!({"error": "model m is not here"}))
}

#[tokio::test]
async fn statuses_have_their_kinds_and_only_some_are_asked_again() {
    for (status, kind, requests) in [
        (400, Kind::InvalidRequest, 1),
        (401, Kind::Auth, 1),
        (404, Kind::NotFound, 1),
        (413, Kind::RequestTooLarge, 1),
        (429, Kind::RateLimited, 2),
        (500, Kind::Server, 2),
        (501, Kind::Unsupported, 1),
        (503, Kind::Overloaded, 2),
    ] {
        for (e, seen) in told(|| vec![says(status), says(status)]).await {
            assert_eq!((e.kind(), seen), (kind, requests), "{status}: {e}");
            assert_eq!(e.message(), "model m is not here");
            assert_eq!(e.status(), Some(status));
        }
    }
}

#[tokio::test]
async fn e06_an_error_inside_a_200_is_one() {
    let error = || Reply::json(200, json!({"error": "out of memory"}));
    let server = Server::start([error(), error()]);
    let e = embedder(&server, json!({}))
        .embed(EmbedRequest::texts(["a"]))
        .await
        .unwrap_err();
    assert_eq!((e.kind(), e.message()), (Kind::Server, "out of memory"));
    let server = Server::start([error(), error()]);
    let e = generator(&server, json!({}))
        .generate(GenerateRequest::prompt("a"))
        .await
        .unwrap_err();
    assert_eq!((e.kind(), e.message()), (Kind::Server, "out of memory"));
}

#[tokio::test]
async fn b05_an_error_inside_a_stream_ends_it_as_the_error_it_is() {
    let half = json!({"choices": [{"index": 0, "delta": {"content": "half"}}]}).to_string();
    let error = json!({"error": "out of memory"}).to_string();
    let server = Server::start([Reply::sse([half, error])]);
    let stream = generator(&server, json!({}))
        .stream(GenerateRequest::prompt("a"))
        .await
        .unwrap();
    let e = stream.collect_generation().await.unwrap_err();
    assert_eq!((e.kind(), e.message()), (Kind::Server, "out of memory"));
    assert_eq!(server.requests().len(), 1, "text was out already");
}

async fn embedded(data: Value) -> Error {
    let server = Server::start([Reply::json(200, json!({"data": data}))]);
    embedder(&server, json!({"dimensions": 2}))
        .embed(EmbedRequest::texts(["a", "b"]))
        .await
        .unwrap_err()
}

#[tokio::test]
async fn h02_h04_h05_an_answer_that_contradicts_the_request_is_refused() {
    let item = |index: usize, embedding: Value| json!({"index": index, "embedding": embedding});
    for data in [
        json!([]),
        json!([item(0, json!([1, 2]))]),
        json!([item(0, json!([1, 2])), item(2, json!([1, 2]))]),
        json!([item(0, json!([1, 2])), item(0, json!([1, 2]))]),
        json!([item(0, json!([1, 2])), item(1, json!([1]))]),
        json!([item(0, json!([1, 2, 3])), item(1, json!([1, 2, 3]))]),
        json!([item(0, json!([])), item(1, json!([]))]),
        json!([item(0, json!([1, null])), item(1, json!([1, 2]))]),
        json!(null),
    ] {
        let e = embedded(data.clone()).await;
        assert_eq!(e.kind(), Kind::InvalidResponse, "{data}: {e}");
        assert_eq!(e.attempts(), 1);
    }
}

#[tokio::test]
async fn h17_an_empty_text_is_refused_before_sending_and_named() {
    let server = Server::start([]);
    let e = embedder(&server, json!({}))
        .embed(EmbedRequest::texts(["a", "", "b"]))
        .await
        .unwrap_err();
    assert_eq!((e.kind(), e.item()), (Kind::InvalidRequest, Some(1)));
    assert!(server.requests().is_empty());
}

#[tokio::test]
async fn c08_c12_an_answer_without_choices_is_an_error() {
    for body in [json!({"choices": null}), json!({"id": "g", "choices": []})] {
        let server = Server::start([Reply::json(200, &body)]);
        let e = generator(&server, json!({}))
            .generate(GenerateRequest::prompt("a"))
            .await
            .unwrap_err();
        assert_eq!(e.kind(), Kind::InvalidResponse, "{body}");
    }
}

#[tokio::test]
async fn f01_a_429_with_a_hint_cools_the_scope_of_all_who_share_it() {
    let server =
        Server::start([Reply::json(429, json!({"error": "slow"})).header("retry-after", "30")]);
    let one = client();
    let entry = entry(
        antfly_providers::Operation::Embed,
        json!({"url": server.url(), "timeout_ms": 5000}),
    )
    .unwrap();
    let (first, second) = (one.embedder(&entry).unwrap(), one.embedder(&entry).unwrap());
    let e = first.embed(EmbedRequest::texts(["a"])).await.unwrap_err();
    assert!(e.retry_after().unwrap().as_secs() >= 29, "{e}");
    let e = second.embed(EmbedRequest::texts(["a"])).await.unwrap_err();
    assert_eq!(e.kind(), Kind::DeadlineExceeded);
    assert_eq!(server.requests().len(), 1);
}
