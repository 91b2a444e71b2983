//! Reranking: requests and scores.

use std::collections::HashSet;

use crate::content::Part;
use crate::error::{Error, Kind, Result};
use crate::generate::Usage;

/// One document to score.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Document {
    /// A text.
    Text(String),
    /// Text and media, where the model takes them.
    Parts(Vec<Part>),
}

impl<T: Into<String>> From<T> for Document {
    fn from(text: T) -> Self {
        Document::Text(text.into())
    }
}

impl Document {
    /// The document's text; of parts, their text joined by a newline.
    pub fn text(&self) -> String {
        match self {
            Document::Text(text) => text.clone(),
            Document::Parts(parts) => parts
                .iter()
                .filter_map(Part::as_text)
                .collect::<Vec<_>>()
                .join("\n"),
        }
    }

    /// Whether there is nothing to score.
    pub fn is_empty(&self) -> bool {
        match self {
            Document::Text(text) => text.is_empty(),
            Document::Parts(parts) => parts
                .iter()
                .all(|p| matches!(p, Part::Text(text) if text.is_empty())),
        }
    }

    /// The document's media, if any.
    pub fn media(&self) -> impl Iterator<Item = &crate::content::Media> {
        let parts: &[Part] = match self {
            Document::Text(_) => &[],
            Document::Parts(parts) => parts,
        };
        parts.iter().filter_map(|p| match p {
            Part::Media(m) => Some(m),
            Part::Text(_) => None,
        })
    }
}

/// A call: one query, `n` documents.
#[derive(Clone, Debug, Default)]
pub struct RerankRequest {
    /// What is asked.
    pub query: String,
    /// What is ranked.
    pub documents: Vec<Document>,
    /// At most this many results; `None`: the entry's `top_n`, else all.
    pub top_n: Option<usize>,
}

impl RerankRequest {
    /// A call over texts.
    pub fn new<T: Into<Document>>(
        query: impl Into<String>,
        documents: impl IntoIterator<Item = T>,
    ) -> Self {
        RerankRequest {
            query: query.into(),
            documents: documents.into_iter().map(Into::into).collect(),
            top_n: None,
        }
    }
}

/// One score: the provider's own number, not rescaled.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ranked {
    /// Index into the request's documents.
    pub index: usize,
    /// The score.
    pub score: f64,
}

/// Scores, best first after the framework's check.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ranking {
    /// The results.
    pub results: Vec<Ranked>,
    /// What the provider counted; absent when it didn't say.
    pub usage: Option<Usage>,
    /// The provider's id of the request.
    pub request_id: Option<String>,
    /// Whether the provider itself applied `top_n` (then fewer results than documents are right).
    pub limited_by_provider: bool,
}

impl Ranking {
    /// Checks indices, count and finiteness against the request, sorts (stably, best first) and applies `top_n`.
    pub(crate) fn check(mut self, documents: usize, top_n: Option<usize>) -> Result<Self> {
        let bad = |message: String| Error::new(Kind::InvalidResponse, message);
        let mut seen = HashSet::with_capacity(self.results.len());
        for r in &self.results {
            if r.index >= documents {
                return Err(
                    bad(format!("index {} for {documents} documents", r.index)).with_item(r.index)
                );
            }
            if !seen.insert(r.index) {
                return Err(bad(format!("index {} came twice", r.index)).with_item(r.index));
            }
            if !r.score.is_finite() {
                return Err(
                    bad(format!("the score of document {} is not finite", r.index))
                        .with_item(r.index),
                );
            }
        }
        let most = top_n.map_or(documents, |n| n.min(documents));
        let count = self.results.len();
        let right = if self.limited_by_provider && top_n.is_some() {
            count <= most && (count > 0 || documents == 0)
        } else {
            count == documents
        };
        if !right {
            return Err(bad(format!("{count} scores for {documents} documents")));
        }
        self.results.sort_by(|a, b| b.score.total_cmp(&a.score));
        self.results.truncate(most);
        Ok(self)
    }
}
