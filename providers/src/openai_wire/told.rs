//! Reads an error body, whatever its form, into the few things that matter.
//!
//! Seen in the wild: `{"error": {"message", "type", "code", "param"}}` with `code` a word or a number, `{"error": "text"}`,
//! `{"message"}`, `{"detail"}` (text or a list of `{"loc", "msg"}`), each of them wrapped in a list, a bare string, plain text,
//! and a proxy's HTML page.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use antfly_framework::provider::Head;
use serde_json::Value;

use crate::refusal::{MESSAGE_BYTES, clip, is_error, nothing_said, of_text};

/// A body hint beyond this is taken for a mistake in its unit.
const LONGEST_EPOCH_HINT: Duration = Duration::from_secs(24 * 60 * 60);

/// What a provider said went wrong.
#[derive(Debug, Default)]
pub(super) struct Told {
    pub(super) message: String,
    /// `code`, a number as its digits.
    pub(super) code: Option<String>,
    /// `type` (Google: `status`).
    pub(super) word: Option<String>,
    /// A more exact code one level down.
    pub(super) inner: Option<String>,
    /// A wait told in the body.
    pub(super) retry_after: Option<Duration>,
}

impl Told {
    pub(super) fn from_body(head: &Head, body: &[u8]) -> Self {
        match serde_json::from_slice::<Value>(body) {
            Ok(value) => Self::from_value(head, &value),
            Err(_) => Told {
                message: of_text(head, &String::from_utf8_lossy(body)),
                ..Told::default()
            },
        }
    }

    pub(super) fn from_value(head: &Head, value: &Value) -> Self {
        let mut value = value;
        if let Value::Array(list) = value
            && let Some(first) = list.first()
        {
            value = first;
        }
        let outer = value;
        if let Some(error) = value.get("error").filter(|error| is_error(error)) {
            value = error;
        }
        let of = |name: &str| word(value.get(name)).or_else(|| word(outer.get(name)));
        let moderated = value
            .pointer("/metadata/flagged_input")
            .or_else(|| value.pointer("/metadata/reasons"))
            .map(|_| "moderation".to_owned());
        let message = message(value)
            .or_else(|| message(outer))
            .unwrap_or_else(|| nothing_said(head));
        Told {
            message: clip(&with_param(message, value), MESSAGE_BYTES),
            code: of("code"),
            word: of("type").filter(|w| w != "error").or_else(|| of("status")),
            inner: word(value.pointer("/innererror/code")).or(moderated),
            retry_after: retry_info(value).or_else(|| reset(head, value)),
        }
    }

    /// Whether it calls the credential expired or stale.
    pub(super) fn says_expired(&self) -> bool {
        [
            &Some(&self.message),
            &self.code.as_ref(),
            &self.word.as_ref(),
        ]
        .into_iter()
        .flatten()
        .any(|text| text.to_ascii_lowercase().contains("expired"))
    }
}

/// A string or a number, as text; nothing else, and nothing empty.
fn word(value: Option<&Value>) -> Option<String> {
    match value? {
        Value::String(text) if !text.is_empty() => Some(clip(text, 128)),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

fn message(value: &Value) -> Option<String> {
    if let Value::String(text) = value {
        return Some(text.clone()).filter(|t| !t.trim().is_empty());
    }
    ["message", "detail", "error_description", "msg"]
        .iter()
        .find_map(|name| match value.get(*name)? {
            Value::String(text) if !text.trim().is_empty() => Some(text.clone()),
            Value::Array(list) => {
                let said: Vec<String> = list.iter().filter_map(of_detail).collect();
                (!said.is_empty()).then(|| said.join("; "))
            }
            Value::Object(_) => message(value.get(*name)?),
            _ => None,
        })
}

/// One entry of a list under `detail`: its message and where it points.
fn of_detail(detail: &Value) -> Option<String> {
    let said = match detail {
        Value::String(text) => text.as_str(),
        detail => detail
            .get("msg")
            .or_else(|| detail.get("message"))?
            .as_str()?,
    };
    let place = detail.get("loc").and_then(Value::as_array).map(|loc| {
        loc.iter()
            .filter_map(|step| word(Some(step)))
            .collect::<Vec<_>>()
            .join(".")
    });
    Some(match place {
        Some(place) if !place.is_empty() => format!("{place}: {said}"),
        _ => said.to_owned(),
    })
}

/// Adds the parameter a message does not name itself.
fn with_param(message: String, error: &Value) -> String {
    match error.get("param").and_then(Value::as_str) {
        Some(param) if !param.is_empty() && !message.contains(param) => {
            format!("{message} (parameter {param})")
        }
        _ => message,
    }
}

/// Google's `RetryInfo`, which its OpenAI-compatible endpoint sends as well.
fn retry_info(error: &Value) -> Option<Duration> {
    error
        .get("details")?
        .as_array()?
        .iter()
        .filter(|detail| {
            detail
                .get("@type")
                .and_then(Value::as_str)
                .is_some_and(|name| name.ends_with("google.rpc.RetryInfo"))
        })
        .filter_map(|detail| seconds(detail.get("retryDelay")?.as_str()?))
        .max()
}

/// A protobuf duration in JSON: decimal seconds and an `s`.
fn seconds(text: &str) -> Option<Duration> {
    let number: f64 = text.trim().strip_suffix('s')?.trim().parse().ok()?;
    if number.is_nan() || number < 0.0 {
        return None;
    }
    Some(Duration::try_from_secs_f64(number).unwrap_or(Duration::MAX))
}

/// OpenRouter's `metadata.headers`: `X-RateLimit-Reset` as a time since the epoch in milliseconds (others: in seconds),
/// measured against the answer's own date where it has one.
fn reset(head: &Head, error: &Value) -> Option<Duration> {
    let headers = error.pointer("/metadata/headers")?.as_object()?;
    let (_, told) = headers
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case("x-ratelimit-reset"))?;
    let number: u64 = match told {
        Value::Number(number) => number.as_u64()?,
        Value::String(text) => text.trim().parse().ok()?,
        _ => return None,
    };
    let since_epoch = match number {
        1_000_000_000..100_000_000_000 => Duration::from_secs(number),
        100_000_000_000..100_000_000_000_000 => Duration::from_millis(number),
        _ => return None,
    };
    #[allow(clippy::disallowed_methods)] // Only where the answer has no date of its own.
    let now = head
        .header("date")
        .and_then(|date| httpdate::parse_http_date(date).ok())
        .unwrap_or_else(SystemTime::now);
    let wait = (UNIX_EPOCH + since_epoch).duration_since(now).ok()?;
    (wait <= LONGEST_EPOCH_HINT).then_some(wait)
}
