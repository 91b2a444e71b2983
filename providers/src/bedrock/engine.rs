//! Sending through the AWS SDK: one request an attempt, signed when it leaves, with the bytes that were prepared and paid for.

use std::sync::{Arc, Mutex};

use antfly_framework::config::EntryConfig;
use antfly_framework::http::{Endpoint, causes};
use antfly_framework::provider::{Attempt, Credential, Head, Prepared, Reply};
use antfly_framework::{Error, Kind, Result};
use aws_credential_types::Credentials;
use aws_sdk_bedrockruntime::Client;
use aws_sdk_bedrockruntime::config::interceptors::BeforeTransmitInterceptorContextMut;
use aws_sdk_bedrockruntime::config::retry::RetryConfig;
use aws_sdk_bedrockruntime::config::timeout::TimeoutConfig;
use aws_sdk_bedrockruntime::config::{
    BehaviorVersion, Builder, ConfigBag, IdentityCache, Intercept, Region, RuntimeComponents,
    StalledStreamProtectionConfig, Token,
};
use aws_sdk_bedrockruntime::error::SdkError;
use aws_sdk_bedrockruntime::primitives::Blob;
use aws_smithy_runtime_api::box_error::BoxError;
use aws_smithy_runtime_api::client::auth::AuthSchemeId;
use aws_smithy_types::body::SdkBody;
use bytes::Bytes;
use secrecy::ExposeSecret as _;
use tracing::instrument::WithSubscriber as _;
use tracing::subscriber::NoSubscriber;

use super::connect::Connectors;
use super::pass::{Bounds, NoWay, Pass, Seen, lock};
use super::wire::stream;

/// Which of the service's operations an attempt calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Call {
    /// A model's own wire: embed and rerank.
    Invoke,
    /// One wire for every model's messages.
    Converse,
    /// The same, streamed.
    ConverseStream,
}

impl Call {
    /// The last segment of the request's path.
    pub(super) const fn path(self) -> &'static str {
        match self {
            Call::Invoke => "invoke",
            Call::Converse => "converse",
            Call::ConverseStream => "converse-stream",
        }
    }
}

/// The SDK's client, with everything switched off that would send or wait on its own account. What it still remembers is how far
/// this machine's clock is from the service's: with that, a signature refused for its date is right the next time.
pub(super) struct Engine {
    client: Client,
    connectors: Connectors,
    model: String,
    headers: Vec<(String, String)>,
    bounds: Bounds,
}

impl Engine {
    pub(super) fn new(entry: &EntryConfig, endpoint: &Endpoint, region: &str) -> Result<Self> {
        let config = aws_sdk_bedrockruntime::Config::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::new(region.to_owned()))
            .endpoint_url(endpoint.as_str())
            .http_client(NoWay)
            .retry_config(RetryConfig::disabled())
            .timeout_config(TimeoutConfig::disabled())
            .stalled_stream_protection(StalledStreamProtectionConfig::disabled())
            .identity_cache(IdentityCache::no_cache())
            .build();
        Ok(Engine {
            client: Client::from_conf(config),
            connectors: Connectors::to_model(entry, endpoint)?,
            model: entry.model.clone(),
            headers: entry.headers.clone(),
            bounds: Bounds {
                response: entry.max_response_bytes,
                event: entry.max_event_bytes,
            },
        })
    }

    /// Sends one request. The SDK logs heads of requests and answers whole, so it is not heard: the framework logs the attempt.
    pub(super) async fn send(
        &self,
        prepared: &Prepared,
        credential: &Credential,
        attempt: Attempt,
    ) -> Result<Reply> {
        self.send_aloud(prepared, credential, attempt)
            .with_subscriber(NoSubscriber::new())
            .await
    }

    async fn send_aloud(
        &self,
        prepared: &Prepared,
        credential: &Credential,
        attempt: Attempt,
    ) -> Result<Reply> {
        let call = prepared
            .typed
            .as_deref()
            .and_then(|typed| typed.downcast_ref::<Call>())
            .copied()
            .ok_or_else(|| {
                Error::new(
                    Kind::InvalidRequest,
                    "this request was prepared by another adapter",
                )
            })?;
        let streamed = call == Call::ConverseStream;
        let pass = Pass::new(self.connectors.current()?, attempt, self.bounds, streamed);
        let seen = pass.seen();
        let config = identify(
            aws_sdk_bedrockruntime::Config::builder().http_client(pass),
            credential,
        )?;
        let exact = Exact {
            body: prepared.body.clone(),
            headers: self.headers.clone(),
        };
        // What the SDK makes of an answer counts only for a stream; else the pass has kept the answer itself.
        let failed = match call {
            Call::Invoke => {
                let call = self
                    .client
                    .invoke_model()
                    .model_id(&self.model)
                    .body(Blob::new(Vec::new()));
                let call = call
                    .content_type("application/json")
                    .accept("application/json");
                let sent = call
                    .customize()
                    .config_override(config)
                    .interceptor(exact)
                    .send()
                    .await;
                sent.err().map(|e| failure(&e))
            }
            Call::Converse => {
                let call = self.client.converse().model_id(&self.model);
                let sent = call
                    .customize()
                    .config_override(config)
                    .interceptor(exact)
                    .send()
                    .await;
                sent.err().map(|e| failure(&e))
            }
            Call::ConverseStream => {
                let call = self.client.converse_stream().model_id(&self.model);
                let sent = call
                    .customize()
                    .config_override(config)
                    .interceptor(exact)
                    .send()
                    .await;
                match (sent, whole(&seen)) {
                    (_, Some((head, body))) => return Ok(Reply::Bytes(head, body)),
                    (Ok(output), None) => {
                        let head = lock(&seen).head.clone().ok_or_else(nothing)?;
                        return Ok(Reply::Events(head, stream::events(output.stream, seen)));
                    }
                    (Err(e), None) => Some(failure(&e)),
                }
            }
        };
        match (whole(&seen), failed) {
            (Some((head, body)), _) => Ok(Reply::Bytes(head, body)),
            (None, failed) => Err(lock(&seen)
                .failure
                .take()
                .or(failed)
                .unwrap_or_else(nothing)),
        }
    }
}

fn nothing() -> Error {
    Error::new(Kind::Transport, "the SDK ended without an answer").with_retryable(false)
}

/// The answer, when the pass has kept it whole.
fn whole(seen: &Arc<Mutex<Seen>>) -> Option<(Head, Bytes)> {
    let mut seen = lock(seen);
    let body = seen.body.take()?;
    Some((seen.head.take()?, body))
}

/// This attempt's credential: a snapshot, from which the SDK reads without waiting for anything.
fn identify(config: Builder, credential: &Credential) -> Result<Builder> {
    if let Some(keys) = credential.downcast::<Credentials>() {
        return Ok(config
            .credentials_provider(keys.clone())
            .auth_scheme_preference([AuthSchemeId::from("sigv4")]));
    }
    match credential.value() {
        Some(key) => Ok(config
            .bearer_token(Token::new(key.expose_secret(), None))
            .auth_scheme_preference([AuthSchemeId::from("httpBearerAuth")])),
        None => Err(Error::new(Kind::Auth, "there are no AWS credentials")),
    }
}

/// Why the SDK failed before or without an answer.
fn failure<E, R>(error: &SdkError<E, R>) -> Error
where
    E: std::error::Error + 'static,
    R: std::fmt::Debug + 'static,
{
    let (kind, what) = match error {
        SdkError::ConstructionFailure(_) => {
            (Kind::InvalidRequest, "the SDK can't build the request")
        }
        SdkError::TimeoutError(_) | SdkError::DispatchFailure(_) => {
            (Kind::Transport, "the request did not get through")
        }
        _ => (Kind::InvalidResponse, "the SDK can't read the answer"),
    };
    Error::new(kind, format!("{what}: {}", causes(error))).with_retryable(false)
}

/// Puts the prepared bytes and the entry's headers in place of what the SDK wrote, before it signs.
#[derive(Debug)]
struct Exact {
    body: Bytes,
    headers: Vec<(String, String)>,
}

#[aws_smithy_runtime_api::client::interceptors::dyn_dispatch_hint]
impl Intercept for Exact {
    fn name(&self) -> &'static str {
        "Exact"
    }

    fn modify_before_retry_loop(
        &self,
        context: &mut BeforeTransmitInterceptorContextMut<'_>,
        _components: &RuntimeComponents,
        _config: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let request = context.request_mut();
        *request.body_mut() = SdkBody::from(self.body.clone());
        let headers = request.headers_mut();
        headers.try_insert("content-length", self.body.len().to_string())?;
        for (name, value) in &self.headers {
            headers.try_insert(name.to_ascii_lowercase(), value.clone())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use antfly_framework::provider::Operation;

    use super::*;

    #[tokio::test]
    async fn the_sdk_neither_retries_nor_times_out_nor_watches_streams_nor_sends_by_itself() {
        let entry = EntryConfig::new(Operation::Generate, "bedrock", "m");
        let endpoint = Endpoint::parse("http://127.0.0.1:9").unwrap();
        let engine = Engine::new(&entry, &endpoint, "us-east-1").unwrap();
        let config = engine.client.config();
        assert_eq!(
            config.retry_config().map(RetryConfig::max_attempts),
            Some(1)
        );
        assert!(
            !config
                .stalled_stream_protection()
                .is_some_and(|s| s.is_enabled())
        );
        assert_eq!(config.timeout_config(), Some(&TimeoutConfig::disabled()));
        let sent = engine.client.converse().model_id("m").send().await;
        let e = failure(&sent.unwrap_err());
        assert!(!e.is_retryable(), "{e}");
    }
}
