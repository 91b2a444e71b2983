//! The sample's own wire, as the author of an adapter would write it down.

use std::time::Duration;

use bytes::Bytes;
use serde_json::json;

use super::super::{KEY, Refusal, Row, Score, Stream, Subject, Wire};
use super::{ENGINE_PLUGIN, LOCAL_PLUGIN, PLUGIN};
use crate::content::{MediaKind, MediaSupport};
use crate::error::Kind;
use crate::provider::Operation;
use crate::testing::{Received, Reply};

/// What the sample's generator takes besides text.
pub const MEDIA: MediaSupport = MediaSupport::Kinds(&[MediaKind::Image]);

/// How the sample's server speaks.
#[derive(Clone, Copy, Debug, Default)]
pub struct Script;

impl Wire for Script {
    fn texts(&self, request: &Received) -> Vec<String> {
        let body = request.json();
        let texts = body.get("texts").or(body.get("documents"));
        serde_json::from_value(texts.cloned().unwrap_or_default()).unwrap_or_default()
    }

    fn embeddings(&self, rows: &[Row<'_>]) -> Option<Reply> {
        let rows: Vec<_> = rows
            .iter()
            .map(|r| json!({"at": r.index, "vector": r.vector}))
            .collect();
        Some(Reply::json(200, json!({ "rows": rows })))
    }

    fn ranking(&self, scores: &[Score]) -> Option<Reply> {
        let scores: Vec<_> = scores
            .iter()
            .map(|s| json!({"at": s.index, "score": s.score}))
            .collect();
        Some(Reply::json(200, json!({ "scores": scores })))
    }

    fn generation(&self, text: &str) -> Option<Reply> {
        Some(Reply::json(200, json!({"text": text, "finish": "stop"})))
    }

    fn stream(&self, texts: &[&str]) -> Option<Stream> {
        let deltas = texts.iter().map(|t| json!({ "text": t }).to_string());
        let finish = json!({"finish": "stop"}).to_string();
        Some(Stream::sse(deltas, [finish], ["[DONE]".to_owned()]))
    }

    fn output_cap(&self, request: &Received) -> Option<u64> {
        request.json()["max_tokens"].as_u64()
    }

    fn refusals(&self) -> Vec<Refusal> {
        let error = |status, code, wait| {
            Reply::json(
                status,
                json!({"error": {"message": "no", "code": code, "wait": wait}}),
            )
        };
        vec![
            Refusal::new("spent", error(429, "broke", None), Kind::QuotaExhausted)
                .code("broke")
                .retried(false),
            Refusal::new(
                "slow down",
                error(429, "slow_down", Some("2.5s")),
                Kind::RateLimited,
            )
            .waits(Duration::from_millis(2500))
            .retried(true),
            Refusal::new(
                "full inside a 200",
                error(200, "full", None),
                Kind::Overloaded,
            )
            .retried(true),
        ]
    }

    fn expired(&self) -> Option<Reply> {
        let error = json!({"message": "no", "code": "expired"});
        Some(Reply::json(401, json!({ "error": error })))
    }

    fn auxiliary(&self, request: &Received) -> Option<Reply> {
        (request.path == "/token").then(|| Reply::json(200, "{}"))
    }

    fn stream_errors(&self) -> Vec<(Bytes, Kind)> {
        let event = |code| {
            let error = json!({"error": {"message": "no", "code": code}});
            Bytes::from(format!("data: {error}\n\n"))
        };
        vec![
            (event("slow_down"), Kind::RateLimited),
            (event("full"), Kind::Overloaded),
            (event("other"), Kind::Server),
        ]
    }

    fn request_id_header(&self) -> Option<&'static str> {
        Some("x-request-id")
    }
}

/// The same with lines of JSON for streams, which the model `lines` reads.
#[derive(Clone, Copy, Debug, Default)]
pub struct LineScript;

impl Wire for LineScript {
    fn generation(&self, text: &str) -> Option<Reply> {
        Script.generation(text)
    }

    fn stream(&self, texts: &[&str]) -> Option<Stream> {
        let line = |value: serde_json::Value| format!("{value}\n");
        let deltas = texts.iter().map(|t| line(json!({ "text": t })));
        let finish = line(json!({"finish": "stop"}));
        Some(Stream::new("application/x-ndjson", deltas, [finish], []))
    }

    fn output_cap(&self, request: &Received) -> Option<u64> {
        Script.output_cap(request)
    }

    fn stream_errors(&self) -> Vec<(Bytes, Kind)> {
        let error = "{\"error\": {\"message\": \"no\", \"code\": \"full\"}}\n";
        vec![(Bytes::from(error), Kind::Overloaded)]
    }
}

/// The sample with `model`, on the HTTP or the engine route.
pub fn subject(operation: Operation, by_engine: bool, model: &str) -> Subject {
    let plugin = if by_engine { ENGINE_PLUGIN } else { PLUGIN };
    let media = match operation {
        Operation::Generate => MEDIA,
        _ => MediaSupport::None,
    };
    let (name, entry_model, scope_model) = (plugin.name, model.to_owned(), model.to_owned());
    Subject::new(plugin, operation, move |server| {
        json!({"provider": name, "model": entry_model, "url": server, "api_key": KEY})
    })
    .scope(move |server| {
        vec![
            ("provider", name.to_owned()),
            ("endpoint", server.to_owned()),
            ("operation", operation.as_str().to_owned()),
            ("model", scope_model.clone()),
            ("credential", "literal:*".to_owned()),
            ("project", "none".to_owned()),
        ]
    })
    .media(media)
}

/// The sample with `model` on the local route.
pub fn local_subject(operation: Operation, model: &str) -> Subject {
    let (name, entry_model, scope_model) = (LOCAL_PLUGIN.name, model.to_owned(), model.to_owned());
    Subject::new(
        LOCAL_PLUGIN,
        operation,
        move |_| json!({"provider": name, "model": entry_model}),
    )
    .scope(move |_| {
        vec![
            ("provider", name.to_owned()),
            ("endpoint", "in-process".to_owned()),
            ("operation", operation.as_str().to_owned()),
            ("model", scope_model.clone()),
            ("credential", "anonymous".to_owned()),
        ]
    })
    .default_output_cap(256)
}
