//! The kit's checks of the local route, on a real model.

use antfly_framework::testing::conformance::Subject;
use antfly_providers::{Operation, in_process};
use serde_json::{Value, json};

use crate::support::*;

fn prove(operation: Operation, name: &str, more: Value) {
    // The kit asks for queues of its own, which a folder in use by other tests has settled already.
    let scratch = Scratch::new(name).with_copy(&models().join(MINILM));
    let path = scratch.0.join(MINILM);
    let entry = move |_: &str| {
        let mut entry = json!({ "provider": "in_process", "model": MINILM, "model_path": path.to_str().unwrap() });
        for (key, value) in more.as_object().unwrap() {
            entry[key] = value.clone();
        }
        entry
    };
    let scope = move |_: &str| {
        vec![
            ("provider", "in_process".to_owned()),
            ("endpoint", "in-process".to_owned()),
            ("operation", operation.to_string()),
            ("model", MINILM.to_owned()),
            ("credential", "anonymous".to_owned()),
        ]
    };
    let report = Subject::new(in_process::PLUGIN, operation, entry)
        .scope(scope)
        .default_output_cap(256)
        .check_local();
    report.assert();
    let passed: Vec<_> = report.passed().map(|o| o.name).collect();
    for check in [
        "local.limits",
        "local.answers",
        "local.empty",
        "local.cancel",
        "local.queue",
        "local.scope",
    ] {
        assert!(passed.contains(&check), "{report}");
    }
}

#[test]
fn the_embedder_passes_the_kit() {
    prove(Operation::Embed, "kit-embed", json!({}));
}

#[test]
fn the_reranker_passes_the_kit() {
    prove(Operation::Rerank, "kit-cosine", json!({}));
    let late = json!({ "scoring": "late_interaction" });
    prove(Operation::Rerank, "kit-late", late);
}
