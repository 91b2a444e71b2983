//! Embedding models, what each can do, and their request bodies.

use std::borrow::Cow;

use antfly_framework::config::EmbedOptions;
use antfly_framework::content::{MediaKind, MediaSupport, Part};
use antfly_framework::embed::EmbedInput;
use antfly_framework::provider::BatchLimits;
use antfly_framework::{Error, Kind, Result};
use serde::Serialize;
use serde_json::{Map, Value};

use super::media::image_base64;
use super::{Owned, media};

/// Inputs of one Cohere request.
const COHERE_INPUTS: usize = 96;
/// The service takes bodies of 25,000,000 bytes; base64 and JSON need a part of them. A part that they make larger still is
/// halved once its body is known.
const MAX_BYTES: usize = 16_000_000;

const IMAGES: MediaSupport = MediaSupport::Kinds(&[MediaKind::Image]);

/// An embedding model's wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::bedrock) enum Model {
    TitanV1,
    TitanV2,
    TitanImage,
    CohereV3,
    CohereV4,
    /// An ARN that does not say which model is behind it: Titan's wire, and no option is known to be wrong.
    Opaque,
}

/// What to name in an error about a model that is none of these.
pub(in crate::bedrock) const KNOWN: &str = "amazon.titan-embed-text-v1, amazon.titan-embed-text-v2:0, amazon.titan-embed-image-v1, \
     cohere.embed-english-v3, cohere.embed-multilingual-v3, cohere.embed-v4:0, their inference profiles, or an ARN";

impl Model {
    /// The wire of a model id, an inference profile's id or an ARN.
    pub(in crate::bedrock) fn of(id: &str) -> Option<Model> {
        let has = |part: &str| id.contains(part);
        Some(if has("titan-embed-text-v2") {
            Model::TitanV2
        } else if has("titan-embed-image") {
            Model::TitanImage
        } else if has("titan-embed-text-v1") || has("titan-embed-g1-text") {
            Model::TitanV1
        } else if has("cohere.embed-english-v3") || has("cohere.embed-multilingual-v3") {
            Model::CohereV3
        } else if has("cohere.embed-v") {
            Model::CohereV4
        } else if id.starts_with("arn:") && !has(":foundation-model/") {
            Model::Opaque
        } else {
            return None;
        })
    }

    pub(in crate::bedrock) fn limits(self) -> BatchLimits {
        BatchLimits {
            max_items: match self {
                Model::CohereV3 | Model::CohereV4 => COHERE_INPUTS,
                _ => 1,
            },
            max_bytes: MAX_BYTES,
        }
    }

    pub(in crate::bedrock) fn media(self) -> MediaSupport {
        match self {
            Model::TitanImage | Model::CohereV3 | Model::CohereV4 => IMAGES,
            _ => MediaSupport::None,
        }
    }

    /// The lengths of vectors that can be asked for.
    fn dimensions(self) -> &'static [u32] {
        match self {
            Model::TitanV2 => &[256, 512, 1024],
            Model::TitanImage => &[256, 384, 1024],
            Model::CohereV4 => &[256, 512, 1024, 1536],
            Model::TitanV1 | Model::CohereV3 | Model::Opaque => &[],
        }
    }

    fn is_cohere(self) -> bool {
        matches!(self, Model::CohereV3 | Model::CohereV4)
    }

    /// Whether `next` may travel with `first`: Cohere takes texts, or images (v3: one), or both mixed, each in a field of its own.
    pub(in crate::bedrock) fn together(self, first: &EmbedInput, next: &EmbedInput) -> bool {
        let (first, next) = (Form::of(first), Form::of(next));
        first == next && !(self == Model::CohereV3 && first != Form::Text)
    }

    pub(in crate::bedrock) fn owned(self) -> Owned {
        match self {
            Model::CohereV3 | Model::CohereV4 => &[
                ("texts", "the request's inputs"),
                ("images", "the request's inputs"),
                ("inputs", "the request's inputs"),
                ("input_type", "the entry's `input_type`"),
                ("truncate", "the entry's `truncate`"),
                ("output_dimension", "the entry's `dimensions`"),
                ("model", "the entry's `model`"),
            ],
            _ => &[
                ("inputText", "the request's inputs"),
                ("inputImage", "the request's inputs"),
                ("dimensions", "the entry's `dimensions`"),
                ("embeddingConfig", "the entry's `dimensions`"),
                ("model", "the entry's `model`"),
            ],
        }
    }
}

/// What an entry's options say, checked against what its model has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::bedrock) struct Options {
    model: Model,
    dimensions: Option<u32>,
    input_type: &'static str,
    truncate: Option<&'static str>,
}

impl Options {
    /// The error names the option and what is allowed.
    pub(in crate::bedrock) fn of(
        model: Model,
        options: &EmbedOptions,
    ) -> Result<Self, (&'static str, String)> {
        let allowed = model.dimensions();
        if let Some(dimensions) = options.dimensions
            && model != Model::Opaque
            && !allowed.contains(&dimensions)
        {
            let list: Vec<String> = allowed.iter().map(u32::to_string).collect();
            return Err((
                "dimensions",
                match list.as_slice() {
                    [] => "this model's vectors have one length; leave it out".to_owned(),
                    list => format!(
                        "{dimensions} is not allowed; this model has {}",
                        list.join(", ")
                    ),
                },
            ));
        }
        Ok(Options {
            model,
            dimensions: options.dimensions,
            input_type: input_type(model, options)?,
            truncate: truncate(model, options)?,
        })
    }
}

/// The four tasks, with Google's names for them.
const TASKS: [(&str, &str); 4] = [
    ("search_document", "RETRIEVAL_DOCUMENT"),
    ("search_query", "RETRIEVAL_QUERY"),
    ("classification", "CLASSIFICATION"),
    ("clustering", "CLUSTERING"),
];

fn input_type(
    model: Model,
    options: &EmbedOptions,
) -> Result<&'static str, (&'static str, String)> {
    let (field, word) = match (&options.input_type, &options.task_type) {
        (None, None) => return Ok("search_document"),
        (Some(_), Some(_)) => {
            return Err((
                "task_type",
                "can't stand beside input_type, its older name".to_owned(),
            ));
        }
        (Some(word), None) => ("input_type", word),
        (None, Some(word)) => ("task_type", word),
    };
    if !model.is_cohere() {
        return Err((field, "this model has no such option".to_owned()));
    }
    let found = TASKS
        .iter()
        .find(|(own, google)| word.eq_ignore_ascii_case(own) || word.eq_ignore_ascii_case(google));
    match found {
        Some((own, _)) => Ok(own),
        None => {
            let names: Vec<&str> = TASKS
                .iter()
                .map(|(own, google)| if field == "input_type" { *own } else { *google })
                .collect();
            Err((
                field,
                format!("{word:?} is not allowed; {} are", names.join(", ")),
            ))
        }
    }
}

/// The entry's word in the model's language: v3 says START and END, v4 LEFT and RIGHT.
fn truncate(
    model: Model,
    options: &EmbedOptions,
) -> Result<Option<&'static str>, (&'static str, String)> {
    let Some(word) = &options.truncate else {
        return Ok(None);
    };
    if !model.is_cohere() {
        return Err(("truncate", "this model has no such option".to_owned()));
    }
    let v4 = model == Model::CohereV4;
    match word.to_ascii_uppercase().as_str() {
        "NONE" => Ok(Some("NONE")),
        "START" | "LEFT" => Ok(Some(if v4 { "LEFT" } else { "START" })),
        "END" | "RIGHT" => Ok(Some(if v4 { "RIGHT" } else { "END" })),
        _ => Err((
            "truncate",
            format!("{word:?} is not allowed; NONE, START (or LEFT) and END (or RIGHT) are"),
        )),
    }
}

/// Which of the wire's fields an input belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Text,
    Image,
    Mixed,
}

impl Form {
    fn of(input: &EmbedInput) -> Form {
        match input {
            EmbedInput::Parts(parts) => {
                let media = parts.iter().filter(|part| part.is_media()).count();
                match (media, parts.len()) {
                    (0, _) => Form::Text,
                    (1, 1) => Form::Image,
                    _ => Form::Mixed,
                }
            }
            _ => Form::Text,
        }
    }
}

/// The body for these inputs, all of one form.
pub(in crate::bedrock) fn body(
    options: &Options,
    inputs: &[EmbedInput],
    extra: &Map<String, Value>,
) -> Result<Vec<u8>> {
    let limit = options.model.limits().max_items;
    if inputs.len() > limit {
        let what = format!(
            "{} inputs in one request; this model takes {limit}",
            inputs.len()
        );
        return Err(Error::new(Kind::InvalidRequest, what));
    }
    let written = if options.model.is_cohere() {
        serde_json::to_vec(&cohere(options, inputs, extra)?)
    } else {
        serde_json::to_vec(&titan(options, inputs, extra)?)
    };
    written.map_err(|e| {
        Error::new(
            Kind::InvalidRequest,
            format!("the request can't be written as JSON: {e}"),
        )
    })
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Titan<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    input_text: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    input_image: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dimensions: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    embedding_config: Option<EmbeddingConfig>,
    #[serde(flatten)]
    extra: &'a Map<String, Value>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct EmbeddingConfig {
    output_embedding_length: u32,
}

fn titan<'a>(
    options: &Options,
    inputs: &'a [EmbedInput],
    extra: &'a Map<String, Value>,
) -> Result<Titan<'a>> {
    let input = inputs
        .first()
        .ok_or_else(|| Error::new(Kind::InvalidRequest, "there is nothing to embed"))?;
    let (input_text, input_image) = text_and_image(input)?;
    let image_model = options.model == Model::TitanImage;
    Ok(Titan {
        input_text,
        input_image,
        dimensions: options.dimensions.filter(|_| !image_model),
        embedding_config: options.dimensions.filter(|_| image_model).map(
            |output_embedding_length| EmbeddingConfig {
                output_embedding_length,
            },
        ),
        extra,
    })
}

type TextAndImage<'a> = (Option<Cow<'a, str>>, Option<Cow<'a, str>>);

fn text_and_image(input: &EmbedInput) -> Result<TextAndImage<'_>> {
    let parts = match input {
        EmbedInput::Text(text) => return Ok((Some(text.into()), None)),
        EmbedInput::Parts(parts) => parts,
        _ => return Err(unknown_part()),
    };
    let mut image = None;
    for part in parts {
        if let Part::Media(media) = part
            && image.replace(image_base64(media)?).is_some()
        {
            return Err(Error::new(
                Kind::InvalidRequest,
                "this model takes one image an input",
            ));
        }
    }
    let texts: Vec<&str> = parts.iter().filter_map(Part::as_text).collect();
    let text = (!texts.is_empty()).then(|| Cow::from(texts.join("\n")));
    Ok((text, image))
}

#[derive(Serialize)]
struct Cohere<'a> {
    input_type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    texts: Option<Vec<Cow<'a, str>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    images: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    inputs: Option<Vec<Mixed<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    truncate: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_dimension: Option<u32>,
    #[serde(flatten)]
    extra: &'a Map<String, Value>,
}

#[derive(Serialize)]
struct Mixed<'a> {
    content: Vec<MixedPart<'a>>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum MixedPart<'a> {
    Text { text: &'a str },
    ImageUrl { image_url: String },
}

fn cohere<'a>(
    options: &Options,
    inputs: &'a [EmbedInput],
    extra: &'a Map<String, Value>,
) -> Result<Cohere<'a>> {
    let mut body = Cohere {
        input_type: options.input_type,
        texts: None,
        images: None,
        inputs: None,
        truncate: options.truncate,
        output_dimension: options.dimensions,
        extra,
    };
    let forms: Vec<Form> = inputs.iter().map(Form::of).collect();
    let v3 = options.model == Model::CohereV3;
    if forms.iter().all(|form| *form == Form::Text) {
        body.texts = Some(inputs.iter().map(text).collect::<Result<_>>()?);
    } else if forms.iter().all(|form| *form == Form::Image) && !(v3 && inputs.len() > 1) {
        body.images = Some(inputs.iter().map(image).collect::<Result<_>>()?);
        if v3 {
            // Its images have a type of their own, whatever the texts are for.
            body.input_type = "image";
        }
    } else if v3 {
        return Err(Error::new(
            Kind::InvalidRequest,
            "this model embeds texts, or one image; not both together",
        ));
    } else {
        body.inputs = Some(inputs.iter().map(mixed).collect::<Result<_>>()?);
    }
    Ok(body)
}

fn text(input: &EmbedInput) -> Result<Cow<'_, str>> {
    text_and_image(input)?.0.ok_or_else(unknown_part)
}

fn image(input: &EmbedInput) -> Result<String> {
    let media = input.media().next().ok_or_else(unknown_part)?;
    media::image_data_uri(media)
}

fn mixed(input: &EmbedInput) -> Result<Mixed<'_>> {
    let content = match input {
        EmbedInput::Text(text) => vec![MixedPart::Text { text }],
        EmbedInput::Parts(parts) => parts
            .iter()
            .map(|part| match part {
                Part::Text(text) => Ok(MixedPart::Text { text }),
                Part::Media(media) => Ok(MixedPart::ImageUrl {
                    image_url: media::image_data_uri(media)?,
                }),
                _ => Err(unknown_part()),
            })
            .collect::<Result<_>>()?,
        _ => return Err(unknown_part()),
    };
    Ok(Mixed { content })
}

fn unknown_part() -> Error {
    Error::new(
        Kind::MediaNotAllowed,
        "this kind of input can't be embedded here",
    )
}

#[cfg(test)]
#[path = "embed_tests.rs"]
mod tests;
