//! What travels: request bodies and answers.

pub(super) mod answer;
pub(super) mod converse;
pub(super) mod embed;
mod media;
mod message;
pub(super) mod rerank;
pub(super) mod stream;
pub(super) mod vectors;

use antfly_framework::Error;
use antfly_framework::generate::Usage;
use antfly_framework::http::unexpected_body;
use antfly_framework::provider::Head;
use serde_json::{Map, Value};

/// The fields of a body that `extra_body` may not hold, each with what to use instead.
pub(super) type Owned = &'static [(&'static str, &'static str)];

/// The first field of `extra` that the adapter owns, and what to use instead.
pub(super) fn owned(
    extra: &Map<String, Value>,
    names: Owned,
) -> Option<(&'static str, &'static str)> {
    names
        .iter()
        .find(|(name, _)| extra.contains_key(*name))
        .copied()
}

/// An answer that does not parse: an exception in its place, or something else.
fn unreadable(head: &Head, body: &[u8], problem: impl std::fmt::Display) -> Error {
    if let Some(exception) = super::error::in_place_of_answer(head, body) {
        return exception;
    }
    let status = http::StatusCode::from_u16(head.status).unwrap_or(http::StatusCode::OK);
    unexpected_body(
        status,
        &head.headers,
        body,
        &format!("the answer does not parse: {problem}"),
    )
}

/// What Bedrock counted, from the headers it puts beside every model's own answer.
fn counted(head: &Head) -> Option<Usage> {
    let count = |name: &str| head.header(name).and_then(|n| n.trim().parse().ok());
    let input_tokens: Option<u64> = count("x-amzn-bedrock-input-token-count");
    let output_tokens: Option<u64> = count("x-amzn-bedrock-output-token-count");
    (input_tokens.is_some() || output_tokens.is_some()).then(|| Usage {
        input_tokens,
        output_tokens,
        ..Usage::default()
    })
}
