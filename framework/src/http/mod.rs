//! Everything that touches HTTP, and the only place that knows `reqwest`.
//!
//! - the transport sends one request and hands out its answer as it arrives: no redirects, no retries, no decompression.
//! - [`EventStreamParser`] and [`LineParser`] cut a body into events.
//! - [`Redactor`], [`mask`] and [`clip`] make a provider's words fit for an error.
//! - [`causes`], [`is_not_http`] and [`foreign_encoding`] tell why there is no answer, for connectors of an SDK's own as well.
//! - [`Endpoint`] is a base URL in its normal form.

mod body;
mod event_stream;
mod failure;
pub mod redact;
mod transport;
mod url;

pub use ::url::Url;
pub use body::{ERROR_BODY_BYTES, sample, unexpected_body};
pub(crate) use body::{ResponseBody, read_bounded, read_error_body};
pub use event_stream::{EventStreamParser, LineParser};
pub use failure::{causes, foreign_encoding, is_not_http};
pub use redact::{
    MAX_MESSAGE_BYTES, REDACTED, Redactor, clip, is_credential_header, is_framing_header, mask,
};
pub(crate) use transport::{Transport, Transports};
pub use transport::{check_proxy_variables, extra_roots};
pub use url::{Endpoint, encode_segment};
