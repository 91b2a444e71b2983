//! Google Vertex AI: embeddings, generation, and reranking through the ranking API.
//!
//! Credentials are Google's (a file, application default credentials, the metadata server); their tokens are asked for outside the
//! quota. The Gemini API, which takes a key instead, is the `gemini` adapter.

mod config;
mod credentials;
mod place;
mod source;
mod wire;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use antfly_framework::embed::{EmbedPart, Embeddings};
use antfly_framework::generate::{GenerateRequest, Generation};
use antfly_framework::provider::{
    BatchLimits, Codec, Credential, CredentialProvider, Declared, EmbedCodec, Freshness,
    GenerateCodec, Head, HttpProvider, Operation, Plugin, Prepared, Provider, RerankCodec, Route,
    StreamDecoder, Validity,
};
use antfly_framework::rerank::{Ranking, RerankRequest};
use antfly_framework::{Error, Kind, Result};
use async_trait::async_trait;
use bytes::Bytes;
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderName, HeaderValue};
use secrecy::SecretString;

use crate::google::error;
use crate::google::generate::body::GenerateBody;
use crate::google::generate::{answer, stream};
use crate::google::media::Files;
use credentials::Tokens;
use place::Place;
use wire::{Embedding, rank};

/// The plugin `vertex`.
pub const PLUGIN: Plugin = Plugin {
    name: "vertex",
    operations: &[Operation::Embed, Operation::Generate, Operation::Rerank],
    env_prefix: Some("VERTEX"),
    resolve: config::resolve,
};

antfly_framework::inventory::submit!(PLUGIN);

/// Whose quota pays, where that is not the project of the URL.
const QUOTA_PROJECT: HeaderName = HeaderName::from_static("x-goog-user-project");

/// One entry's adapter.
struct Vertex {
    declared: Declared,
    place: Place,
    tokens: Arc<Tokens>,
    /// What else was looked at, where tokens come from the metadata server because nothing else was there.
    sought: Option<String>,
    /// The token that this handle was given last: the one that is refused when its credential is.
    handed_out: Mutex<Option<SecretString>>,
    quota_project: Option<HeaderValue>,
    /// How this model embeds; of use to embedders only.
    embedding: Embedding,
    /// Of a reranker: the field of a JSON document that is ranked.
    rank_field: Option<String>,
    /// A reranker's `extra_body`.
    rank_extra: serde_json::Map<String, serde_json::Value>,
}

impl Provider for Vertex {
    fn declare(&self) -> &Declared {
        &self.declared
    }

    fn route(&self) -> Route<'_> {
        Route::Http(self)
    }
}

impl Codec for Vertex {
    fn embed(&self) -> Option<&dyn EmbedCodec> {
        Some(self)
    }

    fn generate(&self) -> Option<&dyn GenerateCodec> {
        Some(self)
    }

    fn rerank(&self) -> Option<&dyn RerankCodec> {
        Some(self)
    }

    fn classify(&self, head: &Head, body: &[u8]) -> Error {
        let error = error::classify(head, body);
        // A token may be refused long before it expires: it is replaced once, whatever the words.
        if head.status == 401 {
            error.with_credential_expired()
        } else {
            error
        }
    }
}

impl EmbedCodec for Vertex {
    fn limits(&self) -> BatchLimits {
        self.embedding.limits()
    }

    fn prepare(&self, part: &EmbedPart<'_>) -> Result<Prepared> {
        let (count, most) = (part.inputs.len(), self.embedding.limits().max_items);
        if count > most {
            return Err(Error::new(
                Kind::InvalidRequest,
                format!(
                    "{count} inputs in one request; this model takes at most {most}: use a smaller batch size"
                ),
            ));
        }
        let url = self.place.method(self.embedding.method())?;
        self.embedding.prepare(url, part)
    }

    fn decode(&self, head: &Head, body: Bytes, part: &EmbedPart<'_>) -> Result<Embeddings> {
        let mut vectors = self.embedding.decode(head, &body, part.inputs.len())?;
        vectors.request_id = self.request_id(head);
        Ok(vectors)
    }
}

impl GenerateCodec for Vertex {
    fn prepare(&self, request: &GenerateRequest, stream: bool) -> Result<Prepared> {
        let body = GenerateBody::new(request, Files::Vertex)?;
        let method = if stream {
            "streamGenerateContent?alt=sse"
        } else {
            "generateContent"
        };
        let cap = request.max_tokens.map_or(0, u64::from);
        Ok(Prepared::json(self.place.method(method)?, &body)?.with_output_cap(cap))
    }

    fn decode(&self, head: &Head, body: Bytes, _request: &GenerateRequest) -> Result<Generation> {
        answer::decode(head, &body, self.request_id(head))
    }

    fn stream_decoder(&self, head: &Head, _request: &GenerateRequest) -> Box<dyn StreamDecoder> {
        Box::new(stream::Decoder::new(head))
    }
}

impl RerankCodec for Vertex {
    fn max_documents(&self) -> usize {
        rank::MAX_RECORDS
    }

    fn prepare(&self, request: &RerankRequest) -> Result<Prepared> {
        let body = rank::body(
            &self.place.model,
            request,
            self.rank_field.as_deref(),
            &self.rank_extra,
        )?;
        Prepared::json(self.place.method("rank")?, &body)
    }

    fn decode(&self, head: &Head, body: Bytes, _request: &RerankRequest) -> Result<Ranking> {
        let mut ranking = rank::decode(head, &body)?;
        ranking.request_id = self.request_id(head);
        Ok(ranking)
    }
}

#[async_trait]
impl CredentialProvider for Vertex {
    async fn credential(&self, freshness: Freshness) -> Result<Credential> {
        let refused = match freshness {
            Freshness::Forced => self.handed_out().clone(),
            _ => None,
        };
        let token = self.tokens.token(refused.as_ref()).await;
        let token = token.map_err(|e| self.name(e))?;
        *self.handed_out() = Some(token.clone());
        // google-cloud-auth does not tell when a token expires; asking it again is cheap.
        Ok(Credential::secret(token, Validity::Hidden, true))
    }
}

impl HttpProvider for Vertex {
    fn authorize(&self, _prepared: &Prepared, credential: &Credential) -> Result<HeaderMap> {
        let mut headers = HeaderMap::new();
        if let Some(bearer) = credential.bearer()? {
            headers.insert(AUTHORIZATION, bearer);
        }
        if let Some(project) = &self.quota_project {
            headers.insert(QUOTA_PROJECT, project.clone());
        }
        Ok(headers)
    }
}

impl Vertex {
    /// A metadata server that gives nothing is mostly one that isn't there: what to set instead is told with it.
    fn name(&self, error: Error) -> Error {
        let Some(sought) = &self.sought else {
            return error;
        };
        let message = format!(
            "{}. The metadata server was asked because nothing else is there: {sought}",
            error.message()
        );
        Error::new(error.kind(), message).with_retryable(error.is_retryable())
    }

    fn handed_out(&self) -> MutexGuard<'_, Option<SecretString>> {
        self.handed_out
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Vertex {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Vertex")
            .field("place", &self.place)
            .field("credential", &self.declared.credential)
            .finish_non_exhaustive()
    }
}
