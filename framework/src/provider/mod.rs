//! The contract between an adapter and the framework.
//!
//! An adapter *declares* what its endpoint is ([`Declared`]) and *translates* requests and answers ([`Codec`]). It never
//! decides when something is sent: the attempt loop does, after the limiter has admitted it.
//!
//! # Contract
//! - [`Plugin::resolve`] opens nothing: no socket, no file but what the entry names for validation.
//! - Codecs are pure. `prepare` is called once a part; the bytes it returns are the bytes that are sent and paid for.
//! - [`CredentialProvider::credential`] runs outside the quota: no permit and no reservation is held while it waits.
//! - An [`EngineProvider`] sends exactly one request for each [`Attempt`] it is given, with the engine's own retries off.
//! - No secret in an error, a `Debug` or a log.
//!
//! Here: plugins and routes. `declare` has what an adapter declares, `codec` how it translates, `credential` and `prepared` what
//! passes between it and the loop, `place` the choice between far away and in this process.

mod accepts;
mod codec;
mod credential;
mod declare;
mod place;
mod prepared;

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use http::HeaderMap;

use antfly_limiter::Time;

use crate::config::{EntryConfig, Env};
use crate::content::MediaSupport;
use crate::embed::{EmbedRequest, Embeddings};
use crate::error::Result;
use crate::generate::{GenerateRequest, Generation, StreamEvent};
use crate::rerank::{Ranking, RerankRequest};
use crate::secret::{ResolvedSecret, Secrets};

pub use accepts::Accepts;
pub use codec::{
    BatchLimits, Codec, EmbedCodec, Flow, Frame, Framing, GenerateCodec, RerankCodec, StreamDecoder,
};
pub use credential::{Credential, CredentialProvider, Freshness, Validity};
pub use declare::{Declared, Identity, TokenCost};
pub use place::{InProcess, Place, Service};
pub use prepared::{Head, Prepared};

pub use crate::attempt::Attempt;
pub use crate::attempt::retry_after::{parse_duration, parse_proto_duration};

/// What a provider can be asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Operation {
    /// Texts or media to vectors.
    Embed,
    /// Messages to text or tool calls.
    Generate,
    /// Query and documents to scores.
    Rerank,
}

impl Operation {
    /// `embed`, `generate` or `rerank`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Operation::Embed => "embed",
            Operation::Generate => "generate",
            Operation::Rerank => "rerank",
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A provider plugin: a constant, submitted with `inventory::submit!` or registered by hand.
#[derive(Clone, Copy, Debug)]
pub struct Plugin {
    /// The name an entry's `provider` field uses.
    pub name: &'static str,
    /// The operations this plugin serves. Plugins are keyed by name and operation, so two crates can share a name.
    pub operations: &'static [Operation],
    /// The prefix of the environment's embedder defaults: `OPENAI` for `ANTFLY_OPENAI_EMBED_REQUESTS_PER_MINUTE`.
    pub env_prefix: Option<&'static str>,
    /// Validates an entry and returns its adapter. Opens nothing.
    pub resolve: fn(&Setup<'_>) -> Result<Arc<dyn Provider>>,
}

inventory::collect!(Plugin);

/// What a plugin may look at while it resolves an entry.
#[derive(Debug)]
#[non_exhaustive]
pub struct Setup<'a> {
    /// The entry, validated as far as the framework knows it.
    pub entry: &'a EntryConfig,
    /// The environment.
    pub env: &'a Env,
    /// The configured secret store and the environment behind it.
    pub secrets: &'a Secrets,
    /// The in-process engine the client was given, if any.
    pub engine: Option<&'a Arc<dyn InferenceEngine>>,
    /// The client's clock, for an adapter that must bound what the framework can't see, such as a program it runs for a credential.
    pub time: &'a Time,
}

impl Setup<'_> {
    /// The entry's key, else the one in `variable`, else none.
    ///
    /// # Errors
    /// Those of [`Secrets::resolve`] and [`Secrets::env`].
    pub fn key(&self, variable: &str) -> Result<Option<ResolvedSecret>> {
        match &self.entry.api_key {
            Some(setting) => {
                let key = self.secrets.resolve(setting, &self.entry.field("api_key"));
                key.map(Some)
            }
            None => self.secrets.env(variable),
        }
    }
}

/// Runs models inside this process. Given to a client by its builder; adapters that can be remote or in-process ask it.
pub trait InferenceEngine: fmt::Debug + Send + Sync {
    /// Whether this engine has `model` for `operation`. Opens nothing slow.
    fn knows(&self, operation: Operation, model: &str) -> bool;
    /// The local route for the entry.
    fn open(&self, entry: &EntryConfig) -> Result<Arc<dyn LocalProvider>>;
}

/// One adapter, bound to one entry: one operation, one model, one endpoint.
pub trait Provider: fmt::Debug + Send + Sync {
    /// What it is. Fixed for the life of the adapter.
    fn declare(&self) -> &Declared;
    /// How requests reach it.
    fn route(&self) -> Route<'_>;
}

/// How an adapter's requests leave.
#[derive(Clone, Copy)]
pub enum Route<'a> {
    /// The framework's transport sends; the adapter is pure.
    Http(&'a dyn HttpProvider),
    /// An SDK of the adapter's sends, one request an [`Attempt`].
    Engine(&'a dyn EngineProvider),
    /// Nothing leaves the process; the model's own admission applies.
    Local(&'a dyn LocalProvider),
}

/// An adapter whose requests the framework's transport sends.
pub trait HttpProvider: Codec + CredentialProvider {
    /// The credential's headers. Every header returned here is dropped on a cross-origin redirect.
    fn authorize(&self, prepared: &Prepared, credential: &Credential) -> Result<HeaderMap>;
}

/// An answer from an SDK.
pub enum Reply {
    /// Head and whole body; decoded by the codec.
    Bytes(Head, Bytes),
    /// Head and decoded events.
    Events(Head, BoxStream<'static, Result<StreamEvent>>),
}

/// An adapter whose SDK sends. `attempt` can't be cloned or forged; dropping it before the exchange has ended is a fault.
#[async_trait]
pub trait EngineProvider: Codec + CredentialProvider {
    /// Sends exactly one request. Keep `attempt` until the exchange has really ended (move it into the reply's stream).
    async fn send(
        &self,
        prepared: &Prepared,
        credential: &Credential,
        attempt: Attempt,
    ) -> Result<Reply>;
}

/// A request for an in-process model.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum LocalRequest {
    /// Embed.
    Embed(EmbedRequest),
    /// Generate in one answer.
    Generate(GenerateRequest),
    /// Generate as a stream.
    Stream(GenerateRequest),
    /// Rerank.
    Rerank(RerankRequest),
}

/// The answer of an in-process model, of the same form as its request.
#[non_exhaustive]
pub enum LocalAnswer {
    /// Vectors.
    Embeddings(Embeddings),
    /// One generation.
    Generation(Box<Generation>),
    /// A stream of events. One that is silent for `stream_idle_timeout_ms` after its first item is ended; a model that works and
    /// has nothing to hand out yet sends [`StreamEvent::SIGN_OF_LIFE`], of which its caller is not told.
    Stream(BoxStream<'static, Result<StreamEvent>>),
    /// Scores.
    Ranking(Ranking),
}

/// A model inside this process, with its own admission. Dropping the future or the stream cancels the work.
#[async_trait]
pub trait LocalProvider: fmt::Debug + Send + Sync {
    /// What the model takes besides text.
    fn media(&self) -> MediaSupport {
        MediaSupport::None
    }
    /// Where its files are, as `check` shows it.
    fn model_path(&self) -> Option<&Path> {
        None
    }
    /// Runs one request; a full queue is refused at once (`overloaded`).
    async fn run(&self, request: LocalRequest) -> Result<LocalAnswer>;
}
