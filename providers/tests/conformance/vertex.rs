//! Vertex AI's wires, with a token from a metadata server on the same loopback server.

use std::sync::LazyLock;
use std::time::Duration;

use antfly_providers::content::{MediaKind, MediaSupport};
use antfly_providers::testing::conformance::{
    KEY, Refusal, Report, Row, Score, Stream, Subject, Wire,
};
use antfly_providers::testing::{Received, Reply};
use antfly_providers::{Kind, Operation};
use bytes::Bytes;
use serde_json::{Value, json};

struct Vertex;

fn status(code: u16, word: &str, message: &str, details: Value) -> Value {
    json!({"error": {"code": code, "status": word, "message": message, "details": details}})
}

fn detail(name: &str, mut fields: Value) -> Value {
    fields["@type"] = json!(format!("type.googleapis.com/google.rpc.{name}"));
    fields
}

impl Wire for Vertex {
    fn texts(&self, request: &Received) -> Vec<String> {
        let body = request.json();
        let list = if body.get("records").is_some() {
            "records"
        } else {
            "instances"
        };
        let items = body[list].as_array().cloned().unwrap_or_default();
        items
            .iter()
            .map(|item| item["content"].as_str().unwrap_or("").to_owned())
            .collect()
    }

    fn embeddings(&self, rows: &[Row<'_>]) -> Option<Reply> {
        let all: Vec<_> = rows
            .iter()
            .map(|r| json!({"embeddings": {"values": r.vector}}))
            .collect();
        Some(Reply::json(200, json!({"predictions": all})))
    }

    /// Scores carry their record's id; vectors come in the order of the request.
    fn indexed(&self) -> bool {
        false
    }

    fn ranking(&self, scores: &[Score]) -> Option<Reply> {
        let records: Vec<_> = scores
            .iter()
            .map(|s| json!({"id": s.index.to_string(), "score": s.score}))
            .collect();
        Some(Reply::json(200, json!({"records": records})))
    }

    fn generation(&self, text: &str) -> Option<Reply> {
        let content = json!({"role": "model", "parts": [{"text": text}]});
        let candidate = json!({"content": content, "finishReason": "STOP", "index": 0});
        Some(Reply::json(
            200,
            json!({"candidates": [candidate], "responseId": "r-1"}),
        ))
    }

    fn stream(&self, texts: &[&str]) -> Option<Stream> {
        let chunk = |text: &str| json!({"candidates": [{"content": {"role": "model", "parts": [{"text": text}]}, "index": 0}]});
        let deltas: Vec<_> = texts.iter().map(|text| chunk(text).to_string()).collect();
        let mut last = chunk("");
        last["candidates"][0]["finishReason"] = json!("STOP");
        Some(Stream::sse(deltas, vec![last.to_string()], vec![]))
    }

    fn output_cap(&self, request: &Received) -> Option<u64> {
        request.json()["generationConfig"]["maxOutputTokens"].as_u64()
    }

    fn error(&self, code: u16, message: &str) -> Reply {
        Reply::json(
            code,
            json!({"error": {"code": code, "message": message, "details": []}}),
        )
    }

    fn refusals(&self) -> Vec<Refusal> {
        let told = |code, word: &str, details| Reply::json(code, status(code, word, "no", details));
        let violation = |id: &str| detail("QuotaFailure", json!({"violations": [{"quotaId": id}]}));
        let delay = detail("RetryInfo", json!({"retryDelay": "2.5s"}));
        let minute = json!([violation("RequestsPerMinutePerProject"), delay]);
        let day = json!([violation("RequestsPerDayPerProject")]);
        vec![
            Refusal::new(
                "a rate with its delay in the body",
                told(429, "RESOURCE_EXHAUSTED", minute.clone()),
                Kind::RateLimited,
            )
            .retried(true)
            .waits(Duration::from_millis(2500))
            .code("RESOURCE_EXHAUSTED"),
            Refusal::new(
                "a quota of the day",
                told(429, "RESOURCE_EXHAUSTED", day),
                Kind::QuotaExhausted,
            )
            .retried(false),
            Refusal::new(
                "overloaded",
                told(503, "UNAVAILABLE", json!([])),
                Kind::Overloaded,
            )
            .retried(true),
            Refusal::new(
                "a rate inside a 200",
                Reply::json(200, status(429, "RESOURCE_EXHAUSTED", "no", minute)),
                Kind::RateLimited,
            )
            .retried(true),
        ]
    }

    fn stream_errors(&self) -> Vec<(Bytes, Kind)> {
        let event = |code, word: &str| {
            Bytes::from(format!("data: {}\n\n", status(code, word, "no", json!([]))))
        };
        vec![
            (event(503, "UNAVAILABLE"), Kind::Overloaded),
            (event(429, "RESOURCE_EXHAUSTED"), Kind::RateLimited),
            (event(500, "INTERNAL"), Kind::Server),
        ]
    }

    fn auxiliary(&self, request: &Received) -> Option<Reply> {
        request.path.starts_with("/computeMetadata/").then(|| {
            Reply::json(
                200,
                json!({"access_token": KEY, "expires_in": 3600, "token_type": "Bearer"}),
            )
        })
    }
}

const MEDIA: MediaSupport = MediaSupport::Kinds(&[
    MediaKind::Image,
    MediaKind::Audio,
    MediaKind::Video,
    MediaKind::File,
]);

fn vertex(operation: Operation, location: &'static str) -> Subject {
    let host = |server: &str| server.trim_start_matches("http://").to_owned();
    Subject::new(
        antfly_providers::vertex::PLUGIN,
        operation,
        |server| json!({"provider": "vertex", "model": "m", "url": server, "project_id": "p-1"}),
    )
    .environment(move |server| [("GCE_METADATA_HOST", host(server))])
    .scope(move |server| {
        vec![
            ("provider", "vertex".to_owned()),
            ("endpoint", format!("{server}/v1")),
            ("operation", operation.as_str().to_owned()),
            ("model", "m".to_owned()),
            ("credential", format!("google-metadata:{}", host(server))),
            ("project_id", "p-1".to_owned()),
            ("location", location.to_owned()),
        ]
    })
    .skip("error.status", RENEWED)
    .skip("error.any_body", RENEWED)
    .skip("secret.echo", RENEWED)
}

/// These checks hold a 401 for final; how often and with which token it is asked again is pinned in `tests/google`.
const RENEWED: &str = "a 401 of Vertex AI's gets one more attempt with another token";

static EMBED: LazyLock<Report> =
    LazyLock::new(|| vertex(Operation::Embed, "us-central1").check(Vertex));

static GENERATE: LazyLock<Report> = LazyLock::new(|| {
    let generate = vertex(Operation::Generate, "us-central1").media(MEDIA);
    generate.check(Vertex)
});

static RERANK: LazyLock<Report> =
    LazyLock::new(|| vertex(Operation::Rerank, "global").check(Vertex));

#[test]
fn vertex_embed_conforms() {
    EMBED.assert();
}

#[test]
fn vertex_generate_conforms() {
    GENERATE.assert();
}

#[test]
fn vertex_rerank_conforms() {
    RERANK.assert();
}

#[test]
fn vertex_has_passed_the_checks_that_the_table_names() {
    crate::table::holds("vertex", &[&EMBED, &GENERATE, &RERANK]);
}
