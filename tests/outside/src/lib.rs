//! A generator of a third party's own wire, with a key and streams. It depends on `antfly-framework` alone: the crates that the
//! contract's types come from are under `antfly_framework::contract`.
//!
//! The wire: `POST /talk` `{"voice", "words", "most"?, "live"?}` -> `{"said", "why"}`; live, one JSON object a line: `{"said"}`,
//! `{"why"}`. A refusal is `{"no": "text"}`.
#![forbid(unsafe_code)]

use std::fmt;
use std::sync::Arc;

use antfly_framework::content::MediaSupport;
use antfly_framework::contract::async_trait::async_trait;
use antfly_framework::contract::bytes::Bytes;
use antfly_framework::contract::http::{HeaderMap, header::AUTHORIZATION};
use antfly_framework::contract::serde_json::{Map, Value, from_slice, json};
use antfly_framework::http::Endpoint;
use antfly_framework::provider::*;
use antfly_framework::secret::{CredentialSource, ResolvedSecret};
use antfly_framework::{
    Error, FinishReason, GenerateRequest, Generation, Kind, Part, Result, StreamEvent,
};

/// The plugin `parrot`.
pub const PLUGIN: Plugin = Plugin {
    name: "parrot",
    operations: &[Operation::Generate],
    env_prefix: None,
    resolve: |setup| Ok(Arc::new(Parrot::new(setup)?)),
};

/// The fields of its bodies.
const OWNED: [&str; 4] = ["voice", "words", "most", "live"];

struct Parrot {
    declared: Declared,
    endpoint: Endpoint,
    key: Option<ResolvedSecret>,
    extra_body: Map<String, Value>,
}

impl Parrot {
    fn new(setup: &Setup<'_>) -> Result<Self> {
        let entry = setup.entry;
        entry.refuse_fields_not_in(&["url", "api_key"])?;
        if let Some(name) = OWNED.iter().find(|n| entry.extra_body.contains_key(**n)) {
            let path = entry.field(&format!("extra_body.{name}"));
            return Err(Error::config(path, "this field belongs to the adapter"));
        }
        let url = entry.url.as_deref();
        let url = url.ok_or_else(|| Error::config(entry.field("url"), "missing"))?;
        let endpoint =
            Endpoint::parse(url).map_err(|e| Error::config(entry.field("url"), e.message()))?;
        let key = match &entry.api_key {
            Some(key) => Some(setup.secrets.resolve(key, &entry.field("api_key"))?),
            None => setup.secrets.env("PARROT_KEY")?,
        };
        let source = key
            .as_ref()
            .map_or_else(CredentialSource::anonymous, |k| k.source().clone());
        let identity = Identity::new(entry, &endpoint);
        Ok(Parrot {
            declared: Declared::new(identity, source, TokenCost::Text, MediaSupport::None, 200),
            endpoint,
            key,
            extra_body: entry.extra_body.clone(),
        })
    }
}

impl Provider for Parrot {
    fn declare(&self) -> &Declared {
        &self.declared
    }

    fn route(&self) -> Route<'_> {
        Route::Http(self)
    }
}

#[async_trait]
impl CredentialProvider for Parrot {
    async fn credential(&self, _: Freshness) -> Result<Credential> {
        Credential::of_key(self.key.as_ref()).await
    }
}

impl HttpProvider for Parrot {
    fn authorize(&self, _: &Prepared, credential: &Credential) -> Result<HeaderMap> {
        let bearer = credential.bearer()?.into_iter();
        Ok(bearer.map(|value| (AUTHORIZATION, value)).collect())
    }
}

impl Codec for Parrot {
    fn generate(&self) -> Option<&dyn GenerateCodec> {
        Some(self)
    }

    fn classify(&self, head: &Head, body: &[u8]) -> Error {
        let value: Value = from_slice(body).unwrap_or_default();
        let said = value["no"].as_str().unwrap_or("it did not say why");
        Error::new(Kind::of_status(head.status), said)
    }
}

impl GenerateCodec for Parrot {
    fn prepare(&self, request: &GenerateRequest, stream: bool) -> Result<Prepared> {
        let parts = request.messages.iter().flat_map(|m| &m.content);
        let words: Vec<_> = parts.filter_map(Part::as_text).collect();
        let mut body = Value::Object(self.extra_body.clone());
        body["voice"] = json!(self.declared.identity.model);
        body["words"] = json!(words);
        if stream {
            body["live"] = json!(true);
        }
        if let Some(most) = request.max_tokens {
            body["most"] = json!(most);
        }
        let cap = request.max_tokens.map_or(0, u64::from);
        Ok(Prepared::json(self.endpoint.join("talk")?, &body)?.with_output_cap(cap))
    }

    fn decode(&self, _: &Head, body: Bytes, _: &GenerateRequest) -> Result<Generation> {
        let value: Value = from_slice(&body).map_err(unreadable)?;
        let (said, why) = (value["said"].as_str(), value["why"].as_str());
        Ok(Generation {
            text: said.ok_or_else(|| unreadable("no `said`"))?.to_owned(),
            finish_reason: why.map(FinishReason::from_word),
            raw_finish_reason: why.map(str::to_owned),
            ..Generation::default()
        })
    }

    fn framing(&self) -> Framing {
        Framing::Lines
    }

    fn stream_decoder(&self, _: &Head, _: &GenerateRequest) -> Box<dyn StreamDecoder> {
        Box::new(Lines { why: false })
    }
}

struct Lines {
    why: bool,
}

impl StreamDecoder for Lines {
    fn push(&mut self, frame: Frame, out: &mut Vec<StreamEvent>) -> Result<Flow> {
        let value: Value = from_slice(frame.data.as_bytes()).map_err(unreadable)?;
        if let Some(no) = value["no"].as_str() {
            return Err(Error::new(Kind::Overloaded, no));
        }
        if let Some(said) = value["said"].as_str().filter(|s| !s.is_empty()) {
            out.push(StreamEvent::Text(said.to_owned()));
        }
        if let Some(why) = value["why"].as_str() {
            self.why = true;
            let (reason, raw) = (FinishReason::from_word(why), why.to_owned());
            out.push(StreamEvent::Finish { reason, raw });
        }
        Ok(Flow::Continue)
    }

    fn end(&mut self, _: &mut Vec<StreamEvent>) -> Result<()> {
        if self.why {
            return Ok(());
        }
        Err(Error::new(Kind::StreamInterrupted, "it fell silent"))
    }
}

fn unreadable(problem: impl fmt::Display) -> Error {
    let message = format!("the answer does not parse: {problem}");
    Error::new(Kind::InvalidResponse, message)
}

impl fmt::Debug for Parrot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Parrot");
        shown
            .field("endpoint", &self.endpoint)
            .finish_non_exhaustive()
    }
}
