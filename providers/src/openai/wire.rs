//! What is OpenAI's alone: the body of an embeddings request. All else is in `crate::openai_wire`.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::openai_wire::Owned;

/// The body. What is `None` is left out.
#[derive(Serialize)]
pub(super) struct EmbedBody<'a> {
    pub(super) model: &'a str,
    pub(super) input: Vec<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) encoding_format: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) dimensions: Option<u32>,
    #[serde(flatten)]
    pub(super) extra: &'a Map<String, Value>,
}

/// The fields [`EmbedBody`] writes, with what to use instead.
pub(super) const OWNED: &Owned = &[
    ("model", "the entry's `model`"),
    ("input", "the request's inputs"),
    ("encoding_format", "the entry's `encoding_format`"),
    ("dimensions", "the entry's `dimensions`"),
    ("messages", "the request's inputs"),
    ("stream", "nothing: an embedding is never streamed"),
    ("n", "one input a vector"),
];
