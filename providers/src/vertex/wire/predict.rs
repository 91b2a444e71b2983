//! `predict` with texts.

use std::borrow::Cow;

use antfly_framework::content::Part;
use antfly_framework::embed::{EmbedInput, EmbedPart, Embeddings, EmbeddingsBuilder};
use antfly_framework::generate::Usage;
use antfly_framework::provider::Head;
use antfly_framework::{Error, Kind, Result};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Embedding;
use crate::google::error::{in_band, is_error, unreadable};
use crate::google::extra::Rules;
use crate::google::json::{Count, Items};

/// What the body writes or owns. `title` goes into each instance.
pub(super) const RULES: Rules = Rules {
    owned: &[
        ("instances", "the request's inputs"),
        ("content", "the request's inputs"),
        ("taskType", "the entry's `task_type`"),
    ],
    nested: Some((
        "parameters",
        &[
            ("autoTruncate", "the entry's `truncate`"),
            ("outputDimensionality", "the entry's `dimensions`"),
        ],
    )),
};

/// The body.
#[derive(Serialize)]
pub(super) struct Body<'a> {
    instances: Vec<Instance<'a>>,
    parameters: Map<String, Value>,
    #[serde(flatten)]
    extra: &'a Map<String, Value>,
}

#[derive(Serialize)]
struct Instance<'a> {
    content: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    task_type: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<&'a str>,
}

pub(super) fn body<'a>(embedding: &'a Embedding, part: &EmbedPart<'a>) -> Result<Body<'a>> {
    let instance = |(item, input): (usize, &'a EmbedInput)| {
        Ok(Instance {
            content: text(input).ok_or_else(|| {
                Error::new(Kind::MediaNotAllowed, "this model embeds text only").with_item(item)
            })?,
            task_type: embedding.task.as_deref(),
            title: embedding.title.as_deref(),
        })
    };
    let instances: Result<Vec<_>> = part.inputs.iter().enumerate().map(instance).collect();
    Ok(Body {
        instances: instances?,
        parameters: embedding.parameters([
            ("autoTruncate", Some(embedding.truncate.into())),
            (
                "outputDimensionality",
                part.options.dimensions.map(Value::from),
            ),
        ]),
        extra: &embedding.beside,
    })
}

/// The text of an input; text in several parts is joined by newlines. `None` where there is media.
pub(super) fn text(input: &EmbedInput) -> Option<Cow<'_, str>> {
    match input {
        EmbedInput::Text(text) => Some(text.into()),
        EmbedInput::Parts(parts) => {
            let texts: Vec<&str> = parts.iter().map(Part::as_text).collect::<Option<_>>()?;
            Some(texts.join("\n").into())
        }
        _ => None,
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Answer {
    predictions: Items<Prediction>,
    error: Value,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Prediction {
    embeddings: Option<Vector>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Vector {
    values: Items<f32>,
    statistics: Option<Statistics>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Statistics {
    token_count: Count,
}

/// The vectors of `inputs` texts, in their order.
pub(super) fn decode(head: &Head, body: &[u8], inputs: usize) -> Result<Embeddings> {
    let answer: Answer =
        serde_json::from_slice(body).map_err(|problem| unreadable(head, body, problem))?;
    if is_error(&answer.error) {
        return Err(in_band(head, &answer.error));
    }
    let mut builder = EmbeddingsBuilder::new(inputs);
    let mut tokens: Option<u64> = None;
    for (index, prediction) in answer.predictions.0.into_iter().enumerate() {
        let vector = prediction.embeddings.unwrap_or_default();
        builder.put(index, &vector.values.0)?;
        if let Some(count) = vector.statistics.and_then(|s| s.token_count.0) {
            tokens = Some(tokens.unwrap_or(0).saturating_add(count));
        }
    }
    let mut vectors = builder.finish()?;
    vectors.usage = tokens.map(|tokens| Usage {
        input_tokens: Some(tokens),
        ..Usage::default()
    });
    Ok(vectors)
}
