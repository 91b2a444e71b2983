//! A provider of one's own, as a crate outside this workspace would write it. It says what its endpoint is and translates; the
//! framework admits every request of it like anyone else's.

use std::sync::Arc;

use antfly_providers::content::MediaSupport;
use antfly_providers::embed::EmbedPart;
use antfly_providers::provider::*;
use antfly_providers::secret::CredentialSource;
use antfly_providers::{
    Client, EmbedInput, EmbedRequest, Embeddings, EntryConfig, Error, Kind, Registry, Result,
};
use async_trait::async_trait;
use bytes::Bytes;
use http::HeaderMap;

// ---- the provider -----------------------------------------------------------------------------------------------------
pub(crate) const PLUGIN: Plugin = Plugin {
    name: "acme",
    operations: &[Operation::Embed],
    env_prefix: None,
    resolve: |setup| Ok(Arc::new(Acme::new(setup.entry)?)),
};

#[derive(Debug)]
struct Acme {
    url: url::Url,
    declared: Declared,
    extra_body: serde_json::Map<String, serde_json::Value>,
}

impl Acme {
    fn new(entry: &EntryConfig) -> Result<Self> {
        entry.refuse_fields_not_in(&["url"])?;
        if entry.extra_body.contains_key("texts") {
            let path = entry.field("extra_body.texts");
            return Err(Error::config(path, "this field belongs to the adapter"));
        }
        let url = entry.url.as_deref().unwrap_or("http://127.0.0.1:9999");
        let endpoint = antfly_providers::http::Endpoint::parse(url)
            .map_err(|e| Error::config(entry.field("url"), e.message()))?;
        let declared = Declared::new(
            Identity::new(entry, &endpoint),
            CredentialSource::anonymous(),
            TokenCost::Text,
            MediaSupport::None,
            1024,
        );
        let url = endpoint.join("vectors")?;
        Ok(Acme {
            url,
            declared,
            extra_body: entry.extra_body.clone(),
        })
    }
}

impl Provider for Acme {
    fn declare(&self) -> &Declared {
        &self.declared
    }
    fn route(&self) -> Route<'_> {
        Route::Http(self)
    }
}

#[async_trait]
impl CredentialProvider for Acme {
    async fn credential(&self, _: Freshness) -> Result<Credential> {
        Ok(Credential::anonymous())
    }
}

impl Codec for Acme {
    fn embed(&self) -> Option<&dyn EmbedCodec> {
        Some(self)
    }
    fn classify(&self, head: &Head, body: &[u8]) -> Error {
        Error::new(Kind::of_status(head.status), String::from_utf8_lossy(body))
    }
}

impl HttpProvider for Acme {
    fn authorize(&self, _: &Prepared, _: &Credential) -> Result<HeaderMap> {
        Ok(HeaderMap::new())
    }
}

impl EmbedCodec for Acme {
    fn limits(&self) -> BatchLimits {
        BatchLimits {
            max_items: 2,
            max_bytes: 10_000,
        }
    }
    fn prepare(&self, part: &EmbedPart<'_>) -> Result<Prepared> {
        let texts: Vec<_> = part.inputs.iter().filter_map(EmbedInput::as_text).collect();
        let mut body = self.extra_body.clone();
        body.insert("texts".to_owned(), serde_json::json!(texts));
        Prepared::json(self.url.clone(), &body)
    }
    fn decode(&self, _: &Head, body: Bytes, _: &EmbedPart<'_>) -> Result<Embeddings> {
        let rows: Vec<Vec<f32>> = serde_json::from_slice(&body)
            .map_err(|e| Error::new(Kind::InvalidResponse, format!("not vectors: {e}")))?;
        let dim = rows.first().map_or(0, Vec::len);
        Embeddings::dense(dim, rows.concat())
    }
}
// ---- and its use --------------------------------------------------------------------------------------------------------

#[tokio::main]
async fn main() -> Result<()> {
    let server = antfly_examples::vectors();
    let mut registry = Registry::new();
    registry.register(PLUGIN)?;
    let client = Client::builder().registry(registry).build()?;
    let entry = EntryConfig::from_json(
        Operation::Embed,
        "embedders.mine",
        serde_json::json!({
            "provider": "acme", "model": "tiny", "url": server.url(),
            "rate_limit": { "requests_per_minute": 6000, "max_concurrency": 1 },
        }),
    )?;
    let embedder = client.embedder(&entry)?;
    let vectors = embedder
        .embed(EmbedRequest::texts(["a", "bb", "ccc"]))
        .await?;
    let scope = embedder.scope_snapshot();
    antfly_examples::say(&format!(
        "{} vectors of {} numbers in {} admitted requests, {} at the server",
        vectors.len(),
        vectors.dim(),
        scope.counters.admitted,
        server.requests().len(),
    ));
    Ok(())
}
