//! Every example runs and says what it should.
#![allow(missing_docs, clippy::unwrap_used)]

use std::process::Command;

fn run(example: &str) -> String {
    // Examples are built beside the test binaries: target/<profile>/examples.
    let mut path = std::env::current_exe().unwrap();
    path.pop();
    path.pop();
    let output = Command::new(path.join("examples").join(example))
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        output.status.success(),
        "{example}: {text}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    text
}

#[test]
fn quickstart_embeds_generates_and_ranks_with_as_many_requests_as_were_admitted() {
    let text = run("quickstart");
    assert!(
        text.contains("embed:    40 texts, 2 numbers each, in 10 admitted requests"),
        "{text}"
    );
    assert!(text.contains("generate: Limits are kept."), "{text}");
    assert!(text.contains("stream:   Limits are kept."), "{text}");
    assert!(text.contains("rerank:   best is document 0"), "{text}");
    assert!(
        text.contains("requests at the server: 13; admitted: 13"),
        "{text}"
    );
}

#[test]
fn custom_provider_passes_through_the_same_limiter() {
    let text = run("custom_provider");
    assert!(
        text.contains("3 vectors of 2 numbers in 2 admitted requests, 2 at the server"),
        "{text}"
    );
}

#[test]
fn tools_and_streams_shows_the_call_and_the_deltas() {
    let text = run("tools_and_streams");
    assert!(
        text.contains(r#"the model calls weather({"city":"Oslo"})"#),
        "{text}"
    );
    assert!(text.contains(r#"delta "are kept.""#), "{text}");
}

#[test]
fn secret_store_uses_the_rotated_key_in_the_same_scope() {
    let text = run("secret_store");
    assert!(
        text.contains("first-key") && text.contains("second-key"),
        "{text}"
    );
    assert!(
        text.contains("secret:vault:team-a:models/key") || text.contains("vault"),
        "{text}"
    );
}

#[test]
fn bedrock_embeds_and_streams_through_the_sdk() {
    let text = run("bedrock");
    for line in [
        "credential: env:AWS_ACCESS_KEY_ID",
        "region: eu-west-1",
        "embed: 3 vectors of 256 numbers in 3 admitted requests",
        "delta: \"Limits \"",
        "delta: \"are kept.\"",
        "finish: stop",
        "requests at the server: 4",
    ] {
        assert!(text.contains(line), "{text}");
    }
}

#[test]
fn snapshot_shows_the_scope() {
    let text = run("snapshot");
    assert!(
        text.contains("requests_per_minute 60") && text.contains("admitted 1"),
        "{text}"
    );
}

#[test]
fn gemini_batches_calls_tools_and_heeds_the_delay_in_a_body() {
    let text = run("gemini");
    for line in [
        "embed: 2 vectors of 2 numbers in one request",
        r#"the model calls weather({"city":"Oslo"})"#,
        "generate: Bring a coat.",
        "then rate_limited, and nobody in the scope sends for 30s",
        "key in the header: true; in a URL: false",
    ] {
        assert!(text.contains(line), "{text}");
    }
}

#[test]
fn vertex_asks_for_one_token_and_goes_to_its_project_and_location() {
    let text = run("vertex");
    for line in [
        "embed: 3 admitted requests, 1 token fetched",
        "generate: Limits are kept.",
        "rerank: best is document 2",
        "POST /v1/projects/my-project/locations/us-central1/publishers/google/models/text-embedding-005:predict",
        "POST /v1/projects/my-project/locations/global/publishers/google/models/gemini-2.5-flash:generateContent",
        "POST /v1/projects/my-project/locations/global/rankingConfigs/default_ranking_config:rank",
    ] {
        assert!(text.contains(line), "{text}");
    }
}
