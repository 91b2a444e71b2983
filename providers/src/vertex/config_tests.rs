use antfly_framework::Kind;
use antfly_framework::provider::Provider as _;
use serde_json::{Value, json};

use super::*;

/// An entry of a project, with the metadata server for credentials.
fn open(operation: Operation, fields: Value) -> Result<Vertex> {
    let mut value =
        json!({"provider": "vertex", "model": "text-embedding-005", "project_id": "p-1"});
    for (name, field) in fields.as_object().unwrap() {
        value[name] = field.clone();
    }
    let entry = EntryConfig::from_json(operation, "w", value)?;
    adapter(
        &entry,
        &Env::from_pairs([("GCE_METADATA_HOST", "127.0.0.1:9")]),
    )
}

#[test]
fn the_scope_names_project_location_and_credentials() {
    let vertex = open(Operation::Embed, json!({})).unwrap();
    assert_eq!(
        vertex.declare().fields(),
        [
            ("provider", "vertex".to_owned()),
            (
                "endpoint",
                "https://us-central1-aiplatform.googleapis.com/v1".to_owned()
            ),
            ("operation", "embed".to_owned()),
            ("model", "text-embedding-005".to_owned()),
            ("credential", "google-metadata:127.0.0.1:9".to_owned()),
            ("project_id", "p-1".to_owned()),
            ("location", "us-central1".to_owned()),
        ]
    );
}

#[test]
fn what_an_entry_cant_say_is_named() {
    for (operation, fields, path) in [
        (Operation::Embed, json!({"api_key": "k"}), "api_key"),
        (Operation::Embed, json!({"region": "eu"}), "region"),
        (
            Operation::Embed,
            json!({"encoding_format": "base64"}),
            "encoding_format",
        ),
        (Operation::Embed, json!({"truncate": "START"}), "truncate"),
        (Operation::Embed, json!({"multimodal": true}), "multimodal"),
        (Operation::Embed, json!({"task_type": "a b"}), "task_type"),
        (
            Operation::Embed,
            json!({"extra_body": {"instances": []}}),
            "extra_body.instances",
        ),
        (
            Operation::Embed,
            json!({"extra_body": {"parameters": {"auto_truncate": true}}}),
            "extra_body.parameters.auto_truncate",
        ),
        (
            Operation::Embed,
            json!({"extra_body": {"title": 3}}),
            "extra_body.title",
        ),
        (
            Operation::Embed,
            json!({"model": "gemini-embedding-2", "extra_body": {"embedContentConfig": {"taskType": "X"}}}),
            "extra_body.embedContentConfig.taskType",
        ),
        (
            Operation::Embed,
            json!({"model": "multimodalembedding@001", "dimensions": 300}),
            "dimensions",
        ),
        (
            Operation::Embed,
            json!({"model": "multimodalembedding@001", "task_type": "X"}),
            "task_type",
        ),
        (
            Operation::Embed,
            json!({"model": "multimodalembedding@001", "truncate": "END"}),
            "truncate",
        ),
        (
            Operation::Generate,
            json!({"extra_body": {"contents": []}}),
            "extra_body.contents",
        ),
        (
            Operation::Rerank,
            json!({"extra_body": {"records": []}}),
            "extra_body.records",
        ),
        (Operation::Rerank, json!({"model": "a/b"}), "model"),
        (Operation::Rerank, json!({"template": "{}"}), "template"),
    ] {
        let error = open(operation, fields).unwrap_err();
        assert_eq!(error.kind(), Kind::Config);
        assert!(
            error.message().starts_with(&format!("w.{path}: ")),
            "{path}: {error}"
        );
    }
}

#[test]
fn a_metadata_host_that_is_none_is_refused() {
    let entry = EntryConfig::from_json(
        Operation::Generate,
        "w",
        json!({"provider": "vertex", "model": "m", "project_id": "p-1"}),
    )
    .unwrap();
    for host in ["h/path?x", "http://h", "h:1:2", "h:99999"] {
        let env = Env::from_pairs([("GCE_METADATA_HOST", host)]);
        let error = adapter(&entry, &env).unwrap_err();
        assert!(
            error.message().starts_with("GCE_METADATA_HOST: "),
            "{error}"
        );
    }
}

#[test]
fn a_header_that_would_change_whose_quota_pays_behind_the_scopes_back_is_refused() {
    let fields = json!({"model": "m", "headers": {"X-Goog-User-Project": "other"}});
    let error = open(Operation::Generate, fields).unwrap_err();
    assert_eq!(error.kind(), Kind::Config);
    let path = "w.headers.x-goog-user-project: ";
    assert!(error.message().starts_with(path), "{error}");
    assert!(error.message().contains("GOOGLE_CLOUD_QUOTA_PROJECT"));
}
