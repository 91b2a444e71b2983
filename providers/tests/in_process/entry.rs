//! What an entry may say, and what is refused before anything runs.

use antfly_framework::provider::InferenceEngine as _;
use antfly_providers::in_process::Engine;
use antfly_providers::{Client, Env, Kind, Operation, Policy};
use serde_json::json;

use crate::support::*;

const OPERATIONS: [(Operation, &str); 2] = [
    (Operation::Embed, "bert-encoder"),
    (Operation::Rerank, "bert-classifier"),
];

#[test]
fn an_enabled_rate_limit_and_the_flat_legacy_keys_are_refused() {
    let (client, _clock) = client_of(&here("tiny"));
    for (operation, model) in OPERATIONS {
        let limits = json!({ "rate_limit": { "requests_per_minute": 60 } });
        let e = client.check(&entry(operation, model, limits)).unwrap_err();
        assert_eq!(e.kind(), Kind::Config);
        assert!(e.message().contains(".rate_limit: "), "{e}");
        assert!(e.message().contains("admission"), "{e}");
        assert!(!e.message().contains("url"), "it has no such field: {e}");
    }
    for key in ["requests_per_minute", "burst"] {
        let flat = json!({ key: 2 });
        let e = client
            .check(&entry(Operation::Embed, "bert-encoder", flat))
            .unwrap_err();
        assert_eq!(e.kind(), Kind::Config);
        assert!(
            e.message().starts_with(&format!("embedders.one.{key}: ")),
            "{e}"
        );
    }
    let nothing = json!({ "rate_limit": {} });
    let checked = client
        .check(&entry(Operation::Embed, "bert-encoder", nothing))
        .unwrap();
    assert_eq!(checked.policy, Policy::UNLIMITED);
}

#[test]
fn options_that_no_model_here_has_are_refused_by_name() {
    let (client, _clock) = client_of(&here("tiny"));
    for (key, value) in [
        ("url", json!("http://127.0.0.1:1")),
        ("api_key", json!("k")),
        ("headers", json!({ "x-a": "b" })),
        ("extra_body", json!({ "a": 1 })),
        ("ca_file", json!("a.pem")),
        ("proxy", json!("none")),
        ("encoding_format", json!("base64")),
        ("task_type", json!("RETRIEVAL_QUERY")),
        ("multimodal", json!(true)),
        ("truncate", json!("MIDDLE")),
        ("input_type", json!("query")),
        ("region", json!("r")),
    ] {
        let entry = entry(Operation::Embed, "bert-encoder", json!({ key: value }));
        let e = client.check(&entry).unwrap_err();
        assert_eq!(e.kind(), Kind::Config, "{e}");
        assert!(
            e.message().starts_with(&format!("embedders.one.{key}: ")),
            "{e}"
        );
    }
}

#[test]
fn scoring_is_one_of_two_words_and_a_rerankers() {
    let e = try_entry(Operation::Rerank, "m", json!({ "scoring": "best" })).unwrap_err();
    assert!(e.message().contains("late_interaction"), "{e}");
    let e = try_entry(Operation::Embed, "m", json!({ "scoring": "cosine" })).unwrap_err();
    assert!(e.message().starts_with("embedders.one.scoring: "), "{e}");
}

#[test]
fn where_a_model_is_looked_for_is_said_when_it_is_not_there() {
    let client = |env: Env| {
        let registry = antfly_providers::registry().unwrap();
        Client::builder()
            .registry(registry)
            .env(env)
            .build()
            .unwrap()
    };
    let plain = entry(Operation::Embed, "bert-encoder", json!({}));
    let e = client(Env::empty()).check(&plain).unwrap_err();
    assert_eq!(e.kind(), Kind::Config);
    assert!(e.message().contains("embedders.one.model_path"), "{e}");
    assert!(e.message().contains("ANTFLY_MODELS_DIR"), "{e}");

    let (there, _clock) = client_of(&here("tiny"));
    let e = there
        .check(&entry(Operation::Embed, "no-such-model", json!({})))
        .unwrap_err();
    assert_eq!(e.kind(), Kind::Config);
    assert!(e.message().starts_with("embedders.one.model: "), "{e}");
    assert!(e.message().contains("no-such-model"), "{e}");
    for outside in ["../tiny/bert-encoder", "/etc", "a/../../b"] {
        let e = there
            .check(&entry(Operation::Embed, outside, json!({})))
            .unwrap_err();
        assert!(e.message().contains("no name of a folder"), "{e}");
    }

    // `model_path` needs no variable, and the model's name is then only a name.
    let path = here("tiny/bert-encoder");
    let by_path = json!({ "model_path": path.to_str().unwrap() });
    let checked = client(Env::empty())
        .check(&entry(Operation::Embed, "any", by_path))
        .unwrap();
    assert!(
        checked
            .scope
            .contains(&("endpoint", "in-process".to_owned()))
    );
    assert!(
        checked
            .scope
            .contains(&("credential", "anonymous".to_owned())),
        "{:?}",
        checked.scope
    );
}

#[test]
fn an_engine_knows_the_models_whose_files_are_there() {
    let engine = Engine::new(here("tiny"));
    assert!(engine.knows(Operation::Embed, "bert-encoder"));
    assert!(engine.knows(Operation::Rerank, "bert-encoder"));
    assert!(engine.knows(Operation::Rerank, "bert-classifier"));
    assert!(!engine.knows(Operation::Embed, "bert-classifier"));
    assert!(!engine.knows(Operation::Generate, "bert-encoder"));
    assert!(!engine.knows(Operation::Embed, "no-such-model"));
    assert!(!engine.knows(Operation::Embed, "../tiny/bert-encoder"));
    assert!(!engine.knows(Operation::Embed, ""));
    assert!(Engine::from_env(&Env::empty()).unwrap().is_none());
    let env = Env::from_pairs([("ANTFLY_MODELS_DIR", here("tiny").to_str().unwrap())]);
    assert!(
        Engine::from_env(&env)
            .unwrap()
            .unwrap()
            .knows(Operation::Embed, "mpnet-encoder")
    );
}

#[test]
fn g09_a_zero_in_admission_is_refused_by_name() {
    for key in ["max_concurrency", "max_queue"] {
        let json =
            json!({"provider": "in_process", "model": "bert-encoder", "admission": { key: 0 }});
        let e = antfly_providers::EntryConfig::from_json(Operation::Embed, "embedders.one", json)
            .unwrap_err();
        assert_eq!(e.kind(), Kind::Config);
        assert!(
            e.message()
                .contains(&format!("embedders.one.admission.{key}")),
            "{e}"
        );
    }
}
