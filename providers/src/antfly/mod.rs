//! Antfly inference: embeddings, dense and sparse, of text and media; and chat completions.
//!
//! The wire is OpenAI's with a few words of its own (`crate::openai_wire` has what is shared). An entry without a URL is answered
//! in this process when the client has an engine that knows its model; the framework's `Service` decides that before any key
//! is looked at. The reranker of the same name is the crate `antfly-reranker`.

mod config;
mod error;
mod wire;

use antfly_framework::embed::{EmbedInput, EmbedPart, Embeddings};
use antfly_framework::generate::{GenerateRequest, Generation};
use antfly_framework::http::Endpoint;
use antfly_framework::provider::{
    BatchLimits, Codec, Credential, CredentialProvider, Declared, EmbedCodec, Freshness,
    GenerateCodec, Head, HttpProvider, Operation, Plugin, Prepared, Provider, Route, StreamDecoder,
};
use antfly_framework::secret::ResolvedSecret;
use antfly_framework::{Error, Result};
use async_trait::async_trait;
use bytes::Bytes;
use http::header::{AUTHORIZATION, HeaderMap};
use serde_json::{Map, Value};

use crate::openai_wire::chat::{self, ChatBody, Dialect};
use crate::openai_wire::{answer, refuse_owned_in_request, stream};

/// The plugin `antfly`, for embedding and generation.
pub const PLUGIN: Plugin = Plugin {
    name: "antfly",
    operations: &[Operation::Embed, Operation::Generate],
    env_prefix: Some("INFERENCE"),
    resolve: config::resolve,
};

antfly_framework::inventory::submit!(PLUGIN);

/// The server documents no bound: enough to keep it busy, and small enough that one failure does not cost too much.
const EMBED_LIMITS: BatchLimits = BatchLimits {
    max_items: 256,
    max_bytes: 1 << 20,
};

/// One remote entry's adapter.
struct Antfly {
    declared: Declared,
    endpoint: Endpoint,
    model: String,
    /// `None`: anonymous.
    key: Option<ResolvedSecret>,
    /// An embedder's `extra_body`; a generator's is merged by the framework into each request.
    extra_body: Map<String, Value>,
    /// Sent as `task_type`, when there is one.
    task: Option<String>,
}

impl Provider for Antfly {
    fn declare(&self) -> &Declared {
        &self.declared
    }

    fn route(&self) -> Route<'_> {
        Route::Http(self)
    }
}

impl Codec for Antfly {
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

impl EmbedCodec for Antfly {
    fn limits(&self) -> BatchLimits {
        EMBED_LIMITS
    }

    fn together(&self, first: &EmbedInput, next: &EmbedInput) -> bool {
        !wire::is_joined(first) && !wire::is_joined(next)
    }

    fn prepare(&self, part: &EmbedPart<'_>) -> Result<Prepared> {
        let body = wire::EmbedBody {
            model: &self.model,
            input: wire::input(part.inputs)?,
            dimensions: part.options.dimensions,
            task_type: self.task.as_deref(),
            extra: &self.extra_body,
        };
        Prepared::json(self.endpoint.join("embed")?, &body)
    }

    fn decode(&self, head: &Head, body: Bytes, part: &EmbedPart<'_>) -> Result<Embeddings> {
        let mut vectors = wire::vectors(head, &body, part.inputs)?;
        vectors.request_id = self.request_id(head);
        Ok(vectors)
    }
}

impl GenerateCodec for Antfly {
    fn prepare(&self, request: &GenerateRequest, stream: bool) -> Result<Prepared> {
        refuse_owned_in_request(&request.extra_body, chat::OWNED)?;
        let (model, extra) = (&self.model, &request.extra_body);
        let body = ChatBody::new(model, request, extra, Dialect::Antfly, stream)?;
        let cap = request.max_tokens.map_or(0, u64::from);
        Ok(Prepared::json(self.endpoint.join("generate")?, &body)?.with_output_cap(cap))
    }

    fn decode(&self, head: &Head, body: Bytes, _request: &GenerateRequest) -> Result<Generation> {
        answer::decode(head, &body, self.request_id(head))
    }

    fn stream_decoder(&self, head: &Head, _request: &GenerateRequest) -> Box<dyn StreamDecoder> {
        Box::new(stream::Decoder::new(head))
    }
}

#[async_trait]
impl CredentialProvider for Antfly {
    async fn credential(&self, _freshness: Freshness) -> Result<Credential> {
        Credential::of_key(self.key.as_ref()).await
    }
}

impl HttpProvider for Antfly {
    fn authorize(&self, _prepared: &Prepared, credential: &Credential) -> Result<HeaderMap> {
        let mut headers = HeaderMap::new();
        if let Some(bearer) = credential.bearer()? {
            headers.insert(AUTHORIZATION, bearer);
        }
        Ok(headers)
    }
}

impl std::fmt::Debug for Antfly {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Antfly")
            .field("endpoint", &self.endpoint)
            .field("model", &self.model)
            .field("credential", &self.declared.credential)
            .finish_non_exhaustive()
    }
}
