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

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use antfly_limiter::{Instant, ScopeKey};
use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use http::HeaderMap;
use secrecy::SecretString;
use url::Url;

use crate::config::{EntryConfig, Env};
use crate::content::MediaSupport;
use crate::embed::{EmbedPart, EmbedRequest, Embeddings};
use crate::error::{Error, Result};
use crate::generate::{GenerateRequest, Generation, StreamEvent};
use crate::rerank::{Ranking, RerankRequest};
use crate::secret::{CredentialSource, Secrets};

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

/// Everything an adapter must declare. Its constructor takes all of it, so that a new declaration can't be forgotten.
#[derive(Clone, Debug)]
pub struct Declared {
    /// Whose quota attempts use.
    pub identity: Identity,
    /// Where the secret comes from; never the secret.
    pub credential: CredentialSource,
    /// How attempts are priced against `tokens_per_minute`.
    pub cost: TokenCost,
    /// What the model takes besides text.
    pub media: MediaSupport,
    /// The generator's output cap where the caller gives none and one is needed, in tokens.
    pub default_output_cap: u32,
}

impl Declared {
    /// All declarations at once. `default_output_cap` counts only for generators (1024 unless the provider has its own).
    pub fn new(
        identity: Identity,
        credential: CredentialSource,
        cost: TokenCost,
        media: MediaSupport,
        default_output_cap: u32,
    ) -> Self {
        Declared {
            identity,
            credential,
            cost,
            media,
            default_output_cap,
        }
    }

    /// The scope these declarations share: an injective key over field names and values.
    pub fn scope(&self) -> ScopeKey {
        ScopeKey::new(self.fields())
    }

    /// The scope's fields in order, as `check` shows them.
    pub fn fields(&self) -> Vec<(&'static str, String)> {
        let i = &self.identity;
        let mut fields = vec![
            ("provider", i.provider.clone()),
            ("endpoint", i.endpoint.clone()),
            ("operation", i.operation.as_str().to_owned()),
            ("model", i.model.clone()),
            ("credential", self.credential.to_string()),
        ];
        fields.extend(i.extra.iter().map(|(name, value)| (*name, value.clone())));
        fields
    }
}

/// The identity of a scope, all of it effective: after defaults and environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The plugin's name.
    pub provider: String,
    /// The normalised endpoint.
    pub endpoint: String,
    /// The operation.
    pub operation: Operation,
    /// The effective model.
    pub model: String,
    /// Project, region, location: whatever else decides whose quota it is.
    pub extra: Vec<(&'static str, String)>,
}

impl Identity {
    /// What most adapters declare: the entry's provider, operation and model at an endpoint, and nothing else. The endpoint
    /// must be the effective one, normalised.
    pub fn new(entry: &EntryConfig, endpoint: impl fmt::Display) -> Self {
        Identity {
            provider: entry.provider.clone(),
            endpoint: endpoint.to_string(),
            operation: entry.operation,
            model: entry.model.clone(),
            extra: Vec::new(),
        }
    }

    /// Adds a field that decides whose quota it is (`project`, `region`, `location`).
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.extra.push((name, value.into()));
        self
    }
}

/// How an attempt is priced. Never below the serialised body's bytes plus the output cap.
#[derive(Clone, Copy, Debug)]
pub enum TokenCost {
    /// Body bytes plus output cap.
    Text,
    /// The larger of [`TokenCost::Text`] and this.
    AtLeast(fn(&Prepared) -> u64),
}

impl TokenCost {
    /// The cost of one attempt, in tokens.
    pub fn of(self, prepared: &Prepared) -> u64 {
        let text = (prepared.body.len() as u64).saturating_add(prepared.output_cap);
        match self {
            TokenCost::Text => text,
            TokenCost::AtLeast(own) => text.max(own(prepared)),
        }
    }
}

/// A request, ready to be sent any number of times: the bytes are fixed.
pub struct Prepared {
    /// Where it goes.
    pub url: Url,
    /// Headers of the wire (content type, accept). No credentials.
    pub headers: HeaderMap,
    /// The body, exactly as sent.
    pub body: Bytes,
    /// Output cap in tokens, summed over the items this attempt carries; 0 where nothing is generated.
    pub output_cap: u64,
    /// A value private to the adapter, for SDK routes.
    pub typed: Option<Box<dyn Any + Send + Sync>>,
}

impl Prepared {
    /// A JSON POST.
    pub fn json(url: Url, body: &impl serde::Serialize) -> Result<Self> {
        let body = serde_json::to_vec(body).map_err(|e| {
            Error::new(
                crate::Kind::InvalidRequest,
                format!("the request can't be written as JSON: {e}"),
            )
        })?;
        let mut headers = HeaderMap::new();
        headers.insert(
            http::header::CONTENT_TYPE,
            http::HeaderValue::from_static("application/json"),
        );
        Ok(Prepared {
            url,
            headers,
            body: Bytes::from(body),
            output_cap: 0,
            typed: None,
        })
    }

    /// Sets the output cap, in tokens.
    #[must_use]
    pub fn with_output_cap(mut self, cap: u64) -> Self {
        self.output_cap = cap;
        self
    }
}

impl fmt::Debug for Prepared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prepared")
            .field("host", &self.url.host_str())
            .field("path", &self.url.path())
            .field("body_bytes", &self.body.len())
            .field("output_cap", &self.output_cap)
            .finish_non_exhaustive()
    }
}

/// The head of an answer.
#[derive(Clone, Debug)]
pub struct Head {
    /// HTTP status.
    pub status: u16,
    /// Headers.
    pub headers: HeaderMap,
}

impl Head {
    /// A header's value as text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|v| v.to_str().ok())
    }

    /// The media type of the answer, lower case, without parameters; empty when not sent.
    pub fn content_type(&self) -> String {
        self.header("content-type")
            .unwrap_or("")
            .split(';')
            .next()
            .unwrap_or("")
            .trim()
            .to_ascii_lowercase()
    }
}

/// How fresh a credential is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freshness {
    /// Whatever is good now.
    Cached,
    /// The provider called the last one expired: load anew.
    Forced,
}

/// How long a credential is good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Validity {
    /// Ask again before each attempt (a key in a store that may be rotated). Asking is cheap.
    EachAttempt,
    /// Good before this instant of the client's clock.
    Until(Instant),
    /// Good before this wall-clock time.
    UntilWall(SystemTime),
    /// The source hides its expiry: it is asked before each attempt and once more just before the claim.
    Hidden,
}

/// A loaded credential. Its secret never appears in `Debug`.
#[derive(Clone)]
pub struct Credential {
    value: Option<Arc<SecretString>>,
    typed: Option<Arc<dyn Any + Send + Sync>>,
    validity: Validity,
    refreshable: bool,
}

impl Credential {
    /// No credential.
    pub fn anonymous() -> Self {
        Credential {
            value: None,
            typed: None,
            validity: Validity::EachAttempt,
            refreshable: false,
        }
    }

    /// A secret string (a key or a token). `refreshable`: whether asking again could give another one.
    pub fn secret(value: SecretString, validity: Validity, refreshable: bool) -> Self {
        Credential {
            value: Some(Arc::new(value)),
            typed: None,
            validity,
            refreshable,
        }
    }

    /// A credential of an SDK's own type.
    pub fn typed(value: Arc<dyn Any + Send + Sync>, validity: Validity) -> Self {
        Credential {
            value: None,
            typed: Some(value),
            validity,
            refreshable: true,
        }
    }

    /// The secret string, where it is one.
    pub fn value(&self) -> Option<&SecretString> {
        self.value.as_deref()
    }

    /// The SDK's own value, where it is one of type `T`.
    pub fn downcast<T: Any>(&self) -> Option<&T> {
        self.typed.as_deref().and_then(|v| v.downcast_ref())
    }

    /// How long it is good.
    pub fn validity(&self) -> Validity {
        self.validity
    }

    /// Whether asking again could give another one.
    pub fn is_refreshable(&self) -> bool {
        self.refreshable
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credential")
            .field("validity", &self.validity)
            .field("refreshable", &self.refreshable)
            .finish_non_exhaustive()
    }
}

/// Loads credentials, outside the quota. The framework calls it single-flight and keeps what it returns as long as it is good.
#[async_trait]
pub trait CredentialProvider: Send + Sync {
    /// A credential that is good now. Errors are of kind `auth` (or `transport` where a token endpoint can't be reached).
    async fn credential(&self, freshness: Freshness) -> Result<Credential>;
}

/// Translation, the same for HTTP and SDK routes.
pub trait Codec: Send + Sync {
    /// The embed translation, if this adapter embeds.
    fn embed(&self) -> Option<&dyn EmbedCodec> {
        None
    }
    /// The generate translation, if this adapter generates.
    fn generate(&self) -> Option<&dyn GenerateCodec> {
        None
    }
    /// The rerank translation, if this adapter reranks.
    fn rerank(&self) -> Option<&dyn RerankCodec> {
        None
    }
    /// Turns an answer that is not a success into an error: kind, code, message, whether the credential expired, and a hint
    /// found in the *body* as `retry_after` (the framework reads the headers itself).
    fn classify(&self, head: &Head, body: &[u8]) -> Error;
    /// The provider's id of a request, from the head of its answer.
    fn request_id(&self, head: &Head) -> Option<String> {
        ["x-request-id", "request-id", "x-amzn-requestid"]
            .iter()
            .find_map(|name| head.header(name))
            .map(str::to_owned)
    }
}

/// How many inputs one attempt may carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchLimits {
    /// Items.
    pub max_items: usize,
    /// Bytes of input text, summed.
    pub max_bytes: usize,
}

/// Embedding, as translation. `n x dim` vectors in input order.
pub trait EmbedCodec: Send + Sync {
    /// The provider's documented limits of one request.
    fn limits(&self) -> BatchLimits;
    /// Request to bytes.
    fn prepare(&self, part: &EmbedPart<'_>) -> Result<Prepared>;
    /// Answer to vectors, by index, one for each input of the part. The framework checks dimensions and finiteness again.
    fn decode(&self, head: &Head, body: Bytes, part: &EmbedPart<'_>) -> Result<Embeddings>;
}

/// How a streamed answer is framed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// `text/event-stream`.
    EventStream,
    /// One JSON object a line.
    Lines,
}

/// Generation, as translation.
pub trait GenerateCodec: Send + Sync {
    /// Request to bytes. `request` has the entry's defaults merged in, and `max_tokens` set where a cap must go on the wire.
    /// The result's `output_cap` is what was put on the wire (0 when none was).
    fn prepare(&self, request: &GenerateRequest, stream: bool) -> Result<Prepared>;
    /// A plain answer.
    fn decode(&self, head: &Head, body: Bytes, request: &GenerateRequest) -> Result<Generation>;
    /// The framing of a streamed answer.
    fn framing(&self) -> Framing {
        Framing::EventStream
    }
    /// A decoder for one streamed answer.
    fn stream_decoder(&self, head: &Head, request: &GenerateRequest) -> Box<dyn StreamDecoder>;
}

/// One frame of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The event's name, where the wire has one.
    pub event: Option<String>,
    /// Its data: UTF-8 text, never empty.
    pub data: String,
}

/// Whether a stream goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// More may come.
    Continue,
    /// The wire's end mark was seen: nothing after it counts.
    Done,
}

/// Decodes the frames of one stream. Empty and role-only chunks push nothing.
pub trait StreamDecoder: Send {
    /// One frame. An error inside a 200 is returned as the error it is.
    fn push(&mut self, frame: Frame, out: &mut Vec<StreamEvent>) -> Result<Flow>;
    /// The body ended without the end mark: `Ok` if a finish reason was seen, else `stream_interrupted`.
    fn end(&mut self, out: &mut Vec<StreamEvent>) -> Result<()>;
}

/// Reranking, as translation.
pub trait RerankCodec: Send + Sync {
    /// The most documents one request may carry.
    fn max_documents(&self) -> usize;
    /// Request to bytes.
    fn prepare(&self, request: &RerankRequest) -> Result<Prepared>;
    /// Answer to scores by input index, in any order. The framework checks indices, counts and finiteness.
    fn decode(&self, head: &Head, body: Bytes, request: &RerankRequest) -> Result<Ranking>;
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
    /// A stream of events.
    Stream(BoxStream<'static, Result<StreamEvent>>),
    /// Scores.
    Ranking(Ranking),
}

/// A model inside this process, with its own admission. Dropping the future or the stream cancels the work.
#[async_trait]
pub trait LocalProvider: fmt::Debug + Send + Sync {
    /// Runs one request; a full queue is refused at once (`overloaded`).
    async fn run(&self, request: LocalRequest) -> Result<LocalAnswer>;
}
