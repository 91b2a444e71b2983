//! Models in this process: no wire, tiny weights.

use antfly_providers::Operation;
use antfly_providers::testing::conformance::Subject;
use serde_json::json;

/// Seeded random weights, a few kilobytes each.
const TINY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/in_process/tiny");

fn subject(operation: Operation, model: &'static str) -> Subject {
    Subject::new(
        antfly_providers::in_process::PLUGIN,
        operation,
        move |_| json!({"provider": "in_process", "model": model}),
    )
    .environment(|_| [("ANTFLY_MODELS_DIR", TINY)])
    .scope(move |_| {
        vec![
            ("provider", "in_process".to_owned()),
            ("endpoint", "in-process".to_owned()),
            ("operation", operation.as_str().to_owned()),
            ("model", model.to_owned()),
            ("credential", "anonymous".to_owned()),
        ]
    })
    .default_output_cap(256)
}

#[test]
fn an_encoder_in_this_process_conforms() {
    subject(Operation::Embed, "bert-encoder")
        .check_local()
        .assert();
}

#[test]
fn a_classifier_in_this_process_conforms() {
    subject(Operation::Rerank, "bert-classifier")
        .check_local()
        .assert();
}
