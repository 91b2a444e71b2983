//! Models in this process: no wire, tiny weights.

#[allow(dead_code)] // The tests of answers use the rest of it.
#[path = "../in_process_generate/tiny.rs"]
mod tiny;

use std::sync::LazyLock;

use antfly_providers::Operation;
use antfly_providers::testing::conformance::{Report, Subject};
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
    .scope(scope(operation, model))
    .default_output_cap(256)
}

fn scope(
    operation: Operation,
    model: &'static str,
) -> impl Fn(&str) -> Vec<(&'static str, String)> + Send + Sync + 'static {
    move |_| {
        vec![
            ("provider", "in_process".to_owned()),
            ("endpoint", "in-process".to_owned()),
            ("operation", operation.as_str().to_owned()),
            ("model", model.to_owned()),
            ("credential", "anonymous".to_owned()),
        ]
    }
}

/// Every check that can concern the model ran; what was skipped has a reason, and is not one of these.
fn conforms(report: &Report, more: &[&str]) {
    report.assert();
    let ran: Vec<_> = report.passed().map(|o| o.name).collect();
    for check in OF_ALL.iter().chain(more) {
        assert!(ran.contains(check), "{check} did not run: {report}");
    }
    let local = report.skipped().filter(|o| o.name.starts_with("local."));
    let left: Vec<_> = local.map(|o| o.name).collect();
    let others = OF_GENERATORS.iter().filter(|c| c.starts_with("local."));
    let others: Vec<_> = others.filter(|c| !more.contains(c)).copied().collect();
    assert_eq!(left, others, "{report}");
}

/// What concerns every model in this process.
const OF_ALL: [&str; 14] = [
    "declares.scope",
    "declares.identity",
    "declares.media",
    "declares.opens_nothing",
    "declares.operation",
    "local.limits",
    "local.answers",
    "local.empty",
    "local.cancel",
    "local.queue",
    "local.scope",
    "media.undeclared",
    "secret.debug",
    "secret.nowhere",
];
/// What concerns generators alone.
const OF_GENERATORS: [&str; 4] = [
    "declares.output_cap",
    "local.stream",
    "local.cap",
    "local.drop",
];

static ENCODER: LazyLock<Report> =
    LazyLock::new(|| subject(Operation::Embed, "bert-encoder").check_local());

static CLASSIFIER: LazyLock<Report> =
    LazyLock::new(|| subject(Operation::Rerank, "bert-classifier").check_local());

/// A model that never ends, so that a run which is not stopped is seen: its answers are as long as they may be.
static GENERATOR: LazyLock<Report> = LazyLock::new(|| {
    let mut file = tiny::scripted(&[], |t| vec![if t == "a" { "b" } else { "a" }.to_owned()]);
    file.set("llama.context_length", tiny::Meta::U32(1_000_000_000));
    let path = file.write("conformance");
    Subject::new(
        antfly_providers::in_process::PLUGIN,
        Operation::Generate,
        move |_| {
            json!({
                "provider": "in_process", "model": "endless", "model_path": path.to_str(),
                "temperature": 0, "max_tokens": 1_000_000_000,
            })
        },
    )
    .scope(scope(Operation::Generate, "endless"))
    .default_output_cap(256)
    .check_local()
});

#[test]
fn an_encoder_in_this_process_conforms() {
    conforms(&ENCODER, &[]);
}

#[test]
fn a_classifier_in_this_process_conforms() {
    conforms(&CLASSIFIER, &[]);
}

#[test]
fn a_generator_in_this_process_conforms() {
    conforms(&GENERATOR, &OF_GENERATORS);
}

#[test]
fn models_in_this_process_have_passed_the_checks_that_the_table_names() {
    crate::table::holds("in_process", &[&ENCODER, &CLASSIFIER, &GENERATOR]);
}
