//! `predict` with texts.

use std::borrow::Cow;

use antfly_framework::content::Part;
use antfly_framework::embed::{EmbedInput, EmbedPart};
use antfly_framework::{Error, Kind, Result};
use serde::Serialize;
use serde_json::{Map, Value};

use super::Embedding;
use crate::google::extra::Rules;

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
