//! What `quickstart.sh` works with holds together: its configuration, its documents and the models that are fetched.
#![allow(clippy::unwrap_used)] // A test fails by panicking.

use std::path::{Path, PathBuf};

use antfly_providers::{Document, Operation};
use serde_json::Value;

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}

fn read(name: &str) -> String {
    std::fs::read_to_string(examples().join(name)).unwrap()
}

#[test]
fn the_configuration_names_models_that_are_fetched_and_neither_key_nor_server() {
    let document = Document::parse(&read("quickstart/config.json")).unwrap();
    let script = read("fetch-models.sh");
    for (operation, name) in [
        (Operation::Embed, "docs"),
        (Operation::Rerank, "ranker"),
        (Operation::Generate, "writer"),
    ] {
        let entry = document.entry(operation, name).unwrap();
        assert_eq!(entry.provider, "in_process");
        assert!(script.contains(&format!("=({} ", entry.model)), "{name}");
        assert!(entry.url.is_none() && entry.api_key.is_none());
    }
}

#[test]
fn every_document_is_written_as_the_script_takes_it_apart() {
    let text = read("quickstart/documents.jsonl");
    assert!(text.lines().count() >= 5);
    for line in text.lines() {
        let document: Value = serde_json::from_str(line).unwrap();
        let (id, said) = (
            document["id"].as_str().unwrap(),
            document["text"].as_str().unwrap(),
        );
        assert_eq!(line, format!(r#"{{"id": "{id}", "text": "{said}"}}"#));
        assert!(id.chars().all(|c| c.is_ascii_lowercase()), "{id}");
    }
}
