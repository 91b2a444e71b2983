//! The `rate_limit` object.

use antfly_framework::testing::Gate;
use antfly_framework::{Document, EntryConfig, Kind, Operation, Pacing, Policy};
use serde_json::json;

use crate::support::*;

#[tokio::test]
async fn embedders_generators_and_rerankers_accept_the_same_optional_rate_limit() {
    for operation in OPERATIONS {
        let world = World::new();
        let server = good();
        let unlimited = world.open(operation, &server, json!({ "model": "free" }));
        assert_eq!(unlimited.snap().policy, Policy::UNLIMITED);

        let limits = json!({ "rate_limit": { "requests_per_minute": 60, "burst": 2 } });
        let limited = world.open(operation, &server, limits);
        let calls = [limited.call(), limited.call(), limited.call()];
        limited.queued(1).await;
        world.pass(secs(1)).await;
        for call in calls {
            done(call).await.unwrap();
        }
        assert_eq!(
            world.starts(3).await,
            [secs(0), secs(0), secs(1)],
            "{operation}"
        );
    }
}

#[test]
fn the_example_configuration_is_read_as_its_four_limits() {
    let text = r#"{ "embedders": { "one": {
        "provider": "openai", "model": "text-embedding-3-small", "api_key": "k",
        "rate_limit": { "requests_per_minute": 120, "burst": 2, "max_concurrency": 4, "tokens_per_minute": 120000 } } } }"#;
    let document = Document::parse(text).unwrap();
    let entry = document.entry(Operation::Embed, "one").unwrap();
    let policy = World::new().client.check(entry).unwrap().policy;
    assert_eq!(policy.requests_per_minute(), Some(120));
    assert_eq!(policy.burst(), 2);
    assert_eq!(policy.max_concurrency(), Some(4));
    assert_eq!(policy.tokens_per_minute(), Some(120_000));
    assert_eq!(policy.pacing(), Pacing::TokenBucket);
}

#[test]
fn omitted_limits_are_unlimited_and_burst_defaults_to_one() {
    for operation in OPERATIONS {
        let read = |limits| {
            let entry = entry(operation, json!({ "rate_limit": limits }));
            entry.rate_limit.unwrap()
        };
        assert_eq!(read(json!({})), Policy::UNLIMITED);
        let policy = read(json!({ "requests_per_minute": 9 }));
        assert_eq!(policy.requests_per_minute(), Some(9));
        assert_eq!(policy.burst(), 1);
        assert_eq!(policy.max_concurrency(), None);
        assert_eq!(policy.tokens_per_minute(), None);
        assert_eq!(
            policy,
            read(json!({ "requests_per_minute": 9, "burst": 1 }))
        );
        // `null` is as if omitted.
        let nulls = json!({ "requests_per_minute": 9, "burst": null, "max_concurrency": null,
                            "tokens_per_minute": null, "pacing": null });
        assert_eq!(policy, read(nulls));
        let entry = entry(operation, json!({ "rate_limit": null }));
        assert_eq!(entry.rate_limit, None);
    }
}

#[tokio::test]
async fn an_omitted_limit_limits_nothing() {
    let world = World::new();
    let gates = vec![Gate::new(); 20];
    let server = gated(&gates);
    let caller = world.embedder(&server, json!({ "rate_limit": {} }));
    let calls: Vec<_> = (0..20).map(|_| caller.call()).collect();
    // All twenty are at the server at once, and the clock has not moved.
    server.wait_for_requests(20).await;
    assert_eq!(server.open_requests(), 20);
    gates[0].open();
    for call in calls {
        done(call).await.unwrap();
    }
}

#[test]
fn every_provided_number_must_be_positive() {
    for operation in OPERATIONS {
        for key in [
            "requests_per_minute",
            "burst",
            "max_concurrency",
            "tokens_per_minute",
        ] {
            for bad in [
                json!(0),
                json!(-1),
                json!(1.5),
                json!(120.0),
                json!("5"),
                json!(true),
                json!(4_294_967_296_u64),
            ] {
                let error = refused(try_entry(operation, json!({ "rate_limit": { key: bad } })));
                assert_eq!(error.kind(), Kind::Config);
                let named = format!("{}.rate_limit.{key}: {bad}", path(operation));
                assert!(error.message().starts_with(&named), "{error}");
                assert!(error.message().contains("from 1 to 4294967295"), "{error}");
            }
            for good in [1, u32::MAX] {
                assert!(try_entry(operation, json!({ "rate_limit": { key: good } })).is_ok());
            }
        }
    }
}

#[test]
fn errors_name_the_path_of_the_named_entry() {
    let text = r#"{ "embedders": { "docs": { "provider": "openai", "model": "m", "rate_limit": { "burst": 0 } } } }"#;
    let error = refused(Document::parse(text));
    let named = "embedders.docs.rate_limit.burst: 0";
    assert!(error.message().starts_with(named), "{error}");
}

#[test]
fn a_mistyped_limit_is_an_error_and_no_silent_unlimited() {
    let limits = json!({ "rate_limit": { "request_per_minute": 5 } });
    let error = refused(try_entry(Operation::Rerank, limits));
    assert_eq!(error.kind(), Kind::Config);
    let named = "rerankers.one.rate_limit.request_per_minute: ";
    assert!(error.message().starts_with(named), "{error}");
    assert!(
        error.message().contains("\"requests_per_minute\""),
        "{error}"
    );
    for bad in [json!(5), json!([]), json!("60")] {
        let error = refused(try_entry(Operation::Embed, json!({ "rate_limit": bad })));
        assert!(
            error.message().starts_with("embedders.one.rate_limit: "),
            "{error}"
        );
    }
}

#[test]
fn burst_without_requests_per_minute_has_no_effect() {
    let entry = entry(Operation::Generate, json!({ "rate_limit": { "burst": 7 } }));
    assert_eq!(entry.rate_limit, Some(Policy::UNLIMITED));
}

#[test]
fn pacing_is_token_bucket_unless_said_otherwise() {
    let pacing = |limits| {
        let entry = entry(Operation::Generate, json!({ "rate_limit": limits }));
        entry.rate_limit.unwrap().pacing()
    };
    let default = json!({ "requests_per_minute": 5 });
    assert_eq!(pacing(default), Pacing::TokenBucket);
    let explicit = json!({ "requests_per_minute": 5, "pacing": "token_bucket" });
    assert_eq!(pacing(explicit), Pacing::TokenBucket);
    let completion = json!({ "requests_per_minute": 6000, "pacing": "completion" });
    assert_eq!(pacing(completion), Pacing::Completion);
    let unknown = json!({ "rate_limit": { "requests_per_minute": 5, "pacing": "leaky" } });
    let error = refused(try_entry(Operation::Generate, unknown));
    let named = "generators.one.rate_limit.pacing: \"leaky\"";
    assert!(error.message().starts_with(named), "{error}");
}

#[test]
fn completion_requires_rpm_and_a_burst_of_one() {
    let read = |limits| try_entry(Operation::Embed, json!({ "rate_limit": limits }));
    let error = refused(read(
        json!({ "pacing": "completion", "max_concurrency": 1 }),
    ));
    assert_eq!(error.kind(), Kind::Config);
    assert!(error.message().contains("requests_per_minute"), "{error}");
    assert!(
        error.message().starts_with("embedders.one.rate_limit"),
        "{error}"
    );

    let two = json!({ "pacing": "completion", "requests_per_minute": 5, "burst": 2 });
    let error = refused(read(two));
    assert!(
        error
            .message()
            .starts_with("embedders.one.rate_limit.burst: 2"),
        "{error}"
    );

    for fine in [
        json!({ "pacing": "completion", "requests_per_minute": 5 }),
        json!({ "pacing": "completion", "requests_per_minute": 5, "burst": 1 }),
        json!({ "pacing": "completion", "requests_per_minute": 5, "max_concurrency": 3 }),
    ] {
        assert!(read(fine).is_ok());
    }
}

#[test]
fn an_entry_made_in_rust_takes_the_same_policy() {
    let policy = Policy::builder().requests_per_minute(60).build().unwrap();
    let entry = EntryConfig::new(Operation::Rerank, "antfly", "m").with_rate_limit(policy);
    let checked = World::new().client.check(&entry).unwrap();
    assert_eq!(checked.policy, policy);
}
