use antfly_limiter::{Pacing, Policy};
use serde_json::{Value, json};

use super::{embedder, entry, refused};
use crate::config::{EntryConfig, Env, effective_policy};
use crate::provider::Operation;

const LIMITS: [&str; 4] = [
    "requests_per_minute",
    "burst",
    "max_concurrency",
    "tokens_per_minute",
];

fn limits(value: Value) -> crate::Result<EntryConfig> {
    embedder(json!({ "rate_limit": value }))
}

fn effective(fields: Value, env: &[(&str, &str)]) -> crate::Result<(Policy, Vec<String>)> {
    effective_policy(
        &embedder(fields)?,
        &Env::from_pairs(env.iter().copied()),
        Some("OPENAI"),
    )
}

fn rate(rpm: u32, burst: u32) -> Policy {
    let pacing = if burst == 1 {
        Pacing::Completion
    } else {
        Pacing::TokenBucket
    };
    Policy::builder()
        .requests_per_minute(rpm)
        .burst(burst)
        .pacing(pacing)
        .build()
        .unwrap()
}

#[test]
fn every_limit_is_an_integer_from_1_to_4294967295() {
    for limit in LIMITS {
        for bad in [
            json!(0),
            json!(-1),
            json!(120.0),
            json!(0.5),
            json!("120"),
            json!(4_294_967_296_u64),
            json!(u64::MAX),
            json!(1e300),
            json!(true),
            json!([]),
            json!({}),
            serde_json::from_str("-0").unwrap(),
            serde_json::from_str("18446744073709551616").unwrap(),
        ] {
            let message = refused(limits(json!({ limit: bad })));
            let start = format!(
                "embedders.docs.rate_limit.{limit}: {bad} is not allowed; an integer from 1 to 4294967295"
            );
            assert!(message.starts_with(&start), "{message}");
        }
        for good in [1_u32, u32::MAX] {
            assert!(limits(json!({ limit: good })).is_ok());
        }
        assert_eq!(
            limits(json!({ limit: null })).unwrap().rate_limit,
            Some(Policy::UNLIMITED)
        );
    }
}

#[test]
fn a_wrong_limit_is_said_before_anything_else_in_the_entry() {
    let whole = json!({"nonsense": 1, "rate_limit": {"burst": 0}, "api_key": ""});
    let message = refused(EntryConfig::from_json(
        Operation::Embed,
        "embedders.docs",
        whole,
    ));
    assert!(
        message.starts_with("embedders.docs.rate_limit.burst: 0 "),
        "{message}"
    );
}

#[test]
fn an_unknown_limit_is_refused_with_the_nearest_one() {
    for (typo, near) in [
        ("request_per_minute", "requests_per_minute"),
        ("max_concurrent", "max_concurrency"),
        ("Burst", "burst"),
    ] {
        let message = refused(limits(json!({ typo: 1 })));
        assert!(
            message.starts_with(&format!("embedders.docs.rate_limit.{typo}: ")),
            "{message}"
        );
        assert!(message.contains(&format!("{near:?}")), "{message}");
    }
    refused(limits(json!(120)));
    refused(limits(json!([])));
    assert!(
        refused(limits(json!({"pacing": "slow"})))
            .starts_with("embedders.docs.rate_limit.pacing: \"slow\" ")
    );
}

#[test]
fn burst_defaults_to_1_and_equal_policies_compare_equal() {
    let policy = |v| limits(v).unwrap().rate_limit.unwrap();
    assert_eq!(
        policy(json!({"requests_per_minute": 5})),
        policy(json!({"requests_per_minute": 5, "burst": 1, "pacing": "token_bucket"}))
    );
    assert_eq!(policy(json!({})), Policy::UNLIMITED);
    let (only_burst, warnings) = effective(json!({"rate_limit": {"burst": 9}}), &[]).unwrap();
    assert_eq!(only_burst, Policy::UNLIMITED);
    assert_eq!(warnings.len(), 1);
    assert!(warnings[0].starts_with("embedders.docs.rate_limit.burst: "));
}

#[test]
fn completion_needs_a_rate_and_burst_1() {
    assert!(
        refused(limits(json!({"pacing": "completion"})))
            .starts_with("embedders.docs.rate_limit.pacing: ")
    );
    assert!(
        refused(limits(
            json!({"pacing": "completion", "requests_per_minute": 5, "burst": 2})
        ))
        .starts_with("embedders.docs.rate_limit.burst: 2 ")
    );
    let e = limits(json!({"pacing": "completion", "requests_per_minute": 6000, "burst": 1, "max_concurrency": 3})).unwrap();
    assert_eq!(e.rate_limit.unwrap().pacing(), Pacing::Completion);
}

#[test]
fn flat_limits_pace_by_completion_at_burst_1_and_by_bucket_above() {
    assert_eq!(
        effective(json!({"requests_per_minute": 60}), &[])
            .unwrap()
            .0,
        rate(60, 1)
    );
    assert_eq!(
        effective(json!({"requests_per_minute": 60, "burst": 1}), &[])
            .unwrap()
            .0,
        rate(60, 1)
    );
    assert_eq!(
        effective(json!({"requests_per_minute": 60, "burst": 4}), &[])
            .unwrap()
            .0,
        rate(60, 4)
    );
}

#[test]
fn flat_limits_beside_rate_limit_are_refused_even_beside_an_empty_one() {
    for flat in ["requests_per_minute", "burst"] {
        let message = refused(embedder(json!({"rate_limit": {}, flat: 5})));
        assert!(
            message.starts_with(&format!("embedders.docs.{flat}: ")),
            "{message}"
        );
    }
    assert!(embedder(json!({"rate_limit": null, "burst": 5})).is_ok());
}

#[test]
fn the_environment_gives_an_embedder_without_limits_its_default() {
    const RPM: &str = "ANTFLY_OPENAI_EMBED_REQUESTS_PER_MINUTE";
    const BURST: &str = "ANTFLY_OPENAI_EMBED_BURST";
    const ANY_RPM: &str = "ANTFLY_EMBED_REQUESTS_PER_MINUTE";
    const ANY_BURST: &str = "ANTFLY_EMBED_BURST";
    for (env, expected) in [
        (vec![], Policy::UNLIMITED),
        (vec![(RPM, "30")], rate(30, 1)),
        (vec![(ANY_RPM, "20")], rate(20, 1)),
        (vec![(RPM, " 30 "), (ANY_RPM, "20")], rate(30, 1)),
        (vec![(RPM, ""), (ANY_RPM, "20")], rate(20, 1)),
        (vec![(RPM, "30"), (ANY_BURST, "3")], rate(30, 3)),
        (
            vec![(ANY_RPM, "20"), (BURST, "2"), (ANY_BURST, "3")],
            rate(20, 2),
        ),
        (vec![(BURST, "2")], Policy::UNLIMITED),
        (
            vec![("ANTFLY_OLLAMA_EMBED_REQUESTS_PER_MINUTE", "9")],
            Policy::UNLIMITED,
        ),
    ] {
        assert_eq!(effective(json!({}), &env).unwrap().0, expected, "{env:?}");
    }
}

#[test]
fn flat_and_environment_limits_combine_as_the_rule_says() {
    const RPM: &str = "ANTFLY_EMBED_REQUESTS_PER_MINUTE";
    const BURST: &str = "ANTFLY_EMBED_BURST";
    // A flat rate alone ignores the environment's burst, even a malformed one.
    assert_eq!(
        effective(json!({"requests_per_minute": 5}), &[(BURST, "7")])
            .unwrap()
            .0,
        rate(5, 1)
    );
    assert_eq!(
        effective(json!({"requests_per_minute": 5}), &[(BURST, "x")])
            .unwrap()
            .0,
        rate(5, 1)
    );
    // A flat burst alone combines with the environment's rate.
    assert_eq!(
        effective(json!({"burst": 4}), &[(RPM, "20"), (BURST, "7")])
            .unwrap()
            .0,
        rate(20, 4)
    );
    let (policy, warnings) = effective(json!({"burst": 4}), &[]).unwrap();
    assert_eq!((policy, warnings.len()), (Policy::UNLIMITED, 1));
    // Any rate_limit, even an empty one, switches the environment off.
    for nested in [json!({}), json!({"burst": null})] {
        let (policy, _) = effective(json!({ "rate_limit": nested }), &[(RPM, "20")]).unwrap();
        assert_eq!(policy, Policy::UNLIMITED);
    }
    assert_eq!(
        effective(json!({"rate_limit": null}), &[(RPM, "20")])
            .unwrap()
            .0,
        rate(20, 1)
    );
}

#[test]
fn a_malformed_environment_default_names_its_variable() {
    for bad in ["0", "-1", "1.0", "x", "+5", "4294967296", " ", "1_000"] {
        for variable in [
            "ANTFLY_OPENAI_EMBED_REQUESTS_PER_MINUTE",
            "ANTFLY_EMBED_BURST",
        ] {
            let message = refused(effective(json!({}), &[(variable, bad)]));
            assert!(message.starts_with(&format!("{variable}: ")), "{message}");
        }
    }
}

#[test]
fn generators_and_rerankers_take_no_default_from_the_environment() {
    let env = Env::from_pairs([("ANTFLY_EMBED_REQUESTS_PER_MINUTE", "20")]);
    for operation in [Operation::Generate, Operation::Rerank] {
        let e = entry(operation, "x.y", json!({})).unwrap();
        assert_eq!(
            effective_policy(&e, &env, Some("OPENAI")).unwrap().0,
            Policy::UNLIMITED
        );
    }
}
