//! What Antfly's wire has beside OpenAI's: inputs of text or of parts, tasks, sparse vectors.

use std::borrow::Cow;

use antfly_framework::content::{Media, MediaKind, MediaSource, Part};
use antfly_framework::embed::{EmbedInput, Embeddings};
use antfly_framework::provider::Head;
use antfly_framework::{Error, Kind, Result};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::openai_wire::message::{MediaPart, media_part};
use crate::openai_wire::{Owned, embed, vectors};

/// The body of `/embed`. What is `None` is left out.
#[derive(Serialize)]
pub(super) struct EmbedBody<'a> {
    pub(super) model: &'a str,
    pub(super) input: Input<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) dimensions: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) task_type: Option<&'a str>,
    #[serde(flatten)]
    pub(super) extra: &'a Map<String, Value>,
}

/// The fields [`EmbedBody`] writes or the server reads as one of them, with what to use instead.
pub(super) const OWNED: &Owned = &[
    ("model", "the entry's `model`"),
    ("input", "the request's inputs"),
    ("encoding_format", "nothing: vectors travel as numbers"),
    ("dimensions", "the entry's `dimensions`"),
    ("task_type", "the entry's `task_type`"),
    ("input_type", "the entry's `task_type`"),
    ("stream", "nothing: an embedding is never streamed"),
    ("n", "one input a vector"),
];

/// Texts, or one part a vector where there is media.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Input<'a> {
    Texts(Vec<Cow<'a, str>>),
    Parts(Vec<WirePart<'a>>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum WirePart<'a> {
    Text { text: Cow<'a, str> },
    ImageUrl { image_url: ImageUrl<'a> },
    Media(MediaPart<'a>),
}

#[derive(Serialize)]
pub(super) struct ImageUrl<'a> {
    url: &'a str,
}

/// Whether an input is several parts that are to become one vector. The wire tells items apart by their parts, so that such an
/// input has a request to itself.
pub(super) fn is_joined(input: &EmbedInput) -> bool {
    matches!(input, EmbedInput::Parts(parts) if parts.len() > 1 && parts.iter().any(Part::is_media))
}

/// The inputs of one request.
pub(super) fn input(inputs: &[EmbedInput]) -> Result<Input<'_>> {
    if inputs.iter().all(|input| input.media().next().is_none()) {
        return embed::texts(inputs).map(Input::Texts);
    }
    let mut all = Vec::with_capacity(inputs.len());
    for (item, input) in inputs.iter().enumerate() {
        match input {
            EmbedInput::Parts(parts) if input.media().next().is_some() => {
                for part in parts {
                    all.push(wire_part(part).map_err(|e| e.with_item(item))?);
                }
            }
            input => all.extend(
                embed::texts(std::slice::from_ref(input))?
                    .into_iter()
                    .map(|text| WirePart::Text { text }),
            ),
        }
    }
    Ok(Input::Parts(all))
}

fn wire_part(part: &Part) -> Result<WirePart<'_>> {
    match part {
        Part::Text(text) => Ok(WirePart::Text {
            text: text.as_str().into(),
        }),
        Part::Media(Media {
            kind: MediaKind::Image,
            source: MediaSource::Url(url),
        }) => Ok(WirePart::ImageUrl {
            image_url: ImageUrl { url },
        }),
        Part::Media(media) => media_part(media).map(WirePart::Media),
        _ => Err(Error::new(
            Kind::MediaNotAllowed,
            "this kind of part can't be embedded",
        )),
    }
}

/// The vectors of `inputs`.
pub(super) fn vectors(head: &Head, body: &[u8], inputs: &[EmbedInput]) -> Result<Embeddings> {
    let read = vectors::decode_or_sparse(head, body, inputs.len());
    let (Err(_), [EmbedInput::Parts(parts)]) = (&read, inputs) else {
        return read;
    };
    if parts.len() > 1 && vectors::decode_or_sparse(head, body, parts.len()).is_ok() {
        return Err(Error::new(
            Kind::Unsupported,
            format!(
                "the server made a vector of each of the item's {} parts and none of them all; embed them as items of their own",
                parts.len()
            ),
        )
        .with_item(0));
    }
    read
}

/// A task by the name the wire uses, which is Google's: the older names have one each, any other is taken for Google's.
pub(super) fn task_type(name: &str) -> String {
    let name = name.trim();
    match name.to_ascii_lowercase().as_str() {
        "search_query" | "query" => "RETRIEVAL_QUERY".to_owned(),
        "search_document" | "document" => "RETRIEVAL_DOCUMENT".to_owned(),
        _ => name.to_ascii_uppercase(),
    }
}

#[cfg(test)]
#[path = "wire_tests.rs"]
mod tests;
