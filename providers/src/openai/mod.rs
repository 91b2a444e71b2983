//! OpenAI, and the many servers that speak its wire: embeddings and chat completions.
//!
//! Two dialects: at OpenAI's own endpoint an output cap is `max_completion_tokens`, embeddings travel as base64 and a key is
//! needed; elsewhere it is `max_tokens`, floats, and a key if there is one. Whatever comes back is read by what it is.

mod config;
mod wire;

use antfly_framework::embed::{EmbedPart, Embeddings};
use antfly_framework::generate::{GenerateRequest, Generation};
use antfly_framework::http::{Endpoint, Url};
use antfly_framework::provider::{
    BatchLimits, Codec, Credential, CredentialProvider, Declared, EmbedCodec, Freshness,
    GenerateCodec, Head, HttpProvider, Operation, Plugin, Prepared, Provider, Route, StreamDecoder,
};
use antfly_framework::secret::ResolvedSecret;
use antfly_framework::{Error, Kind, Result};
use async_trait::async_trait;
use bytes::Bytes;
use http::header::{AUTHORIZATION, HeaderMap};
use serde_json::{Map, Value};

use crate::openai_wire::chat::{ChatBody, Dialect};
use crate::openai_wire::{answer, chat, embed, error, refuse_owned_in_request, stream, vectors};

/// The plugin `openai`.
pub const PLUGIN: Plugin = Plugin {
    name: "openai",
    operations: &[Operation::Embed, Operation::Generate],
    env_prefix: Some("OPENAI"),
    resolve: config::resolve,
};

antfly_framework::inventory::submit!(PLUGIN);

/// Inputs of one embeddings request, and their tokens: a text never has more tokens than bytes.
const EMBED_LIMITS: BatchLimits = BatchLimits {
    max_items: 2048,
    max_bytes: 300_000,
};

/// One entry's adapter.
struct OpenAi {
    declared: Declared,
    endpoint: Endpoint,
    /// The one URL this entry's requests go to.
    url: Url,
    dialect: Dialect,
    model: String,
    /// `None`: anonymous.
    key: Option<ResolvedSecret>,
    /// The entry's `extra_body`; a generator's is merged by the framework into each request.
    extra_body: Map<String, Value>,
    /// Sent as `encoding_format`, when it is.
    encoding_format: Option<&'static str>,
    /// `OpenAI-Organization` and `OpenAI-Project`, when configured.
    headers: HeaderMap,
}

impl Provider for OpenAi {
    fn declare(&self) -> &Declared {
        &self.declared
    }

    fn route(&self) -> Route<'_> {
        Route::Http(self)
    }
}

impl Codec for OpenAi {
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

impl EmbedCodec for OpenAi {
    fn limits(&self) -> BatchLimits {
        EMBED_LIMITS
    }

    fn prepare(&self, part: &EmbedPart<'_>) -> Result<Prepared> {
        let body = wire::EmbedBody {
            model: &self.model,
            input: embed::texts(part.inputs)?,
            encoding_format: self.encoding_format,
            dimensions: part.options.dimensions,
            extra: &self.extra_body,
        };
        Prepared::json(self.url.clone(), &body)
    }

    fn decode(&self, head: &Head, body: Bytes, part: &EmbedPart<'_>) -> Result<Embeddings> {
        let mut vectors = vectors::decode(head, &body, part.inputs.len())?;
        vectors.request_id = self.request_id(head);
        Ok(vectors)
    }
}

impl GenerateCodec for OpenAi {
    fn prepare(&self, request: &GenerateRequest, stream: bool) -> Result<Prepared> {
        if request.top_k.is_some() && self.dialect == Dialect::OpenAi {
            return Err(Error::new(
                Kind::Unsupported,
                "top_k: OpenAI has no such option; servers elsewhere may",
            ));
        }
        refuse_owned_in_request(&request.extra_body, chat::OWNED)?;
        let body = ChatBody::new(
            &self.model,
            request,
            &request.extra_body,
            self.dialect,
            stream,
        )?;
        let cap = request.max_tokens.map_or(0, u64::from);
        Ok(Prepared::json(self.url.clone(), &body)?.with_output_cap(cap))
    }

    fn decode(&self, head: &Head, body: Bytes, _request: &GenerateRequest) -> Result<Generation> {
        answer::decode(head, &body, self.request_id(head))
    }

    fn stream_decoder(&self, head: &Head, _request: &GenerateRequest) -> Box<dyn StreamDecoder> {
        Box::new(stream::Decoder::new(head))
    }
}

#[async_trait]
impl CredentialProvider for OpenAi {
    async fn credential(&self, _freshness: Freshness) -> Result<Credential> {
        Credential::of_key(self.key.as_ref()).await
    }
}

impl HttpProvider for OpenAi {
    fn authorize(&self, _prepared: &Prepared, credential: &Credential) -> Result<HeaderMap> {
        // Organization and project say whose account pays: they go only where the key goes.
        let mut headers = self.headers.clone();
        if let Some(bearer) = credential.bearer()? {
            headers.insert(AUTHORIZATION, bearer);
        }
        Ok(headers)
    }
}

impl std::fmt::Debug for OpenAi {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OpenAi")
            .field("endpoint", &self.endpoint)
            .field("model", &self.model)
            .field("credential", &self.declared.credential)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
#[path = "request_tests.rs"]
mod tests;
