//! The right to send one request, in the one place a request of the SDK has to come through: its HTTP connector.
//!
//! The service client itself has the client [`NoWay`], which sends nothing. For each attempt it is overridden by a [`Pass`], which
//! holds the framework's [`Attempt`] and gives way once. So what was not admitted can't leave, whatever the SDK decides. A pass
//! also keeps the answer's head and raw body, which the SDK would hide, and bounds what is read.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use antfly_framework::http::{ERROR_BODY_BYTES, causes, foreign_encoding, is_not_http};
use antfly_framework::provider::{Attempt, Head};
use antfly_framework::{Error, Kind, Result};
use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_types::body::SdkBody;
use aws_smithy_types::byte_stream::ByteStream;
use bytes::{Bytes, BytesMut};

use super::frames::FrameBound;

/// The service client's own HTTP client: nothing leaves through it.
#[derive(Debug)]
pub(super) struct NoWay;

impl HttpClient for NoWay {
    fn http_connector(
        &self,
        _: &HttpConnectorSettings,
        _: &RuntimeComponents,
    ) -> SharedHttpConnector {
        SharedHttpConnector::new(NoWay)
    }
}

impl HttpConnector for NoWay {
    fn call(&self, _: HttpRequest) -> HttpConnectorFuture {
        HttpConnectorFuture::ready(Err(refused()))
    }
}

fn refused() -> ConnectorError {
    ConnectorError::user("a request without a permit can't leave".into())
}

/// What an answer may hold.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// Of a plain body, in bytes.
    pub(super) response: usize,
    /// Of one frame of a stream, in bytes.
    pub(super) event: usize,
}

/// What came through a pass.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// The answer's head, as soon as it is there.
    pub(super) head: Option<Head>,
    /// The whole body of a plain answer, or as much of a refusal's as is looked at.
    pub(super) body: Option<Bytes>,
    /// Why there is no answer, in this project's words.
    pub(super) failure: Option<Error>,
}

/// One attempt's way out.
pub(super) struct Pass {
    connector: SharedHttpConnector,
    attempt: Arc<Mutex<Option<Attempt>>>,
    seen: Arc<Mutex<Seen>>,
    bounds: Bounds,
    /// Whether a success is a stream of frames.
    stream: bool,
}

impl Pass {
    pub(super) fn new(
        connector: SharedHttpConnector,
        attempt: Attempt,
        bounds: Bounds,
        stream: bool,
    ) -> Self {
        Pass {
            connector,
            attempt: Arc::new(Mutex::new(Some(attempt))),
            seen: Arc::default(),
            bounds,
            stream,
        }
    }

    /// Where what comes is kept.
    pub(super) fn seen(&self) -> Arc<Mutex<Seen>> {
        Arc::clone(&self.seen)
    }
}

impl std::fmt::Debug for Pass {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let unused = lock(&self.attempt).is_some();
        f.debug_struct("Pass")
            .field("unused", &unused)
            .finish_non_exhaustive()
    }
}

impl HttpClient for Pass {
    fn http_connector(
        &self,
        _: &HttpConnectorSettings,
        _: &RuntimeComponents,
    ) -> SharedHttpConnector {
        SharedHttpConnector::new(Pass {
            connector: self.connector.clone(),
            attempt: Arc::clone(&self.attempt),
            seen: Arc::clone(&self.seen),
            bounds: self.bounds,
            stream: self.stream,
        })
    }
}

impl HttpConnector for Pass {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let Some(attempt) = lock(&self.attempt).take() else {
            return HttpConnectorFuture::ready(Err(refused()));
        };
        let (seen, bounds, stream) = (Arc::clone(&self.seen), self.bounds, self.stream);
        let sending = self.connector.call(request);
        HttpConnectorFuture::new(async move {
            let response = sending
                .await
                .inspect_err(|error| lock(&seen).failure = Some(no_answer(error)))?;
            arrived(response, attempt, &seen, bounds, stream).await
        })
    }
}

/// An answer's head is there: its body is read here, or, of a stream, watched.
async fn arrived(
    mut response: HttpResponse,
    attempt: Attempt,
    seen: &Arc<Mutex<Seen>>,
    bounds: Bounds,
    stream: bool,
) -> Result<HttpResponse, ConnectorError> {
    let head = head_of(&response);
    attempt.heard(&head);
    let success = (200..300).contains(&head.status);
    let framed = stream && head.content_type() == "application/vnd.amazon.eventstream";
    let encoded = foreign_encoding(&head.headers);
    lock(seen).head = Some(head.clone());
    let body = response.take_body();
    let encoded = match encoded {
        Some(failure) if success => return Err(keep(seen, failure, &head)),
        encoded => encoded.is_some(),
    };
    if success && framed {
        let watched = Watched {
            body: ByteStream::new(body),
            frames: FrameBound::new(bounds.event),
            refused: None,
            seen: Arc::clone(seen),
            _attempt: attempt,
        };
        *response.body_mut() = SdkBody::from_body_1_x(watched);
        return Ok(response);
    }
    let bytes = if success {
        match read(body, &head, bounds.response).await {
            Ok(bytes) => bytes,
            Err(failure) => return Err(keep(seen, failure, &head)),
        }
    } else if encoded {
        Bytes::new()
    } else {
        read_refusal(body).await
    };
    // The exchange has ended; the SDK gets what it would have read itself.
    drop(attempt);
    lock(seen).body = Some(bytes.clone());
    *response.body_mut() = SdkBody::from(bytes);
    Ok(response)
}

fn keep(seen: &Mutex<Seen>, failure: Error, head: &Head) -> ConnectorError {
    let text = failure.message().to_owned();
    lock(seen).failure = Some(failure.with_status(head.status).with_retryable(false));
    ConnectorError::other(text.into(), None)
}

fn head_of(response: &HttpResponse) -> Head {
    let mut headers = http::HeaderMap::new();
    for (name, value) in response.headers().iter_bytes() {
        if let (Ok(name), Ok(value)) = (
            http::HeaderName::from_bytes(name.as_bytes()),
            http::HeaderValue::from_bytes(value),
        ) {
            headers.append(name, value);
        }
    }
    Head {
        status: response.status().as_u16(),
        headers,
    }
}

/// A whole body within its bound.
async fn read(body: SdkBody, head: &Head, max: usize) -> Result<Bytes> {
    let too_large = || {
        Error::new(
            Kind::InvalidResponse,
            format!("the answer is larger than {max} bytes (max_response_bytes)"),
        )
    };
    let announced: Option<usize> = head.header("content-length").and_then(|n| n.parse().ok());
    if announced.is_some_and(|bytes| bytes > max) {
        return Err(too_large());
    }
    let mut body = ByteStream::new(body);
    let mut whole = BytesMut::with_capacity(announced.unwrap_or(0));
    while let Some(chunk) = body.next().await {
        let chunk = chunk.map_err(|e| {
            Error::new(
                Kind::Transport,
                format!(
                    "the connection broke after {} bytes of the answer's body: {}",
                    whole.len(),
                    causes(&e)
                ),
            )
        })?;
        if chunk.len() > max - whole.len() {
            return Err(too_large());
        }
        whole.extend_from_slice(&chunk);
    }
    Ok(whole.freeze())
}

/// A refusal's body: the status is what counts, so what had come when it broke off or grew too long is enough.
async fn read_refusal(body: SdkBody) -> Bytes {
    let mut body = ByteStream::new(body);
    let mut whole = BytesMut::new();
    while whole.len() < ERROR_BODY_BYTES {
        match body.next().await {
            Some(Ok(chunk)) => {
                let room = ERROR_BODY_BYTES - whole.len();
                whole.extend_from_slice(chunk.get(..chunk.len().min(room)).unwrap_or(&chunk));
            }
            _ => break,
        }
    }
    whole.freeze()
}

/// The error of a request that got no answer.
fn no_answer(error: &ConnectorError) -> Error {
    let causes = causes(error);
    let not_http = is_not_http(&causes);
    Error::new(
        Kind::Transport,
        format!("no answer from the endpoint: {causes}"),
    )
    .with_retryable(!not_http && !error.is_user())
}

/// A stream's body: each frame within its bound, the attempt kept until the end.
struct Watched {
    body: ByteStream,
    frames: FrameBound,
    /// Why the next bytes are refused: what came before them goes on first.
    refused: Option<Error>,
    seen: Arc<Mutex<Seen>>,
    _attempt: Attempt,
}

impl Watched {
    /// Keeps the error for the stream's reader; the SDK is told in words.
    fn fail(&self, failure: Error) -> aws_smithy_runtime_api::box_error::BoxError {
        let text = failure.message().to_owned();
        lock(&self.seen).failure = Some(failure);
        text.into()
    }
}

impl http_body::Body for Watched {
    type Data = Bytes;
    type Error = aws_smithy_runtime_api::box_error::BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, Self::Error>>> {
        let this = &mut *self;
        if let Some(refused) = this.refused.take() {
            return Poll::Ready(Some(Err(this.fail(refused))));
        }
        let next = std::task::ready!(Pin::new(&mut this.body).poll_next(cx));
        Poll::Ready(match next {
            None => None,
            Some(Err(e)) => {
                lock(&this.seen).failure = Some(Error::new(
                    Kind::StreamInterrupted,
                    format!("the stream broke: {}", causes(&e)),
                ));
                Some(Err(e.into()))
            }
            Some(Ok(chunk)) => match this.frames.push(&chunk) {
                Ok(()) => Some(Ok(http_body::Frame::data(chunk))),
                Err((0, refused)) => Some(Err(this.fail(refused))),
                Err((good, refused)) => {
                    this.refused = Some(refused);
                    Some(Ok(http_body::Frame::data(chunk.slice(..good))))
                }
            },
        })
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
#[path = "pass_tests.rs"]
mod tests;
