//! Request bodies: texts as `prompts`, or documents with media.

use std::borrow::Cow;

use antfly_framework::content::{Media, MediaKind, MediaSource, Part};
use antfly_framework::rerank::Document;
use antfly_framework::{Error, Kind, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use serde_json::{Map, Value};

/// The fields these bodies write, with what to use instead. `extra_body` may not hold them.
pub(crate) const OWNED: &[(&str, &str)] = &[
    ("model", "the entry's `model`"),
    ("query", "the request's query"),
    ("prompts", "the request's documents"),
    ("documents", "the request's documents"),
];

/// The body of `/rerank`.
#[derive(Serialize)]
pub(crate) struct Texts<'a> {
    model: &'a str,
    query: &'a str,
    prompts: Vec<Cow<'a, str>>,
    #[serde(flatten)]
    extra: &'a Map<String, Value>,
}

impl<'a> Texts<'a> {
    pub(crate) fn new(
        model: &'a str,
        query: &'a str,
        documents: &'a [Document],
        field: Option<&str>,
        extra: &'a Map<String, Value>,
    ) -> Self {
        Texts {
            model,
            query,
            prompts: documents.iter().map(|d| text(d, field)).collect(),
            extra,
        }
    }
}

/// The body of `/rerank_multimodal`.
#[derive(Serialize)]
pub(crate) struct Multimodal<'a> {
    model: &'a str,
    query: &'a str,
    documents: Vec<WireDocument<'a>>,
    #[serde(flatten)]
    extra: &'a Map<String, Value>,
}

#[derive(Serialize)]
struct WireDocument<'a> {
    content: Content<'a>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Content<'a> {
    Text(Cow<'a, str>),
    Parts(Vec<WirePart<'a>>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum WirePart<'a> {
    Text {
        text: &'a str,
    },
    ImageUrl {
        image_url: ImageUrl<'a>,
    },
    Media {
        data: Cow<'a, str>,
        mime_type: &'a str,
    },
}

#[derive(Serialize)]
struct ImageUrl<'a> {
    url: &'a str,
}

impl<'a> Multimodal<'a> {
    pub(crate) fn new(
        model: &'a str,
        query: &'a str,
        documents: &'a [Document],
        field: Option<&str>,
        extra: &'a Map<String, Value>,
    ) -> Result<Self> {
        let documents = documents
            .iter()
            .enumerate()
            .map(|(item, document)| {
                let content = match document {
                    Document::Parts(parts) if document.media().next().is_some() => Content::Parts(
                        parts
                            .iter()
                            .map(|p| part(p).map_err(|e| e.with_item(item)))
                            .collect::<Result<_>>()?,
                    ),
                    document => Content::Text(text(document, field)),
                };
                Ok(WireDocument { content })
            })
            .collect::<Result<_>>()?;
        Ok(Multimodal {
            model,
            query,
            documents,
            extra,
        })
    }
}

/// A document's text; of a JSON object, the text of `field` where it has one.
fn text<'a>(document: &'a Document, field: Option<&str>) -> Cow<'a, str> {
    let whole: Cow<'a, str> = match document {
        Document::Text(text) => text.as_str().into(),
        document => document.text().into(),
    };
    let Some(field) = field.filter(|_| whole.trim_start().starts_with('{')) else {
        return whole;
    };
    match serde_json::from_str::<Map<String, Value>>(&whole) {
        Ok(mut object) => match object.remove(field) {
            Some(Value::String(text)) => text.into(),
            None | Some(Value::Null) => whole,
            Some(other) => other.to_string().into(),
        },
        Err(_) => whole,
    }
}

fn part(part: &Part) -> Result<WirePart<'_>> {
    match part {
        Part::Text(text) => Ok(WirePart::Text { text }),
        Part::Media(media) => self::media(media),
        _ => Err(refused("this kind of part can't be ranked")),
    }
}

fn media(media: &Media) -> Result<WirePart<'_>> {
    match &media.source {
        MediaSource::Url(url) if media.kind == MediaKind::Image => Ok(WirePart::ImageUrl {
            image_url: ImageUrl { url },
        }),
        MediaSource::Url(url) => {
            let (mime_type, data) = url
                .strip_prefix("data:")
                .and_then(|rest| rest.split_once(";base64,"))
                .ok_or_else(|| {
                    refused("only an image travels by its URL; other media as bytes or a base64 data: URI")
                })?;
            Ok(WirePart::Media {
                data: data.into(),
                mime_type,
            })
        }
        MediaSource::Bytes { data, mime_type } => Ok(WirePart::Media {
            data: STANDARD.encode(data).into(),
            mime_type,
        }),
        _ => Err(refused("the server holds no files: send the bytes")),
    }
}

fn refused(why: &str) -> Error {
    Error::new(Kind::MediaNotAllowed, why)
}

#[cfg(test)]
#[path = "request_tests.rs"]
mod tests;
