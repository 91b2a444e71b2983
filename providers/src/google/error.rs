//! What Google's APIs say when they refuse, as one table.
//!
//! [`classify`] is for an answer whose status is no success, [`in_band`] for an error object inside a 200. The words count first
//! (a detail's `reason`, then `status`), the number second: a word says more.

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
    /// The `reason` of an `ErrorInfo` detail.
    Reason(&'static [&'static str]),
    /// The `status` of a `google.rpc.Status`.
    Word(&'static str),
    /// The HTTP status, or the number in `code` inside a 200.
    Status(u16, u16),
}

use Seen::{Reason, Status, Word};

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

/// Read from the top, once for the reason, once for the word, once for the status; the first match counts.
const TABLE: &[Row] = &[
    row(
        Reason(&[
            "API_KEY_INVALID",
            "API_KEY_EXPIRED",
            "API_KEY_SERVICE_BLOCKED",
            "API_KEY_HTTP_REFERRER_BLOCKED",
            "API_KEY_IP_ADDRESS_BLOCKED",
            "ACCESS_TOKEN_EXPIRED",
            "ACCESS_TOKEN_SCOPE_INSUFFICIENT",
            "ACCESS_TOKEN_TYPE_UNSUPPORTED",
            "CREDENTIALS_MISSING",
            "CONSUMER_INVALID",
            "CONSUMER_SUSPENDED",
            "SERVICE_DISABLED",
            "BILLING_DISABLED",
            "IAM_PERMISSION_DENIED",
            "USER_PROJECT_DENIED",
        ]),
        Kind::Auth,
        GIVE_UP,
        "the Gemini API answers 400 to a wrong key; only the detail tells it from a wrong request",
    ),
    row(
        Word("RESOURCE_EXHAUSTED"),
        Kind::RateLimited,
        WAIT,
        "a rate, or a shared pool that is full; a quota of the day is told by its violation",
    ),
    row(
        Word("UNAUTHENTICATED"),
        Kind::Auth,
        GIVE_UP,
        "no token, or a wrong one; it is replaced once by the framework",
    ),
    row(
        Word("PERMISSION_DENIED"),
        Kind::Auth,
        GIVE_UP,
        "this identity may not do this",
    ),
    row(
        Word("NOT_FOUND"),
        Kind::NotFound,
        GIVE_UP,
        "no such model, or not in this location",
    ),
    row(
        Word("INVALID_ARGUMENT"),
        Kind::InvalidRequest,
        GIVE_UP,
        "the request itself must change",
    ),
    row(
        Word("FAILED_PRECONDITION"),
        Kind::InvalidRequest,
        GIVE_UP,
        "a setting of the account or its country must change",
    ),
    row(
        Word("OUT_OF_RANGE"),
        Kind::InvalidRequest,
        GIVE_UP,
        "the request itself must change",
    ),
    row(
        Word("UNAVAILABLE"),
        Kind::Overloaded,
        WAIT,
        "the model is overloaded for everyone, not this caller's quota",
    ),
    row(
        Word("DEADLINE_EXCEEDED"),
        Kind::Server,
        WAIT,
        "the server ran out of its own time",
    ),
    row(
        Word("INTERNAL"),
        Kind::Server,
        WAIT,
        "an error of the server's own",
    ),
    row(
        Word("UNKNOWN"),
        Kind::Server,
        WAIT,
        "an error of the server's own",
    ),
    row(
        Word("ABORTED"),
        Kind::Server,
        WAIT,
        "something else was in the way",
    ),
    row(
        Word("CANCELLED"),
        Kind::Server,
        WAIT,
        "the server gave the work up",
    ),
    row(
        Word("UNIMPLEMENTED"),
        Kind::Server,
        GIVE_UP,
        "not implemented does not change by waiting",
    ),
    row(
        Status(402, 402),
        Kind::QuotaExhausted,
        GIVE_UP,
        "payment required",
    ),
    row(
        Status(429, 429),
        Kind::RateLimited,
        WAIT,
        "a 429 without a word is a rate",
    ),
    row(Status(401, 401), Kind::Auth, GIVE_UP, "no or a wrong token"),
    row(
        Status(403, 403),
        Kind::Auth,
        GIVE_UP,
        "this identity may not do this, or not from here",
    ),
    row(
        Status(404, 404),
        Kind::NotFound,
        GIVE_UP,
        "no such model, or a wrong URL: then a page comes",
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
        "the same body stays too large",
    ),
    row(
        Status(503, 503),
        Kind::Overloaded,
        WAIT,
        "overloaded for everyone",
    ),
    row(
        Status(529, 529),
        Kind::Overloaded,
        WAIT,
        "a partner model's overload, passed on",
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
        "the front end got no answer; its body is a page that says nothing",
    ),
    row(
        Status(504, 504),
        Kind::Server,
        WAIT,
        "the front end got no answer in time",
    ),
    row(
        Status(501, 599),
        Kind::Server,
        GIVE_UP,
        "no promise that a second try is safe or useful",
    ),
    row(
        Status(400, 499),
        Kind::InvalidRequest,
        GIVE_UP,
        "the request itself must change",
    ),
];

/// An answer whose status is no success.
pub(crate) fn classify(head: &Head, body: &[u8]) -> Error {
    let told = Told::from_body(head, body);
    let (kind, retry) = match look_up(&told, Some(head.status)) {
        // Whatever the words, a 429 is one: its delay holds for the whole scope.
        Some((kind, _)) if head.status == 429 && kind != Kind::QuotaExhausted => {
            (Kind::RateLimited, WAIT)
        }
        Some(found) => found,
        None => (Kind::InvalidResponse, GIVE_UP),
    };
    finish(kind, retry, told)
}

/// An error object inside a success, whole or in a stream.
pub(crate) fn in_band(head: &Head, error: &Value) -> Error {
    let told = Told::from_value(head, error);
    let status = told.code.filter(|status| (400..600).contains(status));
    // Nobody can tell what it is; a server that answers 200 and an error is a server error.
    let (kind, retry) = look_up(&told, status).unwrap_or((Kind::Server, true));
    finish(kind, retry, told)
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
    let by_reason = || {
        let told = told.reason.as_deref()?;
        by(&|seen| matches!(seen, Reason(all) if all.contains(&told)))
    };
    let by_word = || {
        let told = told.word.as_deref()?;
        by(&|seen| matches!(seen, Word(word) if *word == told))
    };
    by_reason().or_else(by_word).or_else(|| {
        let status = status?;
        by(&|seen| matches!(seen, Status(from, to) if (*from..=*to).contains(&status)))
    })
}

fn finish(kind: Kind, retry: bool, told: Told) -> Error {
    let (kind, retry) = match kind {
        // Waiting a moment does not bring a day's quota back, whatever delay is told beside it.
        Kind::RateLimited if told.day_is_used_up => (Kind::QuotaExhausted, false),
        kind => (kind, retry),
    };
    let expired = kind == Kind::Auth && told.says_expired();
    let mut error = Error::new(kind, told.message).with_retryable(retry);
    let code = told.reason.or(told.word);
    if let Some(code) = code.or_else(|| told.code.map(|code| code.to_string())) {
        error = error.with_code(code);
    }
    if let Some(id) = told.request_id {
        error = error.with_request_id(id);
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
