//! The Gemini API's wire.

use std::sync::LazyLock;
use std::time::Duration;

use antfly_providers::content::{MediaKind, MediaSupport};
use antfly_providers::testing::conformance::{KEY, Refusal, Report, Row, Stream, Subject, Wire};
use antfly_providers::testing::{Received, Reply};
use antfly_providers::{Kind, Operation};
use bytes::Bytes;
use serde_json::{Value, json};

struct Gemini;

fn told(code: u16, status: Option<&str>, message: &str, details: Value) -> Value {
    json!({"error": {"code": code, "message": message, "status": status, "details": details}})
}

/// Google's word for a status; the others come from whatever stands in front.
fn word(status: u16) -> Option<&'static str> {
    Some(match status {
        400 => "INVALID_ARGUMENT",
        401 => "UNAUTHENTICATED",
        403 => "PERMISSION_DENIED",
        404 => "NOT_FOUND",
        429 => "RESOURCE_EXHAUSTED",
        500 => "INTERNAL",
        503 => "UNAVAILABLE",
        504 => "DEADLINE_EXCEEDED",
        _ => return None,
    })
}

fn candidate(text: &str, finish: Option<&str>) -> Value {
    let mut candidate =
        json!({"content": {"role": "model", "parts": [{"text": text}]}, "index": 0});
    if let Some(finish) = finish {
        candidate["finishReason"] = json!(finish);
    }
    json!({"candidates": [candidate]})
}

impl Wire for Gemini {
    fn texts(&self, request: &Received) -> Vec<String> {
        let body = request.json();
        let requests = body["requests"].as_array().cloned().unwrap_or_default();
        let text = |r: &Value| r["content"]["parts"][0]["text"].as_str().map(str::to_owned);
        requests.iter().filter_map(text).collect()
    }

    fn embeddings(&self, rows: &[Row<'_>]) -> Option<Reply> {
        let rows: Vec<_> = rows.iter().map(|r| json!({"values": r.vector})).collect();
        Some(Reply::json(200, json!({ "embeddings": rows })))
    }

    fn indexed(&self) -> bool {
        false
    }

    fn generation(&self, text: &str) -> Option<Reply> {
        Some(Reply::json(200, candidate(text, Some("STOP"))))
    }

    fn stream(&self, texts: &[&str]) -> Option<Stream> {
        let deltas = texts.iter().map(|t| candidate(t, None).to_string());
        let finish = json!({"candidates": [{"finishReason": "STOP", "index": 0}]}).to_string();
        Some(Stream::sse(deltas, [finish], []))
    }

    fn output_cap(&self, request: &Received) -> Option<u64> {
        request.json()["generationConfig"]["maxOutputTokens"].as_u64()
    }

    fn error(&self, status: u16, message: &str) -> Reply {
        Reply::json(status, told(status, word(status), message, json!([])))
    }

    fn refusals(&self) -> Vec<Refusal> {
        let info = |delay: &str| json!([{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay}]);
        let rate = Reply::json(
            429,
            told(429, Some("RESOURCE_EXHAUSTED"), "slow", info("2.5s")),
        );
        let reason = json!([{
            "@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID",
        }]);
        let key = Reply::json(
            400,
            told(400, Some("INVALID_ARGUMENT"), "API key not valid.", reason),
        );
        let aborted = Reply::json(409, told(409, Some("ABORTED"), "no", json!([])));
        vec![
            Refusal::new("RetryInfo in the body", rate, Kind::RateLimited)
                .waits(Duration::from_millis(2500))
                .retried(true),
            // Google asks to try the whole operation again; nothing is sent again within the call.
            Refusal::new("ABORTED", aborted, Kind::Server).retried(false),
            Refusal::new("a key that is none, under a 400", key, Kind::Auth).retried(false),
        ]
    }

    fn expired(&self) -> Option<Reply> {
        let reason = json!([{
            "@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID",
        }]);
        let words = "API key expired. Please renew the API key.";
        let error = told(400, Some("INVALID_ARGUMENT"), words, reason);
        Some(Reply::json(400, error))
    }

    fn stream_errors(&self) -> Vec<(Bytes, Kind)> {
        let event = |code| {
            let error = told(code, word(code), "no", json!([]));
            Bytes::from(format!("data: {error}\n\n"))
        };
        vec![
            (event(503), Kind::Overloaded),
            (event(429), Kind::RateLimited),
        ]
    }
}

/// The key's source is `credential`; a literal one is in the entry.
fn subject(operation: Operation, model: &'static str, credential: &'static str) -> Subject {
    let literal = credential.starts_with("literal:");
    Subject::new(antfly_providers::gemini::PLUGIN, operation, move |server| {
        let key = literal.then_some(KEY);
        json!({"provider": "gemini", "model": model, "url": server, "api_key": key})
    })
    .environment(move |_| (!literal).then_some(("GEMINI_API_KEY", KEY)))
    .scope(move |server| {
        vec![
            ("provider", "gemini".to_owned()),
            ("endpoint", format!("{server}/v1beta")),
            ("operation", operation.as_str().to_owned()),
            ("model", model.to_owned()),
            ("credential", credential.to_owned()),
        ]
    })
}

fn embed(credential: &'static str) -> Report {
    subject(Operation::Embed, "gemini-embedding-001", credential).check(Gemini)
}

static EMBED: LazyLock<Report> = LazyLock::new(|| embed("literal:*"));

static GENERATE: LazyLock<Report> = LazyLock::new(|| {
    use MediaKind::{Audio, File, Image, Video};
    let media = MediaSupport::Kinds(&[Image, Audio, Video, File]);
    let generate = subject(
        Operation::Generate,
        "gemini-2.5-flash",
        "env:GEMINI_API_KEY",
    );
    generate.media(media).check(Gemini)
});

#[test]
fn gemini_embed_conforms_with_a_key_of_either_source() {
    EMBED.assert();
    embed("env:GEMINI_API_KEY").assert();
}

#[test]
fn gemini_generate_conforms() {
    GENERATE.assert();
}

#[test]
fn gemini_has_passed_the_checks_that_the_table_names() {
    crate::table::holds("gemini", &[&EMBED, &GENERATE]);
}
