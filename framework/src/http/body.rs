//! Bodies of answers, read within bounds.

use std::collections::VecDeque;
use std::fmt;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, StatusCode, header};

use super::redact::{clip, mask};
use crate::error::{Error, Kind, Result};

/// How much of an error body is read; the rest is dropped with its connection.
pub const ERROR_BODY_BYTES: usize = 64 * 1024;

/// How much of an unexpected body its error shows.
const SAMPLE_BYTES: usize = 160;

/// The body of an answer, chunk by chunk as it arrives. Dropping it before its end closes the connection.
pub(crate) struct ResponseBody(Source);

enum Source {
    Network {
        response: Box<reqwest::Response>,
        length: Option<u64>,
        received: u64,
    },
    Memory(VecDeque<Bytes>),
}

impl ResponseBody {
    pub(super) fn network(response: reqwest::Response) -> Self {
        let length = response.content_length();
        ResponseBody(Source::Network {
            response: Box::new(response),
            length,
            received: 0,
        })
    }

    /// A body that is in memory already.
    #[cfg(test)]
    pub(crate) fn from_chunks(chunks: impl IntoIterator<Item = Bytes>) -> Self {
        ResponseBody(Source::Memory(chunks.into_iter().collect()))
    }

    /// A body without bytes.
    pub(crate) fn empty() -> Self {
        ResponseBody(Source::Memory(VecDeque::new()))
    }

    /// The next bytes, or nothing at the end. Safe to cancel: a chunk is lost only with the whole body.
    ///
    /// A body that breaks off is a `transport` error that is not retryable, as the answer had begun.
    pub(crate) async fn chunk(&mut self) -> Result<Option<Bytes>> {
        match &mut self.0 {
            Source::Memory(chunks) => Ok(chunks.pop_front()),
            Source::Network {
                response, received, ..
            } => match response.chunk().await {
                Ok(Some(chunk)) => {
                    *received += chunk.len() as u64;
                    Ok(Some(chunk))
                }
                Ok(None) => Ok(None),
                Err(error) => Err(super::transport::broken_body(error, *received)),
            },
        }
    }

    /// What is still to come, as far as the head says.
    fn remaining(&self) -> Option<u64> {
        match &self.0 {
            Source::Memory(chunks) => Some(chunks.iter().map(|chunk| chunk.len() as u64).sum()),
            Source::Network {
                length, received, ..
            } => length.map(|length| length.saturating_sub(*received)),
        }
    }
}

impl fmt::Debug for ResponseBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.remaining() {
            Some(bytes) => write!(f, "ResponseBody({bytes} bytes to come)"),
            None => f.write_str("ResponseBody"),
        }
    }
}

/// Reads a whole body of at most `max` bytes. A larger one is an `invalid_response` error, before anything is read when the
/// head announces it.
pub(crate) async fn read_bounded(mut body: ResponseBody, max: usize) -> Result<Bytes> {
    let too_large = || {
        Error::new(
            Kind::InvalidResponse,
            format!("the answer is larger than {max} bytes (max_response_bytes)"),
        )
    };
    let announced = body.remaining();
    if announced.is_some_and(|bytes| bytes > max as u64) {
        return Err(too_large());
    }
    let Some(first) = body.chunk().await? else {
        return Ok(Bytes::new());
    };
    if first.len() > max {
        return Err(too_large());
    }
    let Some(second) = body.chunk().await? else {
        return Ok(first); // one chunk: nothing to copy
    };
    let expected = announced.map_or(0, |bytes| usize::try_from(bytes).unwrap_or(max));
    let mut whole = BytesMut::with_capacity(expected.max(first.len() + second.len()).min(max));
    whole.extend_from_slice(&first);
    let mut next = Some(second);
    while let Some(chunk) = next {
        if chunk.len() > max - whole.len() {
            return Err(too_large());
        }
        whole.extend_from_slice(&chunk);
        next = body.chunk().await?;
    }
    Ok(whole.freeze())
}

/// Reads an error body: at most [`ERROR_BODY_BYTES`], the rest left unread, and what had come when the connection broke. The
/// status is what counts; this is only its detail.
pub(crate) async fn read_error_body(mut body: ResponseBody) -> Bytes {
    let mut read = BytesMut::new();
    while read.len() < ERROR_BODY_BYTES {
        match body.chunk().await {
            Ok(Some(chunk)) => {
                let room = ERROR_BODY_BYTES - read.len();
                read.extend_from_slice(&chunk[..chunk.len().min(room)]);
            }
            Ok(None) | Err(_) => break,
        }
    }
    read.freeze()
}

/// The beginning of a body as one line of text, with control characters and what looks like a credential taken out.
pub fn sample(body: &[u8]) -> String {
    let body = &body[..body.len().min(4 * SAMPLE_BYTES)];
    let text = String::from_utf8_lossy(body);
    let words: Vec<&str> = text
        .split(|c: char| c.is_whitespace() || c.is_control())
        .filter(|word| !word.is_empty())
        .collect();
    let line = words.join(" ");
    clip(&mask(&line), SAMPLE_BYTES).into_owned()
}

/// The error for an answer that is not what the wire promises (a proxy's page, JSON that does not parse): status, content type
/// and a short sample. Not retryable.
pub fn unexpected_body(
    status: StatusCode,
    headers: &HeaderMap,
    body: &[u8],
    problem: &str,
) -> Error {
    let content_type = headers
        .get(header::CONTENT_TYPE)
        .map_or("no content type".into(), |value| {
            String::from_utf8_lossy(value.as_bytes())
        });
    let content_type = clip(&content_type, 100).into_owned();
    let sample = if body.is_empty() {
        "an empty body".to_owned()
    } else {
        format!("{:?}", sample(body))
    };
    Error::new(
        Kind::InvalidResponse,
        format!(
            "{problem} (status {}, {content_type}): {sample}",
            status.as_u16()
        ),
    )
    .with_status(status.as_u16())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(chunks: &[&'static [u8]]) -> ResponseBody {
        ResponseBody::from_chunks(chunks.iter().map(|chunk| Bytes::from_static(chunk)))
    }

    #[tokio::test]
    async fn a_body_at_the_bound_fits_and_one_byte_more_does_not() {
        for (bound, fits) in [(6, true), (5, false), (0, false)] {
            let read = read_bounded(body(&[b"ab", b"cd", b"ef"]), bound).await;
            assert_eq!(read.is_ok(), fits);
        }
        assert_eq!(
            read_bounded(body(&[b"ab", b"", b"c"]), 9).await.unwrap(),
            "abc"
        );
        assert!(read_bounded(body(&[]), 0).await.unwrap().is_empty());
    }

    #[tokio::test]
    async fn one_chunk_is_not_copied() {
        let chunk = Bytes::from(vec![7; 100]);
        let read = read_bounded(ResponseBody::from_chunks([chunk.clone()]), 100)
            .await
            .unwrap();
        assert_eq!(read.as_ptr(), chunk.as_ptr());
    }

    #[tokio::test]
    async fn e09_an_error_body_is_cut_at_its_bound() {
        let chunks = (0..300).map(|_| Bytes::from(vec![b'x'; 1000]));
        let read = read_error_body(ResponseBody::from_chunks(chunks)).await;
        assert_eq!(read.len(), ERROR_BODY_BYTES);
    }

    #[test]
    fn e01_an_unexpected_body_names_status_content_type_and_a_sample() {
        let mut headers = HeaderMap::new();
        let error = unexpected_body(StatusCode::OK, &headers, b"<html>\r\n <b>\xff", "not JSON");
        assert_eq!(
            error.message(),
            "not JSON (status 200, no content type): \"<html> <b>\u{fffd}\""
        );
        assert!(!error.is_retryable() && error.status() == Some(200));
        headers.insert(
            header::CONTENT_TYPE,
            header::HeaderValue::from_static("text/html"),
        );
        let error = unexpected_body(StatusCode::OK, &headers, &[b'a'; 9000], "not JSON");
        assert!(error.message().contains("text/html") && error.message().len() < 300);
        assert!(
            unexpected_body(StatusCode::OK, &headers, b"", "x")
                .message()
                .ends_with("an empty body")
        );
    }

    #[test]
    fn a_sample_shows_no_credential() {
        assert_eq!(
            sample(b"{\"x-api-key\": \"abcd1234efgh\"}"),
            "{\"x-api-key\": \"[redacted]\"}"
        );
    }
}
