//! `predict` with a text, an image or a video: `multimodalembedding`, which answers a vector for each of them.

use std::borrow::Cow;

use antfly_framework::config::EntryConfig;
use antfly_framework::content::{Media, MediaKind, MediaSource, Part};
use antfly_framework::embed::{EmbedInput, EmbedPart, Embeddings, EmbeddingsBuilder};
use antfly_framework::provider::Head;
use antfly_framework::{Error, Kind, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Embedding;
use crate::google::error::{in_band, unreadable};
use crate::google::extra::Rules;
use crate::google::json::Items;
use crate::google::media::{inline, mime_of};
use crate::refusal::is_error;

/// What the body writes or owns.
pub(super) const RULES: Rules = Rules {
    owned: &[("instances", "the request's inputs")],
    nested: Some(("parameters", &[("dimension", "the entry's `dimensions`")])),
};

/// The lengths of vectors that there are; a video's has the last.
const DIMENSIONS: [u32; 4] = [128, 256, 512, 1408];
/// One vector for a whole video: as much of it as the model looks at.
const VIDEO_SECONDS: u32 = 120;

/// What an entry of this model can't say.
pub(super) fn check(entry: &EntryConfig) -> Result<()> {
    let options = &entry.embed;
    let fields = [
        ("task_type", options.task_type.is_some()),
        ("input_type", options.input_type.is_some()),
    ];
    if let Some((name, _)) = fields.into_iter().find(|(_, is_set)| *is_set) {
        return Err(Error::config(
            entry.field(name),
            "multimodalembedding has no such option",
        ));
    }
    match options.dimensions {
        Some(n) if !DIMENSIONS.contains(&n) => Err(Error::config(
            entry.field("dimensions"),
            format!("{n} is not allowed; 128, 256, 512 or 1408 is"),
        )),
        _ => Ok(()),
    }
}

/// The body.
#[derive(Serialize)]
pub(super) struct Body<'a> {
    instances: [Instance<'a>; 1],
    #[serde(skip_serializing_if = "Map::is_empty")]
    parameters: Map<String, Value>,
    #[serde(flatten)]
    extra: &'a Map<String, Value>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum Instance<'a> {
    Text(Cow<'a, str>),
    Image(File<'a>),
    Video(File<'a>),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct File<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes_base64_encoded: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    gcs_uri: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mime_type: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    video_segment_config: Option<Segment>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Segment {
    start_offset_sec: u32,
    end_offset_sec: u32,
    interval_sec: u32,
}

pub(super) fn body<'a>(embedding: &'a Embedding, part: &EmbedPart<'a>) -> Result<Body<'a>> {
    let instance = match part.inputs {
        [EmbedInput::Text(text)] => Instance::Text(text.into()),
        [EmbedInput::Parts(parts)] => of_parts(parts)?,
        _ => return Err(refused("this model embeds one input a request")),
    };
    let dimensions = part.options.dimensions;
    if matches!(instance, Instance::Video(_)) && dimensions.is_some_and(|n| n != 1408) {
        return Err(Error::new(
            Kind::InvalidRequest,
            "dimensions: a video's vector has 1408 numbers and no other length",
        )
        .with_item(0));
    }
    Ok(Body {
        instances: [instance],
        parameters: embedding.parameters([("dimension", dimensions.map(Value::from))]),
        extra: &embedding.beside,
    })
}

/// The one thing that an input holds.
fn of_parts(parts: &[Part]) -> Result<Instance<'_>> {
    let mut media = parts.iter().filter_map(|part| match part {
        Part::Media(media) => Some(media),
        _ => None,
    });
    match (media.next(), media.next()) {
        (None, _) => {
            let texts: Vec<&str> = parts.iter().filter_map(Part::as_text).collect();
            Ok(Instance::Text(texts.join("\n").into()))
        }
        (Some(media), None) if parts.iter().all(is_media_or_empty) => of_media(media),
        _ => Err(refused(
            "this model answers a vector for each text, image or video: send each as an input of its own",
        )),
    }
}

fn is_media_or_empty(part: &Part) -> bool {
    part.as_text().is_none_or(str::is_empty)
}

fn of_media(media: &Media) -> Result<Instance<'_>> {
    let (bytes, gcs_uri, mime_type) = match &media.source {
        MediaSource::Bytes { data, mime_type } => {
            let data = Cow::from(STANDARD.encode(data));
            (Some(data), None, Some(mime_type.as_str().into()))
        }
        MediaSource::Url(uri) | MediaSource::FileId(uri) if uri.starts_with("gs://") => {
            let mime_type = mime_of(uri, media.kind).map(Cow::from);
            (None, Some(uri.as_str()), mime_type)
        }
        MediaSource::Url(url) => match inline(url)? {
            Some(data) => (Some(data.data), None, Some(data.mime_type)),
            None => {
                return Err(no_such_media());
            }
        },
        _ => {
            return Err(no_such_media());
        }
    };
    let video = media.kind == MediaKind::Video;
    let file = File {
        bytes_base64_encoded: bytes,
        gcs_uri,
        // Only an image has a place for it.
        mime_type: mime_type.filter(|_| !video),
        video_segment_config: video.then_some(Segment {
            start_offset_sec: 0,
            end_offset_sec: VIDEO_SECONDS,
            interval_sec: VIDEO_SECONDS,
        }),
    };
    Ok(if video {
        Instance::Video(file)
    } else {
        Instance::Image(file)
    })
}

fn no_such_media() -> Error {
    let takes = "this model takes bytes, a data: URI or a gs:// URI";
    Error::new(Kind::MediaNotAllowed, takes).with_item(0)
}

fn refused(why: &str) -> Error {
    Error::new(Kind::InvalidRequest, why).with_item(0)
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Answer {
    predictions: Items<Prediction>,
    error: Value,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Prediction {
    text_embedding: Option<Vec<f32>>,
    image_embedding: Option<Vec<f32>>,
    video_embeddings: Items<VideoSegment>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct VideoSegment {
    embedding: Vec<f32>,
}

/// The vector of the one input.
pub(super) fn decode(head: &Head, body: &[u8], inputs: usize) -> Result<Embeddings> {
    let answer: Answer =
        serde_json::from_slice(body).map_err(|problem| unreadable(head, body, problem))?;
    if is_error(&answer.error) {
        return Err(in_band(head, &answer.error));
    }
    let mut builder = EmbeddingsBuilder::new(inputs);
    for (index, prediction) in answer.predictions.0.into_iter().enumerate() {
        let video = prediction
            .video_embeddings
            .0
            .into_iter()
            .map(|s| s.embedding);
        let vectors = prediction
            .text_embedding
            .into_iter()
            .chain(prediction.image_embedding)
            .chain(video);
        let vectors: Vec<Vec<f32>> = vectors.collect();
        match vectors.as_slice() {
            [] => {}
            [vector] => builder.put(index, vector)?,
            several => {
                return Err(Error::new(
                    Kind::InvalidResponse,
                    format!("{} vectors for one input", several.len()),
                )
                .with_item(index));
            }
        }
    }
    builder.finish()
}
