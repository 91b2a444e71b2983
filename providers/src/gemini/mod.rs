//! The Gemini API with a key: embeddings and generation.
//!
//! The key travels in the header `x-goog-api-key`, never in a URL. Vertex AI, which speaks nearly the same wire under a project and
//! a location, is the `vertex` adapter.

mod config;
mod wire;

use antfly_framework::embed::{EmbedPart, Embeddings};
use antfly_framework::generate::{GenerateRequest, Generation};
use antfly_framework::http::Endpoint;
use antfly_framework::provider::{
    BatchLimits, Codec, Credential, CredentialProvider, Declared, EmbedCodec, Freshness,
    GenerateCodec, Head, HttpProvider, Operation, Plugin, Prepared, Provider, Route, StreamDecoder,
};
use antfly_framework::secret::ResolvedSecret;
use antfly_framework::{Error, Kind, Result};
use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use secrecy::ExposeSecret as _;
use serde_json::{Map, Value};

use crate::google::generate::body::GenerateBody;
use crate::google::generate::{answer, stream};
use crate::google::media::Files;
use crate::google::{error, segment, vectors};

/// The plugin `gemini`.
pub const PLUGIN: Plugin = Plugin {
    name: "gemini",
    operations: &[Operation::Embed, Operation::Generate],
    env_prefix: Some("GEMINI"),
    resolve: config::resolve,
};

antfly_framework::inventory::submit!(PLUGIN);

/// Contents of one `batchEmbedContents`, and a bound of their bytes far below what a request may have.
const EMBED_LIMITS: BatchLimits = BatchLimits {
    max_items: 100,
    max_bytes: 1 << 20,
};

const KEY_HEADER: HeaderName = HeaderName::from_static("x-goog-api-key");

/// One entry's adapter.
struct Gemini {
    declared: Declared,
    endpoint: Endpoint,
    /// `models/..` or `tunedModels/..`.
    model: String,
    /// `None`: anonymous.
    key: Option<ResolvedSecret>,
    /// An embedder's task, in Google's words.
    task: Option<String>,
    /// An embedder's `extra_body`; a generator's is merged by the framework into each request.
    extra_body: Map<String, Value>,
}

impl Provider for Gemini {
    fn declare(&self) -> &Declared {
        &self.declared
    }

    fn route(&self) -> Route<'_> {
        Route::Http(self)
    }
}

impl Codec for Gemini {
    fn embed(&self) -> Option<&dyn EmbedCodec> {
        Some(self)
    }

    fn generate(&self) -> Option<&dyn GenerateCodec> {
        Some(self)
    }

    fn classify(&self, head: &Head, body: &[u8]) -> Error {
        error::classify(head, body)
    }
}

impl EmbedCodec for Gemini {
    fn limits(&self) -> BatchLimits {
        EMBED_LIMITS
    }

    fn prepare(&self, part: &EmbedPart<'_>) -> Result<Prepared> {
        let count = part.inputs.len();
        if count > EMBED_LIMITS.max_items {
            return Err(Error::new(
                Kind::InvalidRequest,
                format!(
                    "{count} inputs in one request; the Gemini API takes at most {}: use a smaller batch size",
                    EMBED_LIMITS.max_items
                ),
            ));
        }
        let body = wire::batch(
            &self.model,
            part,
            self.task.as_deref(),
            &self.extra_body,
            self.files(),
        )?;
        self.request("batchEmbedContents", &body)
    }

    fn decode(&self, head: &Head, body: Bytes, part: &EmbedPart<'_>) -> Result<Embeddings> {
        let mut embeddings = vectors::decode(head, &body, part.inputs.len())?;
        embeddings.request_id = self.request_id(head);
        Ok(embeddings)
    }
}

impl GenerateCodec for Gemini {
    fn prepare(&self, request: &GenerateRequest, stream: bool) -> Result<Prepared> {
        let body = GenerateBody::new(request, self.files())?;
        let verb = if stream {
            "streamGenerateContent?alt=sse"
        } else {
            "generateContent"
        };
        let cap = request.max_tokens.map_or(0, u64::from);
        Ok(self.request(verb, &body)?.with_output_cap(cap))
    }

    fn decode(&self, head: &Head, body: Bytes, _request: &GenerateRequest) -> Result<Generation> {
        answer::decode(head, &body, self.request_id(head))
    }

    fn stream_decoder(&self, head: &Head, _request: &GenerateRequest) -> Box<dyn StreamDecoder> {
        Box::new(stream::Decoder::new(head))
    }
}

#[async_trait]
impl CredentialProvider for Gemini {
    async fn credential(&self, _freshness: Freshness) -> Result<Credential> {
        Credential::of_key(self.key.as_ref()).await
    }
}

impl HttpProvider for Gemini {
    fn authorize(&self, _prepared: &Prepared, credential: &Credential) -> Result<HeaderMap> {
        let mut headers = HeaderMap::new();
        if let Some(key) = credential.value() {
            let mut key = HeaderValue::from_str(key.expose_secret()).map_err(|_| {
                Error::new(
                    Kind::Auth,
                    "the key holds a character that no header can carry",
                )
            })?;
            key.set_sensitive(true);
            headers.insert(KEY_HEADER, key);
        }
        Ok(headers)
    }
}

impl Gemini {
    /// The request of a method of the model.
    fn request(&self, method: &str, body: &impl serde::Serialize) -> Result<Prepared> {
        let path: Vec<String> = self.model.split('/').map(segment).collect();
        let url = self
            .endpoint
            .join(&format!("{}:{method}", path.join("/")))?;
        Prepared::json(url, body)
    }

    fn files(&self) -> Files<'_> {
        Files::Gemini(self.endpoint.as_str())
    }
}

impl std::fmt::Debug for Gemini {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gemini")
            .field("endpoint", &self.endpoint)
            .field("model", &self.model)
            .field("credential", &self.declared.credential)
            .finish_non_exhaustive()
    }
}
