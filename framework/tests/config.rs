//! Every wrong value names its path, itself and what is allowed; every right one becomes a valid type.
#![allow(missing_docs, clippy::unwrap_used)]

use antfly_framework::config::{EncodingFormat, Redirects, effective_policy, fingerprint};
use antfly_framework::{Document, EntryConfig, Env, Kind, Operation, Pacing, Policy};
use serde_json::{Value, json};

fn entry(operation: Operation, more: Value) -> antfly_framework::Result<EntryConfig> {
    let mut json = json!({"provider": "p", "model": "m"});
    json.as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    EntryConfig::from_json(operation, "embedders.docs", json)
}

fn embed(more: Value) -> antfly_framework::Result<EntryConfig> {
    entry(Operation::Embed, more)
}

/// The error's message, which must start with the path and hold each of `words`.
fn refused(result: antfly_framework::Result<EntryConfig>, path: &str, words: &[&str]) {
    let e = result.expect_err(path);
    assert_eq!(e.kind(), Kind::Config, "{e}");
    assert!(e.message().starts_with(&format!("{path}: ")), "{path}: {e}");
    for word in words {
        assert!(e.message().contains(word), "{word:?} in {e}");
    }
}

#[test]
fn g09_every_number_of_a_rate_limit_is_an_integer_from_1_to_4294967295() {
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
            json!("120"),
            json!(4_294_967_296_u64),
            json!(true),
            json!([1]),
            json!(u64::MAX),
            json!(1e30),
        ] {
            let path = format!("embedders.docs.rate_limit.{key}");
            let shown = bad.to_string();
            refused(
                embed(json!({"rate_limit": {key: bad}})),
                &path,
                &["1 to 4294967295", &shown],
            );
        }
        for good in [json!(1), json!(4_294_967_295_u64), json!(null)] {
            embed(json!({"rate_limit": {key: good}})).unwrap();
        }
    }
}

#[test]
fn an_unknown_key_in_a_rate_limit_is_an_error_with_the_nearest_known_key() {
    refused(
        embed(json!({"rate_limit": {"request_per_minute": 5}})),
        "embedders.docs.rate_limit.request_per_minute",
        &["did you mean \"requests_per_minute\"?"],
    );
    refused(
        embed(json!({"rate_limit": 5})),
        "embedders.docs.rate_limit",
        &["5", "object"],
    );
    refused(
        embed(json!({"rate_limit": []})),
        "embedders.docs.rate_limit",
        &["object"],
    );
}

#[test]
fn a_wrong_limit_is_said_before_anything_else_is_looked_at() {
    let json = json!({"provider": 7, "rate_limit": {"burst": 0}, "nonsense": 1});
    let e = EntryConfig::from_json(Operation::Embed, "embedders.docs", json).unwrap_err();
    assert!(
        e.message().starts_with("embedders.docs.rate_limit.burst: "),
        "{e}"
    );
}

#[test]
fn completion_needs_requests_per_minute_and_burst_1() {
    refused(
        embed(json!({"rate_limit": {"pacing": "completion"}})),
        "embedders.docs.rate_limit.pacing",
        &["requests_per_minute"],
    );
    refused(
        embed(
            json!({"rate_limit": {"pacing": "completion", "requests_per_minute": 6, "burst": 2}}),
        ),
        "embedders.docs.rate_limit.burst",
        &["2", "burst 1"],
    );
    refused(
        embed(json!({"rate_limit": {"pacing": "other"}})),
        "embedders.docs.rate_limit.pacing",
        &["token_bucket", "completion"],
    );
    let ok = json!({"rate_limit": {"pacing": "completion", "requests_per_minute": 6, "burst": 1, "max_concurrency": 4}});
    assert_eq!(
        embed(ok).unwrap().rate_limit.unwrap().pacing(),
        Pacing::Completion
    );
}

#[test]
fn policies_are_equal_after_normalisation() {
    let policy = |json| {
        embed(json!({"rate_limit": json}))
            .unwrap()
            .rate_limit
            .unwrap()
    };
    assert_eq!(policy(json!({})), Policy::UNLIMITED);
    assert_eq!(
        policy(json!({"burst": 9})),
        Policy::UNLIMITED,
        "burst alone is normalised away"
    );
    assert_eq!(
        policy(json!({"requests_per_minute": 5})),
        policy(json!({"requests_per_minute": 5, "burst": 1}))
    );
    assert_ne!(
        policy(json!({"requests_per_minute": 5})),
        policy(json!({"requests_per_minute": 5, "burst": 2}))
    );
}

#[test]
fn a_burst_without_requests_per_minute_warns_once() {
    let e = embed(json!({"rate_limit": {"burst": 3}})).unwrap();
    let (policy, warnings) = effective_policy(&e, &Env::empty(), None).unwrap();
    assert!(policy.is_unlimited());
    assert_eq!(warnings.len(), 1, "{warnings:?}");
}

#[test]
fn the_flat_legacy_form_becomes_completion_at_burst_1_and_a_bucket_above() {
    let policy = |json, env: &Env| {
        effective_policy(&embed(json).unwrap(), env, Some("OPENAI"))
            .unwrap()
            .0
    };
    let none = Env::empty();
    let p = policy(json!({"requests_per_minute": 30}), &none);
    assert_eq!(
        (p.pacing(), p.requests_per_minute(), p.burst()),
        (Pacing::Completion, Some(30), 1)
    );
    let p = policy(json!({"requests_per_minute": 30, "burst": 4}), &none);
    assert_eq!((p.pacing(), p.burst()), (Pacing::TokenBucket, 4));
    assert!(policy(json!({"burst": 4}), &none).is_unlimited());
    for key in ["requests_per_minute", "burst"] {
        refused(
            embed(json!({key: 3, "rate_limit": {}})),
            &format!("embedders.docs.{key}"),
            &["rate_limit"],
        );
        for operation in [Operation::Generate, Operation::Rerank] {
            refused(
                entry(operation, json!({key: 3})),
                &format!("embedders.docs.{key}"),
                &["embedders only"],
            );
        }
    }
}

#[test]
fn environment_defaults_apply_to_embedders_without_any_limit_of_their_own() {
    let env = Env::from_pairs([
        ("ANTFLY_OPENAI_EMBED_REQUESTS_PER_MINUTE", "60"),
        ("ANTFLY_EMBED_REQUESTS_PER_MINUTE", "7"),
        ("ANTFLY_EMBED_BURST", "3"),
        ("ANTFLY_OPENAI_EMBED_BURST", ""),
    ]);
    let of = |json, prefix| {
        effective_policy(&embed(json).unwrap(), &env, prefix)
            .unwrap()
            .0
    };
    let p = of(json!({}), Some("OPENAI"));
    assert_eq!(
        (p.requests_per_minute(), p.burst()),
        (Some(60), 3),
        "each looked up on its own, empty is unset"
    );
    assert_eq!(
        of(json!({}), Some("BEDROCK")).requests_per_minute(),
        Some(7)
    );
    assert_eq!(
        of(json!({"burst": 2}), Some("OPENAI")).burst(),
        2,
        "a flat burst takes the environment's rate"
    );
    let own = of(json!({"requests_per_minute": 9}), Some("OPENAI"));
    assert_eq!(
        (own.requests_per_minute(), own.burst()),
        (Some(9), 1),
        "a flat rate ignores the environment's burst"
    );
    assert!(
        of(json!({"rate_limit": {}}), Some("OPENAI")).is_unlimited(),
        "even {{}} switches the environment off"
    );
    for operation in [Operation::Generate, Operation::Rerank] {
        let e = entry(operation, json!({})).unwrap();
        assert!(
            effective_policy(&e, &env, Some("OPENAI"))
                .unwrap()
                .0
                .is_unlimited()
        );
    }
    for bad in ["0", "x", "1.5", "-3", "99999999999"] {
        let env = Env::from_pairs([("ANTFLY_EMBED_REQUESTS_PER_MINUTE", bad)]);
        let e = effective_policy(&embed(json!({})).unwrap(), &env, None).unwrap_err();
        assert!(
            e.message()
                .starts_with("ANTFLY_EMBED_REQUESTS_PER_MINUTE: "),
            "{e}"
        );
    }
}

#[test]
fn unknown_and_misplaced_fields_are_errors() {
    refused(
        embed(json!({"modle": "x"})),
        "embedders.docs.modle",
        &["did you mean \"model\"?"],
    );
    refused(
        embed(json!({"top_n": 3})),
        "embedders.docs.top_n",
        &["rerank"],
    );
    refused(
        embed(json!({"max_tokens": 3})),
        "embedders.docs.max_tokens",
        &["generate"],
    );
    refused(
        entry(Operation::Rerank, json!({"dimensions": 3})),
        "embedders.docs.dimensions",
        &["embed"],
    );
    refused(
        embed(json!({"dimensions": 3, "dimension": 3})),
        "embedders.docs.dimension",
        &["dimensions"],
    );
    refused(
        embed(json!({"url": "http://a", "api_url": "http://a"})),
        "embedders.docs.api_url",
        &["url"],
    );
}

#[test]
fn every_other_field_refuses_what_it_cannot_be() {
    for (key, bad) in [
        ("provider", json!("")),
        ("provider", json!(1)),
        ("model", json!(" ")),
        ("model", json!({})),
        ("timeout_ms", json!(0)),
        ("timeout_ms", json!("5s")),
        ("stream_idle_timeout_ms", json!(0)),
        ("max_response_bytes", json!(0)),
        ("max_event_bytes", json!(-1)),
        ("extra_body", json!([])),
        ("redirects", json!("always")),
        ("proxy", json!("")),
        ("ca_file", json!(1)),
        ("batch_size", json!(0)),
        ("encoding_format", json!("hex")),
        ("dimensions", json!(0)),
        ("multimodal", json!("yes")),
        ("headers", json!("x")),
        ("url", json!("")),
        ("api_key", json!(5)),
        ("admission", json!(1)),
        ("retry", json!(1)),
    ] {
        refused(
            embed(json!({key: bad})),
            &format!("embedders.docs.{key}"),
            &[],
        );
    }
    for (key, bad) in [
        ("max_attempts", json!(0)),
        ("initial_backoff_ms", json!(-1)),
        ("backoff_multiplier", json!(0.5)),
        ("backoff_multiplier", json!("2")),
        ("max_backoff_ms", json!(1.5)),
        ("tries", json!(1)),
    ] {
        refused(
            embed(json!({"retry": {key: bad}})),
            &format!("embedders.docs.retry.{key}"),
            &[],
        );
    }
    for (key, bad) in [
        ("temperature", json!(-1)),
        ("top_p", json!(2)),
        ("max_tokens", json!(0)),
        ("stop", json!([""])),
        ("stop", json!(3)),
        ("seed", json!(1.5)),
        ("tool_choice", json!("maybe")),
        ("response_format", json!({"type": "xml"})),
    ] {
        refused(
            entry(Operation::Generate, json!({key: bad})),
            &format!("embedders.docs.{key}"),
            &[],
        );
    }
    refused(
        entry(
            Operation::Generate,
            json!({"tools": [{"description": "x"}]}),
        ),
        "embedders.docs.tools[0]",
        &["name"],
    );
    refused(
        entry(Operation::Rerank, json!({"top_n": 0})),
        "embedders.docs.top_n",
        &[],
    );
}

#[test]
fn credential_and_framing_headers_are_refused_by_name() {
    for name in [
        "Authorization",
        "x-api-key",
        "api-key",
        "cookie",
        "x-goog-api-key",
        "Host",
        "content-length",
        "accept-encoding",
    ] {
        refused(
            embed(json!({"headers": {name: "v"}})),
            &format!("embedders.docs.headers.{name}"),
            &[],
        );
    }
    refused(
        embed(json!({"headers": {"bad name": "v"}})),
        "embedders.docs.headers.bad name",
        &[],
    );
    refused(
        embed(json!({"headers": {"x-a": "line\nbreak"}})),
        "embedders.docs.headers.x-a",
        &[],
    );
    embed(json!({"headers": {"x-tenant": "t"}})).unwrap();
}

#[test]
fn j08_j10_keys_are_trimmed_or_refused_without_being_shown() {
    let e = embed(json!({"api_key": "  key\r\n"})).unwrap();
    assert!(!format!("{e:?}").contains("\"key\""));
    for bad in ["", "  ", "a\nb", "a\0b", "a\u{2014}b", "\u{201d}a"] {
        let r = embed(json!({"api_key": bad}));
        refused(r, "embedders.docs.api_key", &[]);
    }
    for bad in ["${secret:}", "${env:x}", "${secret: }"] {
        refused(
            embed(json!({"api_key": bad})),
            "embedders.docs.api_key",
            &["secret"],
        );
    }
    embed(json!({"api_key": "${secret:openai.api_key}"})).unwrap();
}

#[test]
fn a_document_holds_named_entries_or_is_one() {
    let text = r#"{"embedders": {"docs": {"provider": "p", "model": "m"}}, "secrets": {"file": "s.json"}}"#;
    let d = Document::parse(text).unwrap();
    assert_eq!((d.entries.len(), d.entries[0].name.as_str()), (1, "docs"));
    assert_eq!(d.secrets_file.as_deref(), Some("s.json"));
    let bare = r#"{"provider": "p", "model": "m"}"#;
    assert_eq!(
        Document::parse_for(Operation::Rerank, bare, |_| true)
            .unwrap()
            .entries[0]
            .path,
        ""
    );
    assert!(
        Document::parse(bare)
            .unwrap_err()
            .message()
            .starts_with("provider: ")
    );
    for (bad, path) in [
        (r#"{"embeders": {}}"#, "embeders"),
        (r#"{"embedders": []}"#, "embedders"),
        (r#"{"embedders": {"a": 1}}"#, "embedders.a"),
        (
            r#"{"embedders": {"a": {"provider": "p", "model": "m"}, "a": {"provider": "p", "model": "m"}}}"#,
            "embedders.a",
        ),
        (r#"{"secrets": {"path": "x"}}"#, "secrets.path"),
        ("[]", "configuration"),
        ("", "configuration"),
        ("{", "configuration"),
        ("{} {}", "configuration"),
    ] {
        let e = Document::parse(bad).unwrap_err();
        assert!(e.message().starts_with(&format!("{path}: ")), "{bad}: {e}");
    }
}

#[test]
fn entries_that_are_not_used_are_not_looked_at() {
    let text = r#"{"embedders": {"good": {"provider": "p", "model": "m"}, "bad": {"x": 1}}, "rerankers": {"bad": 5}}"#;
    let d = Document::parse_for(Operation::Embed, text, |name| name == "good").unwrap();
    assert_eq!(d.entries.len(), 1);
    assert!(Document::parse(text).is_err());
}

#[test]
fn the_fingerprint_is_stable_and_only_what_shapes_vectors_changes_it() {
    let of = |json| fingerprint(&embed(json).unwrap(), "https://e/v1");
    let base = of(json!({}));
    assert_eq!(base.len(), 64);
    for same in [
        json!({"rate_limit": {"requests_per_minute": 5}}),
        json!({"retry": {"max_attempts": 9}}),
        json!({"timeout_ms": 5}),
        json!({"batch_size": 7}),
        json!({"api_key": "k"}),
        json!({"encoding_format": "base64"}),
        json!({"requests_per_minute": 3}),
        json!({"headers": {"x-a": "b"}}),
    ] {
        assert_eq!(of(same.clone()), base, "{same}");
    }
    let mut seen = vec![base];
    for other in [
        json!({"dimensions": 5}),
        json!({"input_type": "a"}),
        json!({"task_type": "a"}),
        json!({"truncate": "END"}),
        json!({"multimodal": true}),
        json!({"extra_body": {"a": 1}}),
        json!({"model": "n"}),
    ] {
        let f = of(other.clone());
        assert!(!seen.contains(&f), "{other}");
        seen.push(f);
    }
    assert_eq!(
        of(json!({"extra_body": {"a": 1, "b": {"d": 2, "c": 3}}})),
        of(json!({"extra_body": {"b": {"c": 3, "d": 2}, "a": 1}})),
    );
}

#[test]
fn defaults_are_the_documented_ones() {
    let e = embed(json!({})).unwrap();
    assert_eq!(e.retry.max_attempts, 3);
    assert_eq!(
        (
            e.retry.initial_backoff.as_millis(),
            e.retry.max_backoff.as_millis()
        ),
        (500, 30_000)
    );
    assert_eq!(
        (e.timeout.as_millis(), e.stream_idle_timeout.as_millis()),
        (600_000, 60_000)
    );
    assert_eq!(
        (e.max_response_bytes, e.max_event_bytes),
        (64 << 20, 8 << 20)
    );
    assert_eq!(e.redirects, Redirects::Follow);
    let base64 = embed(json!({"encoding_format": "base64"})).unwrap();
    assert_eq!(base64.embed.encoding_format, Some(EncodingFormat::Base64));
}
