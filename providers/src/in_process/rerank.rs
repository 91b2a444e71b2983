//! Documents scored against a query: by a cross-encoder's head, or by an embedding model's vectors.

use std::borrow::Cow;
use std::path::Path;

use antfly_framework::config::{EntryConfig, Scoring};
use antfly_framework::rerank::{Document, Ranked, Ranking, RerankRequest};
use antfly_framework::{Error, Kind, Result};
use serde_json::{Map, Value};

use super::admission::CancelFlag;
use super::encoder::{self, Cut, Encoder, Habits, MOST, dot};
use super::folder::Folder;

/// What an entry says about reranking.
#[derive(Clone, Debug)]
pub(super) struct RerankSettings {
    scoring: Scoring,
    /// Of a document that is a JSON object: the field whose text is ranked.
    field: Option<String>,
    /// Put before the query, and before each document; a cross-encoder has none.
    query_prompt: String,
    document_prompt: String,
}

impl RerankSettings {
    /// Checks the entry against what the model's folder says.
    pub(super) fn of(entry: &EntryConfig, path: &Path) -> Result<Self> {
        let folder = Folder::new(path);
        if entry.rerank.scoring.is_some() && folder.is_classifier() {
            return Err(Error::config(
                entry.field("scoring"),
                "this model scores pairs of texts by a head of its own; remove it",
            ));
        }
        encoder::check(path)?;
        let habits = Habits::read(&folder)?;
        if folder.is_classifier() && !habits.default_prompt.is_empty() {
            return Err(folder.bad(
                "config_sentence_transformers.json",
                "it has a default prompt (default_prompt_name); a model that scores pairs takes none here",
            ));
        }
        let prompt = |names: &[&str]| {
            let named = names.iter().find_map(|name| habits.prompts.get(*name));
            named.cloned().unwrap_or_default()
        };
        Ok(RerankSettings {
            scoring: entry.rerank.scoring.unwrap_or(Scoring::Cosine),
            field: entry.rerank.field.clone(),
            query_prompt: prompt(&["query"]),
            document_prompt: prompt(&["document", "passage", "corpus"]),
        })
    }
}

impl Encoder {
    /// A score for each document, by its index.
    pub(super) fn rerank(
        &self,
        request: &RerankRequest,
        settings: &RerankSettings,
        cancel: &CancelFlag,
    ) -> Result<Ranking> {
        let text =
            |(item, document)| text(document, settings).map_err(|e: Error| e.with_item(item));
        let texts: Vec<Cow<'_, str>> = (request.documents.iter().enumerate())
            .map(text)
            .collect::<Result<_>>()?;
        let scores = if self.is_cross_encoder() {
            self.scores(&request.query, &texts, cancel)?
        } else {
            let query = [format!("{}{}", settings.query_prompt, request.query)];
            let prompt = settings.document_prompt.as_str();
            let texts: Vec<String> = texts.iter().map(|t| format!("{prompt}{t}")).collect();
            match settings.scoring {
                Scoring::LateInteraction => self.late_interaction(&query, &texts, cancel)?,
                _ => self.cosines(&query, &texts, cancel)?,
            }
        };
        let results = scores.into_iter().enumerate();
        Ok(Ranking {
            results: results
                .map(|(index, score)| Ranked {
                    index,
                    score: f64::from(score),
                })
                .collect(),
            ..Ranking::default()
        })
    }

    fn cosines(&self, query: &[String], texts: &[String], cancel: &CancelFlag) -> Result<Vec<f32>> {
        let query = self.tokens(query, Cut::End, cancel)?;
        let tokens = self.tokens(texts, Cut::End, cancel)?;
        let query = self.vectors(&query, MOST, true, cancel)?.concat();
        let vectors = self.vectors(&tokens, MOST, true, cancel)?;
        Ok(vectors.iter().map(|v| dot(&query, v)).collect())
    }

    fn late_interaction(
        &self,
        query: &[String],
        texts: &[String],
        cancel: &CancelFlag,
    ) -> Result<Vec<f32>> {
        let query = self.tokens(query, Cut::End, cancel)?;
        let Some(query) = self.token_vectors(&query, cancel)?.pop() else {
            return Ok(Vec::new());
        };
        let mut scores = Vec::with_capacity(texts.len());
        // Token vectors are large: a sub-batch of them at a time.
        for texts in texts.chunks(MOST) {
            let first = scores.len();
            let located = |e: Error| match e.item() {
                Some(item) => e.with_item(first + item),
                None => e,
            };
            let tokens = self.tokens(texts, Cut::End, cancel).map_err(located)?;
            for document in self.token_vectors(&tokens, cancel)? {
                scores.push(query.max_sim(&document));
            }
        }
        Ok(scores)
    }
}

/// A document's text; of a JSON object, the text of the field where it has one.
fn text<'a>(document: &'a Document, settings: &RerankSettings) -> Result<Cow<'a, str>> {
    if document.media().next().is_some() {
        return Err(Error::new(
            Kind::MediaNotAllowed,
            "models in this process take text",
        ));
    }
    let whole: Cow<'a, str> = match document {
        Document::Text(text) => text.as_str().into(),
        document => document.text().into(),
    };
    let Some(field) = (settings.field.as_ref()).filter(|_| whole.trim_start().starts_with('{'))
    else {
        return Ok(whole);
    };
    let object = serde_json::from_str::<Map<String, Value>>(&whole);
    Ok(match object.ok().and_then(|mut o| o.remove(field)) {
        Some(Value::String(text)) => text.into(),
        None | Some(Value::Null) => whole,
        Some(other) => other.to_string().into(),
    })
}
