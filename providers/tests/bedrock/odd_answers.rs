//! Answers that are odd: exceptions in their place, ends of streams out of order, events that can't be read after the end.

use std::time::Duration;

use antfly_framework::testing::{Reply, Server};
use antfly_framework::{
    EmbedRequest, FinishReason, GenerateRequest, Kind, Operation, RerankRequest,
};
use serde_json::{Value, json};

use crate::frames::{event, reply, stop, text, usage, whole};
use crate::support::{answer, client, embedder, generator, keys, reranker, vector};

fn ask() -> GenerateRequest {
    GenerateRequest::prompt("hi")
}

#[tokio::test]
async fn an_exception_under_a_status_of_success_is_what_it_says_and_retried_as_such() {
    let client = client(keys());
    let slow = || {
        let body =
            json!({"__type": "com.amazon.coral#ThrottlingException", "message": "slow down"});
        Reply::json(200, body)
    };
    let results = json!({"results": [{"index": 0, "relevance_score": 0.5}]});
    for (operation, good) in [
        (Operation::Embed, vector()),
        (Operation::Generate, answer("ok")),
        (Operation::Rerank, Reply::json(200, results)),
    ] {
        let server = Server::start([slow(), good, slow(), slow(), slow()]);
        let call = async || match operation {
            Operation::Embed => {
                let embedder = embedder(&client, &server, json!({}));
                embedder.embed(EmbedRequest::texts(["a"])).await.map(drop)
            }
            Operation::Rerank => {
                let reranker = reranker(&client, &server, json!({}));
                reranker
                    .rerank(RerankRequest::new("q", ["a"]))
                    .await
                    .map(drop)
            }
            _ => {
                let generator = generator(&client, &server, json!({}));
                generator.generate(ask()).await.map(drop)
            }
        };
        call().await.unwrap();
        let e = call().await.unwrap_err();
        assert_eq!((e.kind(), e.attempts()), (Kind::RateLimited, 3));
        assert!(
            e.message().contains("slow down") && e.status() == Some(200),
            "{e}"
        );
        assert_eq!(server.requests().len(), 5);
    }
    let server = Server::start([slow(), whole(&["ok"])]);
    let generator = generator(&client, &server, json!({}));
    let stream = generator.stream(ask()).await.unwrap();
    assert_eq!(stream.collect_generation().await.unwrap().text, "ok");
}

#[tokio::test]
async fn j15_an_operation_nobody_knows_is_told_and_not_asked_for_again() {
    let body = json!({"Output": {"__type": "com.amazon.coral.service#UnknownOperationException"}, "Version": "1.0"});
    let server = Server::start([Reply::json(200, body)]);
    let generator = generator(&client(keys()), &server, json!({}));
    let e = generator.generate(ask()).await.unwrap_err();
    assert_eq!(
        (e.kind(), e.code(), e.attempts()),
        (Kind::InvalidRequest, Some("UnknownOperationException"), 1)
    );
}

#[tokio::test]
async fn b03_what_can_not_be_read_after_the_messages_end_takes_nothing_away() {
    let client = client(keys());
    let counts = |input: Value| event("metadata", json!({"usage": {"inputTokens": input}}));
    for last in [
        counts(json!(5_000_000_000_u64)),
        counts(json!(1.5)),
        b"<html>a page, where a frame was to come</html>".to_vec(),
        u32::MAX.to_be_bytes().to_vec(),
    ] {
        let server = Server::start([reply([text("a"), stop("end_turn"), last])]);
        let generator = generator(&client, &server, json!({}));
        let stream = generator.stream(ask()).await.unwrap();
        let g = stream.collect_generation().await.unwrap();
        assert_eq!(
            (g.text.as_str(), g.finish_reason, g.usage),
            ("a", Some(FinishReason::Stop), None)
        );
        assert_eq!(generator.scope_snapshot().active, 0);
    }
}

#[tokio::test]
async fn metadata_before_the_messages_end_leaves_nothing_to_wait_for() {
    let server = Server::start([reply([text("a"), usage(1, 1), stop("end_turn")]).then_hang()]);
    let generator = generator(&client(keys()), &server, json!({}));
    let stream = generator.stream(ask()).await.unwrap();
    let g = tokio::time::timeout(Duration::from_secs(30), stream.collect_generation());
    let g = g.await.unwrap().unwrap();
    assert_eq!(g.finish_reason, Some(FinishReason::Stop));
    assert_eq!(g.usage.unwrap().total_tokens, Some(2));
}

#[tokio::test]
async fn a_message_that_ends_without_a_reason_has_none() {
    let server = Server::start([reply([
        text("a"),
        event("messageStop", json!({})),
        usage(1, 1),
    ])]);
    let generator = generator(&client(keys()), &server, json!({}));
    let stream = generator.stream(ask()).await.unwrap();
    let g = stream.collect_generation().await.unwrap();
    assert_eq!(
        (g.text.as_str(), g.finish_reason, g.raw_finish_reason),
        ("a", None, None)
    );
}
