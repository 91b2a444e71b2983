//! What is sent and what comes back: fixed bytes and heads.

use std::any::Any;
use std::fmt;

use bytes::Bytes;
use http::HeaderMap;
use url::Url;

use crate::error::{Error, Result};

/// A request, ready to be sent any number of times: the bytes are fixed.
pub struct Prepared {
    /// Where it goes.
    pub url: Url,
    /// Headers of the wire (content type, accept). No credentials.
    pub headers: HeaderMap,
    /// The body, exactly as sent.
    pub body: Bytes,
    /// Output cap in tokens, summed over the items this attempt carries; 0 where nothing is generated.
    pub output_cap: u64,
    /// A value private to the adapter, for SDK routes.
    pub typed: Option<Box<dyn Any + Send + Sync>>,
}

impl Prepared {
    /// A JSON POST.
    pub fn json(url: Url, body: &impl serde::Serialize) -> Result<Self> {
        let body = serde_json::to_vec(body).map_err(|e| {
            Error::new(
                crate::Kind::InvalidRequest,
                format!("the request can't be written as JSON: {e}"),
            )
        })?;
        let mut headers = HeaderMap::new();
        headers.insert(
            http::header::CONTENT_TYPE,
            http::HeaderValue::from_static("application/json"),
        );
        Ok(Prepared {
            url,
            headers,
            body: Bytes::from(body),
            output_cap: 0,
            typed: None,
        })
    }

    /// Sets the output cap, in tokens.
    #[must_use]
    pub fn with_output_cap(mut self, cap: u64) -> Self {
        self.output_cap = cap;
        self
    }
}

impl fmt::Debug for Prepared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prepared")
            .field("host", &self.url.host_str())
            .field("path", &self.url.path())
            .field("body_bytes", &self.body.len())
            .field("output_cap", &self.output_cap)
            .finish_non_exhaustive()
    }
}

/// The head of an answer.
#[derive(Clone, Debug)]
pub struct Head {
    /// HTTP status.
    pub status: u16,
    /// Headers.
    pub headers: HeaderMap,
}

impl Head {
    /// A header's value as text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|v| v.to_str().ok())
    }

    /// The media type of the answer, lower case, without parameters; empty when not sent.
    pub fn content_type(&self) -> String {
        self.header("content-type")
            .unwrap_or("")
            .split(';')
            .next()
            .unwrap_or("")
            .trim()
            .to_ascii_lowercase()
    }
}
