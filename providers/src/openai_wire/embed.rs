//! The body of an embeddings request.

use std::borrow::Cow;

use antfly_framework::content::Part;
use antfly_framework::embed::EmbedInput;
use antfly_framework::{Error, Kind, Result};
use serde::Serialize;
use serde_json::{Map, Value};

/// The body. What is `None` is left out.
#[derive(Serialize)]
pub(crate) struct EmbedBody<'a> {
    pub(crate) model: &'a str,
    pub(crate) input: Vec<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) encoding_format: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) dimensions: Option<u32>,
    #[serde(flatten)]
    pub(crate) extra: &'a Map<String, Value>,
}

/// The fields [`EmbedBody`] writes, with what to use instead.
pub(crate) const OWNED: &[(&str, &str)] = &[
    ("model", "the entry's `model`"),
    ("input", "the request's inputs"),
    ("encoding_format", "the entry's `encoding_format`"),
    ("dimensions", "the entry's `dimensions`"),
    ("messages", "the request's inputs"),
    ("stream", "nothing: an embedding is never streamed"),
    ("n", "one input a vector"),
];

/// The texts of the inputs; text in several parts is joined by newlines.
pub(crate) fn texts(inputs: &[EmbedInput]) -> Result<Vec<Cow<'_, str>>> {
    inputs
        .iter()
        .enumerate()
        .map(|(item, input)| text(input).ok_or_else(|| not_text(item)))
        .collect()
}

fn text(input: &EmbedInput) -> Option<Cow<'_, str>> {
    match input {
        EmbedInput::Text(text) => Some(text.into()),
        EmbedInput::Parts(parts) => {
            let texts: Vec<&str> = parts.iter().map(Part::as_text).collect::<Option<_>>()?;
            Some(texts.join("\n").into())
        }
        _ => None,
    }
}

fn not_text(item: usize) -> Error {
    Error::new(Kind::MediaNotAllowed, "this provider embeds text only").with_item(item)
}
