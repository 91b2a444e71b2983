//! `batchEmbedContents`: one request a content. As many embeddings come back, in the same order.

use antfly_framework::embed::{EmbedInput, EmbedPart};
use antfly_framework::{Error, Kind, Result};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::google::extra::Rules;
use crate::google::media::{Files, WireContent, WirePart};

/// What each request of a batch writes or owns.
pub(super) const RULES: Rules = Rules {
    owned: &[
        ("model", "the entry's `model`"),
        ("requests", "the request's inputs"),
        ("content", "the request's inputs"),
        ("taskType", "the entry's `task_type`"),
        ("outputDimensionality", "the entry's `dimensions`"),
    ],
    nested: None,
};

/// The body.
#[derive(Serialize)]
pub(super) struct Batch<'a> {
    requests: Vec<Request<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Request<'a> {
    model: &'a str,
    content: WireContent<WirePart<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    task_type: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_dimensionality: Option<u32>,
    /// Each request is one of its own: `extra_body` goes into every one.
    #[serde(flatten)]
    extra: &'a Map<String, Value>,
}

/// The body for the inputs of one attempt.
pub(super) fn batch<'a>(
    model: &'a str,
    part: &EmbedPart<'a>,
    task: Option<&'a str>,
    extra: &'a Map<String, Value>,
    files: Files<'_>,
) -> Result<Batch<'a>> {
    let request = |(item, input): (usize, &'a EmbedInput)| {
        let parts = content(input, files).map_err(|e| e.with_item(item))?;
        Ok(Request {
            model,
            content: WireContent { role: None, parts },
            task_type: task,
            output_dimensionality: part.options.dimensions,
            extra,
        })
    };
    let requests: Result<Vec<_>> = part.inputs.iter().enumerate().map(request).collect();
    Ok(Batch {
        requests: requests?,
    })
}

/// The parts of an input.
fn content<'a>(input: &'a EmbedInput, files: Files<'_>) -> Result<Vec<WirePart<'a>>> {
    match input {
        EmbedInput::Text(text) => Ok(vec![WirePart::Text(text)]),
        EmbedInput::Parts(parts) => files.parts(parts),
        _ => Err(Error::new(
            Kind::Unsupported,
            "this kind of input can't be embedded",
        )),
    }
}
