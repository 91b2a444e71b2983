//! A secret store of one's own: a rotated key is used by the next attempt, and the quota does not start anew.

use std::sync::{Arc, Mutex};

use antfly_providers::secret::SecretStore;
use antfly_providers::{EmbedRequest, EntryConfig, Operation, Result};
use async_trait::async_trait;
use secrecy::SecretString;
use serde_json::json;

#[derive(Debug)]
struct Vault(Mutex<&'static str>);

#[async_trait]
impl SecretStore for Vault {
    fn id(&self) -> String {
        "vault:team-a".to_owned()
    }
    fn holds(&self, name: &str) -> Result<bool> {
        Ok(name == "models/key")
    }
    async fn get(&self, _: &str) -> Result<Option<SecretString>> {
        let key = *self.0.lock().unwrap_or_else(|e| e.into_inner());
        Ok(Some(SecretString::from(key)))
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let server = antfly_examples::models();
    let vault = Arc::new(Vault(Mutex::new("first-key")));
    let client = antfly_providers::client_builder()?
        .secret_store(vault.clone())
        .build()?;
    let entry = EntryConfig::from_json(
        Operation::Embed,
        "embedders.docs",
        json!({"provider": "openai", "model": "m", "url": server.url(), "api_key": "${secret:models/key}"}),
    )?;
    let embedder = client.embedder(&entry)?;
    embedder.embed(EmbedRequest::texts(["before"])).await?;
    *vault.0.lock().unwrap_or_else(|e| e.into_inner()) = "second-key";
    embedder.embed(EmbedRequest::texts(["after"])).await?;
    for request in server.requests() {
        antfly_examples::say(&format!("{:?}", request.header("authorization")));
    }
    antfly_examples::say(&format!("one scope: {}", embedder.scope()));
    Ok(())
}
