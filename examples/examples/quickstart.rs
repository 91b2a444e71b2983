//! Embed, generate (whole and streamed) and rerank under one client, each within its limits. Brings its own loopback server; no
//! account, no key, no network.

use std::time::Instant;

use antfly_examples::say;
use antfly_providers::{Document, EmbedRequest, GenerateRequest, Operation, RerankRequest, Result};
use serde_json::json;

#[tokio::main]
async fn main() -> Result<()> {
    let server = antfly_examples::models();
    let url = server.url();
    let config = json!({
        "embedders": { "docs": { "provider": "openai", "model": "embed-small", "url": url, "batch_size": 4,
            "rate_limit": { "requests_per_minute": 1200, "burst": 2, "max_concurrency": 2 } } },
        "generators": { "writer": { "provider": "openai", "model": "chat-small", "url": url, "max_tokens": 64 } },
        "rerankers": { "ranker": { "provider": "antfly", "model": "rank-small", "url": url } },
    });
    let document = Document::parse(&config.to_string())?;
    let client = antfly_providers::client_builder()?.build()?;
    let entry = |operation, name| {
        document
            .entry(operation, name)
            .expect("it is in the document above")
    };

    let embedder = client.embedder(entry(Operation::Embed, "docs"))?;
    let start = Instant::now();
    let texts: Vec<String> = (0..40).map(|i| format!("document number {i}")).collect();
    let vectors = embedder.embed(EmbedRequest::texts(texts)).await?;
    let scope = embedder.scope_snapshot();
    say(&format!(
        "embed:    {} texts, {} numbers each, in {} admitted requests over {:.0?} (burst 2, then 20 a second, 2 at a time)",
        vectors.len(),
        vectors.dim(),
        scope.counters.admitted,
        start.elapsed(),
    ));

    let generator = client.generator(entry(Operation::Generate, "writer"))?;
    let answer = generator
        .generate(GenerateRequest::prompt("Are limits kept?"))
        .await?;
    say(&format!("generate: {}", answer.text));
    let stream = generator
        .stream(GenerateRequest::prompt("Are limits kept?"))
        .await?;
    say(&format!(
        "stream:   {}",
        stream.collect_generation().await?.text
    ));

    let reranker = client.reranker(entry(Operation::Rerank, "ranker"))?;
    let ranking = reranker
        .rerank(RerankRequest::new("limits", ["kept", "broken"]))
        .await?;
    say(&format!(
        "rerank:   best is document {}",
        ranking.results[0].index
    ));

    let admitted: u64 = client.snapshot().iter().map(|s| s.counters.admitted).sum();
    say(&format!(
        "requests at the server: {}; admitted: {admitted}",
        server.requests().len()
    ));
    Ok(())
}
