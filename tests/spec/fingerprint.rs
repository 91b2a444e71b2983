//! Stored vectors and limits.

use antfly_framework::Operation;
use serde_json::{Value, json};

use crate::support::*;

fn fingerprint(mut more: Value) -> String {
    if more.get("api_key").is_none() {
        more["api_key"] = "k".into();
    }
    let checked = World::new().check(Operation::Embed, more);
    checked.fingerprint.unwrap()
}

#[test]
fn changing_embedding_execution_limits_does_not_change_the_fingerprint() {
    let plain = fingerprint(json!({}));
    for more in [
        json!({ "rate_limit": {} }),
        json!({ "rate_limit": { "requests_per_minute": 5 } }),
        json!({ "rate_limit": { "requests_per_minute": 5, "pacing": "completion" } }),
        json!({ "rate_limit": { "requests_per_minute": 5, "burst": 2, "max_concurrency": 3, "tokens_per_minute": 4000 } }),
        json!({ "requests_per_minute": 5 }),
        json!({ "requests_per_minute": 5, "burst": 2 }),
        json!({ "retry": { "max_attempts": 9 } }),
        json!({ "timeout_ms": 5 }),
        json!({ "batch_size": 5 }),
        json!({ "api_key": "another" }),
        json!({ "max_response_bytes": 5 }),
        json!({ "url": "https://api.openai.com/v1" }),
    ] {
        assert_eq!(fingerprint(more.clone()), plain, "{more}");
    }
}

#[test]
fn what_shapes_the_vectors_does_change_it() {
    let mut all: Vec<_> = [
        json!({}),
        json!({ "model": "n" }),
        json!({ "dimensions": 256 }),
        json!({ "dimensions": 512 }),
        json!({ "url": "https://elsewhere.example/v1" }),
        json!({ "extra_body": { "flavour": 1 } }),
    ]
    .into_iter()
    .map(fingerprint)
    .collect();
    let count = all.len();
    all.sort();
    all.dedup();
    assert_eq!(all.len(), count);
}

#[test]
fn only_embedders_have_one() {
    for operation in [Operation::Generate, Operation::Rerank] {
        let checked = World::new().check(operation, json!({ "api_key": "k" }));
        assert_eq!(checked.fingerprint, None);
    }
}
