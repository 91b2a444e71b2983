//! The one place that sends HTTP.
//!
//! A [`Transport`] sends one request and returns the head of its answer; the body follows chunk by chunk. It follows no
//! redirect, retries nothing and decodes no content encoding: those are decisions of the attempt loop. It has no timeout but the
//! one for connecting; deadlines are the attempt loop's as well.
//!
//! A pooled connection is driven by the tokio runtime that opened it. So each runtime gets a pool of its own, which goes away
//! with the runtime.

mod pools;
mod setup;
mod variables;

pub use setup::extra_roots;
pub(crate) use setup::{TransportConfig, Transports};
pub use variables::check_proxy_variables;

use std::error::Error as _;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{ACCEPT_ENCODING, HeaderMap, HeaderValue};
use http::{Method, Response};
use url::Url;

use super::body::ResponseBody;
use super::failure::{causes, foreign_encoding, is_not_http};
use super::redact::is_credential_header;
use crate::error::{Error, Kind, Result};
use pools::Pools;

/// Sends requests. Clones share their connections.
#[derive(Clone)]
pub(crate) struct Transport {
    pools: Arc<Pools>,
}

impl Transport {
    /// A transport for this configuration. Opens no connection; fails on a certificate or proxy that can't be used.
    pub(crate) fn new(config: &TransportConfig) -> Result<Self> {
        let tls = setup::tls(&config.extra_roots)?;
        let proxy = setup::proxy(&config.proxy)?;
        let pools = Pools::new(Box::new(move || setup::client(&tls, &proxy)));
        Ok(Transport {
            pools: Arc::new(pools),
        })
    }

    /// Sends a POST and waits for the head of its answer.
    ///
    /// A failure before the head is a `transport` error, retryable unless the answer had begun. A successful answer in an encoding
    /// that was not asked for is an `invalid_response`; the body of an unsuccessful one is then left out, as its status says
    /// enough.
    pub(crate) async fn send(
        &self,
        url: &Url,
        mut headers: HeaderMap,
        body: Bytes,
    ) -> Result<Response<ResponseBody>> {
        let client = self.pools.current()?;
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        for (name, value) in headers.iter_mut() {
            if is_credential_header(name) {
                value.set_sensitive(true);
            }
        }
        // Made of its parts, so that the URL is not read a second time.
        let mut request = reqwest::Request::new(Method::POST, url.clone());
        *request.headers_mut() = headers;
        *request.body_mut() = Some(body.into());
        let mut answer = client
            .execute(request)
            .await
            .map_err(|error| no_answer(error, url))?;
        let status = answer.status();
        let mut response = Response::new(ResponseBody::empty());
        *response.status_mut() = status;
        *response.version_mut() = answer.version();
        *response.headers_mut() = std::mem::take(answer.headers_mut());
        if let Some(error) = foreign_encoding(response.headers()) {
            if status.is_success() {
                return Err(error.with_status(status.as_u16()));
            }
            return Ok(response);
        }
        *response.body_mut() = ResponseBody::network(answer);
        Ok(response)
    }
}

impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Transport({} pools)", self.pools.len())
    }
}

/// The error of a body that broke off after `received` bytes.
pub(super) fn broken_body(error: reqwest::Error, received: u64) -> Error {
    let error = error.without_url();
    Error::new(
        Kind::Transport,
        format!(
            "the connection broke after {received} bytes of the answer's body: {}",
            within(&error)
        ),
    )
    .with_retryable(false)
    .with_source(error)
}

/// The error of a request that got no answer.
fn no_answer(error: reqwest::Error, url: &Url) -> Error {
    let origin = url.origin().ascii_serialization();
    let error = error.without_url();
    let causes = within(&error);
    if error.is_builder() {
        return Error::new(
            Kind::InvalidRequest,
            format!("the request can't be sent: {causes}"),
        );
    }
    let not_http = is_not_http(&causes);
    let message = if error.is_connect() {
        format!("can't connect to {origin}: {causes}")
    } else if not_http {
        format!("{origin} sent no valid HTTP answer: {causes}")
    } else {
        format!("{origin} sent no answer: {causes}")
    };
    Error::new(Kind::Transport, message)
        .with_retryable(!not_http)
        .with_source(error)
}

/// What reqwest's error stands for, without its own frame.
fn within(error: &reqwest::Error) -> String {
    causes(error.source().unwrap_or(error))
}

#[cfg(test)]
mod tests;
