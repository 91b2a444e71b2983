//! A small adapter that passes every check, on the HTTP, the engine and the local route, and its [`Wire`](super::Wire).
//!
//! It is what the kit is tested with: an entry whose model is the name of a [`Fault`] gets an adapter with that fault, and the
//! checks must find it. As an example of an adapter, take `examples/custom_provider` or `providers/src/openai` instead.

mod engine;
mod fault;
mod local;
mod script;
mod spoil;
mod stream;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use async_trait::async_trait;
use base64::Engine as _;
use bytes::Bytes;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use secrecy::ExposeSecret as _;
use serde_json::{Value, json};

use crate::content::{MediaSource, MediaSupport, Part};
use crate::embed::{EmbedInput, EmbedPart, Embeddings, EmbeddingsBuilder};
use crate::error::{Error, Kind, Result};
use crate::generate::{FinishReason, GenerateRequest, Generation};
use crate::http::Endpoint;
use crate::provider::{
    BatchLimits, Codec, Credential, CredentialProvider, Declared, EmbedCodec, Framing, Freshness,
    GenerateCodec, Head, HttpProvider, Identity, Operation, Plugin, Prepared, Provider,
    RerankCodec, Route, Setup, StreamDecoder, TokenCost, parse_proto_duration,
};
use crate::rerank::{Ranked, Ranking, RerankRequest};
use crate::secret::{CredentialSource, ResolvedSecret};

pub use fault::Fault;
pub use script::{LineScript, MEDIA, Script, local_subject, subject};

const OPERATIONS: &[Operation] = &[Operation::Embed, Operation::Generate, Operation::Rerank];

/// The fields of its bodies.
const OWNED: &[&str] = &[
    "model",
    "texts",
    "prompt",
    "stream",
    "max_tokens",
    "images",
    "query",
    "documents",
];

/// The sample on the HTTP route.
pub const PLUGIN: Plugin = Plugin {
    name: "sample",
    operations: OPERATIONS,
    env_prefix: None,
    resolve: |setup| Ok(Arc::new(Sample::new(setup, false)?)),
};

/// The same on the engine route: it sends for itself.
pub const ENGINE_PLUGIN: Plugin = Plugin {
    name: "sample-engine",
    operations: OPERATIONS,
    env_prefix: None,
    resolve: |setup| Ok(Arc::new(Sample::new(setup, true)?)),
};

/// A model of arithmetic on the local route.
pub const LOCAL_PLUGIN: Plugin = Plugin {
    name: "sample-local",
    operations: OPERATIONS,
    env_prefix: None,
    resolve: |setup| Ok(Arc::new(local::Local::new(setup)?)),
};

struct Sample {
    endpoint: Endpoint,
    model: String,
    key: Option<ResolvedSecret>,
    extra_body: serde_json::Map<String, Value>,
    declared: Declared,
    by_engine: bool,
    /// What an answer and an event of a stream may have, in bytes; the framework looks only on the HTTP route.
    bounds: (usize, usize),
    /// 429s so far, for the fault that counts them.
    refused: AtomicU32,
    fault: Option<Fault>,
    /// The key itself, for the faults that give it away.
    given_away: String,
}

impl Sample {
    fn new(setup: &Setup<'_>, by_engine: bool) -> Result<Self> {
        let entry = setup.entry;
        entry.refuse_fields_not_in(&["url", "api_key", "project"])?;
        let fault = Fault::named(&entry.model);
        let mut url = entry.url.as_deref().unwrap_or("http://127.0.0.1:9");
        if fault == Some(Fault::DropsQuery) {
            url = url.split('?').next().unwrap_or(url);
        }
        let endpoint =
            Endpoint::parse(url).map_err(|e| Error::config(entry.field("url"), e.message()))?;
        let owned = |name: &&&str| entry.extra_body.contains_key(**name);
        if let Some(name) = OWNED.iter().find(owned)
            && fault != Some(Fault::OwnedFieldTaken)
        {
            return Err(Error::config(
                entry.field(&format!("extra_body.{name}")),
                "this field belongs to the adapter",
            ));
        }
        let key = match &entry.api_key {
            Some(_) if fault == Some(Fault::TakesAnyKey) => None,
            Some(key) => Some(setup.secrets.resolve(key, &entry.field("api_key"))?),
            None => None,
        };
        let source = match (&key, fault) {
            (Some(_), Some(Fault::OneCredential)) => CredentialSource::custom("literal:a-key"),
            (Some(key), _) => key.source().clone(),
            (None, _) => CredentialSource::anonymous(),
        };
        if fault == Some(Fault::OpensSocket) {
            let _ = std::net::TcpStream::connect(url.trim_start_matches("http://"));
        }
        let mut identity = Identity::new(entry, &endpoint);
        if fault != Some(Fault::MissingScopeField) {
            identity = identity.with("project", entry.project.as_deref().unwrap_or("none"));
        }
        let given_away = match &entry.api_key {
            Some(crate::config::KeySetting::Literal(key)) => key.expose_secret().to_owned(),
            _ => String::new(),
        };
        let media = match entry.operation {
            Operation::Generate => MEDIA,
            _ => MediaSupport::None,
        };
        Ok(Sample {
            declared: Declared::new(identity, source, TokenCost::Text, media, 1024),
            endpoint,
            model: entry.model.clone(),
            key,
            extra_body: entry.extra_body.clone(),
            by_engine,
            bounds: (entry.max_response_bytes, entry.max_event_bytes),
            refused: AtomicU32::new(0),
            fault,
            given_away,
        })
    }

    fn is(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }

    fn request(&self, path: &str, mut body: Value) -> Result<Prepared> {
        body["model"] = json!(self.model);
        for (name, value) in &self.extra_body {
            body[name] = value.clone();
        }
        let mut url = self.endpoint.join(path)?;
        if self.is(Fault::KeyInUrl) {
            url.set_query(Some(&format!("key={}", self.given_away)));
        }
        Prepared::json(url, &body)
    }

    /// The answer's JSON object.
    fn parse(&self, body: &[u8]) -> Result<Value> {
        let parsed: Result<Value, _> = serde_json::from_slice(body);
        match parsed {
            Ok(value) if value.is_object() => match value.get("error") {
                Some(_) => Err(self.told(200, &value)),
                None => Ok(value),
            },
            _ if self.is(Fault::TakesAnything) => Ok(json!({"text": "", "finish": "stop"})),
            Ok(_) => Err(bad("not an object")),
            Err(e) => Err(bad(e)),
        }
    }

    /// `{"error": {"message", "code", "wait": "2.5s"}}`.
    fn told(&self, status: u16, value: &Value) -> Error {
        let error = &value["error"];
        let message = error["message"].as_str().unwrap_or("it did not say why");
        let code = error["code"].as_str();
        let kind = match (code, status) {
            (Some("broke"), _) => Kind::QuotaExhausted,
            (Some("slow_down"), _) => Kind::RateLimited,
            (Some("full"), _) => Kind::Overloaded,
            (_, 401) if self.is(Fault::WrongKind) => Kind::InvalidRequest,
            (_, 200) => Kind::Server,
            (_, status) => Kind::of_status(status),
        };
        let mut told = Error::new(kind, message.chars().take(500).collect::<String>());
        if let Some(code) = code {
            told = told.with_code(code);
        }
        if code == Some("expired") && !self.is(Fault::DeafToExpiry) {
            told = told.with_credential_expired();
        }
        if let Some(wait) = error["wait"].as_str().and_then(parse_proto_duration)
            && !self.is(Fault::IgnoresBodyHint)
        {
            told = told.with_retry_after(wait);
        }
        told
    }
}

fn bad(problem: impl fmt::Display) -> Error {
    let message = format!("the answer does not parse: {problem}");
    Error::new(Kind::InvalidResponse, message)
}

impl Provider for Sample {
    fn declare(&self) -> &Declared {
        &self.declared
    }

    fn route(&self) -> Route<'_> {
        if self.by_engine {
            Route::Engine(self)
        } else {
            Route::Http(self)
        }
    }
}

#[async_trait]
impl CredentialProvider for Sample {
    async fn credential(&self, _: Freshness) -> Result<Credential> {
        if self.is(Fault::LogsKey) {
            tracing::debug!(key = %self.given_away, "loaded");
        }
        Credential::of_key(self.key.as_ref()).await
    }
}

impl HttpProvider for Sample {
    fn authorize(&self, _: &Prepared, credential: &Credential) -> Result<HeaderMap> {
        let mut headers = HeaderMap::new();
        if let Some(bearer) = credential.bearer()?
            && !self.is(Fault::NoCredential)
        {
            headers.insert(AUTHORIZATION, bearer);
        }
        Ok(headers)
    }
}

impl Codec for Sample {
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
        let value: Value = match serde_json::from_slice(body) {
            Ok(value) => value,
            Err(e) if self.is(Fault::PanicsOnBody) => panic!("not JSON: {e}"),
            Err(_) => json!({"error": {"message": "no JSON"}}),
        };
        self.told(head.status, &value)
    }
}

impl EmbedCodec for Sample {
    fn limits(&self) -> BatchLimits {
        BatchLimits {
            max_items: 7,
            max_bytes: 100_000,
        }
    }

    fn prepare(&self, part: &EmbedPart<'_>) -> Result<Prepared> {
        let mut texts: Vec<_> = part.inputs.iter().filter_map(EmbedInput::as_text).collect();
        if self.is(Fault::LosesItem) && texts.len() > 1 {
            texts.pop();
        }
        self.request("embed", json!({ "texts": texts }))
    }

    fn decode(&self, _: &Head, body: Bytes, part: &EmbedPart<'_>) -> Result<Embeddings> {
        let value = self.parse(&body)?;
        let mut vectors = EmbeddingsBuilder::new(part.inputs.len());
        for (order, row) in value["rows"].as_array().into_iter().flatten().enumerate() {
            let at = row["at"].as_u64().ok_or_else(|| bad("no index"))? as usize;
            let at = if self.is(Fault::WrongOrder) {
                order
            } else {
                at
            };
            let vector: Option<Vec<f32>> = row["vector"]
                .as_array()
                .into_iter()
                .flatten()
                .map(|n| match n.as_f64() {
                    None if self.is(Fault::NullIsZero) => Some(0.0),
                    n => n.map(|n| n as f32),
                })
                .collect();
            vectors.put(at, &vector.ok_or_else(|| bad("not numbers"))?)?;
        }
        vectors.finish()
    }
}

impl GenerateCodec for Sample {
    fn prepare(&self, request: &GenerateRequest, stream: bool) -> Result<Prepared> {
        let mut prompt = String::new();
        let mut images = Vec::new();
        for part in request.messages.iter().flat_map(|m| &m.content) {
            match part {
                Part::Text(text) => prompt.push_str(text),
                Part::Media(media) => match &media.source {
                    MediaSource::Bytes { data, .. } if !self.is(Fault::DropsMedia) => {
                        images.push(base64::engine::general_purpose::STANDARD.encode(data));
                    }
                    MediaSource::Bytes { .. } => {}
                    _ => {
                        let message = "only the bytes of an image can be sent";
                        return Err(Error::new(Kind::MediaNotAllowed, message));
                    }
                },
            }
        }
        let mut body = json!({"prompt": prompt, "stream": stream});
        if !images.is_empty() {
            body["images"] = json!(images);
        }
        let cap = request.max_tokens.map_or(0, u64::from);
        if let Some(cap) = request.max_tokens {
            body["max_tokens"] = json!(cap);
        }
        let priced = if self.is(Fault::UnderDeclaresCost) {
            0
        } else {
            cap
        };
        Ok(self.request("say", body)?.with_output_cap(priced))
    }

    fn decode(&self, _: &Head, body: Bytes, _: &GenerateRequest) -> Result<Generation> {
        let value = self.parse(&body)?;
        let text = value["text"].as_str().ok_or_else(|| bad("no text"))?;
        let reason = value["finish"].as_str();
        Ok(Generation {
            text: text.to_owned(),
            finish_reason: reason.map(FinishReason::from_word),
            raw_finish_reason: reason.map(str::to_owned),
            ..Generation::default()
        })
    }

    /// The model `lines` streams lines of JSON.
    fn framing(&self) -> Framing {
        match self.model.as_str() {
            "lines" => Framing::Lines,
            _ => Framing::EventStream,
        }
    }

    fn stream_decoder(&self, _: &Head, _: &GenerateRequest) -> Box<dyn StreamDecoder> {
        Box::new(stream::Decoder::new(self.fault))
    }
}

impl RerankCodec for Sample {
    fn max_documents(&self) -> usize {
        100
    }

    fn prepare(&self, request: &RerankRequest) -> Result<Prepared> {
        let documents: Vec<_> = request.documents.iter().map(|d| d.text()).collect();
        if request.documents.iter().any(|d| d.media().next().is_some()) {
            return Err(Error::new(Kind::MediaNotAllowed, "documents are texts"));
        }
        self.request(
            "rank",
            json!({"query": request.query, "documents": documents}),
        )
    }

    fn decode(&self, _: &Head, body: Bytes, _: &RerankRequest) -> Result<Ranking> {
        let value = self.parse(&body)?;
        let mut ranking = Ranking::default();
        for (order, row) in value["scores"].as_array().into_iter().flatten().enumerate() {
            let at = row["at"].as_u64().ok_or_else(|| bad("no index"))? as usize;
            let index = if self.is(Fault::WrongOrder) {
                order
            } else {
                at
            };
            let score = row["score"].as_f64().ok_or_else(|| bad("no score"))?;
            ranking.results.push(Ranked { index, score });
        }
        Ok(ranking)
    }
}

impl fmt::Debug for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Sample");
        shown.field("endpoint", &self.endpoint);
        if self.is(Fault::LeaksKeyInDebug) {
            shown.field("key", &self.given_away);
        }
        shown.finish_non_exhaustive()
    }
}
