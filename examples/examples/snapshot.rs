//! What a scope looks like from outside: active, queued, debts, cooldown, counters; and how long one more attempt would wait.

use antfly_providers::{EmbedRequest, EntryConfig, Operation, Result};
use serde_json::json;

#[tokio::main]
async fn main() -> Result<()> {
    let server = antfly_examples::models();
    let client = antfly_providers::client_builder()?.build()?;
    let entry = EntryConfig::from_json(
        Operation::Embed,
        "embedders.docs",
        json!({"provider": "openai", "model": "m", "url": server.url(),
               "rate_limit": {"requests_per_minute": 60, "burst": 3, "tokens_per_minute": 6000}}),
    )?;
    let embedder = client.embedder(&entry)?;
    embedder.embed(EmbedRequest::texts(["one", "two"])).await?;
    for scope in client.snapshot() {
        antfly_examples::say(&format!(
            "{}\n  policy {}; active {}, queued {}, admitted {}, tokens {}",
            scope.key,
            scope.policy,
            scope.active,
            scope.queued,
            scope.counters.admitted,
            scope.counters.tokens_admitted,
        ));
    }
    antfly_examples::say(&format!(
        "5,990 tokens more would wait {:?}",
        embedder.estimated_wait(5990)
    ));
    Ok(())
}
