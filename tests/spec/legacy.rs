//! The flat legacy keys of embedders and the environment's defaults.

use antfly_framework::{Document, Kind, Operation, Pacing, Policy};
use serde_json::{Value, json};

use crate::support::*;

const RPM: &str = "ANTFLY_OPENAI_EMBED_REQUESTS_PER_MINUTE";
const BURST: &str = "ANTFLY_OPENAI_EMBED_BURST";
const ANY_RPM: &str = "ANTFLY_EMBED_REQUESTS_PER_MINUTE";
const ANY_BURST: &str = "ANTFLY_EMBED_BURST";

fn completion(rpm: u32) -> Policy {
    let policy = Policy::builder().requests_per_minute(rpm);
    policy.pacing(Pacing::Completion).build().unwrap()
}

fn bucket(rpm: u32, burst: u32) -> Policy {
    let policy = Policy::builder().requests_per_minute(rpm);
    policy.burst(burst).build().unwrap()
}

/// The policy that an embedder with these fields comes to in this environment.
fn embedder<const N: usize>(env: [(&str, &str); N], mut more: Value) -> Policy {
    more["api_key"] = "k".into();
    World::with_env(env).policy(Operation::Embed, more)
}

#[test]
fn legacy_embedder_requests_per_minute_and_burst_remain_supported() {
    let both = json!({ "requests_per_minute": 30, "burst": 4 });
    assert_eq!(embedder([], both), bucket(30, 4));
    assert_eq!(
        embedder([], json!({ "requests_per_minute": 30 })),
        completion(30)
    );
    for key in ["requests_per_minute", "burst"] {
        let error = refused(try_entry(Operation::Embed, json!({ key: 0 })));
        assert!(
            error
                .message()
                .starts_with(&format!("embedders.one.{key}: 0")),
            "{error}"
        );
    }
}

#[test]
fn legacy_keys_cannot_be_combined_with_rate_limit() {
    for key in ["requests_per_minute", "burst"] {
        for limits in [json!({}), json!({ "max_concurrency": 2 })] {
            let both = json!({ key: 5, "rate_limit": limits });
            let error = refused(try_entry(Operation::Embed, both));
            assert_eq!(error.kind(), Kind::Config);
            assert!(
                error
                    .message()
                    .starts_with(&format!("embedders.one.{key}: ")),
                "{error}"
            );
            assert!(error.message().contains("rate_limit"), "{error}");
        }
    }
}

#[test]
fn generators_and_rerankers_have_no_legacy_form() {
    for operation in [Operation::Generate, Operation::Rerank] {
        for key in ["requests_per_minute", "burst"] {
            let error = refused(try_entry(operation, json!({ key: 5 })));
            assert_eq!(error.kind(), Kind::Config);
            assert!(
                error
                    .message()
                    .starts_with(&format!("{}.{key}: ", path(operation))),
                "{error}"
            );
        }
    }
    let world = World::with_env([(RPM, "5"), (ANY_RPM, "6"), (BURST, "2"), (ANY_BURST, "3")]);
    let generator = world.policy(Operation::Generate, json!({ "api_key": "k" }));
    assert_eq!(generator, Policy::UNLIMITED);
    let reranker = world.policy(Operation::Rerank, json!({}));
    assert_eq!(reranker, Policy::UNLIMITED);
}

#[test]
fn nested_configuration_does_not_inherit_the_environments_request_limit() {
    let env = [(RPM, "5"), (ANY_RPM, "6"), (BURST, "2"), (ANY_BURST, "3")];
    let empty = json!({ "rate_limit": {} });
    assert_eq!(embedder(env, empty), Policy::UNLIMITED);
    let concurrency = json!({ "rate_limit": { "max_concurrency": 4 } });
    let only = Policy::builder().max_concurrency(4).build().unwrap();
    assert_eq!(embedder(env, concurrency), only);
    let rpm = json!({ "rate_limit": { "requests_per_minute": 9 } });
    assert_eq!(embedder(env, rpm), bucket(9, 1));
    // Not even a broken one is looked at.
    let broken = [(RPM, "many")];
    assert_eq!(
        embedder(broken, json!({ "rate_limit": {} })),
        Policy::UNLIMITED
    );
    // And `null` is no nested configuration.
    assert_eq!(
        embedder([(RPM, "5")], json!({ "rate_limit": null })),
        completion(5)
    );
}

#[test]
fn legacy_settings_with_a_burst_of_one_use_completion_pacing_environment_defaults_included() {
    assert_eq!(
        embedder([], json!({ "requests_per_minute": 7, "burst": 1 })),
        completion(7)
    );
    assert_eq!(embedder([(RPM, "8")], json!({})), completion(8));
    assert_eq!(
        embedder([(RPM, "8"), (BURST, "1")], json!({})),
        completion(8)
    );
    assert_eq!(embedder([(ANY_RPM, "9")], json!({})), completion(9));
    // `rate_limit` with the same numbers stays a token bucket.
    let nested = json!({ "rate_limit": { "requests_per_minute": 7, "burst": 1 } });
    assert_eq!(embedder([], nested), bucket(7, 1));
}

#[test]
fn legacy_larger_bursts_use_token_bucket_pacing() {
    assert_eq!(
        embedder([], json!({ "requests_per_minute": 7, "burst": 2 })),
        bucket(7, 2)
    );
    assert_eq!(
        embedder([(RPM, "8"), (BURST, "3")], json!({})),
        bucket(8, 3)
    );
    assert_eq!(
        embedder([(ANY_RPM, "9"), (ANY_BURST, "4")], json!({})),
        bucket(9, 4)
    );
}

#[test]
fn each_variable_is_looked_up_on_its_own_the_providers_before_the_general_one() {
    let all = [(RPM, "5"), (ANY_RPM, "6"), (BURST, "2"), (ANY_BURST, "3")];
    assert_eq!(embedder(all, json!({})), bucket(5, 2));
    assert_eq!(
        embedder([(RPM, "5"), (ANY_BURST, "3")], json!({})),
        bucket(5, 3)
    );
    assert_eq!(
        embedder([(ANY_RPM, "6"), (BURST, "2")], json!({})),
        bucket(6, 2)
    );
    // An empty value is unset.
    assert_eq!(
        embedder([(RPM, ""), (ANY_RPM, "6"), (BURST, "")], json!({})),
        completion(6)
    );
    // Another provider's is not this one's.
    let other = [("ANTFLY_OLLAMA_EMBED_REQUESTS_PER_MINUTE", "5")];
    assert_eq!(embedder(other, json!({})), Policy::UNLIMITED);
}

#[test]
fn flat_keys_and_the_environment_combine_only_one_way() {
    // A flat rate alone ignores the environment's burst.
    let env = [(RPM, "5"), (BURST, "4")];
    assert_eq!(
        embedder(env, json!({ "requests_per_minute": 9 })),
        completion(9)
    );
    // A flat burst alone takes the environment's rate, and is without effect when there is none.
    assert_eq!(embedder([(RPM, "5")], json!({ "burst": 3 })), bucket(5, 3));
    assert_eq!(embedder([], json!({ "burst": 3 })), Policy::UNLIMITED);
    assert_eq!(embedder([(BURST, "3")], json!({})), Policy::UNLIMITED);
}

#[test]
fn a_malformed_environment_default_is_an_error_naming_the_variable() {
    for variable in [RPM, ANY_RPM] {
        for bad in ["many", "0", "-1", "1.5", "4294967296"] {
            let world = World::with_env([(variable, bad)]);
            let entry = entry(Operation::Embed, json!({ "api_key": "k" }));
            let error = refused(world.client.check(&entry));
            assert_eq!(error.kind(), Kind::Config);
            assert!(error.message().contains(variable), "{error}");
        }
    }
    for variable in [BURST, ANY_BURST] {
        let world = World::with_env([(RPM, "5"), (variable, "0")]);
        let entry = entry(Operation::Embed, json!({ "api_key": "k" }));
        let error = refused(world.client.check(&entry));
        assert!(error.message().contains(variable), "{error}");
    }
}

#[tokio::test]
async fn a_legacy_rate_keeps_its_non_bursting_path_without_a_safety_margin() {
    let world = World::with_env([(RPM, "60")]);
    let server = good();
    let caller = world.embedder(&server, json!({}));
    let calls = [caller.call(), caller.call(), caller.call()];
    caller.queued(2).await;
    for left in [1, 0] {
        until("the answer", || caller.snap().active == 0).await;
        world.clock.advance(secs(1));
        caller.queued(left).await;
    }
    for call in calls {
        done(call).await.unwrap();
    }
    assert_eq!(world.starts(3).await, [secs(0), secs(1), secs(2)]);
    assert_eq!(server.peak_open_requests(), 1);
}

#[test]
fn a_document_of_named_entries_takes_the_legacy_form_too() {
    let text = r#"{ "embedders": {
        "old": { "provider": "openai", "model": "a", "api_key": "k", "requests_per_minute": 3 },
        "new": { "provider": "openai", "model": "b", "api_key": "k", "rate_limit": {} } } }"#;
    let document = Document::parse(text).unwrap();
    let world = World::with_env([(RPM, "5")]);
    let policy = |name| {
        let entry = document.entry(Operation::Embed, name).unwrap();
        world.client.check(entry).unwrap().policy
    };
    assert_eq!(policy("old"), completion(3));
    assert_eq!(policy("new"), Policy::UNLIMITED);
}
