//! What AWS says when it refuses, as one table: exceptions by name, whether they come as an answer or as a frame of a stream,
//! then statuses.

use std::time::Duration;

use antfly_framework::http::clip;
use antfly_framework::provider::Head;
use antfly_framework::{Error, Kind};
use serde_json::Value;

/// One row: what is seen, what it means, and why.
struct Row {
    seen: Seen,
    kind: Kind,
    retry: bool,
    /// Documentation that sits beside the rule and is checked to be there.
    #[cfg_attr(
        not(test),
        expect(dead_code, reason = "the reason is for readers of the table")
    )]
    why: &'static str,
}

enum Seen {
    /// The exception's name, in lower case.
    Names(&'static [&'static str]),
    /// From one status to another.
    Status(u16, u16),
}

use Seen::{Names, Status};

/// The most letters of an exception's name.
const MAX_NAME: usize = 100;

const WAIT: bool = true;
const GIVE_UP: bool = false;

const fn row(seen: Seen, kind: Kind, retry: bool, why: &'static str) -> Row {
    Row {
        seen,
        kind,
        retry,
        why,
    }
}

/// Read from the top; the first match counts. Names end in `exception` or not: AWS writes both.
const TABLE: &[Row] = &[
    row(
        Names(&[
            "throttling",
            "toomanyrequests",
            "requestthrottled",
            "throttled",
            "requestlimitexceeded",
            "slowdown",
        ]),
        Kind::RateLimited,
        WAIT,
        "a rate of requests or tokens; Bedrock says 429, its frames have no status",
    ),
    row(
        Names(&["servicequotaexceeded", "limitexceeded"]),
        Kind::QuotaExhausted,
        GIVE_UP,
        "a quota of the account, not a rate: waiting a second does not bring it back",
    ),
    row(
        Names(&["modelnotready"]),
        Kind::Overloaded,
        WAIT,
        "the model is being made ready for everyone; Bedrock answers 429, but it is no one's rate",
    ),
    row(
        Names(&["serviceunavailable", "overloaded"]),
        Kind::Overloaded,
        WAIT,
        "the service is full for everyone",
    ),
    row(
        Names(&[
            "internalserver",
            "internalfailure",
            "internalserviceerror",
            "modeltimeout",
            "modelstreamerror",
        ]),
        Kind::Server,
        WAIT,
        "the service's or the model's own fault; AWS asks for a retry",
    ),
    row(
        Names(&["modelerror"]),
        Kind::Server,
        GIVE_UP,
        "the model failed over this very request",
    ),
    row(
        Names(&[
            "accessdenied",
            "expiredtoken",
            "requestexpired",
            "unrecognizedclient",
            "invalidclienttokenid",
            "invalidsignature",
            "signaturedoesnotmatch",
            "incompletesignature",
            "missingauthenticationtoken",
            "optinrequired",
            "notauthorized",
        ]),
        Kind::Auth,
        GIVE_UP,
        "the credentials are wrong for this; expired ones are refreshed once by the framework",
    ),
    row(
        Names(&["resourcenotfound"]),
        Kind::NotFound,
        GIVE_UP,
        "no such model in this region",
    ),
    row(
        Names(&["requestentitytoolarge", "payloadtoolarge"]),
        Kind::RequestTooLarge,
        GIVE_UP,
        "the same body stays too large",
    ),
    row(
        Names(&[
            "validation",
            "validationerror",
            "conflict",
            "serialization",
            "unknownoperation",
        ]),
        Kind::InvalidRequest,
        GIVE_UP,
        "the request itself must change",
    ),
    row(
        Status(401, 401),
        Kind::Auth,
        GIVE_UP,
        "no or a wrong bearer key",
    ),
    row(
        Status(403, 403),
        Kind::Auth,
        GIVE_UP,
        "these credentials may not do this",
    ),
    row(
        Status(404, 404),
        Kind::NotFound,
        GIVE_UP,
        "no such model, or a wrong endpoint",
    ),
    row(
        Status(408, 408),
        Kind::Server,
        WAIT,
        "the model took too long; Bedrock's own words ask for a retry",
    ),
    row(
        Status(413, 413),
        Kind::RequestTooLarge,
        GIVE_UP,
        "the same body stays too large",
    ),
    row(
        Status(424, 424),
        Kind::Server,
        GIVE_UP,
        "the model failed over this very request",
    ),
    row(
        Status(429, 429),
        Kind::RateLimited,
        WAIT,
        "a 429 without a name is a rate",
    ),
    row(
        Status(501, 501),
        Kind::Server,
        GIVE_UP,
        "not implemented does not change by waiting",
    ),
    row(
        Status(503, 503),
        Kind::Overloaded,
        WAIT,
        "the service is full for everyone",
    ),
    row(
        Status(529, 529),
        Kind::Overloaded,
        WAIT,
        "overload, passed on by a gateway",
    ),
    row(
        Status(505, 599),
        Kind::Server,
        GIVE_UP,
        "no promise that a second try is safe or useful",
    ),
    row(
        Status(500, 504),
        Kind::Server,
        WAIT,
        "the server's own error, or a proxy's without an answer",
    ),
    row(
        Status(400, 499),
        Kind::InvalidRequest,
        GIVE_UP,
        "the request itself must change",
    ),
];

/// An answer whose status is no success.
pub(super) fn classify(head: &Head, body: &[u8]) -> Error {
    let value: Value = serde_json::from_slice(body).unwrap_or_default();
    let code = head
        .header("x-amzn-errortype")
        .or_else(|| text(&value, &["__type", "code", "Code"]))
        .and_then(name_of);
    let told = text(&value, &["message", "Message", "errorMessage"]).map(str::to_owned);
    let message = told.unwrap_or_else(|| plain(body, head.status));
    let error = of(code.as_deref(), Some(head.status), &message);
    // The SDKs' own header, in milliseconds; the framework reads the usual ones.
    match head
        .header("x-amz-retry-after")
        .and_then(|ms| ms.trim().parse().ok())
    {
        Some(ms) => error.with_retry_after(Duration::from_millis(ms)),
        None => error,
    }
}

/// An exception inside a stream.
pub(super) fn exception(name: Option<&str>, payload: &[u8], said: Option<&str>) -> Error {
    let value: Value = serde_json::from_slice(payload).unwrap_or_default();
    let told = text(&value, &["message", "Message", "originalMessage"]).or(said);
    let message = told.map_or_else(
        || "an exception without a message".to_owned(),
        str::to_owned,
    );
    of(name.and_then(name_of).as_deref(), None, &message)
}

/// An exception in the place of an answer, under a status of success, by the name it has there or in the head.
pub(super) fn in_place_of_answer(head: &Head, body: &[u8]) -> Option<Error> {
    let value: Value = serde_json::from_slice(body).ok()?;
    let name = head
        .header("x-amzn-errortype")
        .or_else(|| text(&value, &["__type"]))
        .or_else(|| value.pointer("/Output/__type")?.as_str())?;
    Some(exception(Some(name), body, None).with_status(head.status))
}

fn of(code: Option<&str>, status: Option<u16>, message: &str) -> Error {
    let (mut kind, mut retry) = code
        .and_then(|code| {
            look_up(&|seen| matches!(seen, Names(names) if names.contains(&bare(code).as_str())))
        })
        .or_else(|| {
            let status = status?;
            look_up(&|seen| matches!(seen, Status(from, to) if (*from..=*to).contains(&status)))
        })
        // A frame that nobody knows: the service ended its stream by itself.
        .unwrap_or(match status {
            Some(_) => (Kind::InvalidResponse, GIVE_UP),
            None => (Kind::Server, WAIT),
        });
    let words = message.to_ascii_lowercase();
    if kind == Kind::RateLimited && words.contains("per day") {
        // The day's tokens are used up: Bedrock says so with the exception of its rates.
        (kind, retry) = (Kind::QuotaExhausted, GIVE_UP);
    }
    // Expired, or unknown to AWS long before its expiry (a revoked session): another one may be good.
    let expired = kind == Kind::Auth
        && (words.contains("expired")
            || code.map(bare).is_some_and(|name| {
                name.contains("expired")
                    || ["unrecognizedclient", "invalidclienttokenid"].contains(&name.as_str())
            }));
    let mut error = Error::new(
        kind,
        clip(message, antfly_framework::http::MAX_MESSAGE_BYTES),
    )
    .with_retryable(retry);
    if let Some(code) = code {
        error = error.with_code(code);
    }
    if expired {
        error = error.with_credential_expired();
    }
    error
}

fn look_up(matches: &dyn Fn(&Seen) -> bool) -> Option<(Kind, bool)> {
    TABLE
        .iter()
        .find(|row| matches(&row.seen))
        .map(|row| (row.kind, row.retry))
}

/// `ThrottlingException:http://...` and `com.amazon...#ThrottlingException` are both `ThrottlingException`; a frame's
/// `throttlingException` too.
fn name_of(text: &str) -> Option<String> {
    let name = text.rsplit('#').next().unwrap_or(text);
    let name = name.split(':').next().unwrap_or(name).trim();
    // Whatever else is sent in its place: a code is one short word.
    let in_names = |c: &char| c.is_ascii_alphanumeric() || "_-.".contains(*c);
    let mut letters = name.chars().take_while(in_names).take(MAX_NAME);
    let first = letters.next()?;
    Some(first.to_ascii_uppercase().to_string() + &letters.collect::<String>())
}

/// A name as the table has it.
fn bare(name: &str) -> String {
    let name = name.to_ascii_lowercase();
    name.strip_suffix("exception").unwrap_or(&name).to_owned()
}

fn text<'a>(value: &'a Value, names: &[&str]) -> Option<&'a str> {
    names.iter().find_map(|name| value.get(name)?.as_str())
}

/// What a body says that is not AWS's JSON: a proxy's page, plain text, nothing.
fn plain(body: &[u8], status: u16) -> String {
    match antfly_framework::http::sample(body) {
        sample if sample.is_empty() => format!("status {status} without a message"),
        sample => sample,
    }
}

#[cfg(test)]
#[path = "error_tests.rs"]
mod tests;
