//! OpenAI's wire.

use std::sync::LazyLock;

use antfly_providers::content::{MediaKind, MediaSupport};
use antfly_providers::testing::conformance::{KEY, Refusal, Report, Row, Stream, Subject, Wire};
use antfly_providers::testing::{Received, Reply};
use antfly_providers::{Kind, Operation};
use bytes::Bytes;
use serde_json::{Value, json};

use crate::chat;

struct OpenAi;

impl Wire for OpenAi {
    fn texts(&self, request: &Received) -> Vec<String> {
        chat::texts(request)
    }

    fn embeddings(&self, rows: &[Row<'_>]) -> Option<Reply> {
        Some(chat::embeddings(rows))
    }

    fn generation(&self, text: &str) -> Option<Reply> {
        Some(chat::generation(text))
    }

    fn stream(&self, texts: &[&str]) -> Option<Stream> {
        let role = json!({"role": "assistant", "content": ""});
        let role = chat::chunk(role, Value::Null);
        Some(chat::stream(texts).opening([format!("data: {role}\n\n")]))
    }

    fn output_cap(&self, request: &Received) -> Option<u64> {
        let body = request.json();
        body["max_completion_tokens"]
            .as_u64()
            .or(body["max_tokens"].as_u64())
    }

    fn refusals(&self) -> Vec<Refusal> {
        let told = |status, code: &str| {
            let error = json!({"message": "no", "type": "error", "param": null, "code": code});
            Reply::json(status, json!({ "error": error }))
        };
        let row = |status, code: &str, kind, retried| {
            Refusal::new(format!("{status} {code}"), told(status, code), kind)
                .code(code)
                .retried(retried)
        };
        vec![
            row(429, "insufficient_quota", Kind::QuotaExhausted, false),
            row(429, "rate_limit_exceeded", Kind::RateLimited, true),
            row(400, "context_length_exceeded", Kind::InvalidRequest, false),
            row(400, "content_filter", Kind::ContentBlocked, false),
            row(401, "invalid_api_key", Kind::Auth, false),
            row(404, "model_not_found", Kind::NotFound, false),
            row(503, "engine_overloaded", Kind::Overloaded, true),
            row(200, "rate_limit_exceeded", Kind::RateLimited, true),
        ]
    }

    fn stream_errors(&self) -> Vec<(Bytes, Kind)> {
        let event = |code: &str| {
            let error = json!({"error": {"message": "no", "type": "error", "code": code}});
            Bytes::from(format!("data: {error}\n\n"))
        };
        vec![
            (event("rate_limit_exceeded"), Kind::RateLimited),
            (event("content_filter"), Kind::ContentBlocked),
            (event("engine_overloaded"), Kind::Overloaded),
        ]
    }

    fn expired(&self) -> Option<Reply> {
        let error = json!({"message": "no", "type": "error", "code": "token_expired"});
        Some(Reply::json(401, json!({ "error": error })))
    }

    fn request_id_header(&self) -> Option<&'static str> {
        Some("x-request-id")
    }
}

fn subject(operation: Operation) -> Subject {
    Subject::new(
        antfly_providers::openai::PLUGIN,
        operation,
        |server| json!({"provider": "openai", "model": "m", "url": server, "api_key": KEY, "project": "p1"}),
    )
    .scope(move |server| {
        vec![
            ("provider", "openai".to_owned()),
            ("endpoint", format!("{server}/v1")),
            ("operation", operation.as_str().to_owned()),
            ("model", "m".to_owned()),
            ("credential", "literal:*".to_owned()),
            ("project", "p1".to_owned()),
        ]
    })
}

static EMBED: LazyLock<Report> = LazyLock::new(|| subject(Operation::Embed).check(OpenAi));

static GENERATE: LazyLock<Report> = LazyLock::new(|| {
    let media = MediaSupport::Kinds(&[MediaKind::Image, MediaKind::Audio, MediaKind::File]);
    let generate = subject(Operation::Generate).media(media);
    generate.check(OpenAi)
});

#[test]
fn openai_embed_conforms() {
    EMBED.assert();
}

#[test]
fn openai_generate_conforms() {
    GENERATE.assert();
}

#[test]
fn openai_has_passed_the_checks_that_the_table_names() {
    crate::table::holds("openai", &[&EMBED, &GENERATE]);
}

/// The key from the environment instead of the entry, and no key at all.
#[test]
fn openai_conforms_with_a_key_from_the_environment_and_without_one() {
    let entry = |server: &str| json!({"provider": "openai", "model": "m", "url": server});
    for key in [Some(KEY), None] {
        let source = key.map_or("anonymous", |_| "env:OPENAI_API_KEY");
        Subject::new(antfly_providers::openai::PLUGIN, Operation::Embed, entry)
            .environment(move |_| key.map(|k| ("OPENAI_API_KEY", k)))
            .scope(move |server| {
                vec![
                    ("provider", "openai".to_owned()),
                    ("endpoint", format!("{server}/v1")),
                    ("operation", "embed".to_owned()),
                    ("model", "m".to_owned()),
                    ("credential", source.to_owned()),
                ]
            })
            .check(OpenAi)
            .assert();
    }
}
