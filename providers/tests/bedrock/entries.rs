//! What a configuration says about a Bedrock entry, through the front door.

use antfly_framework::testing::Server;
use antfly_framework::{EmbedRequest, Kind, Operation};
use serde_json::json;

use crate::support::{client, embedder, entry, env, keys, try_entry, vector};

#[tokio::test]
async fn entries_share_a_scope_when_region_and_source_are_the_same_and_only_then() {
    let server = Server::with(|_| vector());
    let client = client(keys());
    let open = |extra| {
        client
            .embedder(&entry(Operation::Embed, &server, extra))
            .unwrap()
    };
    let first = open(json!({"rate_limit": {"requests_per_minute": 60}}));
    let same = open(json!({"region": "us-east-1", "rate_limit": {"requests_per_minute": 60}}));
    let other = open(json!({"region": "eu-west-1"}));
    assert_eq!(first.scope_snapshot().key, same.scope_snapshot().key);
    assert_ne!(first.scope_snapshot().key, other.scope_snapshot().key);
    let conflict = client
        .embedder(&entry(Operation::Embed, &server, json!({})))
        .unwrap_err();
    assert_eq!(conflict.kind(), Kind::PolicyConflict);
    let key = other.scope_snapshot().key.to_string();
    assert!(
        key.contains("eu-west-1") && key.contains("env:AWS_ACCESS_KEY_ID"),
        "{key}"
    );
}

#[tokio::test]
async fn a_prefix_of_its_own_names_the_environments_defaults() {
    let server = Server::with(|_| vector());
    let env = env(&[
        ("AWS_ACCESS_KEY_ID", "id"),
        ("AWS_SECRET_ACCESS_KEY", "secret"),
        ("ANTFLY_BEDROCK_EMBED_REQUESTS_PER_MINUTE", "6000"),
    ]);
    let embedder = embedder(&client(env), &server, json!({}));
    assert_eq!(embedder.policy().requests_per_minute(), Some(6000));
    embedder.embed(EmbedRequest::texts(["a"])).await.unwrap();
}

#[tokio::test]
async fn resolving_an_entry_opens_nothing() {
    let server = Server::start([]);
    let env = env(&[("AWS_EC2_METADATA_SERVICE_ENDPOINT", &server.url())]);
    let client = client(env);
    for operation in [Operation::Embed, Operation::Generate, Operation::Rerank] {
        let checked = client.check(&entry(operation, &server, json!({}))).unwrap();
        let credential = checked
            .scope
            .iter()
            .find(|(name, _)| *name == "credential")
            .unwrap();
        assert_eq!(credential.1, format!("aws-instance-role:{}", server.url()));
    }
    let embedder = client
        .embedder(&entry(Operation::Embed, &server, json!({})))
        .unwrap();
    drop(embedder);
    assert_eq!(server.connections(), 0);
}

#[test]
fn a_zero_in_a_limit_is_an_error_here_as_everywhere() {
    let e = try_entry(Operation::Embed, json!({"rate_limit": {"burst": 0}})).unwrap_err();
    assert!(
        e.kind() == Kind::Config && e.message().starts_with("embedders.w.rate_limit.burst"),
        "{e}"
    );
}
