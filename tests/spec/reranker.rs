//! The remote Antfly reranker's key.

use std::sync::Arc;

use antfly_framework::secret::MemoryStore;
use antfly_framework::{Kind, Operation};
use serde_json::{Value, json};

use crate::support::*;

const KEY: &str = "ANTFLY_INFERENCE_API_KEY";

/// The `authorization` header of a call, and the name of the credential's source.
async fn sent(world: &World, more: Value) -> (Option<String>, String) {
    let server = good();
    let caller = world.open(Operation::Rerank, &server, more);
    caller.once().await.unwrap();
    let header = server.requests()[0]
        .header("authorization")
        .map(str::to_owned);
    let key = caller.snap().key;
    let source = key.fields().find(|(name, _)| name == "credential").unwrap();
    (header, source.1.into_owned())
}

#[tokio::test]
async fn api_key_is_sent_as_a_bearer_token_secret_references_included() {
    let store = MemoryStore::new("vault", [("antfly.key", "from-store")]);
    let env = [(KEY, "from-env"), ("OTHER_KEY", "from-reference")];
    let world = World::build(env, |b| b.secret_store(Arc::new(store)));

    let (header, source) = sent(&world, json!({ "api_key": "literal" })).await;
    assert_eq!(header.as_deref(), Some("Bearer literal"));
    assert!(source.starts_with("literal:"), "{source}");

    let (header, source) = sent(&world, json!({ "api_key": "${secret:antfly.key}" })).await;
    assert_eq!(header.as_deref(), Some("Bearer from-store"));
    assert_eq!(source, "secret:vault:antfly.key");

    let (header, source) = sent(&world, json!({ "api_key": "${secret:other.key}" })).await;
    assert_eq!(header.as_deref(), Some("Bearer from-reference"));
    assert_eq!(source, "secret:env:OTHER_KEY");
}

#[tokio::test]
async fn without_an_api_key_the_inference_key_of_the_environment_is_used() {
    let (header, source) = sent(&World::with_env([(KEY, "from-env")]), json!({})).await;
    assert_eq!(header.as_deref(), Some("Bearer from-env"));
    assert_eq!(source, format!("env:{KEY}"));
}

#[tokio::test]
async fn with_no_key_anywhere_requests_are_anonymous() {
    for world in [World::new(), World::with_env([(KEY, "")])] {
        let (header, source) = sent(&world, json!({})).await;
        assert_eq!(header, None);
        assert_eq!(source, "anonymous");
    }
    // Another provider's key is not this one's.
    let world = World::with_env([("OPENAI_API_KEY", "not-for-you")]);
    assert_eq!(sent(&world, json!({})).await.0, None);
}

#[tokio::test]
async fn anonymous_requests_share_an_anonymous_scope() {
    let world = World::new();
    let server = good();
    let one_a_minute = || json!({ "rate_limit": { "requests_per_minute": 1 } });
    let one = world.open(Operation::Rerank, &server, one_a_minute());
    let two = world.open(Operation::Rerank, &server, one_a_minute());
    one.once().await.unwrap();
    let waiting = two.call();
    two.queued(1).await;
    // One with a key is not among them.
    let mut more = one_a_minute();
    more["api_key"] = "k".into();
    world
        .open(Operation::Rerank, &server, more)
        .once()
        .await
        .unwrap();
    assert_eq!(world.elapsed(), secs(0));
    two.still_queued(1).await;
    world.clock.advance(secs(60));
    done(waiting).await.unwrap();
}

#[tokio::test]
async fn the_credential_that_is_sent_is_the_one_of_the_quota() {
    let world = World::with_env([(KEY, "from-env")]);
    let server = good();
    let open = |key: Option<&str>| {
        let more = json!({ "api_key": key, "rate_limit": { "requests_per_minute": 1 } });
        world.open(Operation::Rerank, &server, more)
    };
    for key in [Some("a"), Some("b"), None] {
        open(key).once().await.unwrap();
    }
    assert_eq!(world.elapsed(), secs(0));
    // Each has used its own quota up, and only its own.
    let callers = [open(Some("a")), open(Some("b")), open(None)];
    for caller in &callers {
        let waiting = caller.call();
        caller.queued(1).await;
        waiting.abort();
    }
    assert_eq!(server.requests().len(), 3);
    let sent = server.requests();
    let sent: Vec<_> = sent
        .iter()
        .map(|r| r.header("authorization").unwrap())
        .collect();
    assert_eq!(sent, ["Bearer a", "Bearer b", "Bearer from-env"]);
}

#[test]
fn empty_explicit_keys_are_rejected_and_the_way_out_is_told() {
    for empty in ["", " ", "\t\n"] {
        let error = refused(try_entry(Operation::Rerank, json!({ "api_key": empty })));
        assert_eq!(error.kind(), Kind::Config);
        assert!(
            error.message().starts_with("rerankers.one.api_key: "),
            "{error}"
        );
        assert!(error.message().contains("leave the setting out"), "{error}");
    }
    let error = refused(try_entry(
        Operation::Rerank,
        json!({ "api_key": "${secret:}" }),
    ));
    assert!(
        error.message().starts_with("rerankers.one.api_key: "),
        "{error}"
    );
    // Also where the emptiness is in a key made in Rust.
    let world = World::with_env([(KEY, "from-env")]);
    let mut entry = entry(Operation::Rerank, json!({}));
    entry.api_key = Some(antfly_framework::config::KeySetting::Literal("  ".into()));
    let error = refused(world.client.check(&entry));
    assert_eq!(error.kind(), Kind::Config);
    assert!(error.message().contains("api_key"), "{error}");
}

#[test]
fn an_explicit_reference_that_leads_nowhere_is_no_reason_to_use_the_default_source() {
    let world = World::with_env([(KEY, "from-env")]);
    for (operation, field) in [
        (Operation::Rerank, "rerankers.one.api_key"),
        (Operation::Embed, "embedders.one.api_key"),
    ] {
        let entry = entry(operation, json!({ "api_key": "${secret:missing}" }));
        let error = refused(world.client.check(&entry));
        assert_eq!(error.kind(), Kind::Config);
        assert!(error.message().starts_with(field), "{error}");
    }
}
