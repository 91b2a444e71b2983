use serde_json::{Value, json};

use super::embedder;
use crate::config::fingerprint;

const ENDPOINT: &str = "https://api.openai.com/v1";

fn of(fields: Value) -> String {
    fingerprint(&embedder(fields).unwrap(), ENDPOINT)
}

/// Vectors are stored under this value: a change of it makes every user embed everything again.
#[test]
fn the_value_is_pinned() {
    assert_eq!(
        of(json!({})),
        "77f398f996cdb05df591c7cc8c71849fec686844329942b9d5dbbbb8cbfca91f"
    );
    let all = json!({
        "dimensions": 256, "input_type": "document", "task_type": "RETRIEVAL_DOCUMENT", "truncate": "END", "multimodal": true,
        "extra_body": {"b": [1, {"z": 1, "a": 2.5}], "a": null}
    });
    assert_eq!(
        of(all),
        "3ce9d6015ed73b7ca2359951bdc537c0a0113847cff93411e0938fe1cfbefb2a"
    );
}

#[test]
fn whatever_shapes_the_vectors_changes_it() {
    let plain = embedder(json!({})).unwrap();
    let mut all = vec![
        of(json!({})),
        fingerprint(&plain, "https://eu.api.openai.com/v1"),
    ];
    for (provider, model) in [("gemini", "m"), ("openai", "n")] {
        let mut e = plain.clone();
        (e.provider, e.model) = (provider.into(), model.into());
        all.push(fingerprint(&e, ENDPOINT));
    }
    for fields in [
        json!({"dimensions": 256}),
        json!({"input_type": "q"}),
        json!({"task_type": "q"}),
        json!({"truncate": "q"}),
        json!({"multimodal": true}),
        json!({"extra_body": {"a": 1}}),
        json!({"extra_body": {"a": "1"}}),
    ] {
        all.push(of(fields));
    }
    let count = all.len();
    all.sort();
    all.dedup();
    assert_eq!(all.len(), count);
}

#[test]
fn limits_retries_timeouts_batches_credentials_and_encodings_do_not_change_it() {
    let plain = of(json!({}));
    for fields in [
        json!({"rate_limit": {"requests_per_minute": 5}}),
        json!({"requests_per_minute": 5, "burst": 2}),
        json!({"retry": {"max_attempts": 1}}),
        json!({"timeout_ms": 1}),
        json!({"stream_idle_timeout_ms": 1}),
        json!({"batch_size": 1}),
        json!({"api_key": "k"}),
        json!({"encoding_format": "base64"}),
        json!({"headers": {"x-a": "b"}}),
        json!({"proxy": "none"}),
        json!({"ca_file": "x"}),
        json!({"redirects": "none"}),
        json!({"max_response_bytes": 9}),
        json!({"extra_body": {}}),
        json!({"multimodal": false}),
    ] {
        assert_eq!(of(fields.clone()), plain, "{fields}");
    }
    let named = embedder(json!({})).unwrap().with_name("other");
    assert_eq!(fingerprint(&named, ENDPOINT), plain);
}

#[test]
fn the_order_of_keys_does_not_change_it() {
    let read = |text: &str| of(serde_json::from_str(text).unwrap());
    assert_eq!(
        read(r#"{"extra_body": {"a": {"c": 1, "d": 2}, "b": 3}}"#),
        read(r#"{"extra_body": {"b": 3, "a": {"d": 2, "c": 1}}}"#)
    );
}
