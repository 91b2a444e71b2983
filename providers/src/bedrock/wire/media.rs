//! Media as the wires here take it: by its bytes, in base64; in messages also from S3.

use std::borrow::Cow;

use antfly_framework::content::{Media, MediaKind, MediaSource};
use antfly_framework::{Error, Kind, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

/// An image's bytes in base64, without a prefix.
pub(super) fn image_base64(media: &Media) -> Result<Cow<'_, str>> {
    match inline(media)? {
        Some((_, data)) => Ok(data),
        None => Err(by_bytes()),
    }
}

/// An image as a `data:` URI.
pub(super) fn image_data_uri(media: &Media) -> Result<String> {
    match inline(media)? {
        Some((mime_type, data)) => Ok(format!("data:{mime_type};base64,{data}")),
        None => Err(by_bytes()),
    }
}

fn by_bytes() -> Error {
    refused("Bedrock takes an image by its bytes or as a base64 data: URI")
}

fn refused(why: impl Into<String>) -> Error {
    Error::new(Kind::MediaNotAllowed, why)
}

/// The MIME type and base64 text of media that is here; `None` when it is elsewhere.
fn inline(media: &Media) -> Result<Option<(&str, Cow<'_, str>)>> {
    match &media.source {
        MediaSource::Bytes { data, mime_type } => {
            Ok(Some((mime_type, STANDARD.encode(data).into())))
        }
        MediaSource::Url(url) => {
            let Some(rest) = url.strip_prefix("data:") else {
                return Ok(None);
            };
            let parsed = rest
                .split_once(',')
                .and_then(|(head, data)| Some((head.strip_suffix(";base64")?, data)));
            match parsed {
                Some((_, data)) if !is_base64(data) => {
                    Err(refused("a data: URI's data is empty or not base64"))
                }
                Some((mime_type, data)) => {
                    let mime_type = mime_type.split(';').next().unwrap_or(mime_type);
                    Ok(Some((mime_type, data.into())))
                }
                None => Err(refused("a data: URI must be base64 here")),
            }
        }
        _ => Ok(None),
    }
}

/// By its letters: the service says what is wrong within.
fn is_base64(data: &str) -> bool {
    let letters = data.trim_end_matches('=');
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b"+/".contains(&b);
    !letters.is_empty() && letters.bytes().all(allowed)
}

/// A message's media as a content block. `number` tells the documents of a request apart: each needs a name.
pub(super) fn block(media: &Media, number: usize) -> Result<Value> {
    let (hint, source) = match (inline(media)?, &media.source) {
        (Some((mime_type, data)), _) => (mime_type.to_owned(), json!({ "bytes": data })),
        (None, MediaSource::Url(url)) if url.starts_with("s3://") => {
            let extension = url
                .rsplit('/')
                .next()
                .and_then(|name| name.rsplit_once('.'));
            let extension = extension.map_or("", |(_, extension)| extension);
            (extension.to_owned(), json!({"s3Location": {"uri": url}}))
        }
        _ => {
            return Err(refused(
                "Bedrock takes media by its bytes, as a base64 data: URI, or by an s3:// URL",
            ));
        }
    };
    let (name, formats) = match media.kind {
        MediaKind::Image => ("image", IMAGES),
        MediaKind::File => ("document", DOCUMENTS),
        MediaKind::Video => ("video", VIDEOS),
        MediaKind::Audio => ("audio", SOUNDS),
        _ => return Err(refused("this kind of media can't be sent in a message")),
    };
    // By its MIME type, or by the end of its name in S3. What stands after a `;` is a parameter.
    let hint = hint
        .split(';')
        .next()
        .unwrap_or("")
        .trim()
        .to_ascii_lowercase();
    let format = formats
        .iter()
        .find(|(format, types)| *format == hint || types.contains(&hint.as_str()))
        .map(|(format, _)| *format)
        .ok_or_else(|| {
            let known: Vec<&str> = formats.iter().map(|(format, _)| *format).collect();
            refused(format!(
                "{hint:?} is no {name} format Bedrock takes ({})",
                known.join(", ")
            ))
        })?;
    let mut inner = json!({ "format": format, "source": source });
    if let (MediaKind::File, Some(fields)) = (media.kind, inner.as_object_mut()) {
        fields.insert("name".to_owned(), json!(format!("document-{number}")));
    }
    Ok(json!({ name: inner }))
}

type Formats = &'static [(&'static str, &'static [&'static str])];

const IMAGES: Formats = &[
    ("png", &["image/png"]),
    ("jpeg", &["image/jpeg", "image/jpg", "jpg"]),
    ("gif", &["image/gif"]),
    ("webp", &["image/webp"]),
];

const DOCUMENTS: Formats = &[
    ("pdf", &["application/pdf"]),
    ("csv", &["text/csv"]),
    ("doc", &["application/msword"]),
    (
        "docx",
        &["application/vnd.openxmlformats-officedocument.wordprocessingml.document"],
    ),
    ("xls", &["application/vnd.ms-excel"]),
    (
        "xlsx",
        &["application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"],
    ),
    ("html", &["text/html"]),
    ("txt", &["text/plain"]),
    ("md", &["text/markdown", "text/x-markdown"]),
];

const VIDEOS: Formats = &[
    ("mp4", &["video/mp4"]),
    ("mov", &["video/quicktime"]),
    ("mkv", &["video/x-matroska"]),
    ("webm", &["video/webm"]),
    ("flv", &["video/x-flv"]),
    ("mpeg", &["video/mpeg"]),
    ("mpg", &[]),
    ("wmv", &["video/x-ms-wmv"]),
    ("three_gp", &["video/3gpp", "3gp"]),
];

const SOUNDS: Formats = &[
    ("mp3", &["audio/mpeg", "audio/mp3"]),
    (
        "wav",
        &["audio/wav", "audio/x-wav", "audio/wave", "audio/vnd.wave"],
    ),
    ("ogg", &["audio/ogg"]),
    ("opus", &["audio/opus"]),
    ("flac", &["audio/flac", "audio/x-flac"]),
    ("aac", &["audio/aac"]),
    ("m4a", &["audio/m4a", "audio/x-m4a"]),
    ("mp4", &["audio/mp4"]),
    ("webm", &["audio/webm"]),
];
