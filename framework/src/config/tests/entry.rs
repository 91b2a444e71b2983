use std::time::Duration;

use serde_json::json;

use super::{embedder, entry, refused};
use crate::config::{
    Admission, EncodingFormat, EntryConfig, GenerateOptions, KeySetting, ProxySetting, Redirects,
    RetryConfig,
};
use crate::provider::Operation;

#[test]
fn defaults_are_those_of_the_guide() {
    let e = embedder(json!({})).unwrap();
    assert_eq!(e.retry, RetryConfig::default());
    assert_eq!(e.timeout, Duration::from_secs(600));
    assert_eq!(e.stream_idle_timeout, Duration::from_secs(60));
    assert_eq!(e.redirects, Redirects::Follow);
    assert_eq!(e.proxy, ProxySetting::Environment);
    assert_eq!(
        (e.max_response_bytes, e.max_event_bytes),
        (64 << 20, 8 << 20)
    );
    assert!(e.rate_limit.is_none() && e.api_key.is_none() && e.headers.is_empty());
}

#[test]
fn every_common_field_is_read() {
    let e = embedder(json!({
        "retry": {"max_attempts": 5, "initial_backoff_ms": 10, "backoff_multiplier": 1.5, "max_backoff_ms": 99},
        "timeout_ms": 1500, "extra_body": {"user": "x"}, "ca_file": "ca.pem", "proxy": "none",
        "stream_idle_timeout_ms": 7, "redirects": "same_origin", "headers": {"X-Team": "search", "X-None": null},
        "max_response_bytes": 10, "max_event_bytes": 11, "api_url": "http://h", "api_key": " k ",
        "dimension": 256, "encoding_format": "base64", "input_type": "search_query", "multimodal": true,
        "batch_size": 16, "project": "p", "organization": "o", "region": "r", "profile": "f", "project_id": "i",
        "location": "l", "credentials_path": "c", "model_path": "w", "admission": {"max_concurrency": 2}
    }))
    .unwrap();
    assert_eq!(e.retry.max_attempts, 5);
    assert_eq!(e.retry.max_backoff, Duration::from_millis(99));
    assert_eq!(e.timeout, Duration::from_millis(1500));
    assert_eq!(e.proxy, ProxySetting::None);
    assert_eq!(e.redirects, Redirects::SameOrigin);
    assert_eq!(e.headers, [("X-Team".to_owned(), "search".to_owned())]);
    assert_eq!(e.url.as_deref(), Some("http://h"));
    assert_eq!(e.embed.dimensions, Some(256));
    assert_eq!(e.embed.encoding_format, Some(EncodingFormat::Base64));
    let admission = Admission {
        max_concurrency: 2,
        max_queue: 1024,
    };
    assert_eq!(e.admission, Some(admission));
}

#[test]
fn an_unknown_field_is_refused_with_the_nearest_one() {
    for (field, near) in [
        ("rate_limits", "rate_limit"),
        ("modle", "model"),
        ("timeout", "timeout_ms"),
    ] {
        let message = refused(embedder(json!({ field: 1 })));
        assert!(
            message.starts_with(&format!("embedders.docs.{field}: ")),
            "{message}"
        );
        assert!(
            message.contains(&format!("did you mean {near:?}")),
            "{message}"
        );
    }
    let message = refused(embedder(json!({"retry": {"max_attempt": 1}})));
    assert!(
        message.contains("embedders.docs.retry.max_attempt: "),
        "{message}"
    );
}

#[test]
fn a_field_of_another_operation_is_refused_and_says_so() {
    let message = refused(embedder(json!({"top_n": 3})));
    assert!(
        message.contains("embedders.docs.top_n: ") && message.contains("rerank"),
        "{message}"
    );
    refused(entry(
        Operation::Generate,
        "generators.g",
        json!({"dimensions": 3}),
    ));
    let message = refused(entry(
        Operation::Rerank,
        "rerankers.r",
        json!({"requests_per_minute": 3}),
    ));
    assert!(
        message.starts_with("rerankers.r.requests_per_minute: "),
        "{message}"
    );
}

#[test]
fn numbers_that_are_not_positive_integers_are_refused_with_path_and_value() {
    for field in [
        "timeout_ms",
        "dimensions",
        "batch_size",
        "max_response_bytes",
    ] {
        for bad in [
            json!(0),
            json!(-1),
            json!(1.0),
            json!("1"),
            json!(4_294_967_296_u64),
            json!(true),
            json!([1]),
        ] {
            let message = refused(embedder(json!({ field: bad })));
            assert!(
                message.starts_with(&format!("embedders.docs.{field}: {bad} ")),
                "{message}"
            );
        }
    }
}

#[test]
fn two_names_of_one_field_are_refused_together() {
    refused(embedder(json!({"url": "http://a", "api_url": "http://a"})));
    refused(embedder(json!({"dimensions": 1, "dimension": 1})));
}

#[test]
fn a_header_may_not_stand_twice_whatever_its_case() {
    let message = refused(embedder(
        json!({"headers": {"X-Team": "sentinel-a", "x-team": "sentinel-b"}}),
    ));
    assert!(message.starts_with("embedders.docs.headers."), "{message}");
    assert!(message.contains("twice"), "{message}");
    assert!(!message.contains("sentinel"), "{message}");
    assert!(embedder(json!({"headers": {"x-team": "one", "x-tea": "two"}})).is_ok());
}

#[test]
fn credential_and_framing_headers_are_refused() {
    for name in [
        "Authorization",
        "x-api-key",
        "Host",
        "content-length",
        "Accept-Encoding",
        "cookie",
        "bad name",
        "",
    ] {
        let message = refused(embedder(json!({"headers": {name: "sentinel-value"}})));
        assert!(message.starts_with("embedders.docs.headers."), "{message}");
        assert!(!message.contains("sentinel-value"), "{message}");
    }
    for value in [json!("a\nb"), json!(7), json!(["sentinel-value"])] {
        let message = refused(embedder(json!({"headers": {"x-a": value}})));
        assert!(!message.contains("sentinel-value"), "{message}");
    }
}

#[test]
fn a_key_is_a_literal_or_a_whole_reference() {
    let read = |text: &str| KeySetting::parse(text, "embedders.docs.api_key");
    assert!(matches!(read(" sk-1\r\n"), Ok(KeySetting::Literal(_))));
    assert!(
        matches!(read(" ${secret:openai.api_key} "), Ok(KeySetting::Reference(n)) if n == "openai.api_key")
    );
    for bad in [
        "",
        "  \n",
        "${secret:}",
        "${secret: }",
        "${OPENAI_API_KEY}",
        "${secret:a",
        "Bearer ${secret:a}",
        "${secret:a}${secret:b}",
        "sk-1\nsk-2",
        "sk\u{0}1",
        "sk\u{2014}1",
        "\u{201d}sk",
        "sk\u{7f}1",
    ] {
        let message = refused(read(bad));
        assert!(message.starts_with("embedders.docs.api_key: "), "{message}");
        assert!(!message.contains("sk"), "{message}");
    }
    refused(embedder(json!({"api_key": ["sk-1"]})));
    assert!(
        embedder(json!({"api_key": null}))
            .unwrap()
            .api_key
            .is_none()
    );
}

#[test]
fn a_generator_takes_its_options() {
    let g = |fields| entry(Operation::Generate, "generators.g", fields).map(|e| e.generate);
    let options =
        g(json!({"max_tokens": 5, "temperature": 0, "top_p": 0.5, "stop": "x", "seed": -3}))
            .unwrap();
    assert_eq!(options.max_tokens, Some(5));
    assert_eq!(options.temperature, Some(0.0));
    assert_eq!(options.stop, ["x"]);
    assert_eq!(options.seed, Some(-3));
    assert_eq!(g(json!({"stop": ["a", "b"]})).unwrap().stop, ["a", "b"]);
    for bad in [
        json!({"stop": [1]}),
        json!({"stop": ""}),
        json!({"top_p": 1.5}),
        json!({"temperature": "hot"}),
        json!({"seed": 1.5}),
        json!({"tools": {}}),
        json!({"tools": [{"name": ""}]}),
        json!({"tool_choice": "maybe"}),
        json!({"response_format": {"type": "xml"}}),
        json!({"max_tokens": 0}),
    ] {
        refused(g(bad));
    }
}

#[test]
fn an_entry_made_in_rust_is_held_to_the_same_rules() {
    let with = |change: fn(&mut EntryConfig)| {
        let mut e = EntryConfig::new(Operation::Embed, "openai", "m").with_name("docs");
        change(&mut e);
        e.validate()
    };
    assert!(with(|_| {}).is_ok());
    for (change, path) in [
        (
            (|e| e.model = " ".into()) as fn(&mut EntryConfig),
            "docs.model",
        ),
        (|e| e.timeout = Duration::ZERO, "docs.timeout_ms"),
        (|e| e.max_event_bytes = 0, "docs.max_event_bytes"),
        (|e| e.retry.max_attempts = 0, "docs.retry.max_attempts"),
        (
            |e| e.retry.backoff_multiplier = f64::NAN,
            "docs.retry.backoff_multiplier",
        ),
        (|e| e.embed.batch_size = Some(0), "docs.batch_size"),
        (|e| e.embed.dimensions = Some(0), "docs.dimensions"),
        (|e| e.rerank.top_n = Some(3), "docs.rerank"),
        (|e| e.legacy.burst = Some(0), "docs.burst"),
        (
            |e| e.headers = vec![("Authorization".into(), "x".into())],
            "docs.headers.Authorization",
        ),
        (
            |e| e.headers = vec![("x-a".into(), "a\nb".into())],
            "docs.headers.x-a",
        ),
        (
            |e| e.headers = vec![("x-a".into(), "1".into()), ("X-A".into(), "2".into())],
            "docs.headers.X-A",
        ),
    ] {
        let message = refused(with(change));
        assert!(
            message.starts_with(&format!("{path}: ")),
            "{path}: {message}"
        );
    }
}

#[test]
fn an_adapter_refuses_the_fields_it_does_not_have() {
    let e = embedder(json!({"url": "http://h", "region": "eu"})).unwrap();
    assert!(e.refuse_fields_not_in(&["url", "region"]).is_ok());
    let message = refused(e.refuse_fields_not_in(&["url"]));
    assert!(message.starts_with("embedders.docs.region: "), "{message}");
}

#[test]
fn the_options_of_generators_are_read_alone_as_well() {
    let options = |value| GenerateOptions::from_json("", &value);
    let read = options(json!({"max_tokens": 5, "stop": "x", "seed": null})).unwrap();
    assert_eq!((read.max_tokens, read.seed), (Some(5), None));
    assert_eq!(read.stop, ["x"]);
    for (value, start) in [
        (json!({"max_tokens": 0}), "max_tokens: 0 is not allowed"),
        (
            json!({"max_token": 1}),
            "max_token: unknown field; did you mean \"max_tokens\"?",
        ),
        (json!({"model": "m"}), "model: unknown field"),
    ] {
        let message = refused(options(value));
        assert!(message.starts_with(start), "{message}");
    }
}
