//! What a build is free of.

use std::process::Command;

/// The crates a build of `antfly-providers` with these features links in.
fn tree(features: &str) -> String {
    let run = Command::new(env!("CARGO"))
        .args([
            "tree",
            "--offline",
            "--edges",
            "normal",
            "--prefix",
            "none",
            "--format",
            "{p}",
        ])
        .args([
            "--package",
            "antfly-providers",
            "--no-default-features",
            "--features",
            features,
        ])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(
        run.status.success(),
        "{}",
        String::from_utf8_lossy(&run.stderr)
    );
    String::from_utf8(run.stdout).unwrap()
}

#[test]
fn without_the_feature_nothing_of_the_models_is_linked_in() {
    let heavy = [
        "candle-",
        "tokenizers ",
        "gemm ",
        "pulp ",
        "rayon ",
        "safetensors ",
        "minijinja ",
    ];
    let without = tree("openai,antfly,antfly-reranker,bedrock,vertex,gemini");
    assert!(
        without.contains("reqwest "),
        "this is the list of what is linked in"
    );
    for name in heavy {
        assert!(
            !without.lines().any(|line| line.starts_with(name)),
            "{name}"
        );
    }
    let with = tree("in-process");
    for name in heavy {
        assert!(with.lines().any(|line| line.starts_with(name)), "{name}");
    }
}
