//! Amazon Bedrock through the AWS SDK: a Titan embedder and a streamed generation. Brings its own loopback endpoint; with your own
//! account, leave `url` and the environment below out.

use antfly_examples::say;
use antfly_providers::{
    Document, EmbedRequest, Env, GenerateRequest, Operation, Result, StreamEvent,
};
use serde_json::json;

#[tokio::main]
async fn main() -> Result<()> {
    let server = antfly_examples::bedrock();
    let url = server.url();
    let config = json!({
        "embedders": { "docs": { "provider": "bedrock", "model": "amazon.titan-embed-text-v2:0", "region": "eu-west-1", "url": url,
            "dimensions": 256, "rate_limit": { "requests_per_minute": 6000, "burst": 2 } } },
        "generators": { "writer": { "provider": "bedrock", "model": "anthropic.claude-sonnet-4-5-20250929-v1:0",
            "region": "eu-west-1", "url": url, "max_tokens": 64 } },
    });
    let document = Document::parse(&config.to_string())?;
    // In a program of your own: nothing. The process's environment, its profiles and its instance's role are used.
    let env = Env::from_pairs([
        ("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE"),
        ("AWS_SECRET_ACCESS_KEY", "example"),
    ]);
    let client = antfly_providers::client_builder()?.env(env).build()?;
    let entry = |operation, name| {
        document
            .entry(operation, name)
            .expect("it is in the document above")
    };

    let embedder = client.embedder(entry(Operation::Embed, "docs"))?;
    for (name, value) in client.check(entry(Operation::Embed, "docs"))?.scope {
        if matches!(name, "region" | "credential") {
            say(&format!("{name}: {value}"));
        }
    }
    let vectors = embedder
        .embed(EmbedRequest::texts(["one", "two", "three"]))
        .await?;
    let admitted = embedder.scope_snapshot().counters.admitted;
    say(&format!(
        "embed: {} vectors of {} numbers in {admitted} admitted requests",
        vectors.len(),
        vectors.dim()
    ));

    let generator = client.generator(entry(Operation::Generate, "writer"))?;
    let mut stream = generator
        .stream(GenerateRequest::prompt("Are limits kept?"))
        .await?;
    while let Some(event) = stream.next().await {
        match event? {
            StreamEvent::Text(text) => say(&format!("delta: {text:?}")),
            StreamEvent::Finish { reason, .. } => say(&format!("finish: {}", reason.as_str())),
            _ => {}
        }
    }
    say(&format!(
        "requests at the server: {}",
        server.requests().len()
    ));
    Ok(())
}
