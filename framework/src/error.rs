//! The one error type of the whole project.
//!
//! An [`Error`] is one readable line for people and a set of typed fields for programs. It never carries a secret: whatever
//! comes from a provider's answer passes [`crate::http::redact`] before it gets here, and a key is never formatted at all.

use std::fmt;
use std::time::Duration;

use crate::provider::Operation;

/// The result of everything in this crate that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong, in terms a caller can act on. The spelling of [`Kind::as_str`] is what the command line prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// A bad value or field, an unknown provider, a missing or blank key.
    Config,
    /// Another policy is active on the scope.
    PolicyConflict,
    /// One attempt costs more than `tokens_per_minute`.
    ExceedsTokenBudget,
    /// Media under a token budget, or media this provider or model can't take.
    MediaNotAllowed,
    /// The deadline passed, or is certain not to be met.
    DeadlineExceeded,
    /// The caller cancelled.
    Cancelled,
    /// The call was told 429 and its retries are over or don't fit.
    RateLimited,
    /// Spend or quota is used up (`insufficient_quota` and kin).
    QuotaExhausted,
    /// 401, 403, or credentials that can't be had.
    Auth,
    /// 404.
    NotFound,
    /// Another 4xx, or a request refused before sending.
    InvalidRequest,
    /// 413.
    RequestTooLarge,
    /// 503, 529, an in-band overload, or a full in-process queue.
    Overloaded,
    /// 408 and every other 5xx.
    Server,
    /// Connect, TLS, reset, timeout of the connection.
    Transport,
    /// A redirect that is not allowed.
    Redirect,
    /// The answer does not parse or contradicts the request.
    InvalidResponse,
    /// A stream that ended early, went silent or broke.
    StreamInterrupted,
    /// The provider refused the content.
    ContentBlocked,
    /// The provider has no such operation or option.
    Unsupported,
}

impl Kind {
    /// Every kind, in the order of their declaration.
    pub const ALL: [Kind; 20] = [
        Kind::Config,
        Kind::PolicyConflict,
        Kind::ExceedsTokenBudget,
        Kind::MediaNotAllowed,
        Kind::DeadlineExceeded,
        Kind::Cancelled,
        Kind::RateLimited,
        Kind::QuotaExhausted,
        Kind::Auth,
        Kind::NotFound,
        Kind::InvalidRequest,
        Kind::RequestTooLarge,
        Kind::Overloaded,
        Kind::Server,
        Kind::Transport,
        Kind::Redirect,
        Kind::InvalidResponse,
        Kind::StreamInterrupted,
        Kind::ContentBlocked,
        Kind::Unsupported,
    ];

    /// The stable spelling, as the command line and logs print it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Kind::Config => "config",
            Kind::PolicyConflict => "policy_conflict",
            Kind::ExceedsTokenBudget => "exceeds_token_budget",
            Kind::MediaNotAllowed => "media_not_allowed",
            Kind::DeadlineExceeded => "deadline_exceeded",
            Kind::Cancelled => "cancelled",
            Kind::RateLimited => "rate_limited",
            Kind::QuotaExhausted => "quota_exhausted",
            Kind::Auth => "auth",
            Kind::NotFound => "not_found",
            Kind::InvalidRequest => "invalid_request",
            Kind::RequestTooLarge => "request_too_large",
            Kind::Overloaded => "overloaded",
            Kind::Server => "server",
            Kind::Transport => "transport",
            Kind::Redirect => "redirect",
            Kind::InvalidResponse => "invalid_response",
            Kind::StreamInterrupted => "stream_interrupted",
            Kind::ContentBlocked => "content_blocked",
            Kind::Unsupported => "unsupported",
        }
    }

    /// What an HTTP status means when a provider says nothing more specific.
    pub const fn of_status(status: u16) -> Self {
        match status {
            401 | 403 => Kind::Auth,
            404 => Kind::NotFound,
            413 => Kind::RequestTooLarge,
            429 => Kind::RateLimited,
            503 | 529 => Kind::Overloaded,
            408 | 500..=599 => Kind::Server,
            _ => Kind::InvalidRequest,
        }
    }

    /// Whether another try may help, when nothing more specific is known.
    pub const fn default_retryable(self) -> bool {
        matches!(
            self,
            Kind::RateLimited | Kind::Overloaded | Kind::Server | Kind::Transport
        )
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What a call was at when its deadline ended it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Phase {
    /// It waited for its turn under the scope's limits, or was certain to wait too long.
    Admission,
    /// It waited for a credential.
    Credential,
    /// Its request was on the way, and no answer had begun.
    Sending,
    /// The answer had begun.
    Reading,
    /// It waited before another try.
    Backoff,
    /// A model in this process was at it, or had it in its queue.
    Running,
}

impl Phase {
    /// Every phase, in the order of their declaration.
    pub const ALL: [Phase; 6] = [
        Phase::Admission,
        Phase::Credential,
        Phase::Sending,
        Phase::Reading,
        Phase::Backoff,
        Phase::Running,
    ];

    /// The stable spelling, as the command line prints it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Phase::Admission => "admission",
            Phase::Credential => "credential",
            Phase::Sending => "sending",
            Phase::Reading => "reading",
            Phase::Backoff => "backoff",
            Phase::Running => "running",
        }
    }

    /// What a message says of it: "the deadline of 2s passed ...".
    pub(crate) const fn during(self) -> &'static str {
        match self {
            Phase::Admission => "while waiting for admission",
            Phase::Credential => "while waiting for a credential",
            Phase::Sending => "while sending, before an answer began",
            Phase::Reading => "while reading the answer",
            Phase::Backoff => "while waiting before another try",
            Phase::Running => "while the model in this process was at it",
        }
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One failure: its [`Kind`], one line for people, and what is known about it.
///
/// Cheap to move (one pointer). `Display` is one line; [`std::error::Error::source`] gives the cause where there is one.
pub struct Error(Box<Inner>);

struct Inner {
    kind: Kind,
    message: String,
    retryable: bool,
    retry_after: Option<Duration>,
    deadline: Option<(Duration, Phase)>,
    status: Option<u16>,
    code: Option<String>,
    request_id: Option<String>,
    provider: Option<String>,
    operation: Option<Operation>,
    model: Option<String>,
    scope: Option<String>,
    attempts: u32,
    item: Option<usize>,
    credential_expired: bool,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    /// An error of `kind` with a message that holds no secret.
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Error(Box::new(Inner {
            kind,
            message: message.into(),
            retryable: kind.default_retryable(),
            retry_after: None,
            deadline: None,
            status: None,
            code: None,
            request_id: None,
            provider: None,
            operation: None,
            model: None,
            scope: None,
            attempts: 0,
            item: None,
            credential_expired: false,
            source: None,
        }))
    }

    /// A configuration error at a JSON path: `embedders.docs.rate_limit.burst: ...`.
    pub fn config(path: impl fmt::Display, problem: impl fmt::Display) -> Self {
        Error::new(Kind::Config, format!("{path}: {problem}"))
    }

    /// What went wrong.
    pub fn kind(&self) -> Kind {
        self.0.kind
    }

    /// The message alone, without kind, provider or status.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Whether sending the same call again can help.
    pub fn is_retryable(&self) -> bool {
        self.0.retryable
    }

    /// How long the provider (or the scope's cooldown) asks to wait.
    pub fn retry_after(&self) -> Option<Duration> {
        self.0.retry_after
    }

    /// Of a `deadline_exceeded`: how long the call was given, from when it was made to its deadline.
    pub fn deadline(&self) -> Option<Duration> {
        self.0.deadline.map(|(length, _)| length)
    }

    /// Of a `deadline_exceeded`: what the call was at when its time was over, or would have been over.
    pub fn phase(&self) -> Option<Phase> {
        self.0.deadline.map(|(_, phase)| phase)
    }

    /// The HTTP status of the last answer, if there was one.
    pub fn status(&self) -> Option<u16> {
        self.0.status
    }

    /// The provider's own error code.
    pub fn code(&self) -> Option<&str> {
        self.0.code.as_deref()
    }

    /// The provider's id of the failed request.
    pub fn request_id(&self) -> Option<&str> {
        self.0.request_id.as_deref()
    }

    /// The provider's registered name.
    pub fn provider(&self) -> Option<&str> {
        self.0.provider.as_deref()
    }

    /// The operation that failed.
    pub fn operation(&self) -> Option<Operation> {
        self.0.operation
    }

    /// The model of the call.
    pub fn model(&self) -> Option<&str> {
        self.0.model.as_deref()
    }

    /// The scope whose quota the call used.
    pub fn scope(&self) -> Option<&str> {
        self.0.scope.as_deref()
    }

    /// How many requests left for this call, redirect hops included.
    pub fn attempts(&self) -> u32 {
        self.0.attempts
    }

    /// The input item (0-based) the failure is about, when it is about one.
    pub fn item(&self) -> Option<usize> {
        self.0.item
    }

    /// Whether the provider said that the credential has expired or is stale (one forced refresh may cure it).
    pub fn is_credential_expired(&self) -> bool {
        self.0.credential_expired
    }

    /// Overrides whether a retry can help.
    #[must_use]
    pub fn with_retryable(mut self, retryable: bool) -> Self {
        self.0.retryable = retryable;
        self
    }

    /// Sets what the provider asked to wait.
    #[must_use]
    pub fn with_retry_after(mut self, wait: Duration) -> Self {
        self.0.retry_after = Some(wait);
        self
    }

    /// Sets the length of the deadline that ended the call, and what the call was at.
    #[must_use]
    pub fn with_deadline(mut self, length: Duration, phase: Phase) -> Self {
        self.0.deadline = Some((length, phase));
        self
    }

    /// Sets the HTTP status.
    #[must_use]
    pub fn with_status(mut self, status: u16) -> Self {
        self.0.status = Some(status);
        self
    }

    /// Sets the provider's code.
    #[must_use]
    pub fn with_code(mut self, code: impl Into<String>) -> Self {
        self.0.code = Some(code.into());
        self
    }

    /// Sets the provider's request id.
    #[must_use]
    pub fn with_request_id(mut self, id: impl Into<String>) -> Self {
        self.0.request_id = Some(id.into());
        self
    }

    /// Sets whose call it was: provider, operation and model.
    #[must_use]
    pub fn with_call(mut self, provider: &str, operation: Operation, model: &str) -> Self {
        self.0.provider = Some(provider.to_owned());
        self.0.operation = Some(operation);
        self.0.model = Some(model.to_owned());
        self
    }

    /// Sets the scope.
    #[must_use]
    pub fn with_scope(mut self, scope: impl Into<String>) -> Self {
        self.0.scope = Some(scope.into());
        self
    }

    /// Sets how many requests left for this call.
    #[must_use]
    pub fn with_attempts(mut self, attempts: u32) -> Self {
        self.0.attempts = attempts;
        self
    }

    /// Names the input item (0-based) the failure is about.
    #[must_use]
    pub fn with_item(mut self, item: usize) -> Self {
        self.0.item = Some(item);
        self
    }

    /// Marks that the provider called the credential expired.
    #[must_use]
    pub fn with_credential_expired(mut self) -> Self {
        self.0.credential_expired = true;
        self
    }

    /// Attaches the cause. It must hold no secret and no URL with a query.
    #[must_use]
    pub fn with_source(
        mut self,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// Rewrites every text that came from outside: message, code and request id.
    pub(crate) fn map_text(mut self, rewrite: impl Fn(&str) -> String) -> Self {
        self.0.message = rewrite(&self.0.message);
        self.0.code = self.0.code.as_deref().map(&rewrite);
        self.0.request_id = self.0.request_id.as_deref().map(&rewrite);
        self
    }

    /// A copy without the cause (a cause can't be cloned), for handing one failure to several items.
    #[must_use]
    pub fn duplicate(&self) -> Self {
        let i = &self.0;
        Error(Box::new(Inner {
            kind: i.kind,
            message: i.message.clone(),
            retryable: i.retryable,
            retry_after: i.retry_after,
            deadline: i.deadline,
            status: i.status,
            code: i.code.clone(),
            request_id: i.request_id.clone(),
            provider: i.provider.clone(),
            operation: i.operation,
            model: i.model.clone(),
            scope: i.scope.clone(),
            attempts: i.attempts,
            item: i.item,
            credential_expired: i.credential_expired,
            source: None,
        }))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let i = &self.0;
        write!(f, "{}", i.kind)?;
        if let Some(provider) = &i.provider {
            write!(f, " from {provider}")?;
            if let Some(operation) = i.operation {
                write!(f, " {operation}")?;
            }
        }
        if let Some(status) = i.status {
            write!(f, " (status {status}")?;
            if let Some(code) = &i.code {
                f.write_str(", code ")?;
                one_line(f, code, MAX_CODE_CHARS)?;
            }
            f.write_str(")")?;
        } else if let Some(code) = &i.code {
            f.write_str(" (code ")?;
            one_line(f, code, MAX_CODE_CHARS)?;
            f.write_str(")")?;
        }
        f.write_str(": ")?;
        one_line(f, &i.message, usize::MAX)?;
        if let Some(wait) = i.retry_after {
            write!(f, "; retry after {wait:?}")?;
        }
        if i.attempts > 1 {
            write!(f, " ({} attempts)", i.attempts)?;
        }
        Ok(())
    }
}

/// The most characters of a provider's code that a line shows.
const MAX_CODE_CHARS: usize = 120;

/// One line, whatever a provider put into its words.
fn one_line(f: &mut fmt::Formatter<'_>, text: &str, most: usize) -> fmt::Result {
    for c in text.chars().take(most) {
        match c {
            '\n' | '\r' | '\u{2028}' | '\u{2029}' | '\u{85}' => f.write_str(" ")?,
            c if c.is_control() => f.write_str("\u{fffd}")?,
            c => fmt::Write::write_char(f, c)?,
        }
    }
    Ok(())
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let i = &self.0;
        f.debug_struct("Error")
            .field("kind", &i.kind)
            .field("message", &i.message)
            .field("retryable", &i.retryable)
            .field("retry_after", &i.retry_after)
            .field("deadline", &i.deadline)
            .field("status", &i.status)
            .field("code", &i.code)
            .field("request_id", &i.request_id)
            .field("provider", &i.provider)
            .field("operation", &i.operation)
            .field("model", &i.model)
            .field("scope", &i.scope)
            .field("attempts", &i.attempts)
            .field("item", &i.item)
            .field("source", &i.source)
            .finish()
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|e| e as _)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn display_is_one_line_whatever_a_provider_put_into_message_and_code() {
        let shown = Error::new(Kind::Server, "a\nb\u{1b}[31m")
            .with_status(500)
            .with_code(format!("x\r\ny{}", "z".repeat(5000)))
            .to_string();
        assert!(
            !shown.contains(|c: char| c.is_control()),
            "{}",
            shown.escape_debug()
        );
        assert!(shown.contains("code x  yzzz") && shown.len() < 300);
    }
}
