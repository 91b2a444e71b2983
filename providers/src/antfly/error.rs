//! What the server says when it refuses: `{"error": "text"}` and a status.
//!
//! Gateways in front of it speak OpenAI's words, so that table is the base; one status means more here.

use antfly_framework::provider::Head;
use antfly_framework::{Error, Kind};

use crate::openai_wire::error;

/// An answer whose status is no success.
pub(super) fn classify(head: &Head, body: &[u8]) -> Error {
    let error = error::classify(head, body);
    match head.status {
        // The server has no encoder for this media or no such option: nothing that waiting or another model's server mends.
        501 => Error::new(Kind::Unsupported, error.message()),
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;

    use super::*;

    #[test]
    fn statuses_and_the_servers_own_text_are_kept() {
        for (status, kind, retry) in [
            (400, Kind::InvalidRequest, false),
            (401, Kind::Auth, false),
            (403, Kind::Auth, false),
            (404, Kind::NotFound, false),
            (408, Kind::Server, true),
            (413, Kind::RequestTooLarge, false),
            (429, Kind::RateLimited, true),
            (500, Kind::Server, true),
            (501, Kind::Unsupported, false),
            (502, Kind::Server, true),
            (503, Kind::Overloaded, true),
            (504, Kind::Server, true),
        ] {
            let headers = HeaderMap::new();
            let e = classify(&Head { status, headers }, br#"{"error":"text"}"#);
            assert_eq!(
                (e.kind(), e.is_retryable(), e.message()),
                (kind, retry, "text"),
                "{status}"
            );
        }
    }
}
