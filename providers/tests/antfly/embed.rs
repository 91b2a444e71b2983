//! Dense embeddings: what is sent, and what is made of the answer.

use antfly_providers::testing::{Reply, Server};
use antfly_providers::{EmbedRequest, Kind, Operation};
use serde_json::{Value, json};

use crate::support::*;

#[tokio::test]
async fn texts_go_out_as_openai_sends_them_and_vectors_come_back_by_index() {
    let server = Server::start([Reply::json(
        200,
        json!({"object": "list", "model": "m", "usage": {"prompt_tokens": 3, "total_tokens": 3},
            "data": [{"index": 1, "embedding": [2.0, 3.0]}, {"index": 0, "embedding": [0.5, 1.0]}]}),
    )
    .header("x-request-id", "req-1")]);
    let embedder = embedder(&server, json!({"dimensions": 2}));
    let vectors = embedder
        .embed(EmbedRequest::texts(["a", "b"]))
        .await
        .unwrap();
    assert_eq!(vectors.as_flat(), &[0.5, 1.0, 2.0, 3.0]);
    assert_eq!(vectors.request_id.as_deref(), Some("req-1"));
    assert_eq!(vectors.usage.unwrap().input_tokens, Some(3));
    let sent = &server.requests()[0];
    assert_eq!(sent.path, "/ai/v1/embed");
    assert_eq!(sent.header("authorization"), None);
    assert_eq!(
        sent.json(),
        json!({"model": "m", "input": ["a", "b"], "dimensions": 2})
    );
}

async fn sent(extra: Value) -> Value {
    let server = Server::with(one_each);
    let embedder = embedder(&server, extra);
    embedder.embed(EmbedRequest::texts(["a"])).await.unwrap();
    server.requests()[0].json()
}

#[tokio::test]
async fn a_task_has_googles_name_whichever_field_says_it() {
    for (field, name, task) in [
        ("task_type", "RETRIEVAL_QUERY", "RETRIEVAL_QUERY"),
        ("task_type", "SEMANTIC_SIMILARITY", "SEMANTIC_SIMILARITY"),
        ("input_type", "search_query", "RETRIEVAL_QUERY"),
        ("input_type", "search_document", "RETRIEVAL_DOCUMENT"),
        ("input_type", "classification", "CLASSIFICATION"),
        ("input_type", "clustering", "CLUSTERING"),
    ] {
        assert_eq!(
            sent(json!({field: name})).await,
            json!({"model": "m", "input": ["a"], "task_type": task})
        );
    }
}

#[tokio::test]
async fn extra_fields_are_merged_and_owned_ones_refused() {
    assert_eq!(
        sent(json!({"extra_body": {"error_policy": "fail_fast"}, "encoding_format": "float"}))
            .await,
        json!({"model": "m", "input": ["a"], "error_policy": "fail_fast"})
    );
    for (extra, field) in [
        (json!({"extra_body": {"input": "x"}}), "extra_body.input"),
        (
            json!({"extra_body": {"input_type": "x"}}),
            "extra_body.input_type",
        ),
        (json!({"truncate": "END"}), "truncate"),
        (json!({"encoding_format": "base64"}), "encoding_format"),
        (
            json!({"task_type": "CLUSTERING", "input_type": "clustering"}),
            "input_type",
        ),
        (json!({"region": "r"}), "region"),
    ] {
        let e = client()
            .embedder(&entry(Operation::Embed, extra).unwrap())
            .unwrap_err();
        assert_eq!(e.kind(), Kind::Config);
        assert!(
            e.message().starts_with(&format!("embedders.w.{field}: ")),
            "{e}"
        );
    }
}

#[tokio::test]
async fn many_texts_are_split_and_keep_their_order() {
    let server = Server::with(|request| {
        let texts = request.json()["input"].as_array().unwrap().clone();
        let number = |t: &Value| t.as_str().unwrap().parse::<f64>().unwrap();
        answer(&texts.iter().map(|t| json!([number(t)])).collect::<Vec<_>>())
    });
    let texts: Vec<String> = (0..600).map(|n| n.to_string()).collect();
    let vectors = embedder(&server, json!({}))
        .embed(EmbedRequest::texts(texts))
        .await
        .unwrap();
    assert!(
        vectors
            .as_flat()
            .iter()
            .enumerate()
            .all(|(n, v)| *v == n as f32)
    );
    let sizes: Vec<usize> = server
        .requests()
        .iter()
        .map(|r| r.json()["input"].as_array().unwrap().len())
        .collect();
    assert_eq!(sizes.iter().sum::<usize>(), 600);
    assert_eq!(sizes.iter().max(), Some(&256));
}

#[tokio::test]
async fn the_key_is_sent_as_a_bearer_token_and_never_shown() {
    let server = Server::start([
        answer(&[json!([1.0])]),
        Reply::json(401, json!({"error": format!("bad key {KEY}")})),
    ]);
    let client = builder(&[("ANTFLY_INFERENCE_API_KEY", KEY)])
        .build()
        .unwrap();
    let entry = entry(Operation::Embed, json!({"url": server.url()})).unwrap();
    let embedder = client.embedder(&entry).unwrap();
    embedder.embed(EmbedRequest::texts(["a"])).await.unwrap();
    let bearer = format!("Bearer {KEY}");
    assert_eq!(
        server.requests()[0].header("authorization"),
        Some(bearer.as_str())
    );
    let e = embedder
        .embed(EmbedRequest::texts(["a"]))
        .await
        .unwrap_err();
    assert_eq!(e.kind(), Kind::Auth);
    assert!(!format!("{e} {e:?} {embedder:?}").contains("0123456789"));
}
