//! What errors list as allowed, against what the providers take: key by key.
#![allow(clippy::unwrap_used)] // A test fails by panicking.

use antfly_framework::config::GenerateOptions;
use antfly_framework::provider::Accepts;
use antfly_framework::{Client, EntryConfig, Env, Operation, Plugin};
use serde_json::{Value, json};

const KEYS: [&str; 26] = [
    "api_key",
    "project",
    "organization",
    "region",
    "profile",
    "project_id",
    "location",
    "credentials_path",
    "model_path",
    "admission",
    "url",
    "retry",
    "redirects",
    "headers",
    "dimensions",
    "encoding_format",
    "input_type",
    "task_type",
    "truncate",
    "multimodal",
    "batch_size",
    "requests_per_minute",
    "top_n",
    "field",
    "template",
    "scoring",
];

/// Values of a key that some provider takes.
fn samples(key: &str, files: &Files) -> Vec<Value> {
    match key {
        "credentials_path" => vec![json!(files.google)],
        "profile" => vec![json!("p")],
        "region" => vec![json!("us-east-1")],
        "url" => vec![json!("http://127.0.0.1:9")],
        "admission" => vec![json!({"max_concurrency": 1})],
        "retry" => vec![json!({"max_attempts": 1})],
        "redirects" => vec![json!("none")],
        "headers" => vec![json!({"x-a": "b"})],
        "dimensions" => vec![json!(256)],
        "encoding_format" => vec![json!("float")],
        "input_type" => vec![json!("search_query")],
        "task_type" => vec![json!("RETRIEVAL_QUERY")],
        "truncate" => vec![json!("NONE")],
        "multimodal" => vec![json!(true)],
        "batch_size" | "requests_per_minute" | "top_n" | "max_tokens" | "top_k" | "seed" => {
            vec![json!(1)]
        }
        "scoring" => vec![json!("cosine")],
        "temperature" | "top_p" | "frequency_penalty" | "presence_penalty" => vec![json!(0.5)],
        "stop" => vec![json!(["x"])],
        "tools" => vec![json!([{"name": "f", "parameters": {"type": "object"}}])],
        "tool_choice" => vec![json!("auto")],
        "response_format" => vec![json!({"type": "text"})],
        _ => vec![json!("x")],
    }
}

/// Models of a provider, of which one takes what a key says if any does; with what the entry needs else.
fn models(provider: &str, operation: Operation) -> Vec<Value> {
    match (provider, operation) {
        ("bedrock", Operation::Embed) => vec![
            json!({"model": "amazon.titan-embed-text-v2:0"}),
            json!({"model": "cohere.embed-v4:0"}),
        ],
        ("bedrock", Operation::Rerank) => vec![json!({"model": "amazon.rerank-v1:0"})],
        ("vertex", Operation::Embed) => vec![
            json!({"model": "text-embedding-005"}),
            json!({"model": "multimodalembedding@001"}),
        ],
        ("gemini", Operation::Embed) => vec![
            json!({"model": "gemini-embedding-001"}),
            json!({"model": "gemini-embedding-2"}),
        ],
        // Servers elsewhere may have what OpenAI has not.
        ("openai", _) => vec![
            json!({"model": "m"}),
            json!({"model": "m", "url": "http://127.0.0.1:9"}),
        ],
        _ => vec![json!({"model": "m"})],
    }
}

struct Files {
    folder: std::path::PathBuf,
    google: String,
    aws: String,
}

impl Files {
    fn new() -> Self {
        let folder = std::env::temp_dir().join(format!("antfly-accepts-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let write = |name: &str, text: &str| {
            let path = folder.join(name);
            std::fs::write(&path, text).unwrap();
            path.to_str().unwrap().to_owned()
        };
        let google = write(
            "google.json",
            r#"{"type": "authorized_user", "client_id": "c", "client_secret": "s", "refresh_token": "r"}"#,
        );
        let aws = write(
            "aws",
            "[profile p]\naws_access_key_id = a\naws_secret_access_key = b\n",
        );
        Files {
            folder,
            google,
            aws,
        }
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn takes(client: &Client, plugin: &Plugin, operation: Operation, key: &str, files: &Files) -> bool {
    let all = models(plugin.name, operation);
    all.iter().any(|model| {
        samples(key, files).into_iter().any(|sample| {
            let mut entry = model.clone();
            entry["provider"] = json!(plugin.name);
            entry[key] = sample;
            EntryConfig::from_json(operation, "e.x", entry)
                .is_ok_and(|entry| client.check(&entry).is_ok())
        })
    })
}

#[test]
fn what_an_error_lists_as_allowed_is_what_the_provider_takes() {
    let files = Files::new();
    let client = Client::builder()
        .registry(super::registry().unwrap())
        .env(Env::from_pairs([
            ("OPENAI_API_KEY", "k"),
            ("GEMINI_API_KEY", "k"),
            ("AWS_ACCESS_KEY_ID", "a"),
            ("AWS_SECRET_ACCESS_KEY", "b"),
            ("AWS_CONFIG_FILE", &files.aws),
            ("GOOGLE_CLOUD_PROJECT", "p"),
            ("GOOGLE_APPLICATION_CREDENTIALS", &files.google),
        ]))
        .build()
        .unwrap();
    let mut looked_at = 0;
    for plugin in super::plugins().iter().filter(|p| p.name != "in_process") {
        for operation in plugin.operations {
            let unknown = json!({"provider": plugin.name, "model": "m", "nonsense_key": 1});
            let told = EntryConfig::from_json(*operation, "e.x", unknown).unwrap_err();
            let (_, listed) = told.message().split_once("(allowed: ").unwrap();
            let listed: Vec<&str> = listed.trim_end_matches(')').split(", ").collect();
            let accepts = Accepts::of(plugin.name, *operation).unwrap();
            assert_eq!(listed, accepts.iter().collect::<Vec<_>>());
            for key in KEYS.iter().chain(GenerateOptions::NAMES) {
                let takes = takes(&client, plugin, *operation, key, &files);
                assert_eq!(
                    listed.contains(key),
                    takes,
                    "{} {operation}: {key}",
                    plugin.name
                );
                looked_at += 1;
            }
        }
    }
    assert!(looked_at > 200, "{looked_at}");
}

#[test]
fn a_hint_is_never_a_key_that_the_provider_refuses() {
    let entry = |key: &str| {
        let mut entry = json!({"provider": "openai", "model": "m"});
        entry[key] = json!(1);
        EntryConfig::from_json(Operation::Embed, "e.x", entry)
            .unwrap_err()
            .message()
            .to_owned()
    };
    assert!(entry("dimensoins").contains("did you mean \"dimensions\""));
    for misspelt in ["project_idd", "credentials_pathh", "truncat"] {
        let told = entry(misspelt);
        for refused in ["project_id", "credentials_path", "truncate"] {
            assert!(
                !told.contains(&format!("{refused:?}")) && !told.contains(&format!("{refused},")),
                "{told}"
            );
        }
    }
}
