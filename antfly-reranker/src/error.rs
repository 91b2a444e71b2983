//! What the server says when it refuses: `{"error": "text"}` and a status.

use antfly_framework::provider::Head;
use antfly_framework::{Error, Kind};
use serde_json::Value;

const WAIT: bool = true;
const GIVE_UP: bool = false;

/// Statuses from and to, kind, whether to try again, and why. Read from the top.
const TABLE: &[(u16, u16, Kind, bool, &str)] = &[
    (401, 401, Kind::Auth, GIVE_UP, "no or a wrong key"),
    (
        402,
        402,
        Kind::QuotaExhausted,
        GIVE_UP,
        "a gateway in front: payment required",
    ),
    (403, 403, Kind::Auth, GIVE_UP, "the key may not do this"),
    (
        404,
        404,
        Kind::NotFound,
        GIVE_UP,
        "the server has no such model",
    ),
    (408, 408, Kind::Server, WAIT, "the server gave up waiting"),
    (
        413,
        413,
        Kind::RequestTooLarge,
        GIVE_UP,
        "the same body stays too large",
    ),
    (
        429,
        429,
        Kind::RateLimited,
        WAIT,
        "the server's own admission",
    ),
    (
        400,
        499,
        Kind::InvalidRequest,
        GIVE_UP,
        "the request itself must change",
    ),
    (
        501,
        501,
        Kind::Unsupported,
        GIVE_UP,
        "no encoder for this media",
    ),
    (
        503,
        503,
        Kind::Overloaded,
        WAIT,
        "no reranker is loaded now, or its queue is full",
    ),
    (
        529,
        529,
        Kind::Overloaded,
        WAIT,
        "a gateway in front is overloaded",
    ),
    (500, 500, Kind::Server, WAIT, "an error of the server's own"),
    (502, 502, Kind::Server, WAIT, "a proxy got no answer"),
    (
        504,
        504,
        Kind::Server,
        WAIT,
        "a proxy got no answer in time",
    ),
    (
        505,
        599,
        Kind::Server,
        GIVE_UP,
        "no promise that a second try is useful",
    ),
];

/// Enough for any message worth reading.
const MESSAGE_BYTES: usize = 4096;
const SAMPLE_BYTES: usize = 200;

/// An answer whose status is no success.
pub(crate) fn classify(head: &Head, body: &[u8]) -> Error {
    let (kind, retry) = TABLE
        .iter()
        .find(|(from, to, ..)| (*from..=*to).contains(&head.status))
        .map_or((Kind::InvalidResponse, false), |(_, _, kind, retry, _)| {
            (*kind, *retry)
        });
    let parsed = serde_json::from_slice::<Value>(body).ok();
    let told = parsed
        .as_ref()
        .and_then(message)
        .or_else(|| plain(head, body));
    let expired = kind == Kind::Auth
        && told
            .as_deref()
            .is_some_and(|text| text.to_ascii_lowercase().contains("expired"));
    let message = told.unwrap_or_else(|| {
        format!(
            "the server answered status {} and did not say why",
            head.status
        )
    });
    let error = Error::new(kind, clip(&message, MESSAGE_BYTES)).with_retryable(retry);
    if expired {
        error.with_credential_expired()
    } else {
        error
    }
}

/// An error inside a success.
pub(crate) fn in_band(error: &Value) -> Error {
    let text = message(error).unwrap_or_else(|| error.to_string());
    Error::new(Kind::Server, clip(&text, MESSAGE_BYTES))
}

/// An answer that does not parse.
pub(crate) fn unreadable(head: &Head, body: &[u8], problem: impl std::fmt::Display) -> Error {
    let media_type = head.content_type();
    let media_type = if media_type.is_empty() {
        "no content type"
    } else {
        &media_type
    };
    let sample = String::from_utf8_lossy(&body[..body.len().min(2 * SAMPLE_BYTES)]);
    Error::new(
        Kind::InvalidResponse,
        format!(
            "the answer (status {}, {media_type}) does not parse: {problem}; it begins {:?}",
            head.status,
            clip(&sample, SAMPLE_BYTES)
        ),
    )
    .with_status(head.status)
}

/// Whether a value under `error` tells of one.
pub(crate) fn is_error(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::String(text) => !text.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
        _ => true,
    }
}

/// `{"error": "text"}`; gateways in front say `{"error": {"message"}}`, `{"message"}` or just the text.
fn message(value: &Value) -> Option<String> {
    match value {
        Value::String(text) if !text.trim().is_empty() => Some(text.clone()),
        Value::Object(fields) => ["error", "message", "detail"]
            .iter()
            .find_map(|name| message(fields.get(*name)?)),
        _ => None,
    }
}

/// A body that is not JSON: its text, unless it is a page.
fn plain(head: &Head, body: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(body);
    let text = text.trim();
    if text.is_empty() {
        return None;
    }
    if head.content_type() == "text/html" || text.starts_with('<') {
        return Some("an HTML page came instead of an answer".to_owned());
    }
    Some(text.to_owned())
}

/// At most `bytes` bytes, cut where a word ends: half a secret would not be recognised as one any more.
fn clip(text: &str, bytes: usize) -> String {
    if text.len() <= bytes {
        return text.to_owned();
    }
    let in_word = |c: char| c.is_alphanumeric() || "-_.+/~*=%".contains(c);
    let cut = text[..text.floor_char_boundary(bytes)].trim_end_matches(in_word);
    format!("{cut}...")
}

#[cfg(test)]
#[path = "error_tests.rs"]
mod tests;
