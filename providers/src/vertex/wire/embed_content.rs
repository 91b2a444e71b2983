//! `embedContent`: one content, which may hold media, to one vector.

use antfly_framework::embed::{EmbedInput, EmbedPart};
use antfly_framework::{Error, Kind, Result};
use serde::Serialize;
use serde_json::{Map, Value};

use super::Embedding;
use crate::google::extra::Rules;
use crate::google::media::{Files, WireContent, WirePart};

/// What the body writes or owns.
pub(super) const RULES: Rules = Rules {
    owned: &[
        ("model", "the entry's `model`"),
        ("content", "the request's inputs"),
        ("taskType", "the entry's `task_type`"),
        ("autoTruncate", "the entry's `truncate`"),
        ("outputDimensionality", "the entry's `dimensions`"),
    ],
    nested: Some((
        "embedContentConfig",
        &[
            ("taskType", "the entry's `task_type`"),
            ("title", "`extra_body.title`"),
            ("autoTruncate", "the entry's `truncate`"),
            ("outputDimensionality", "the entry's `dimensions`"),
        ],
    )),
};

/// The body.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Body<'a> {
    content: WireContent<WirePart<'a>>,
    embed_content_config: Map<String, Value>,
    #[serde(flatten)]
    extra: &'a Map<String, Value>,
}

pub(super) fn body<'a>(embedding: &'a Embedding, part: &EmbedPart<'a>) -> Result<Body<'a>> {
    let parts = match part.inputs {
        [EmbedInput::Text(text)] => vec![WirePart::Text(text)],
        [EmbedInput::Parts(parts)] => Files::Vertex.parts(parts).map_err(|e| e.with_item(0))?,
        _ => {
            return Err(Error::new(
                Kind::InvalidRequest,
                "this model embeds one content a request",
            ));
        }
    };
    Ok(Body {
        content: WireContent {
            role: Some("user"),
            parts,
        },
        embed_content_config: embedding.parameters([
            ("taskType", embedding.task.as_deref().map(Value::from)),
            ("title", embedding.title.as_deref().map(Value::from)),
            (
                "outputDimensionality",
                part.options.dimensions.map(Value::from),
            ),
            ("autoTruncate", Some(embedding.truncate.into())),
        ]),
        extra: &embedding.beside,
    })
}
