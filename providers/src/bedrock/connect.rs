//! Connectors: the ways out, one set a runtime. The model's is only ever used behind a [`Pass`](super::pass::Pass); those that
//! fetch credentials are others.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use antfly_framework::config::{EntryConfig, ProxySetting};
use antfly_framework::http::Endpoint;
use antfly_framework::{Error, Kind, Result};
use aws_smithy_http_client::Connector;
use aws_smithy_http_client::proxy::ProxyConfig;
use aws_smithy_http_client::tls::rustls_provider::CryptoMode;
use aws_smithy_http_client::tls::{Provider, TlsContext, TrustStore};
use aws_smithy_runtime_api::client::http::{
    HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpClient,
    SharedHttpConnector, http_client_fn,
};
use aws_smithy_runtime_api::client::orchestrator::HttpRequest;
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_types::body::SdkBody;
use aws_smithy_types::byte_stream::ByteStream;
use bytes::Bytes;
use tokio::runtime::{Handle, Id};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a credential endpoint may take to begin its answer, and then to end it. The model's answers have no such bound here: the
/// framework watches them.
pub(super) const READ_TIMEOUT: Duration = Duration::from_secs(5);
/// The most bytes of an answer with credentials.
const MAX_CREDENTIALS: usize = 256 * 1024;
/// Just below the five seconds after which many servers close an idle connection.
const POOL_IDLE_TIMEOUT: Duration = Duration::from_secs(4);
/// More runtimes than this at once, and the connections of the first are dropped.
const MAX_RUNTIMES: usize = 16;

type Build = Box<dyn Fn() -> Result<SharedHttpConnector> + Send + Sync>;

/// One connector for each tokio runtime: a connection belongs to the runtime that opened it.
pub(super) struct Connectors {
    build: Build,
    made: Mutex<Vec<(Id, SharedHttpConnector)>>,
}

impl std::fmt::Debug for Connectors {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Connectors(..)")
    }
}

impl Connectors {
    /// To the model's endpoint: the entry's `ca_file` and `proxy`.
    pub(super) fn to_model(entry: &EntryConfig, endpoint: &Endpoint) -> Result<Self> {
        let roots = antfly_framework::http::extra_roots(entry)?;
        let proxy = proxy(entry)?;
        // Plain http needs no TLS, unless the proxy itself is spoken to through it.
        let plain = endpoint.as_str().starts_with("http://") && roots.is_none();
        Ok(Self::new(move || {
            Ok(connector(roots.as_ref(), proxy()?, None, plain))
        }))
    }

    /// To STS and the sign-in services.
    pub(super) fn to_services() -> Self {
        Self::new(|| Ok(Small::over(ProxyConfig::from_env())))
    }

    /// To metadata endpoints beside this process: no proxy.
    pub(super) fn to_metadata() -> Self {
        Self::new(|| Ok(Small::over(ProxyConfig::disabled())))
    }

    fn new(build: impl Fn() -> Result<SharedHttpConnector> + Send + Sync + 'static) -> Self {
        Connectors {
            build: Box::new(build),
            made: Mutex::default(),
        }
    }

    /// The connector of the runtime this is called on.
    pub(super) fn current(&self) -> Result<SharedHttpConnector> {
        let id = Handle::try_current()
            .map_err(|_| {
                Error::new(Kind::Transport, "sending needs a running tokio runtime")
                    .with_retryable(false)
            })?
            .id();
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, connector)) = made.iter().find(|(known, _)| *known == id) {
            return Ok(connector.clone());
        }
        let connector = (self.build)()?;
        if made.len() >= MAX_RUNTIMES {
            made.remove(0);
        }
        made.push((id, connector.clone()));
        Ok(connector)
    }
}

/// A connector as an SDK's HTTP client, whatever settings the SDK has.
pub(super) fn client_of(connector: SharedHttpConnector) -> SharedHttpClient {
    http_client_fn(move |_, _| connector.clone())
}

fn connector(
    roots: Option<&Bytes>,
    proxy: ProxyConfig,
    read_timeout: Option<Duration>,
    plain: bool,
) -> SharedHttpConnector {
    let mut settings = HttpConnectorSettings::builder().connect_timeout(CONNECT_TIMEOUT);
    settings.set_read_timeout(read_timeout);
    let builder = Connector::builder()
        .connector_settings(settings.build())
        .pool_idle_timeout(POOL_IDLE_TIMEOUT)
        .proxy_config(proxy);
    if plain {
        return SharedHttpConnector::new(builder.build_http());
    }
    let mut trust = TrustStore::default();
    if let Some(pem) = roots {
        trust = trust.with_pem_certificate(pem.to_vec());
    }
    let tls = builder.tls_provider(Provider::Rustls(CryptoMode::Ring));
    SharedHttpConnector::new(
        match TlsContext::builder().with_trust_store(trust).build() {
            Ok(context) => tls.tls_context(context).build(),
            Err(_) => tls.build(),
        },
    )
}

/// To an endpoint of credentials. Its whole answer is read here, within a bound of bytes and of time: one that stops halfway would
/// else be waited for until the calls' own deadlines, which may be far away.
#[derive(Debug)]
struct Small(SharedHttpConnector);

impl Small {
    fn over(proxy: ProxyConfig) -> SharedHttpConnector {
        SharedHttpConnector::new(Small(connector(None, proxy, Some(READ_TIMEOUT), false)))
    }
}

impl HttpConnector for Small {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let sending = self.0.call(request);
        HttpConnectorFuture::new(async move {
            let mut response = sending.await?;
            let body = small(ByteStream::new(response.take_body()));
            let whole = tokio::time::timeout(READ_TIMEOUT, body)
                .await
                .map_err(|_| ConnectorError::timeout("the answer stopped halfway".into()))??;
            *response.body_mut() = SdkBody::from(whole);
            Ok(response)
        })
    }
}

async fn small(mut body: ByteStream) -> Result<Vec<u8>, ConnectorError> {
    let mut whole = Vec::new();
    while let Some(chunk) = body.next().await {
        let chunk = chunk.map_err(|e| ConnectorError::io(e.into()))?;
        if whole.len() + chunk.len() > MAX_CREDENTIALS {
            let what = format!("the answer is larger than {MAX_CREDENTIALS} bytes");
            return Err(ConnectorError::user(what.into()));
        }
        whole.extend_from_slice(&chunk);
    }
    Ok(whole)
}

type MakeProxy = Box<dyn Fn() -> Result<ProxyConfig> + Send + Sync>;

/// The entry's proxy, checked once. No error here repeats its URL, which may hold a password.
fn proxy(entry: &EntryConfig) -> Result<MakeProxy> {
    let text = match &entry.proxy {
        ProxySetting::Environment => {
            antfly_framework::http::check_proxy_variables()?;
            return Ok(Box::new(|| Ok(ProxyConfig::from_env())));
        }
        ProxySetting::None => return Ok(Box::new(|| Ok(ProxyConfig::disabled()))),
        ProxySetting::Url(text) => text.trim().to_owned(),
        _ => {
            return Err(Error::config(
                entry.field("proxy"),
                "this kind of proxy is not known here",
            ));
        }
    };
    let path = entry.field("proxy");
    let problem = |what: &str| Error::config(&path, what);
    let url = url::Url::parse(&text).map_err(|e| problem(&format!("not a valid URL: {e}")))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(problem(
            "must be an http or https URL: the AWS SDK knows no other proxies",
        ));
    }
    if url.host_str().is_none_or(str::is_empty) {
        return Err(problem("has no host"));
    }
    let make = move || {
        ProxyConfig::all(text.as_str())
            .map_err(|_| Error::config(&path, "not a proxy the AWS SDK can use"))
    };
    make()?;
    Ok(Box::new(make))
}
