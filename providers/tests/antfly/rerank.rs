//! Reranking documents with media.

use antfly_providers::rerank::Document;
use antfly_providers::testing::{Reply, Server};
use antfly_providers::{Kind, Part, RerankRequest};
use serde_json::json;

use crate::support::*;

fn request() -> RerankRequest {
    let picture = Document::Parts(vec![
        Part::text("b"),
        Part::image_url("https://h/x.png"),
        Part::media(vec![1, 2, 3], "image/png"),
    ]);
    RerankRequest::new("q", [Document::from("a"), picture])
}

#[tokio::test]
async fn documents_with_media_go_to_their_own_path_and_come_back_best_first() {
    let server = Server::start([Reply::json(
        200,
        json!({"object": "list", "model": "m", "data": [
            {"object": "rerank.score", "index": 0, "score": 0.1},
            {"object": "rerank.score", "index": 1, "score": 0.9}],
            "usage": {"prompt_tokens": 7, "completion_tokens": 0, "total_tokens": 7}}),
    )]);
    let reranker = reranker(&server, json!({"api_key": KEY}));
    let ranking = reranker.rerank(request()).await.unwrap();
    let order: Vec<_> = ranking.results.iter().map(|r| (r.index, r.score)).collect();
    assert_eq!(order, [(1, 0.9), (0, 0.1)]);
    assert_eq!(ranking.usage.unwrap().input_tokens, Some(7));
    let sent = &server.requests()[0];
    assert_eq!(sent.path, "/ai/v1/rerank_multimodal");
    let bearer = format!("Bearer {KEY}");
    assert_eq!(sent.header("authorization"), Some(bearer.as_str()));
    assert_eq!(
        sent.json(),
        json!({"model": "m", "query": "q", "documents": [
            {"content": "a"},
            {"content": [
                {"type": "text", "text": "b"},
                {"type": "image_url", "image_url": {"url": "https://h/x.png"}},
                {"type": "media", "data": "AQID", "mime_type": "image/png"},
            ]},
        ]})
    );
}

#[tokio::test]
async fn a_server_without_an_encoder_for_images_says_so_and_is_not_asked_again() {
    let server = Server::start([Reply::json(501, json!({"error": "no image encoder"}))]);
    let e = reranker(&server, json!({}))
        .rerank(request())
        .await
        .unwrap_err();
    assert_eq!((e.kind(), e.status()), (Kind::Unsupported, Some(501)));
    assert_eq!((e.message(), e.attempts()), ("no image encoder", 1));
}

#[tokio::test]
async fn an_older_servers_scores_are_read_here_too_and_counts_are_checked() {
    let server = Server::start([
        Reply::json(200, json!({"scores": [0.1, 0.9]})),
        Reply::json(200, json!({"scores": [0.1]})),
    ]);
    let reranker = reranker(&server, json!({}));
    let ranking = reranker.rerank(request()).await.unwrap();
    assert_eq!(ranking.results[0].index, 1);
    let e = reranker.rerank(request()).await.unwrap_err();
    assert_eq!(e.kind(), Kind::InvalidResponse);
}

#[tokio::test]
async fn media_under_a_token_budget_is_refused_before_any_network() {
    let server = Server::start([]);
    let e = reranker(
        &server,
        json!({"rate_limit": {"tokens_per_minute": 100_000}}),
    )
    .rerank(request())
    .await
    .unwrap_err();
    assert_eq!((e.kind(), e.item()), (Kind::MediaNotAllowed, Some(1)));
    assert!(server.requests().is_empty());
}
