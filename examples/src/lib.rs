//! One idea a file, in `examples/`; `tests/run.rs` runs each of them. Run one with
//! `cargo run -p antfly-examples --example quickstart`.
//!
//! Here: the loopback servers they talk to. What those answer is made up; how they are called is real.
#![forbid(unsafe_code)]

use antfly_framework::testing::{Reply, Server};
use serde_json::{Value, json};

/// Says a line on standard output.
pub fn say(line: &str) {
    use std::io::Write as _;
    let _ = writeln!(std::io::stdout(), "{line}");
}

/// An OpenAI-compatible server (embeddings, chat, streamed chat) that ranks like Antfly as well.
pub fn models() -> Server {
    Server::with(|request| {
        let body = request.json();
        match request.path.rsplit('/').next() {
            Some("embeddings") => embeddings(&body),
            Some("completions") if body["stream"] == true => Reply::sse([
                json!({"choices": [{"delta": {"content": "Limits "}}]}).to_string(),
                json!({"choices": [{"delta": {"content": "are kept."}}]}).to_string(),
                json!({"choices": [{"delta": {}, "finish_reason": "stop"}]}).to_string(),
                "[DONE]".to_owned(),
            ]),
            Some("completions") if body.get("tools").is_some() => Reply::json(
                200,
                json!({"choices": [{"finish_reason": "tool_calls", "message": {"tool_calls": [
                    {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": "{\"city\":\"Oslo\"}"}}]}}]}),
            ),
            Some("completions") => Reply::json(
                200,
                json!({"choices": [{"message": {"content": "Limits are kept."}, "finish_reason": "stop"}],
                       "usage": {"prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 8}}),
            ),
            Some("rerank") => {
                let count = body["prompts"].as_array().map_or(0, Vec::len);
                let scores: Vec<_> = (0..count)
                    .map(|i| json!({"index": i, "score": 1.0 / (1.0 + i as f64)}))
                    .collect();
                Reply::json(200, json!({"data": scores}))
            }
            _ => Reply::json(404, json!({"error": {"message": "no such path"}})),
        }
    })
}

fn embeddings(body: &Value) -> Reply {
    let texts = body["input"].as_array().cloned().unwrap_or_default();
    let data: Vec<_> = texts
        .iter()
        .enumerate()
        .map(|(index, text)| {
            let bytes = text.as_str().unwrap_or("").bytes();
            let (sum, count) = bytes.fold((0_u32, 0_u32), |(s, n), b| (s + u32::from(b), n + 1));
            json!({"index": index, "embedding": [f64::from(sum) / 1000.0, f64::from(count)]})
        })
        .collect();
    Reply::json(200, json!({"data": data}))
}

/// The wire of `custom_provider`: `{"texts": [..]}` to a list of vectors.
pub fn vectors() -> Server {
    Server::with(|request| {
        let texts = request.json()["texts"].as_array().map_or(0, Vec::len);
        Reply::json(200, json!(vec![vec![0.5, 0.25]; texts]))
    })
}

/// Bedrock's runtime endpoint: Titan embeddings, and Converse as a stream of binary frames.
pub fn bedrock() -> Server {
    Server::with(|request| {
        if request.path.ends_with("/invoke") {
            let numbers = request.json()["dimensions"].as_u64().unwrap_or(1024);
            let vector: Vec<f64> = (0..numbers).map(|i| 1.0 / (1.0 + i as f64)).collect();
            return Reply::json(200, json!({"embedding": vector, "inputTextTokenCount": 1}));
        }
        let frames = [
            ("messageStart", json!({"role": "assistant"})),
            (
                "contentBlockDelta",
                json!({"contentBlockIndex": 0, "delta": {"text": "Limits "}}),
            ),
            (
                "contentBlockDelta",
                json!({"contentBlockIndex": 0, "delta": {"text": "are kept."}}),
            ),
            ("messageStop", json!({"stopReason": "end_turn"})),
            (
                "metadata",
                json!({"usage": {"inputTokens": 5, "outputTokens": 3, "totalTokens": 8}}),
            ),
        ];
        frames.iter().fold(
            Reply::stream(200, "application/vnd.amazon.eventstream"),
            |reply, (name, payload)| reply.chunk(frame(name, payload)),
        )
    })
}

fn frame(name: &str, payload: &Value) -> Vec<u8> {
    use aws_smithy_types::event_stream::{Header, HeaderValue, Message};
    let header = |name: &'static str, value: &str| {
        Header::new(name, HeaderValue::String(value.to_owned().into()))
    };
    let message = Message::new(payload.to_string().into_bytes())
        .add_header(header(":message-type", "event"))
        .add_header(header(":event-type", name));
    let mut bytes = Vec::new();
    aws_smithy_eventstream::frame::write_message_to(&message, &mut bytes)
        .expect("a small message fits a frame");
    bytes
}
