//! Vertex AI with a metadata server for its tokens: embeddings, generation and reranking, each in its scope; one token for many calls
//! of a handle, fetched outside the quota. One loopback server plays both Google's metadata server and the models.

use antfly_examples::say;
use antfly_framework::testing::{Reply, Server};
use antfly_providers::{
    Document, EmbedRequest, Env, GenerateRequest, Operation, RerankRequest, Result,
};
use serde_json::json;

fn google() -> Server {
    Server::with(|request| {
        let body = request.json();
        let count = |list: &str| body[list].as_array().map_or(0, Vec::len);
        let answer = match request.path.rsplit([':', '/']).next().unwrap_or("") {
            token if token.starts_with("token") => {
                json!({"access_token": "a-token", "expires_in": 3600, "token_type": "Bearer"})
            }
            "predict" => {
                let one = json!({"embeddings": {"values": [0.5, 0.25], "statistics": {"token_count": 2}}});
                json!({"predictions": vec![one; count("instances")]})
            }
            "rank" => {
                let records: Vec<_> = (0..count("records"))
                    .rev()
                    .map(|i| json!({"id": i.to_string(), "score": i as f64 / 10.0}))
                    .collect();
                json!({"records": records})
            }
            _ => {
                json!({"candidates": [{"content": {"parts": [{"text": "Limits are kept."}]}, "finishReason": "STOP"}]})
            }
        };
        Reply::json(200, answer)
    })
}

#[tokio::main]
async fn main() -> Result<()> {
    let server = google();
    let url = server.url();
    let config = json!({
        "embedders": { "docs": { "provider": "vertex", "model": "text-embedding-005", "project_id": "my-project", "url": url,
                                 "rate_limit": { "requests_per_minute": 600, "burst": 2 } } },
        "generators": { "writer": { "provider": "vertex", "model": "gemini-2.5-flash", "project_id": "my-project",
                                    "location": "global", "url": url } },
        "rerankers": { "ranker": { "provider": "vertex", "model": "semantic-ranker-default@latest",
                                   "project_id": "my-project", "url": url } },
    });
    let document = Document::parse(&config.to_string())?;
    // Away from Google's machines leave GCE_METADATA_HOST out: a credentials file is found like everywhere.
    let host = server.address().to_string();
    let client = antfly_providers::client_builder()?
        .env(Env::from_pairs([("GCE_METADATA_HOST", host)]))
        .build()?;
    let entry = |operation, name| {
        document
            .entry(operation, name)
            .expect("it is in the document")
    };

    let embedder = client.embedder(entry(Operation::Embed, "docs"))?;
    for _ in 0..3 {
        embedder.embed(EmbedRequest::texts(["one", "two"])).await?;
    }
    let tokens = |server: &Server| {
        let all = server.requests();
        all.iter().filter(|r| r.path.contains("/token")).count()
    };
    say(&format!(
        "embed: {} admitted requests, {} token fetched",
        embedder.scope_snapshot().counters.admitted,
        tokens(&server)
    ));
    let generator = client.generator(entry(Operation::Generate, "writer"))?;
    let answer = generator
        .generate(GenerateRequest::prompt("Are limits kept?"))
        .await?;
    say(&format!("generate: {}", answer.text));
    let reranker = client.reranker(entry(Operation::Rerank, "ranker"))?;
    let ranking = reranker
        .rerank(RerankRequest::new("limits", ["kept", "broken", "bent"]))
        .await?;
    say(&format!(
        "rerank: best is document {}",
        ranking.results[0].index
    ));
    for request in server.requests().iter().filter(|r| r.method == "POST") {
        say(&format!("POST {}", request.path));
    }
    Ok(())
}
