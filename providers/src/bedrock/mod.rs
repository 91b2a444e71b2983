//! Amazon Bedrock through the AWS SDK: embed, generate and rerank.
//!
//! Embedding and rerank models are asked in their own wires through InvokeModel, generators through Converse and ConverseStream.
//! The SDK signs, connects and cuts streams into frames. Everything it would do besides is off: retries, stalled-stream protection,
//! timeouts, the identity cache; and a request it was given no permit for can't leave (`pass.rs`).
//!
//! Credentials (`credentials/`) are loaded before an attempt is admitted, through connectors of their own, and the SDK gets a
//! snapshot of them with each attempt. It signs after admission, so that a signature is never older than its request.

mod config;
mod connect;
mod credentials;
mod engine;
mod error;
mod frames;
mod pass;
mod wire;

use antfly_framework::embed::{EmbedInput, EmbedPart, Embeddings};
use antfly_framework::generate::{GenerateRequest, Generation};
use antfly_framework::http::{Endpoint, encode_segment};
use antfly_framework::provider::{
    Attempt, BatchLimits, Codec, Credential, CredentialProvider, Declared, EmbedCodec,
    EngineProvider, Flow, Frame, Freshness, GenerateCodec, Head, Operation, Plugin, Prepared,
    Provider, Reply, RerankCodec, Route, StreamDecoder,
};
use antfly_framework::rerank::{Ranking, RerankRequest};
use antfly_framework::{Error, Kind, Result, StreamEvent};
use async_trait::async_trait;
use bytes::Bytes;
use serde_json::{Map, Value};

use engine::Call;

/// The plugin `bedrock`.
pub const PLUGIN: Plugin = Plugin {
    name: "bedrock",
    operations: &[Operation::Embed, Operation::Generate, Operation::Rerank],
    env_prefix: Some("BEDROCK"),
    resolve: config::resolve,
};

antfly_framework::inventory::submit!(PLUGIN);

/// One entry's adapter.
struct Bedrock {
    declared: Declared,
    engine: engine::Engine,
    loader: credentials::Loader,
    endpoint: Endpoint,
    model: String,
    task: Task,
    /// The entry's `extra_body`; a generator's is merged by the framework into each request.
    extra_body: Map<String, Value>,
}

/// What the entry's model is asked to do.
enum Task {
    Embed(wire::embed::Model, wire::embed::Options),
    Generate,
    /// With the field of a JSON document that is ranked.
    Rerank(wire::rerank::Model, Option<String>),
}

impl Provider for Bedrock {
    fn declare(&self) -> &Declared {
        &self.declared
    }

    fn route(&self) -> Route<'_> {
        Route::Engine(self)
    }
}

impl Codec for Bedrock {
    fn embed(&self) -> Option<&dyn EmbedCodec> {
        matches!(self.task, Task::Embed(..)).then_some(self as &dyn EmbedCodec)
    }

    fn generate(&self) -> Option<&dyn GenerateCodec> {
        matches!(self.task, Task::Generate).then_some(self as &dyn GenerateCodec)
    }

    fn rerank(&self) -> Option<&dyn RerankCodec> {
        matches!(self.task, Task::Rerank(..)).then_some(self as &dyn RerankCodec)
    }

    fn classify(&self, head: &Head, body: &[u8]) -> Error {
        error::classify(head, body)
    }
}

/// The body of one `InvokeModel`, as its reference bounds it.
const MAX_INVOKE_BYTES: usize = 25_000_000;

impl EmbedCodec for Bedrock {
    fn limits(&self) -> BatchLimits {
        match &self.task {
            Task::Embed(model, _) => model.limits(),
            _ => BatchLimits {
                max_items: 1,
                max_bytes: usize::MAX,
            },
        }
    }

    fn together(&self, first: &EmbedInput, next: &EmbedInput) -> bool {
        match &self.task {
            Task::Embed(model, _) => model.together(first, next),
            _ => false,
        }
    }

    fn prepare(&self, part: &EmbedPart<'_>) -> Result<Prepared> {
        let Task::Embed(_, options) = &self.task else {
            return Err(other_task());
        };
        let body = wire::embed::body(options, part.inputs, &self.extra_body)?;
        self.request(Call::Invoke, body)
    }

    fn decode(&self, head: &Head, body: Bytes, part: &EmbedPart<'_>) -> Result<Embeddings> {
        let Task::Embed(model, _) = &self.task else {
            return Err(other_task());
        };
        let mut vectors = wire::vectors::decode(*model, head, &body, part.inputs.len())?;
        vectors.request_id = self.request_id(head);
        Ok(vectors)
    }
}

impl GenerateCodec for Bedrock {
    fn prepare(&self, request: &GenerateRequest, stream: bool) -> Result<Prepared> {
        let call = if stream {
            Call::ConverseStream
        } else {
            Call::Converse
        };
        let cap = request.max_tokens.map_or(0, u64::from);
        Ok(self
            .request(call, wire::converse::body(request)?)?
            .with_output_cap(cap))
    }

    fn decode(&self, head: &Head, body: Bytes, _request: &GenerateRequest) -> Result<Generation> {
        wire::answer::decode(head, &body, self.request_id(head))
    }

    fn stream_decoder(&self, _head: &Head, _request: &GenerateRequest) -> Box<dyn StreamDecoder> {
        Box::new(NoFrames)
    }
}

impl RerankCodec for Bedrock {
    fn max_documents(&self) -> usize {
        wire::rerank::MAX_DOCUMENTS
    }

    fn prepare(&self, request: &RerankRequest) -> Result<Prepared> {
        let Task::Rerank(model, field) = &self.task else {
            return Err(other_task());
        };
        let body = wire::rerank::body(*model, request, field.as_deref(), &self.extra_body)?;
        self.request(Call::Invoke, body)
    }

    fn decode(&self, head: &Head, body: Bytes, _request: &RerankRequest) -> Result<Ranking> {
        let mut ranking = wire::rerank::decode(head, &body)?;
        ranking.request_id = self.request_id(head);
        Ok(ranking)
    }
}

#[async_trait]
impl CredentialProvider for Bedrock {
    async fn credential(&self, freshness: Freshness) -> Result<Credential> {
        self.loader.load(freshness).await
    }
}

#[async_trait]
impl EngineProvider for Bedrock {
    async fn send(
        &self,
        prepared: &Prepared,
        credential: &Credential,
        attempt: Attempt,
    ) -> Result<Reply> {
        self.engine.send(prepared, credential, attempt).await
    }
}

impl Bedrock {
    fn request(&self, call: Call, body: Vec<u8>) -> Result<Prepared> {
        if matches!(call, Call::Invoke) && body.len() > MAX_INVOKE_BYTES {
            return Err(Error::new(
                Kind::RequestTooLarge,
                format!(
                    "the request's body has {} bytes; Bedrock takes {MAX_INVOKE_BYTES}",
                    body.len()
                ),
            ));
        }
        let path = format!("model/{}/{}", encode_segment(&self.model), call.path());
        Ok(Prepared {
            url: self.endpoint.join(&path)?,
            headers: http::HeaderMap::new(),
            body: Bytes::from(body),
            output_cap: 0,
            typed: Some(Box::new(call)),
        })
    }
}

fn other_task() -> Error {
    Error::new(
        Kind::Unsupported,
        "this entry's model is not for this operation",
    )
}

/// The SDK cuts and reads this route's streams: no frame ever comes here.
struct NoFrames;

impl StreamDecoder for NoFrames {
    fn push(&mut self, _frame: Frame, _out: &mut Vec<StreamEvent>) -> Result<Flow> {
        Err(Error::new(
            Kind::InvalidResponse,
            "a text frame on a route of binary ones",
        ))
    }

    fn end(&mut self, _out: &mut Vec<StreamEvent>) -> Result<()> {
        Err(Error::new(
            Kind::StreamInterrupted,
            "the stream ended before its message did",
        ))
    }
}

impl std::fmt::Debug for Bedrock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bedrock")
            .field("endpoint", &self.endpoint)
            .field("model", &self.model)
            .field("credential", &self.declared.credential)
            .finish_non_exhaustive()
    }
}
