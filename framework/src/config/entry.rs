//! One entry as valid types. [`EntryConfig::from_json`] parses it; [`EntryConfig::new`] starts one in Rust.

use std::fmt;
use std::time::Duration;

use antfly_limiter::Policy;
use serde_json::{Map, Value};

use super::key::KeySetting;
use crate::generate::{ResponseFormat, Tool, ToolChoice};
use crate::provider::Operation;

/// How failed attempts are tried again.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RetryConfig {
    /// Tries in all, for each part a call is split into. Redirect hops don't count.
    pub max_attempts: u32,
    /// The ceiling of the first wait.
    pub initial_backoff: Duration,
    /// What the ceiling grows by.
    pub backoff_multiplier: f64,
    /// The ceiling's ceiling.
    pub max_backoff: Duration,
}

impl Default for RetryConfig {
    fn default() -> Self {
        RetryConfig {
            max_attempts: 3,
            initial_backoff: Duration::from_millis(500),
            backoff_multiplier: 2.0,
            max_backoff: Duration::from_secs(30),
        }
    }
}

/// What happens to a 307 or 308.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Redirects {
    /// Followed, without credentials where it leaves the origin.
    #[default]
    Follow,
    /// Followed inside the origin, else an error.
    SameOrigin,
    /// An error.
    None,
}

/// Which proxy the model's endpoint is reached through. `Debug` never shows a URL: it may hold a password.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ProxySetting {
    /// What the usual variables say.
    #[default]
    Environment,
    /// None, whatever they say.
    None,
    /// This one.
    Url(String),
}

impl fmt::Debug for ProxySetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ProxySetting::Environment => "Environment",
            ProxySetting::None => "None",
            ProxySetting::Url(_) => "Url(..)",
        })
    }
}

/// The flat legacy limits of an embedder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Legacy {
    /// Attempts a minute.
    pub requests_per_minute: Option<u32>,
    /// Attempts that may start at once.
    pub burst: Option<u32>,
}

/// The admission of an in-process model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admission {
    /// Runs at once.
    pub max_concurrency: u32,
    /// Runs that may wait; one more is refused at once.
    pub max_queue: u32,
}

impl Default for Admission {
    fn default() -> Self {
        Admission {
            max_concurrency: 1,
            max_queue: 1024,
        }
    }
}

/// How vectors travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EncodingFormat {
    /// JSON numbers.
    Float,
    /// Little-endian `f32`, base64.
    Base64,
}

/// What an embedder entry may say beside the common fields.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EmbedOptions {
    /// How vectors travel; `None`: the adapter's choice.
    pub encoding_format: Option<EncodingFormat>,
    /// Numbers a vector; `None`: the model's own.
    pub dimensions: Option<u32>,
    /// The older name of a task (`search_query`, ...).
    pub input_type: Option<String>,
    /// The task (`RETRIEVAL_QUERY`, ...).
    pub task_type: Option<String>,
    /// What becomes of an input that is too long.
    pub truncate: Option<String>,
    /// Whether inputs may carry media.
    pub multimodal: Option<bool>,
    /// Items an attempt; `None`: the provider's limits.
    pub batch_size: Option<u32>,
}

/// What a generator entry may say beside the common fields; each is sent only if set.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GenerateOptions {
    /// Output cap, in tokens.
    pub max_tokens: Option<u32>,
    /// Sampling temperature.
    pub temperature: Option<f64>,
    /// Nucleus sampling.
    pub top_p: Option<f64>,
    /// Top-k sampling.
    pub top_k: Option<u32>,
    /// Frequency penalty.
    pub frequency_penalty: Option<f64>,
    /// Presence penalty.
    pub presence_penalty: Option<f64>,
    /// Stop sequences.
    pub stop: Vec<String>,
    /// Seed.
    pub seed: Option<i64>,
    /// Tools.
    pub tools: Vec<Tool>,
    /// Which tools may be called.
    pub tool_choice: Option<ToolChoice>,
    /// The form of the answer.
    pub response_format: Option<ResponseFormat>,
}

/// What a reranker entry may say beside the common fields.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RerankOptions {
    /// At most this many results.
    pub top_n: Option<u32>,
    /// Of a document that is a JSON object: the field whose text is ranked.
    pub field: Option<String>,
    /// How a document is rendered.
    pub template: Option<String>,
    /// How an embedding model in this process scores; `None`: by cosine.
    pub scoring: Option<Scoring>,
}

/// How an embedding model that ranks in this process scores a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Scoring {
    /// The cosine of the query's vector and the document's.
    Cosine,
    /// Late interaction: each of the query's tokens finds its most similar token of the document; the sum of these cosines.
    LateInteraction,
}

/// One entry: what to call, where, as whom, and within which limits. `Debug` shows no key, no header value and no password.
#[derive(Clone)]
pub struct EntryConfig {
    /// The operation it is for.
    pub operation: Operation,
    /// Where it stands (`embedders.docs`); empty for a document that is itself an entry.
    pub path: String,
    /// Its name; empty when it has none.
    pub name: String,
    /// The plugin's name.
    pub provider: String,
    /// The model id, passed through untouched.
    pub model: String,
    /// `rate_limit`; `Some(UNLIMITED)` for `{}`, which switches the environment's defaults off.
    pub rate_limit: Option<Policy>,
    /// The flat legacy limits.
    pub legacy: Legacy,
    /// How failed attempts are tried again.
    pub retry: RetryConfig,
    /// Deadline of a call when the caller gives none.
    pub timeout: Duration,
    /// Fields merged into the request body.
    pub extra_body: Map<String, Value>,
    /// Extra root certificates for the model's endpoint: a PEM file.
    pub ca_file: Option<String>,
    /// The proxy.
    pub proxy: ProxySetting,
    /// Longest silence inside a stream.
    pub stream_idle_timeout: Duration,
    /// What happens to redirects.
    pub redirects: Redirects,
    /// Extra request headers.
    pub headers: Vec<(String, String)>,
    /// Bound of a plain body, in bytes.
    pub max_response_bytes: usize,
    /// Bound of one unfinished stream event, in bytes.
    pub max_event_bytes: usize,
    /// Embedders' own options.
    pub embed: EmbedOptions,
    /// Generators' own options.
    pub generate: GenerateOptions,
    /// Rerankers' own options.
    pub rerank: RerankOptions,
    /// The admission of an in-process model.
    pub admission: Option<Admission>,
    /// The endpoint (alias `api_url`).
    pub url: Option<String>,
    /// The key.
    pub api_key: Option<KeySetting>,
    /// OpenAI's project.
    pub project: Option<String>,
    /// OpenAI's organization.
    pub organization: Option<String>,
    /// AWS region.
    pub region: Option<String>,
    /// AWS profile.
    pub profile: Option<String>,
    /// Google Cloud project.
    pub project_id: Option<String>,
    /// Google Cloud location.
    pub location: Option<String>,
    /// Google credentials file.
    pub credentials_path: Option<String>,
    /// Folder of local weights.
    pub model_path: Option<String>,
    pub(crate) warnings: Vec<String>,
}

impl EntryConfig {
    /// An entry with every default.
    pub fn new(
        operation: Operation,
        provider: impl Into<String>,
        model: impl Into<String>,
    ) -> Self {
        EntryConfig {
            operation,
            path: String::new(),
            name: String::new(),
            provider: provider.into(),
            model: model.into(),
            rate_limit: None,
            legacy: Legacy::default(),
            retry: RetryConfig::default(),
            timeout: Duration::from_secs(600),
            extra_body: Map::new(),
            ca_file: None,
            proxy: ProxySetting::default(),
            stream_idle_timeout: Duration::from_secs(60),
            redirects: Redirects::default(),
            headers: Vec::new(),
            max_response_bytes: 64 << 20,
            max_event_bytes: 8 << 20,
            embed: EmbedOptions::default(),
            generate: GenerateOptions::default(),
            rerank: RerankOptions::default(),
            admission: None,
            url: None,
            api_key: None,
            project: None,
            organization: None,
            region: None,
            profile: None,
            project_id: None,
            location: None,
            credentials_path: None,
            model_path: None,
            warnings: Vec::new(),
        }
    }

    /// Sets the policy.
    #[must_use]
    pub fn with_rate_limit(mut self, policy: Policy) -> Self {
        self.rate_limit = Some(policy);
        self
    }

    /// Sets the endpoint.
    #[must_use]
    pub fn with_url(mut self, url: impl Into<String>) -> Self {
        self.url = Some(url.into());
        self
    }

    /// Sets the key.
    #[must_use]
    pub fn with_api_key(mut self, key: KeySetting) -> Self {
        self.api_key = Some(key);
        self
    }

    /// Sets the name by which errors and attempts speak of it; its path becomes the name.
    #[must_use]
    pub fn with_name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self.path = self.name.clone();
        self
    }

    /// The path of one of this entry's fields, as errors name it.
    pub fn field(&self, key: &str) -> String {
        super::fields::join(&self.path, key)
    }
}
