//! Models in this process, as the command line shows them.

use std::path::{Path, PathBuf};

use serde_json::json;

use crate::support::{Folder, Output, command, text};

/// A few kilobytes of seeded weights.
fn tiny(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../providers/tests/in_process/tiny")
        .join(name)
}

fn run(models: &Path, args: &[&str]) -> Output {
    let out = command(args)
        .env("ANTFLY_MODELS_DIR", models)
        .output()
        .unwrap();
    Output {
        code: out.status.code(),
        stdout: String::from_utf8(out.stdout).unwrap(),
        stderr: String::from_utf8(out.stderr).unwrap(),
    }
}

#[test]
fn check_shows_where_the_files_of_a_model_in_this_process_are() {
    let folder = Folder::new();
    let remote = json!({"provider": "antfly", "model": "bert-encoder", "url": "http://h:1"});
    let path = tiny("bert-encoder");
    let document = json!({
        "embedders": {
            "by-name": {"provider": "in_process", "model": "bert-encoder"},
            "by-path": {"provider": "in_process", "model": "m", "model_path": text(&path)},
            "either": {"provider": "antfly", "model": "bert-encoder"},
            "remote": remote,
        },
    });
    let config = text(&folder.write("config.json", document));
    let out = run(&tiny(""), &["check", "--config", &config]);
    assert_eq!(out.code, Some(0), "{}", out.stderr);
    let canonical = json!(path.canonicalize().unwrap().to_str().unwrap());
    let shown: Vec<_> = (out.lines().iter())
        .map(|row| (row["entry"].clone(), row.get("model_path").cloned()))
        .collect();
    assert_eq!(
        shown,
        [
            (json!("embedders.by-name"), Some(canonical.clone())),
            (json!("embedders.by-path"), Some(canonical.clone())),
            (json!("embedders.either"), Some(canonical)),
            (json!("embedders.remote"), None),
        ]
    );
}

#[test]
fn a_model_that_can_not_be_loaded_is_told_once() {
    let folder = Folder::new();
    let model = folder.path("models/broken");
    std::fs::create_dir_all(&model).unwrap();
    for name in ["config.json", "tokenizer.json"] {
        std::fs::copy(tiny("bert-encoder").join(name), model.join(name)).unwrap();
    }
    std::fs::write(model.join("model.safetensors"), "12345").unwrap();
    let entry = json!({"provider": "in_process", "model": "broken"});
    let config = text(&folder.write("config.json", json!({"embedders": {"docs": entry}})));
    let input = text(&folder.write("in.jsonl", "\"a text\"\n"));
    let args = ["embed", "--quiet", "--config", &config, "--input", &input];
    let out = run(&folder.path("models"), &args);
    assert_eq!(out.code, Some(1), "{}", out.stderr);
    let lines = out.lines();
    assert_eq!(lines.len(), 1, "{}", out.stdout);
    let error = &lines[0]["error"];
    assert_eq!(error["kind"], "config");
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("model.safetensors"), "{message}");
    for word in ["WARN", "model.safetensors"] {
        assert!(!out.stderr.contains(word), "said again: {}", out.stderr);
    }
}

#[test]
fn what_is_wrong_with_a_folder_is_told_with_the_entry_that_names_it() {
    let folder = Folder::new();
    std::fs::create_dir_all(folder.path("models/empty")).unwrap();
    let entry = json!({"provider": "in_process", "model": "empty"});
    let config = json!({"embedders": {"docs": entry}, "generators": {"writer": entry}});
    let config = text(&folder.write("config.json", config));
    let out = run(&folder.path("models"), &["check", "--config", &config]);
    assert_eq!(out.code, Some(2), "{}", out.stderr);
    for path in ["embedders.docs", "generators.writer"] {
        let told = format!("config: {path}: the model's f");
        assert!(out.stderr.contains(&told), "{}", out.stderr);
    }
}

#[test]
fn a_folder_of_models_that_is_not_there_is_told() {
    let folder = Folder::new();
    let document = json!({"embedders": {"e": {"provider": "antfly", "model": "bert-encoder"}}});
    let config = text(&folder.write("config.json", document));
    let out = run(&folder.path("nothing"), &["check", "--config", &config]);
    // The entry is as good as any: it goes to the server's usual place.
    assert_eq!(out.code, Some(0), "{}", out.stderr);
    assert!(
        out.stderr.contains("ANTFLY_MODELS_DIR names no folder"),
        "{}",
        out.stderr
    );
    let out = run(&tiny(""), &["check", "--config", &config]);
    assert_eq!(out.stderr, "");
}
