//! The remote reranker, proved by the framework's conformance kit: what any third party's adapter can do for itself.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used)] // A test fails by panicking.

use antfly_framework::content::{MediaKind, MediaSupport};
use antfly_framework::testing::conformance::{KEY, Refusal, Report, Score, Subject, Wire};
use antfly_framework::testing::{Received, Reply};
use antfly_framework::{Kind, Operation};
use serde_json::json;

#[path = "../../providers/tests/conformance/table.rs"]
mod table;

struct Antfly;

impl Wire for Antfly {
    fn texts(&self, request: &Received) -> Vec<String> {
        serde_json::from_value(request.json()["prompts"].clone()).unwrap_or_default()
    }

    fn ranking(&self, scores: &[Score]) -> Option<Reply> {
        let data: Vec<_> = scores
            .iter()
            .map(|s| json!({"object": "rerank.score", "index": s.index, "score": s.score}))
            .collect();
        Some(Reply::json(200, json!({"object": "list", "data": data})))
    }

    fn error(&self, status: u16, message: &str) -> Reply {
        Reply::json(status, json!({ "error": message }))
    }

    fn refusals(&self) -> Vec<Refusal> {
        let told = |status| Reply::json(status, json!({"error": "no"}));
        vec![
            Refusal::new("no encoder", told(501), Kind::Unsupported).retried(false),
            Refusal::new("a gateway: pay", told(402), Kind::QuotaExhausted).retried(false),
            Refusal::new("an error inside a 200", told(200), Kind::Server),
        ]
    }

    fn expired(&self) -> Option<Reply> {
        Some(Reply::json(401, json!({"error": "the token has expired"})))
    }

    fn request_id_header(&self) -> Option<&'static str> {
        Some("x-request-id")
    }
}

/// The key's source is `credential`; a literal one is in the entry.
fn conforms(credential: &'static str) -> Report {
    let literal = credential.starts_with("literal:");
    let entry = move |server: &str| {
        let key = literal.then_some(KEY);
        json!({"provider": "antfly", "model": "m", "url": server, "api_key": key})
    };
    let report = Subject::new(antfly_reranker::PLUGIN, Operation::Rerank, entry)
        .environment(move |_| (!literal).then_some(("ANTFLY_INFERENCE_API_KEY", KEY)))
        .scope(move |server| {
            vec![
                ("provider", "antfly".to_owned()),
                ("endpoint", format!("{server}/ai/v1")),
                ("operation", "rerank".to_owned()),
                ("model", "m".to_owned()),
                ("credential", credential.to_owned()),
            ]
        })
        .media(MediaSupport::Kinds(&[
            MediaKind::Image,
            MediaKind::Audio,
            MediaKind::Video,
        ]))
        .check(Antfly);
    report.assert();
    report
}

#[test]
fn the_antfly_reranker_conforms() {
    table::holds("antfly-reranker", &[&conforms("literal:*")]);
}

#[test]
fn the_antfly_reranker_conforms_with_a_key_from_the_environment() {
    conforms("env:ANTFLY_INFERENCE_API_KEY");
}
