//! What adapters share of reading a refusal: texts that are not JSON, and what holds an error at all.

use antfly_framework::provider::Head;
use antfly_framework::{Error, Kind};
use serde_json::Value;

/// The longest message that is kept.
pub(crate) const MESSAGE_BYTES: usize = 4096;
const SAMPLE_BYTES: usize = 400;

/// A body that is not JSON: plain text as it is, a page only by its title.
pub(crate) fn of_text(head: &Head, text: &str) -> String {
    let text = text.trim();
    if text.is_empty() {
        return nothing_said(head);
    }
    if head.content_type() == "text/html" || text.starts_with('<') {
        return match title(text) {
            Some(title) => format!(
                "an HTML page came instead of an answer: {}",
                clip(title, 200)
            ),
            None => "an HTML page came instead of an answer".to_owned(),
        };
    }
    clip(text, MESSAGE_BYTES)
}

fn title(page: &str) -> Option<&str> {
    let lower = page.to_ascii_lowercase();
    let from = lower.find("<title>")? + "<title>".len();
    let to = from + lower.get(from..)?.find('<')?;
    page.get(from..to)
        .map(str::trim)
        .filter(|title| !title.is_empty())
}

pub(crate) fn nothing_said(head: &Head) -> String {
    format!(
        "the provider answered status {} and did not say why",
        head.status
    )
}

/// At most `bytes` bytes of `text`, cut where a word ends: half a secret would not be recognised as one any more.
pub(crate) fn clip(text: &str, bytes: usize) -> String {
    if text.len() <= bytes {
        return text.to_owned();
    }
    let in_word = |c: char| c.is_alphanumeric() || "-_.+/~*=%".contains(c);
    let cut = text[..text.floor_char_boundary(bytes)].trim_end_matches(in_word);
    format!("{cut}...")
}

/// The error object of a parsed answer, also of one wrapped in a list, which is how a stream that is no event stream comes.
pub(crate) fn held_error(value: &Value) -> Option<&Value> {
    let value = match value {
        Value::Array(list) => list.first()?,
        value => value,
    };
    value.get("error").filter(|error| is_error(error))
}

/// Whether a value under `error` tells of one: some servers always send the field.
pub(crate) fn is_error(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::String(text) => !text.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
        _ => true,
    }
}

/// An answer that does not parse and holds no error object: what came instead.
pub(crate) fn unparsed(head: &Head, body: &[u8], problem: impl std::fmt::Display) -> Error {
    let media_type = match head.content_type() {
        empty if empty.is_empty() => "no content type".to_owned(),
        media_type => media_type,
    };
    let sample = String::from_utf8_lossy(&body[..body.len().min(SAMPLE_BYTES)]);
    Error::new(
        Kind::InvalidResponse,
        format!(
            "the answer (status {}, {media_type}) does not parse: {problem}; it begins {:?}",
            head.status,
            clip(&sample, SAMPLE_BYTES / 2),
        ),
    )
    .with_status(head.status)
}
