//! Reads an error body into the few things that matter.
//!
//! Google's form is `{"error": {"code", "message", "status", "details": [{"@type", ..}]}}`, also wrapped in a list; in front of it
//! stand proxies that answer plain text and pages.

use std::time::Duration;

use antfly_framework::provider::{Head, parse_proto_duration};
use serde_json::Value;

use crate::refusal::{MESSAGE_BYTES, clip, is_error, nothing_said, of_text};

/// The longest code or id that is kept.
const WORD_BYTES: usize = 128;

/// What a provider said went wrong.
#[derive(Debug, Default)]
pub(super) struct Told {
    pub(super) message: String,
    /// The number: an HTTP status.
    pub(super) code: Option<u16>,
    /// `status`, such as `RESOURCE_EXHAUSTED`.
    pub(super) word: Option<String>,
    /// The `reason` of an `ErrorInfo` detail.
    pub(super) reason: Option<String>,
    /// The `requestId` of a `RequestInfo` detail.
    pub(super) request_id: Option<String>,
    /// The longest `retryDelay` of the `RetryInfo` details.
    pub(super) retry_after: Option<Duration>,
    /// Whether a `QuotaFailure` names a quota of the day.
    pub(super) day_is_used_up: bool,
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

    /// `value` is the error object, its wrapper, a list of those, or just a text.
    pub(super) fn from_value(head: &Head, value: &Value) -> Self {
        let mut value = value;
        if let Value::Array(list) = value
            && let Some(first) = list.first()
        {
            value = first;
        }
        if let Some(error) = value.get("error").filter(|e| is_error(e)) {
            value = error;
        }
        let said = match value {
            Value::String(text) => Some(text.as_str()),
            value => ["message", "error_description", "error"]
                .iter()
                .find_map(|name| value.get(*name)?.as_str()),
        };
        let said = said.filter(|text| !text.trim().is_empty());
        let mut told = Told {
            message: said.map_or_else(|| nothing_said(head), |text| clip(text, MESSAGE_BYTES)),
            code: value
                .get("code")
                .and_then(Value::as_u64)
                .and_then(|code| u16::try_from(code).ok()),
            word: word(value.get("status")),
            ..Told::default()
        };
        let details = value.get("details").and_then(Value::as_array);
        for detail in details.into_iter().flatten() {
            told.read(detail);
        }
        told
    }

    /// One element of `details`.
    fn read(&mut self, detail: &Value) {
        let name = detail.get("@type").and_then(Value::as_str).unwrap_or("");
        match name.rsplit(['/', '.']).next().unwrap_or("") {
            "ErrorInfo" => {
                let reason = word(detail.get("reason"));
                self.reason = self.reason.take().or(reason);
                let limit = detail.pointer("/metadata/quota_limit");
                self.day_is_used_up |= limit.and_then(Value::as_str).is_some_and(is_daily);
            }
            "RetryInfo" => {
                let delay = detail.get("retryDelay").and_then(Value::as_str);
                self.retry_after = self.retry_after.max(delay.and_then(parse_proto_duration));
            }
            "QuotaFailure" => {
                let violations = detail.get("violations").and_then(Value::as_array);
                self.day_is_used_up |= violations.into_iter().flatten().any(|violation| {
                    let id = violation.get("quotaId").and_then(Value::as_str);
                    id.is_some_and(is_daily)
                });
            }
            "RequestInfo" => self.request_id = word(detail.get("requestId")),
            "BadRequest" => self.name_fields(detail),
            _ => {}
        }
    }

    /// Adds the fields that a message does not name itself.
    fn name_fields(&mut self, detail: &Value) {
        let violations = detail.get("fieldViolations").and_then(Value::as_array);
        let fields: Vec<&str> = violations
            .into_iter()
            .flatten()
            .filter_map(|violation| violation.get("field")?.as_str())
            .filter(|field| !field.is_empty() && !self.message.contains(field))
            .collect();
        if !fields.is_empty() {
            let named = format!("{} (fields: {})", self.message, fields.join(", "));
            self.message = clip(&named, MESSAGE_BYTES);
        }
    }

    /// Whether it calls the credential expired.
    pub(super) fn says_expired(&self) -> bool {
        self.reason.as_deref() == Some("ACCESS_TOKEN_EXPIRED")
            || self.message.to_ascii_lowercase().contains("expired")
    }
}

/// `GenerateRequestsPerDayPerProjectPerModel-FreeTier` and its relatives.
fn is_daily(quota: &str) -> bool {
    let quota = quota.to_ascii_lowercase();
    quota.contains("perday") || quota.contains("per_day") || quota.contains("per-day")
}

fn word(value: Option<&Value>) -> Option<String> {
    let text = value?.as_str().filter(|text| !text.is_empty())?;
    Some(clip(text, WORD_BYTES))
}
