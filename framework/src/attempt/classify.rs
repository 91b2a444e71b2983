//! What an answer that is no success means: its kind, its hint, and what it does to the scope.

use std::time::{Duration, SystemTime};

use super::{Call, retry_after};
use crate::error::{Error, Kind};
use crate::handle::Handle;
use crate::http::{ResponseBody, read_error_body};
use crate::provider::{Codec, Head};

impl Call {
    /// An answer that is no success: its head's hint cools the scope before its body is even read.
    pub(super) async fn classify(
        &self,
        codec: &(impl Codec + ?Sized),
        head: &Head,
        body: ResponseBody,
    ) -> Error {
        self.handle.heed_head(head);
        let body = read_error_body(body).await;
        self.judge(codec, head, &body)
    }

    pub(super) fn judge(&self, codec: &(impl Codec + ?Sized), head: &Head, body: &[u8]) -> Error {
        let mut error = codec.classify(head, body).with_status(head.status);
        if error.request_id().is_none()
            && let Some(id) = codec.request_id(head)
        {
            error = error.with_request_id(id);
        }
        error = with_hint(error, head);
        self.heed_error(&error);
        error
    }

    /// A rate limit told in a body or in band does the same, once it is read.
    pub(super) fn heed_error(&self, error: &Error) {
        if matches!(error.kind(), Kind::RateLimited | Kind::QuotaExhausted)
            && let Some(wait) = error.retry_after()
        {
            self.handle.lease.cool_for(wait);
        }
    }
}

impl Handle {
    /// A 429's hint opens the scope's cooldown at its head, before anyone else can slip through.
    pub(super) fn heed_head(&self, head: &Head) {
        if head.status == 429
            && let Some(wait) = hint(head)
        {
            self.lease.cool_for(wait);
        }
    }
}

/// The longest wait the head of an answer asks for.
fn hint(head: &Head) -> Option<Duration> {
    #[allow(clippy::disallowed_methods)]
    // An HTTP date without the answer's own Date is measured against the wall clock.
    retry_after::hint(&head.headers, SystemTime::now())
}

/// Joins the head's hint with the body's where the error is of a kind that may wait: the longer counts.
pub(super) fn with_hint(error: Error, head: &Head) -> Error {
    let waits = matches!(
        error.kind(),
        Kind::RateLimited | Kind::QuotaExhausted | Kind::Overloaded
    ) || matches!(head.status, 429 | 503 | 529);
    match hint(head) {
        Some(wait) if waits => {
            let longest = error.retry_after().map_or(wait, |body| body.max(wait));
            error.with_retry_after(longest)
        }
        _ => error,
    }
}

/// Whether the loop sends again: the error must be one that a retry can cure, and its status one of those retried.
pub(super) fn may_retry(error: &Error) -> bool {
    error.is_retryable()
        && error.status().is_none_or(|status| {
            matches!(status, 200..=299 | 408 | 429 | 500 | 502 | 503 | 504 | 529)
        })
}
