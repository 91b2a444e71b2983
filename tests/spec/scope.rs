//! Who shares a scope.

use std::sync::Arc;

use antfly_framework::content::MediaSupport;
use antfly_framework::provider::{Declared, Identity, TokenCost};
use antfly_framework::secret::{CredentialSource, MemoryStore};
use antfly_framework::testing::Server;
use antfly_framework::{Client, Document, Env, Kind, Operation, Policy, ScopeKey, Time};
use serde_json::{Value, json};

use crate::support::*;

fn one_a_minute() -> Value {
    json!({ "rate_limit": { "requests_per_minute": 1 } })
}

/// The scope of an entry for OpenAI's own endpoint.
fn key(world: &World, more: Value) -> ScopeKey {
    world.check(Operation::Embed, more).key
}

#[tokio::test]
async fn two_named_configurations_do_not_get_separate_capacity() {
    for (operation, section) in OPERATIONS
        .into_iter()
        .zip(["embedders", "generators", "rerankers"])
    {
        let world = World::new();
        let server = good();
        let entry = json_entry(operation, at(&server, one_a_minute()));
        let text = json!({ section: { "first": entry, "second": entry } }).to_string();
        let document = Document::parse(&text).unwrap();
        let open = |name| {
            world
                .try_open(document.entry(operation, name).unwrap())
                .unwrap()
        };
        let (one, two) = (open("first"), open("second"));
        one.once().await.unwrap();
        let call = two.call();
        two.queued(1).await;
        assert_eq!(one.snap().key, two.snap().key);
        assert_eq!(one.snap().leases, 2);
        world.clock.advance(secs(60) - nanos(1));
        two.still_queued(1).await;
        world.clock.advance(nanos(1));
        done(call).await.unwrap();
        assert_eq!(world.starts(2).await, [secs(0), secs(60)], "{operation}");
    }
}

#[tokio::test]
async fn callers_of_two_clients_in_one_process_share_a_quota() {
    let world = World::new();
    let server = good();
    let other = Client::builder()
        .registry(antfly_providers::registry().unwrap())
        .limiter(world.client.limiter().clone())
        .env(Env::empty())
        .build()
        .unwrap();
    let one = world.embedder(&server, one_a_minute());
    let entry = entry(Operation::Embed, at(&server, one_a_minute()));
    let two = Caller::Embedder(other.embedder(&entry).unwrap());
    one.once().await.unwrap();
    let call = two.call();
    two.queued(1).await;
    world.clock.advance(secs(60));
    done(call).await.unwrap();
}

#[test]
fn the_scopes_are_the_processs_own_unless_a_limiter_is_given() {
    let client = || {
        let registry = antfly_providers::registry().unwrap();
        Client::builder().registry(registry).env(Env::empty())
    };
    let mut more = one_a_minute();
    more["url"] = "http://127.0.0.1:9".into();
    more["model"] = "only-of-this-test".into();
    let limited = entry(Operation::Embed, more.clone());
    more["rate_limit"] = json!({});
    let unlimited = entry(Operation::Embed, more);
    let (one, two) = (client().build().unwrap(), client().build().unwrap());
    let handle = one.embedder(&limited).unwrap();
    let error = refused(two.embedder(&unlimited));
    assert_eq!(error.kind(), Kind::PolicyConflict);
    // With a clock of its own a client has a limiter of its own.
    let apart = client().time(Time::manual().0).build().unwrap();
    assert!(apart.embedder(&unlimited).is_ok());
    drop(handle);
    assert!(two.embedder(&unlimited).is_ok());
}

#[test]
fn an_explicit_default_endpoint_and_an_omitted_one_are_the_same_scope() {
    let world = World::new();
    let omitted = key(&world, json!({ "api_key": "k" }));
    for url in [
        "https://api.openai.com",
        "https://api.openai.com/",
        "https://api.openai.com/v1",
        "https://api.openai.com/v1/",
        "https://api.openai.com:443/v1",
        "HTTPS://API.OpenAI.com/v1",
    ] {
        assert_eq!(
            key(&world, json!({ "api_key": "k", "url": url })),
            omitted,
            "{url}"
        );
        let by_env = World::with_env([("OPENAI_BASE_URL", url)]);
        assert_eq!(key(&by_env, json!({ "api_key": "k" })), omitted, "{url}");
    }
    for url in [
        "https://api.openai.com/v2",
        "https://api.openai.com:8443/v1",
        "http://api.openai.com/v1",
        "https://eu.api.openai.com/v1",
    ] {
        assert_ne!(
            key(&world, json!({ "api_key": "k", "url": url })),
            omitted,
            "{url}"
        );
    }
    let rerank = |more| world.check(Operation::Rerank, more).key;
    let default = rerank(json!({ "url": "http://127.0.0.1:8082/ai/v1" }));
    assert_eq!(rerank(json!({})), default);
    let by_env = World::with_env([("ANTFLY_INFERENCE_URL", "http://127.0.0.1:8082/")]);
    assert_eq!(by_env.check(Operation::Rerank, json!({})).key, default);
}

#[test]
fn operation_and_model_tell_scopes_apart() {
    let world = World::new();
    let key = |operation, model| {
        world
            .check(operation, json!({ "api_key": "k", "model": model }))
            .key
    };
    assert_ne!(key(Operation::Embed, "m"), key(Operation::Generate, "m"));
    assert_ne!(key(Operation::Embed, "m"), key(Operation::Embed, "n"));
    assert_eq!(key(Operation::Embed, "m"), key(Operation::Embed, "m"));
}

#[test]
fn the_project_tells_scopes_apart_and_the_organization_does_not() {
    let world = World::new();
    let plain = key(&world, json!({ "api_key": "k" }));
    let project = key(&world, json!({ "api_key": "k", "project": "p" }));
    assert_ne!(plain, project);
    assert_ne!(
        project,
        key(&world, json!({ "api_key": "k", "project": "q" }))
    );
    assert_eq!(
        project,
        key(&world, json!({ "api_key": "k", "project": "p" }))
    );
    assert_eq!(
        plain,
        key(&world, json!({ "api_key": "k", "organization": "o" }))
    );
}

#[test]
fn what_is_no_part_of_the_identity_changes_no_scope() {
    let world = World::new();
    let plain = world
        .check(Operation::Generate, json!({ "api_key": "k" }))
        .key;
    for more in [
        json!({ "rate_limit": { "requests_per_minute": 5 } }),
        json!({ "max_tokens": 5, "temperature": 0.5 }),
        json!({ "timeout_ms": 5, "retry": { "max_attempts": 9 } }),
        json!({ "headers": { "x-team": "blue" } }),
    ] {
        let mut more = more;
        more["api_key"] = "k".into();
        assert_eq!(
            world.check(Operation::Generate, more.clone()).key,
            plain,
            "{more}"
        );
    }
}

#[test]
fn every_declared_field_of_the_identity_counts_region_and_location_included() {
    let declared = |change: fn(&mut Identity), credential: &str| {
        let mut identity = Identity {
            provider: "p".into(),
            endpoint: "https://h/v1".into(),
            operation: Operation::Embed,
            model: "m".into(),
            extra: vec![
                ("project", "a".into()),
                ("region", "r".into()),
                ("location", "l".into()),
            ],
        };
        change(&mut identity);
        let source = CredentialSource::custom(credential);
        Declared::new(identity, source, TokenCost::Text, MediaSupport::None, 1024).scope()
    };
    let changes: [fn(&mut Identity); 9] = [
        |_| {},
        |i| i.provider = "q".into(),
        |i| i.endpoint = "https://i/v1".into(),
        |i| i.operation = Operation::Generate,
        |i| i.model = "n".into(),
        |i| i.extra[0].1 = "b".into(),
        |i| i.extra[1].1 = "s".into(),
        |i| i.extra[2].1 = "k".into(),
        // Nothing collides by what stands inside a value.
        |i| i.extra = vec![("project", "a region=r location=l".into())],
    ];
    let mut keys: Vec<_> = changes
        .iter()
        .map(|change| declared(*change, "c"))
        .collect();
    keys.push(declared(|_| {}, "d"));
    assert_eq!(keys[0], declared(|_| {}, "c"));
    let all = keys.len();
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), all);
}

/// Every way to come by the token `same`, each a source of its own.
fn sources() -> [Value; 4] {
    [
        json!({ "api_key": "same" }),
        json!({ "api_key": "${secret:stored.key}" }),
        json!({ "api_key": "${secret:openai.api_key}" }),
        json!({}),
    ]
}

fn world_of_sources() -> World {
    let store = MemoryStore::new("vault", [("stored.key", "same")]);
    World::build([("OPENAI_API_KEY", "same")], |b| {
        b.secret_store(Arc::new(store))
    })
}

#[tokio::test]
async fn credential_sources_remain_distinct_even_when_they_resolve_to_the_same_token() {
    let world = world_of_sources();
    let server = good();
    // One a minute for each of them, so all go at once.
    for more in sources() {
        let mut more = at(&server, more);
        more["rate_limit"] = json!({ "requests_per_minute": 1 });
        let caller = world.try_open(&entry(Operation::Embed, more)).unwrap();
        caller.once().await.unwrap();
    }
    assert_eq!(world.elapsed(), secs(0));
    assert_eq!(server.requests().len(), 4);
    for request in server.requests() {
        assert_eq!(request.header("authorization"), Some("Bearer same"));
    }
}

#[test]
fn the_same_credential_source_is_the_same_scope_and_its_name_is_no_secret() {
    let world = world_of_sources();
    for more in sources() {
        let (one, two) = (key(&world, more.clone()), key(&world, more));
        assert_eq!(one, two);
        assert!(!one.as_str().contains("same"), "{one:?}");
    }
    // White space around a literal is not another key.
    let trimmed = key(&world, json!({ "api_key": " same " }));
    assert_eq!(trimmed, key(&world, json!({ "api_key": "same" })));
    assert_ne!(trimmed, key(&world, json!({ "api_key": "other" })));
}

#[tokio::test]
async fn rotation_does_not_reset_capacity_and_the_next_attempt_uses_the_new_token() {
    let store = Arc::new(MemoryStore::new("vault", [("the.key", "old")]));
    let world = World::build([], |b| b.secret_store(store.clone()));
    let server = good();
    let more =
        || json!({ "api_key": "${secret:the.key}", "rate_limit": { "requests_per_minute": 1 } });
    let before = world.embedder(&server, more());
    before.once().await.unwrap();
    let one = before.call();
    before.queued(1).await;
    store.set("the.key", "new");
    // A handle made after the rotation stands in the same line.
    let after = world.embedder(&server, more());
    let two = after.call();
    before.queued(2).await;
    before.still_queued(2).await;
    for (left, call) in [(1, one), (0, two)] {
        world.clock.advance(secs(60));
        before.queued(left).await;
        done(call).await.unwrap();
    }
    let starts = [secs(0), secs(60), secs(120)];
    assert_eq!(world.starts(3).await, starts);
    let sent: Vec<_> = (server.requests().iter())
        .map(|request| request.header("authorization").unwrap().to_owned())
        .collect();
    assert_eq!(sent, ["Bearer old", "Bearer new", "Bearer new"]);
}

#[tokio::test]
async fn a_retry_uses_the_rotated_token_in_the_same_scope() {
    let store = Arc::new(MemoryStore::new("vault", [("the.key", "old")]));
    let world = World::build([], |b| b.secret_store(store.clone()));
    let rotated = store.clone();
    let server = Server::with(move |request| {
        if request.header("authorization") == Some("Bearer old") {
            rotated.set("the.key", "new");
            return error(503);
        }
        answer(request)
    });
    let caller = world.embedder(&server, json!({ "api_key": "${secret:the.key}" }));
    world.drive(caller.call()).await.unwrap();
    assert_eq!((server.requests().len(), caller.admitted()), (2, 2));
}

#[tokio::test]
async fn a_source_that_lost_its_key_is_an_error_and_no_other_source_takes_over() {
    let store = Arc::new(MemoryStore::new("vault", [("openai.api_key", "stored")]));
    let world = World::build([("OPENAI_API_KEY", "env")], |b| {
        b.secret_store(store.clone())
    });
    let server = good();
    let caller = world.embedder(&server, json!({ "api_key": "${secret:openai.api_key}" }));
    caller.once().await.unwrap();
    store.remove("openai.api_key");
    let error = refused(caller.once().await);
    assert_eq!(error.kind(), Kind::Auth);
    assert!(error.message().contains("embedders.one.api_key"), "{error}");
    // Nothing was sent, and nothing reserved for it.
    assert_eq!((server.requests().len(), caller.admitted()), (1, 1));
    assert_eq!((caller.snap().active, caller.snap().queued), (0, 0));
}

#[tokio::test]
async fn separate_models_budgets_are_not_merged_and_a_providers_quota_is_not_discovered() {
    let world = World::new();
    // The provider says that nothing is left; only a 429 would count.
    let server = Server::with(|request| {
        answer(request)
            .header("x-ratelimit-remaining-requests", 0)
            .header("x-ratelimit-reset-requests", "60s")
            .header("retry-after", 60)
    });
    for model in ["a", "b"] {
        let mut more = one_a_minute();
        more["model"] = model.into();
        let caller = world.embedder(&server, more);
        caller.once().await.unwrap();
        assert_eq!(caller.snap().cooldown_remaining, None);
    }
    assert_eq!(world.elapsed(), secs(0));
}

#[tokio::test]
async fn conflicting_policies_for_an_active_scope_are_rejected_unlimited_against_limited_too() {
    let world = World::new();
    let server = good();
    let policies = [
        json!({ "requests_per_minute": 60 }),
        json!({ "requests_per_minute": 61 }),
        json!({ "requests_per_minute": 60, "burst": 2 }),
        json!({ "requests_per_minute": 60, "pacing": "completion" }),
        json!({ "requests_per_minute": 60, "max_concurrency": 1 }),
        json!({ "tokens_per_minute": 60 }),
        json!({}),
    ];
    for operation in OPERATIONS {
        for (i, active) in policies.iter().enumerate() {
            let open = |limits: &Value| {
                let more = at(&server, json!({ "rate_limit": limits }));
                world.try_open(&entry(operation, more))
            };
            let first = open(active).unwrap();
            for (j, other) in policies.iter().enumerate() {
                if i == j {
                    assert!(open(other).is_ok());
                    continue;
                }
                let error = refused(open(other));
                assert_eq!(error.kind(), Kind::PolicyConflict);
                let snap = first.snap();
                assert_eq!(error.scope(), Some(snap.key.as_str()));
                let message = error.message();
                assert!(message.contains(snap.key.as_str()), "{message}");
                let requested =
                    world.policy(operation, at(&server, json!({ "rate_limit": other })));
                assert!(message.contains(&format!("({})", snap.policy)), "{message}");
                assert!(message.contains(&format!("({requested})")), "{message}");
            }
        }
    }
}

#[tokio::test]
async fn no_policy_at_all_conflicts_with_a_limited_one_but_not_with_an_empty_one() {
    let world = World::new();
    let server = good();
    let open = |more: Value| world.try_open(&entry(Operation::Rerank, at(&server, more)));
    let none = open(json!({})).unwrap();
    assert_eq!(none.snap().policy, Policy::UNLIMITED);
    assert!(open(json!({ "rate_limit": {} })).is_ok());
    let error = refused(open(one_a_minute()));
    assert_eq!(error.kind(), Kind::PolicyConflict);
    assert!(error.message().contains("unlimited"), "{error}");
    // Checking an entry takes no lease and meets no conflict.
    world.check(Operation::Rerank, at(&server, one_a_minute()));
    drop(none);
    assert!(open(one_a_minute()).is_ok());
}
