//! One entry as valid types. [`EntryConfig::from_json`] parses it; [`EntryConfig::new`] starts one in Rust.

use std::fmt;
use std::time::Duration;

use antfly_limiter::Policy;
use secrecy::SecretString;
use serde_json::{Map, Value};

use crate::error::{Error, Result};
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
}

/// An `api_key` setting: a literal, or the name of a secret. `Debug` never shows a literal.
#[derive(Clone)]
pub enum KeySetting {
    /// The key itself.
    Literal(SecretString),
    /// `${secret:name}`.
    Reference(String),
}

impl fmt::Debug for KeySetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeySetting::Literal(_) => f.write_str("Literal(..)"),
            KeySetting::Reference(name) => write!(f, "Reference({name:?})"),
        }
    }
}

/// One entry: what to call, where, as whom, and within which limits.
#[derive(Clone, Debug)]
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

    /// The path of one of this entry's fields, as errors name it.
    pub fn field(&self, key: &str) -> String {
        super::fields::join(&self.path, key)
    }

    /// Checks what parsing would have refused, for entries made in Rust.
    ///
    /// # Errors
    /// `config` naming the field and what is allowed.
    pub fn validate(&self) -> Result<()> {
        let bad = |key: &str, what: &str| Err(Error::config(self.field(key), what));
        if self.provider.trim().is_empty() {
            return bad("provider", "a provider's name is needed");
        }
        if self.model.trim().is_empty() {
            return bad("model", "a model id is needed");
        }
        if self.retry.max_attempts == 0 {
            return bad(
                "retry.max_attempts",
                "0 is not allowed; an integer from 1 is",
            );
        }
        if !self.retry.backoff_multiplier.is_finite() || self.retry.backoff_multiplier < 1.0 {
            return bad("retry.backoff_multiplier", "a number from 1 is allowed");
        }
        if self.timeout.is_zero() {
            return bad("timeout_ms", "0 is not allowed; a call needs time");
        }
        if self.stream_idle_timeout.is_zero() {
            return bad(
                "stream_idle_timeout_ms",
                "0 is not allowed; a stream needs time",
            );
        }
        if self.max_response_bytes == 0 || self.max_event_bytes == 0 {
            return bad(
                "max_response_bytes",
                "0 is not allowed; an answer needs room",
            );
        }
        if self.rate_limit.is_some() {
            for (key, value) in [
                ("requests_per_minute", self.legacy.requests_per_minute),
                ("burst", self.legacy.burst),
            ] {
                if value.is_some() {
                    return bad(key, "the flat limits can't stand beside rate_limit");
                }
            }
        }
        for (name, _) in &self.headers {
            super::parse::check_header(&self.field("headers"), name)?;
        }
        Ok(())
    }

    /// Refuses fields that belong to other providers: an adapter names those of these that it has: `url`, `api_key`, `project`,
    /// `organization`, `region`, `profile`, `project_id`, `location`, `credentials_path`, `model_path`, `admission`.
    ///
    /// # Errors
    /// `config` naming the field.
    pub fn refuse_fields_not_in(&self, has: &[&str]) -> Result<()> {
        let set = [
            ("url", self.url.is_some()),
            ("api_key", self.api_key.is_some()),
            ("project", self.project.is_some()),
            ("organization", self.organization.is_some()),
            ("region", self.region.is_some()),
            ("profile", self.profile.is_some()),
            ("project_id", self.project_id.is_some()),
            ("location", self.location.is_some()),
            ("credentials_path", self.credentials_path.is_some()),
            ("model_path", self.model_path.is_some()),
            ("admission", self.admission.is_some()),
        ];
        for (key, is_set) in set {
            if is_set && !has.contains(&key) {
                return Err(Error::config(
                    self.field(key),
                    format!("provider {:?} has no such field", self.provider),
                ));
            }
        }
        Ok(())
    }
}
