//! Signatures, checked by botocore: opt-in, as it needs Python. `pip install botocore`, then
//! `ANTFLY_BOTOCORE_PYTHON=python3 cargo test -p antfly-providers --test bedrock botocore`.

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use antfly_framework::testing::{Received, Server};
use antfly_framework::{EmbedRequest, GenerateRequest};
use aws_smithy_types::DateTime;
use aws_smithy_types::date_time::Format;
use serde_json::{Value, json};

use crate::frames::whole;
use crate::paths::PROFILE;
use crate::support::{CLAUDE, KEY_ID, SECRET, answer, client, embedder, env, generator, vector};

/// The interpreter that has botocore, when the caller names one.
fn python() -> Option<String> {
    std::env::var("ANTFLY_BOTOCORE_PYTHON")
        .ok()
        .filter(|path| !path.is_empty())
}

fn verify(python: &str, server: &Server, request: &Received, token: Option<&str>) {
    let headers: serde_json::Map<String, Value> = request
        .headers
        .iter()
        .map(|(name, value)| (name.to_string(), json!(value.to_str().unwrap())))
        .collect();
    let body: String = request
        .body
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let told = json!({
        "method": request.method, "url": format!("{}{}", server.url(), request.path), "headers": headers, "body": body,
        "access_key": KEY_ID, "secret_key": SECRET, "token": token, "region": "us-east-1",
    });
    let mut child = Command::new(python)
        .arg(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/tests/bedrock/verify.py"
        ))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(told.to_string().as_bytes())
        .unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let failed = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && said.trim() == "ok",
        "{} {said} {failed}",
        request.path
    );
}

#[tokio::test]
async fn botocore_agrees_with_the_signature_of_every_kind_of_model_id_and_call() {
    let Some(python) = python() else { return };
    let server = Server::with(|request| match request.path.rsplit('/').next() {
        Some("invoke") => vector(),
        Some("converse") => answer("ok"),
        _ => whole(&["ok"]),
    });
    for token in [None, Some("the-session-token")] {
        let mut pairs = vec![
            ("AWS_ACCESS_KEY_ID", KEY_ID),
            ("AWS_SECRET_ACCESS_KEY", SECRET),
        ];
        pairs.extend(token.map(|token| ("AWS_SESSION_TOKEN", token)));
        let client = client(env(&pairs));
        for model in [
            "amazon.titan-embed-text-v1",
            "amazon.titan-embed-text-v2:0",
            PROFILE,
        ] {
            let embedder = embedder(
                &client,
                &server,
                json!({"model": model, "headers": {"X-Team": "a  b"}}),
            );
            embedder
                .embed(EmbedRequest::texts(["na\u{ef}ve"]))
                .await
                .unwrap();
            verify(&python, &server, &server.requests().pop().unwrap(), token);
        }
        for model in ["meta.llama", CLAUDE, PROFILE] {
            let generator = generator(&client, &server, json!({ "model": model }));
            generator
                .generate(GenerateRequest::prompt("x"))
                .await
                .unwrap();
            verify(&python, &server, &server.requests().pop().unwrap(), token);
            let stream = generator
                .stream(GenerateRequest::prompt("x"))
                .await
                .unwrap();
            assert_eq!(stream.collect_generation().await.unwrap().text, "ok");
            verify(&python, &server, &server.requests().pop().unwrap(), token);
        }
    }
    assert_eq!(server.requests().len(), 18);
}

#[tokio::test]
async fn botocore_agrees_and_the_signature_is_fresh_after_a_wait_of_eight_seconds() {
    let Some(python) = python() else { return };
    let arrived: Arc<Mutex<Vec<SystemTime>>> = Arc::default();
    let times = Arc::clone(&arrived);
    let server = Server::with(move |_| {
        times.lock().unwrap().push(SystemTime::now());
        vector()
    });
    let client = client(env(&[
        ("AWS_ACCESS_KEY_ID", KEY_ID),
        ("AWS_SECRET_ACCESS_KEY", SECRET),
    ]));
    let embedder = embedder(
        &client,
        &server,
        json!({"rate_limit": {"requests_per_minute": 7}}),
    );
    embedder.embed(EmbedRequest::texts(["a"])).await.unwrap();
    let asked = SystemTime::now();
    embedder.embed(EmbedRequest::texts(["b"])).await.unwrap();
    let request = server.requests().pop().unwrap();
    verify(&python, &server, &request, None);
    let arrived = arrived.lock().unwrap().pop().unwrap();
    assert!(arrived.duration_since(asked).unwrap() >= Duration::from_secs(8));
    let stamp = request.header("x-amz-date").unwrap();
    let (day, time) = stamp.split_once('T').unwrap();
    let text = format!(
        "{}-{}-{}T{}:{}:{}Z",
        &day[..4],
        &day[4..6],
        &day[6..],
        &time[..2],
        &time[2..4],
        &time[4..6]
    );
    let signed = DateTime::from_str(&text, Format::DateTime).unwrap();
    let age = DateTime::from(arrived).secs() - signed.secs();
    // Whole seconds, on a machine that may be busy; a signature from before the wait would be eight old.
    assert!(
        (0..=4).contains(&age),
        "{stamp} arrived {age} s after it was signed"
    );
}
