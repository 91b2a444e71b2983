//! What OpenAI and its relatives say when they refuse, as one table.
//!
//! [`classify`] is for an answer whose status is no success, [`in_band`] for an error object inside a 200. Both read the
//! words first (`code`, then `type`) and the status second: a word says more than a number.

use antfly_framework::provider::Head;
use antfly_framework::{Error, Kind};
use serde_json::Value;

use super::told::Told;
use crate::refusal::{held_error, unparsed};

/// One row: what is seen, what it means, and why.
struct Row {
    seen: Seen,
    kind: Kind,
    retry: bool,
    /// Why it means that; documentation that sits beside the rule and is checked to be there.
    #[cfg_attr(
        not(test),
        expect(dead_code, reason = "the reason is for readers of the table")
    )]
    why: &'static str,
}

enum Seen {
    /// `error.code` or `error.type`, in lower case.
    Words(&'static [&'static str]),
    /// The status, or the number in `error.code` inside a 200.
    Status(u16, u16),
    /// A `type` so general that a status says more.
    Vague(&'static [&'static str]),
}

use Seen::{Status, Vague, Words};

const fn row(seen: Seen, kind: Kind, retry: bool, why: &'static str) -> Row {
    Row {
        seen,
        kind,
        retry,
        why,
    }
}

const WAIT: bool = true;
const GIVE_UP: bool = false;

/// Read from the top, once for `code`, once for `type`; the first match counts.
const TABLE: &[Row] = &[
    row(
        Words(&[
            "insufficient_quota",
            "billing_hard_limit_reached",
            "billing_not_active",
            "insufficient_balance",
            "insufficient_credits",
            "insufficient_funds",
            "payment_required",
        ]),
        Kind::QuotaExhausted,
        GIVE_UP,
        "money is used up: waiting does not bring it back, though OpenAI answers 429",
    ),
    row(
        Words(&[
            "rate_limit_exceeded",
            "rate_limit_error",
            "rate_limit_reached",
            "rate_limited",
            "too_many_requests",
            "resource_exhausted",
            "requests",
            "tokens",
        ]),
        Kind::RateLimited,
        WAIT,
        "`requests` and `tokens` are the types of OpenAI's own 429; the others are its relatives'",
    ),
    row(
        Words(&[
            "content_policy_violation",
            "content_filter",
            "content_filtered",
            "responsibleaipolicyviolation",
            "moderation_blocked",
            "moderation",
        ]),
        Kind::ContentBlocked,
        GIVE_UP,
        "the same content is refused again; Azure calls it content_filter under a 400",
    ),
    row(
        Words(&["request_too_large", "payload_too_large"]),
        Kind::RequestTooLarge,
        GIVE_UP,
        "the same body stays too large",
    ),
    row(
        Words(&[
            "context_length_exceeded",
            "string_above_max_length",
            "array_above_max_length",
            "max_tokens_per_request",
            "unsupported_parameter",
            "unsupported_value",
            "invalid_argument",
            "failed_precondition",
        ]),
        Kind::InvalidRequest,
        GIVE_UP,
        "the request itself must change",
    ),
    row(
        Words(&[
            "invalid_api_key",
            "invalid_organization",
            "account_deactivated",
            "authentication_error",
            "permission_error",
            "permission_denied",
            "unauthenticated",
            "unauthorized",
            "expired_token",
            "token_expired",
        ]),
        Kind::Auth,
        GIVE_UP,
        "the key is wrong for this; an expired one is refreshed once by the framework",
    ),
    row(
        Words(&[
            "model_not_found",
            "deploymentnotfound",
            "not_found_error",
            "not_found",
            "notfounderror",
        ]),
        Kind::NotFound,
        GIVE_UP,
        "no such model or path",
    ),
    row(
        Words(&[
            "overloaded_error",
            "overloaded",
            "engine_overloaded",
            "engine_overloaded_error",
            "model_overloaded",
            "service_unavailable",
            "unavailable",
            "slow_down",
        ]),
        Kind::Overloaded,
        WAIT,
        "the service is full for everyone, not this caller's quota",
    ),
    row(
        Status(402, 402),
        Kind::QuotaExhausted,
        GIVE_UP,
        "payment required: OpenRouter and DeepSeek out of credit",
    ),
    row(
        Status(429, 429),
        Kind::RateLimited,
        WAIT,
        "a 429 without a word about money is a rate",
    ),
    row(Status(401, 401), Kind::Auth, GIVE_UP, "no or a wrong key"),
    row(
        Status(403, 403),
        Kind::Auth,
        GIVE_UP,
        "the key may not do this, or not from here",
    ),
    row(
        Status(404, 404),
        Kind::NotFound,
        GIVE_UP,
        "no such model, or a wrong base URL",
    ),
    row(
        Status(408, 408),
        Kind::Server,
        WAIT,
        "the server gave up waiting; nothing is wrong with the request",
    ),
    row(
        Status(413, 413),
        Kind::RequestTooLarge,
        GIVE_UP,
        "often plain text from a proxy in front of the model",
    ),
    row(
        Status(503, 503),
        Kind::Overloaded,
        WAIT,
        "OpenAI: the engine is overloaded",
    ),
    row(
        Status(529, 529),
        Kind::Overloaded,
        WAIT,
        "Anthropic-style overload, passed on by gateways",
    ),
    row(
        Status(500, 500),
        Kind::Server,
        WAIT,
        "an error of the server's own",
    ),
    row(
        Status(502, 502),
        Kind::Server,
        WAIT,
        "the proxy got no answer; its body is a page that says nothing",
    ),
    row(
        Status(504, 504),
        Kind::Server,
        WAIT,
        "the proxy got no answer in time",
    ),
    row(
        Status(505, 599),
        Kind::Server,
        GIVE_UP,
        "no promise that a second try is safe or useful",
    ),
    row(
        Status(501, 501),
        Kind::Server,
        GIVE_UP,
        "not implemented does not change by waiting",
    ),
    row(
        Status(400, 499),
        Kind::InvalidRequest,
        GIVE_UP,
        "the request itself must change",
    ),
    row(
        Vague(&[
            "invalid_request_error",
            "invalid_request",
            "bad_request",
            "badrequesterror",
            "validation_error",
        ]),
        Kind::InvalidRequest,
        GIVE_UP,
        "OpenAI uses this type for wrong keys and models as well: only without a status",
    ),
    row(
        Vague(&[
            "server_error",
            "internal_server_error",
            "internalservererror",
            "internal_error",
            "internal",
            "api_error",
            "timeout",
            "timeout_error",
            "upstream_error",
        ]),
        Kind::Server,
        WAIT,
        "beside code rate_limit_exceeded it says nothing: only alone",
    ),
];

/// An answer whose status is no success.
pub(crate) fn classify(head: &Head, body: &[u8]) -> Error {
    let told = Told::from_body(head, body);
    let (kind, retry) = look_up(&told, Some(head.status)).unwrap_or((Kind::InvalidResponse, false));
    finish(kind, retry, told, head)
}

/// An error object inside a success, whole or in a stream. `error` is the object, its wrapper, or just its text.
pub(crate) fn in_band(head: &Head, error: &Value) -> Error {
    let told = Told::from_value(head, error);
    let status = told
        .code
        .as_deref()
        .and_then(|code| code.parse().ok())
        .filter(|status| (400..600).contains(status));
    // Nobody can tell what it is; a server that answers 200 and an error is a server error.
    let (kind, retry) = look_up(&told, status).unwrap_or((Kind::Server, true));
    finish(kind, retry, told, head)
}

/// An answer that does not parse: the error object it holds if there is one, else what came instead.
pub(crate) fn unreadable(head: &Head, body: &[u8], problem: impl std::fmt::Display) -> Error {
    if let Ok(value) = serde_json::from_slice::<Value>(body)
        && let Some(error) = held_error(&value)
    {
        return in_band(head, error);
    }
    unparsed(head, body, problem)
}

fn look_up(told: &Told, status: Option<u16>) -> Option<(Kind, bool)> {
    let by = |matches: &dyn Fn(&Seen) -> bool| {
        TABLE
            .iter()
            .find(|row| matches(&row.seen))
            .map(|row| (row.kind, row.retry))
    };
    let by_word = |word: &Option<String>, vague: bool| {
        let word = word.as_deref()?.to_ascii_lowercase();
        by(&|seen| match seen {
            Words(words) => !vague && words.contains(&word.as_str()),
            Vague(words) => vague && words.contains(&word.as_str()),
            Status(..) => false,
        })
    };
    by_word(&told.code, false)
        .or_else(|| by_word(&told.inner, false))
        .or_else(|| by_word(&told.word, false))
        .or_else(|| {
            let status = status?;
            by(&|seen| matches!(seen, Status(from, to) if (*from..=*to).contains(&status)))
        })
        .or_else(|| by_word(&told.code, true))
        .or_else(|| by_word(&told.word, true))
}

fn finish(kind: Kind, retry: bool, told: Told, head: &Head) -> Error {
    let retry = match head.header("x-should-retry").map(str::trim) {
        Some("false") => false,
        // Spent money stays spent, whatever a header says.
        Some("true") => kind != Kind::QuotaExhausted,
        _ => retry,
    };
    let expired = kind == Kind::Auth && told.says_expired();
    let mut error = Error::new(kind, told.message).with_retryable(retry);
    if let Some(code) = told.code.or(told.word) {
        error = error.with_code(code);
    }
    if let Some(wait) = told.retry_after {
        error = error.with_retry_after(wait);
    }
    if expired {
        error = error.with_credential_expired();
    }
    error
}

#[cfg(test)]
#[path = "error_tests.rs"]
mod tests;
