//! What OpenAI's wire answers when all is well: more than one adapter speaks it.

use antfly_providers::testing::conformance::{Row, Stream};
use antfly_providers::testing::{Received, Reply};
use serde_json::{Value, json};

pub(crate) fn texts(request: &Received) -> Vec<String> {
    serde_json::from_value(request.json()["input"].clone()).unwrap_or_default()
}

pub(crate) fn embeddings(rows: &[Row<'_>]) -> Reply {
    let data: Vec<_> = rows
        .iter()
        .map(|r| json!({"object": "embedding", "index": r.index, "embedding": r.vector}))
        .collect();
    Reply::json(200, json!({"object": "list", "data": data}))
}

pub(crate) fn generation(text: &str) -> Reply {
    let message = json!({"role": "assistant", "content": text});
    let choice = json!({"index": 0, "message": message, "finish_reason": "stop"});
    Reply::json(200, json!({"id": "c", "choices": [choice]}))
}

/// A chunk's data.
pub(crate) fn chunk(delta: Value, finish: Value) -> String {
    json!({"id": "c", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})
        .to_string()
}

pub(crate) fn stream(texts: &[&str]) -> Stream {
    let deltas: Vec<_> = texts
        .iter()
        .map(|t| chunk(json!({ "content": t }), Value::Null))
        .collect();
    let finish = chunk(json!({}), json!("stop"));
    Stream::sse(deltas, vec![finish], vec!["[DONE]".to_owned()])
}
