//! A provider of the tests' own: answers of one JSON object a line, and a credential in every header that ever held one.

use std::sync::Arc;

use antfly_framework::content::MediaSupport;
use antfly_framework::http::Endpoint;
use antfly_framework::provider::{
    Codec, Credential, CredentialProvider, Declared, Flow, Frame, Framing, Freshness,
    GenerateCodec, Head, HttpProvider, Identity, Operation, Plugin, Prepared, Provider, Route,
    Setup, StreamDecoder, TokenCost, Validity,
};
use antfly_framework::secret::CredentialSource;
use antfly_framework::testing::Server;
use antfly_framework::{
    Client, EntryConfig, Env, Error, FinishReason, GenerateRequest, Generation, Generator, Kind,
    Registry, Result, StreamEvent, Time,
};
use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Value, json};

pub(crate) const KEY: &str = "hunter2hunter2";

/// Where keys and signatures travel at one provider or another.
pub(crate) const CREDENTIAL_HEADERS: [&str; 8] = [
    "authorization",
    "x-api-key",
    "api-key",
    "x-goog-api-key",
    "x-amz-security-token",
    "x-amz-date",
    "x-amz-content-sha256",
    "x-own-way",
];

const PLUGIN: Plugin = Plugin {
    name: "own",
    operations: &[Operation::Generate],
    env_prefix: None,
    resolve,
};

fn resolve(setup: &Setup<'_>) -> Result<Arc<dyn Provider>> {
    let endpoint = Endpoint::parse(setup.entry.url.as_deref().unwrap_or_default())?;
    let identity = Identity {
        provider: "own".to_owned(),
        endpoint: endpoint.to_string(),
        operation: Operation::Generate,
        model: setup.entry.model.clone(),
        extra: Vec::new(),
    };
    Ok(Arc::new(Own {
        declared: Declared::new(
            identity,
            CredentialSource::custom("own"),
            TokenCost::Text,
            MediaSupport::None,
            1024,
        ),
        endpoint,
    }))
}

/// A generator on this provider.
pub(crate) fn generator(server: &Server, extra: Value) -> Generator {
    let mut registry = Registry::new();
    registry.register(PLUGIN).unwrap();
    let client = Client::builder()
        .registry(registry)
        .time(Time::thread())
        .env(Env::empty())
        .build()
        .unwrap();
    let mut value = json!({"provider": "own", "model": "m", "url": server.url(), "proxy": "none"});
    for (name, field) in extra.as_object().unwrap() {
        value[name] = field.clone();
    }
    let entry = EntryConfig::from_json(Operation::Generate, "generators.own", value).unwrap();
    client.generator(&entry).unwrap()
}

#[derive(Debug)]
struct Own {
    declared: Declared,
    endpoint: Endpoint,
}

impl Provider for Own {
    fn declare(&self) -> &Declared {
        &self.declared
    }

    fn route(&self) -> Route<'_> {
        Route::Http(self)
    }
}

#[async_trait]
impl CredentialProvider for Own {
    async fn credential(&self, _freshness: Freshness) -> Result<Credential> {
        let key = SecretString::from(KEY.to_owned());
        Ok(Credential::secret(key, Validity::EachAttempt, false))
    }
}

impl Codec for Own {
    fn generate(&self) -> Option<&dyn GenerateCodec> {
        Some(self)
    }

    fn classify(&self, head: &Head, body: &[u8]) -> Error {
        let kind = match head.status {
            429 => Kind::RateLimited,
            500.. => Kind::Server,
            _ => Kind::InvalidRequest,
        };
        Error::new(kind, String::from_utf8_lossy(body))
    }
}

impl HttpProvider for Own {
    fn authorize(&self, _prepared: &Prepared, credential: &Credential) -> Result<HeaderMap> {
        let key = credential.value().unwrap().expose_secret();
        let value = HeaderValue::from_str(key).unwrap();
        let headers = CREDENTIAL_HEADERS.iter();
        Ok(headers
            .map(|name| (http::HeaderName::from_static(name), value.clone()))
            .collect())
    }
}

impl GenerateCodec for Own {
    fn prepare(&self, _request: &GenerateRequest, stream: bool) -> Result<Prepared> {
        Prepared::json(self.endpoint.join("say")?, &json!({"stream": stream}))
    }

    fn decode(&self, _head: &Head, body: Bytes, _request: &GenerateRequest) -> Result<Generation> {
        Ok(Generation {
            text: String::from_utf8_lossy(&body).into_owned(),
            ..Generation::default()
        })
    }

    fn framing(&self) -> Framing {
        Framing::Lines
    }

    fn stream_decoder(&self, _head: &Head, _request: &GenerateRequest) -> Box<dyn StreamDecoder> {
        Box::new(Lines)
    }
}

/// `{"text": "..."}` a line, `{"done": true}` at the end, `{"error": "..."}` when it breaks.
struct Lines;

impl StreamDecoder for Lines {
    fn push(&mut self, frame: Frame, out: &mut Vec<StreamEvent>) -> Result<Flow> {
        let line: Value = serde_json::from_str(&frame.data)
            .map_err(|e| Error::new(Kind::InvalidResponse, format!("not JSON: {e}")))?;
        if let Some(error) = line["error"].as_str() {
            return Err(Error::new(Kind::Server, error));
        }
        if let Some(text) = line["text"].as_str() {
            out.push(StreamEvent::Text(text.to_owned()));
        }
        if line["done"] != true {
            return Ok(Flow::Continue);
        }
        out.push(StreamEvent::Finish {
            reason: FinishReason::Stop,
            raw: "done".to_owned(),
        });
        Ok(Flow::Done)
    }

    fn end(&mut self, _out: &mut Vec<StreamEvent>) -> Result<()> {
        Err(Error::new(Kind::StreamInterrupted, "no done line"))
    }
}
