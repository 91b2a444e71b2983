//! The wires that only Vertex AI has: three ways to embed, and the ranking API.

mod embed_content;
mod multimodal;
mod predict;
pub(super) mod rank;

use antfly_framework::config::EntryConfig;
use antfly_framework::content::{MediaKind, MediaSupport};
use antfly_framework::embed::{EmbedPart, Embeddings};
use antfly_framework::http::Url;
use antfly_framework::provider::{BatchLimits, Head, Prepared};
use antfly_framework::{Error, Result};
use serde_json::{Map, Value};

use crate::google::{GEMINI_MEDIA, task, vectors};

/// How a model embeds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Family {
    /// `predict` with texts: the text-embedding family.
    #[default]
    Texts,
    /// `predict` with one text a request: `gemini-embedding-001`.
    OneText,
    /// `predict` with a text, an image or a video a request: `multimodalembedding`.
    Multimodal,
    /// `embedContent`, one content a request: the Gemini embeddings after the first, and open models as a service.
    Content,
}

impl Family {
    /// The family of a model, by the rule of Google's own SDKs. `model` is its short name.
    fn of(model: &str) -> Self {
        let name = model.rsplit('/').next().unwrap_or(model);
        if name == "gemini-embedding-001" {
            Family::OneText
        } else if name.contains("gemini") || name.contains("maas") {
            Family::Content
        } else if name.starts_with("multimodalembedding") {
            Family::Multimodal
        } else {
            Family::Texts
        }
    }

    /// What it takes besides text.
    fn media(self, model: &str) -> MediaSupport {
        match self {
            Family::Multimodal => MediaSupport::Kinds(&[MediaKind::Image, MediaKind::Video]),
            Family::Content if model.contains("gemini") => GEMINI_MEDIA,
            _ => MediaSupport::None,
        }
    }
}

/// An embedder's wire and what its entry says.
#[derive(Debug, Default)]
pub(super) struct Embedding {
    family: Family,
    media: Option<MediaSupport>,
    /// In Google's words.
    task: Option<String>,
    /// Whether a text that is too long is cut. Google cuts unless told otherwise, which loses data silently.
    truncate: bool,
    /// The same title for every document; of `extra_body`.
    title: Option<String>,
    /// What of `extra_body` stands beside the adapter's fields, and within its object of parameters.
    beside: Map<String, Value>,
    within: Map<String, Value>,
}

impl Embedding {
    /// How an entry's model embeds; `model` is its short name.
    ///
    /// # Errors
    /// `config` naming the field.
    pub(super) fn of(entry: &EntryConfig, model: &str) -> Result<Self> {
        let family = Family::of(model);
        let options = &entry.embed;
        let no_such = |field: &str| {
            Error::config(
                entry.field(field),
                format!("{model} has no such option on Vertex AI"),
            )
        };
        if options.encoding_format.is_some() {
            return Err(no_such("encoding_format"));
        }
        let media = family.media(model);
        let media = match options.multimodal {
            Some(true) if media == MediaSupport::None => {
                return Err(Error::config(
                    entry.field("multimodal"),
                    "this model embeds text only",
                ));
            }
            Some(false) => MediaSupport::None,
            _ => media,
        };
        let truncate = match options.truncate.as_deref().map(str::to_ascii_uppercase) {
            None => false,
            Some(_) if family == Family::Multimodal => return Err(no_such("truncate")),
            Some(word) if word == "END" => true,
            Some(word) if word == "NONE" => false,
            Some(word) => {
                return Err(Error::config(
                    entry.field("truncate"),
                    format!("{word:?} is not allowed; END or NONE is"),
                ));
            }
        };
        let rules = match family {
            Family::Texts | Family::OneText => predict::RULES,
            Family::Multimodal => multimodal::RULES,
            Family::Content => embed_content::RULES,
        };
        let mut extra = rules.of_entry(entry)?;
        let title = match (family, extra.beside.remove("title")) {
            (_, None) => None,
            (Family::Multimodal, Some(_)) => return Err(no_such("extra_body.title")),
            (_, Some(Value::String(title))) => Some(title),
            (_, Some(_)) => {
                return Err(Error::config(
                    entry.field("extra_body.title"),
                    "a text is allowed",
                ));
            }
        };
        let task = task::of(entry)?;
        if family == Family::Multimodal {
            multimodal::check(entry)?;
        }
        Ok(Embedding {
            family,
            media: Some(media),
            task,
            truncate,
            title,
            beside: extra.beside,
            within: extra.within,
        })
    }

    pub(super) fn media(&self) -> MediaSupport {
        self.media.unwrap_or(MediaSupport::None)
    }

    /// What one request takes. A text never has more tokens than bytes.
    pub(super) fn limits(&self) -> BatchLimits {
        match self.family {
            Family::Texts => BatchLimits {
                max_items: 250,
                max_bytes: 20_000,
            },
            _ => BatchLimits {
                max_items: 1,
                max_bytes: usize::MAX,
            },
        }
    }

    pub(super) fn method(&self) -> &'static str {
        match self.family {
            Family::Content => "embedContent",
            _ => "predict",
        }
    }

    pub(super) fn prepare(&self, url: Url, part: &EmbedPart<'_>) -> Result<Prepared> {
        match self.family {
            Family::Texts | Family::OneText => Prepared::json(url, &predict::body(self, part)?),
            Family::Multimodal => Prepared::json(url, &multimodal::body(self, part)?),
            Family::Content => Prepared::json(url, &embed_content::body(self, part)?),
        }
    }

    pub(super) fn decode(&self, head: &Head, body: &[u8], inputs: usize) -> Result<Embeddings> {
        match self.family {
            Family::Multimodal => multimodal::decode(head, body, inputs),
            _ => vectors::decode(head, body, inputs),
        }
    }

    /// The task, the title and whatever else the wires put under one name or another.
    fn parameters(
        &self,
        fields: impl IntoIterator<Item = (&'static str, Option<Value>)>,
    ) -> Map<String, Value> {
        let mut parameters = self.within.clone();
        for (name, value) in fields {
            if let Some(value) = value {
                parameters.insert(name.to_owned(), value);
            }
        }
        parameters
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn h12_the_limit_goes_by_the_models_family() {
        for (model, family, items) in [
            ("gemini-embedding-001", Family::OneText, 1),
            ("gemini-embedding-2", Family::Content, 1),
            ("gemini-embedding-2-preview", Family::Content, 1),
            (
                "publishers/intfloat/models/multilingual-e5-large-instruct-maas",
                Family::Content,
                1,
            ),
            ("multimodalembedding@001", Family::Multimodal, 1),
            ("text-embedding-005", Family::Texts, 250),
            ("text-multilingual-embedding-002", Family::Texts, 250),
            ("endpoints/123", Family::Texts, 250),
        ] {
            let embedding = Embedding {
                family: Family::of(model),
                ..Embedding::default()
            };
            assert_eq!(
                (embedding.family, embedding.limits().max_items),
                (family, items),
                "{model}"
            );
        }
    }
}
