//! Antfly's wire: OpenAI's, with refusals of its own.

use std::sync::LazyLock;

use antfly_providers::content::{MediaKind, MediaSupport};
use antfly_providers::testing::conformance::{KEY, Refusal, Report, Row, Stream, Subject, Wire};
use antfly_providers::testing::{Received, Reply};
use antfly_providers::{Kind, Operation};
use bytes::Bytes;
use serde_json::json;

use crate::chat;

struct Antfly;

impl Wire for Antfly {
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
        Some(chat::stream(texts))
    }

    fn error(&self, status: u16, message: &str) -> Reply {
        Reply::json(status, json!({ "error": message }))
    }

    fn output_cap(&self, request: &Received) -> Option<u64> {
        request.json()["max_tokens"].as_u64()
    }

    fn refusals(&self) -> Vec<Refusal> {
        let told = |status| Reply::json(status, json!({"error": "no"}));
        let row = |why: &str, status, kind, retried| {
            Refusal::new(why, told(status), kind).retried(retried)
        };
        vec![
            row("no such model", 404, Kind::NotFound, false),
            row("no encoder", 501, Kind::Unsupported, false),
            row("nothing loaded", 503, Kind::Overloaded, true),
            row("an error inside a 200", 200, Kind::Server, true),
        ]
    }

    fn stream_errors(&self) -> Vec<(Bytes, Kind)> {
        vec![(Bytes::from("data: {\"error\":\"no\"}\n\n"), Kind::Server)]
    }

    fn expired(&self) -> Option<Reply> {
        Some(Reply::json(401, json!({"error": "the token has expired"})))
    }

    fn request_id_header(&self) -> Option<&'static str> {
        Some("x-request-id")
    }
}

/// The key's source is `credential`; a literal one is in the entry.
fn subject(operation: Operation, media: &'static [MediaKind], credential: &'static str) -> Subject {
    let literal = credential.starts_with("literal:");
    Subject::new(antfly_providers::antfly::PLUGIN, operation, move |server| {
        let key = literal.then_some(KEY);
        json!({"provider": "antfly", "model": "m", "url": server, "api_key": key})
    })
    .environment(move |_| (!literal).then_some(("ANTFLY_INFERENCE_API_KEY", KEY)))
    .scope(move |server| {
        vec![
            ("provider", "antfly".to_owned()),
            ("endpoint", format!("{server}/ai/v1")),
            ("operation", operation.as_str().to_owned()),
            ("model", "m".to_owned()),
            ("credential", credential.to_owned()),
        ]
    })
    .media(MediaSupport::Kinds(media))
}

fn embed(credential: &'static str) -> Report {
    const MEDIA: &[MediaKind] = &[MediaKind::Image, MediaKind::Audio, MediaKind::Video];
    subject(Operation::Embed, MEDIA, credential).check(Antfly)
}

static EMBED: LazyLock<Report> = LazyLock::new(|| embed("literal:*"));

static GENERATE: LazyLock<Report> = LazyLock::new(|| {
    const MEDIA: &[MediaKind] = &[
        MediaKind::Image,
        MediaKind::Audio,
        MediaKind::Video,
        MediaKind::File,
    ];
    let generate =
        subject(Operation::Generate, MEDIA, "env:ANTFLY_INFERENCE_API_KEY").default_output_cap(256);
    generate.check(Antfly)
});

#[test]
fn antfly_embed_conforms_with_a_key_of_either_source() {
    EMBED.assert();
    embed("env:ANTFLY_INFERENCE_API_KEY").assert();
}

#[test]
fn antfly_generate_conforms() {
    GENERATE.assert();
}

#[test]
fn antfly_has_passed_the_checks_that_the_table_names() {
    crate::table::holds("antfly", &[&EMBED, &GENERATE]);
}
