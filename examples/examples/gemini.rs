//! The Gemini API with a key: a batch of embeddings, an answer that calls a tool, and a 429 whose delay stands in its body. The
//! key travels in a header. Brings its own loopback server, which answers in the API's shapes.

use antfly_examples::say;
use antfly_framework::testing::{Reply, Server};
use antfly_providers::{
    CallOptions, Document, EmbedRequest, GenerateRequest, Message, Operation, Result,
};
use serde_json::json;
use std::time::Duration;

/// Vectors for `batchEmbedContents`; then a tool call, an answer, and a refusal.
fn server() -> Server {
    let limited = json!({"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "slow down", "details": [
        {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "30s"}]}});
    let said = |part: serde_json::Value| {
        let content = json!({"role": "model", "parts": [part]});
        Reply::json(
            200,
            json!({"candidates": [{"content": content, "finishReason": "STOP"}]}),
        )
    };
    Server::start([
        Reply::json(
            200,
            json!({"embeddings": [{"values": [0.5, 0.25]}, {"values": [0.75, 0.5]}]}),
        ),
        said(
            json!({"functionCall": {"name": "weather", "args": {"city": "Oslo"}}, "thoughtSignature": "c2ln"}),
        ),
        said(json!({"text": "Bring a coat."})),
        Reply::json(429, limited),
    ])
}

#[tokio::main]
async fn main() -> Result<()> {
    let server = server();
    let url = server.url();
    let tool = json!({"name": "weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}});
    let config = json!({
        "embedders": { "docs": { "provider": "gemini", "model": "gemini-embedding-001", "url": url, "api_key": "my-key",
                                 "task_type": "RETRIEVAL_DOCUMENT", "dimensions": 2 } },
        "generators": { "writer": { "provider": "gemini", "model": "gemini-2.5-flash", "url": url, "api_key": "my-key",
                                    "tools": [tool], "rate_limit": { "requests_per_minute": 60, "burst": 3 } } },
    });
    let document = Document::parse(&config.to_string())?;
    let client = antfly_providers::client_builder()?.build()?;
    let entry = |operation, name| {
        document
            .entry(operation, name)
            .expect("it is in the document")
    };

    let embedder = client.embedder(entry(Operation::Embed, "docs"))?;
    let vectors = embedder.embed(EmbedRequest::texts(["one", "two"])).await?;
    say(&format!(
        "embed: {} vectors of {} numbers in one request",
        vectors.len(),
        vectors.dim()
    ));

    let writer = client.generator(entry(Operation::Generate, "writer"))?;
    let question = Message::user("What should I wear in Oslo?");
    let answer = writer
        .generate(GenerateRequest::messages([question.clone()]))
        .await?;
    let call = &answer.tool_calls[0];
    say(&format!(
        "the model calls {}({})",
        call.name, call.arguments
    ));
    // The call's id brings back what the model wants to see again, its thought signature.
    let mut said = Message::assistant(answer.text.clone());
    said.tool_calls.clone_from(&answer.tool_calls);
    let result = Message::tool(&call.id, r#"{"celsius": 3}"#);
    let answer = writer
        .generate(GenerateRequest::messages([question, said, result]))
        .await?;
    say(&format!("generate: {}", answer.text));

    let options = CallOptions::default().with_timeout(Duration::from_secs(5));
    let error = writer
        .generate_with(GenerateRequest::prompt("again"), options)
        .await
        .expect_err("the server refuses it");
    say(&format!(
        "then {}, and nobody in the scope sends for {:.0?}",
        error.kind().as_str(),
        writer
            .scope_snapshot()
            .cooldown_remaining
            .unwrap_or_default()
    ));
    let sent = server.requests();
    let in_headers = sent
        .iter()
        .all(|r| r.header("x-goog-api-key") == Some("my-key"));
    let in_urls = sent.iter().any(|r| r.path.contains("my-key"));
    say(&format!(
        "key in the header: {in_headers}; in a URL: {in_urls}"
    ));
    Ok(())
}
