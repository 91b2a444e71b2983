//! Embedding: requests and vectors.

use std::ops::Range;

use crate::config::EmbedOptions;
use crate::content::Part;
use crate::error::{Error, Kind, Result};
use crate::generate::Usage;

/// One thing to embed: usually a text; text and media together where the model takes them.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum EmbedInput {
    /// A text.
    Text(String),
    /// Text and media that become one vector.
    Parts(Vec<Part>),
}

impl EmbedInput {
    /// The text, if it is just that.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            EmbedInput::Text(text) => Some(text),
            EmbedInput::Parts(_) => None,
        }
    }

    /// Bytes of text and inline media.
    pub fn byte_len(&self) -> usize {
        match self {
            EmbedInput::Text(text) => text.len(),
            EmbedInput::Parts(parts) => parts
                .iter()
                .map(|p| match p {
                    Part::Text(text) => text.len(),
                    Part::Media(m) => match &m.source {
                        crate::content::MediaSource::Url(url) => url.len(),
                        crate::content::MediaSource::Bytes { data, .. } => data.len(),
                        crate::content::MediaSource::FileId(id) => id.len(),
                    },
                })
                .sum(),
        }
    }

    /// The parts' media, if any.
    pub fn media(&self) -> impl Iterator<Item = &crate::content::Media> {
        let parts: &[Part] = match self {
            EmbedInput::Text(_) => &[],
            EmbedInput::Parts(parts) => parts,
        };
        parts.iter().filter_map(|p| match p {
            Part::Media(m) => Some(m),
            Part::Text(_) => None,
        })
    }

    /// Whether there is nothing to embed.
    pub fn is_empty(&self) -> bool {
        match self {
            EmbedInput::Text(text) => text.is_empty(),
            EmbedInput::Parts(parts) => parts
                .iter()
                .all(|p| matches!(p, Part::Text(text) if text.is_empty())),
        }
    }
}

impl<T: Into<String>> From<T> for EmbedInput {
    fn from(text: T) -> Self {
        EmbedInput::Text(text.into())
    }
}

/// A call: `n` inputs.
#[derive(Clone, Debug, Default)]
pub struct EmbedRequest {
    /// The inputs, in the order of the answer.
    pub inputs: Vec<EmbedInput>,
    /// Items an attempt; `None`: the entry's `batch_size`, else the provider's limits.
    pub batch_size: Option<usize>,
}

impl EmbedRequest {
    /// A call over texts.
    pub fn texts<T: Into<String>>(texts: impl IntoIterator<Item = T>) -> Self {
        EmbedRequest {
            inputs: texts
                .into_iter()
                .map(|t| EmbedInput::Text(t.into()))
                .collect(),
            batch_size: None,
        }
    }

    /// Fixes how many items an attempt carries.
    #[must_use]
    pub fn with_batch_size(mut self, items: usize) -> Self {
        self.batch_size = Some(items);
        self
    }
}

/// The inputs of one attempt.
#[derive(Clone, Copy, Debug)]
pub struct EmbedPart<'a> {
    /// The inputs.
    pub inputs: &'a [EmbedInput],
    /// The entry's embed options.
    pub options: &'a EmbedOptions,
}

/// `n x dim` vectors in one flat buffer, in input order; or `n` sparse vectors.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Embeddings {
    dim: usize,
    values: Vec<f32>,
    sparse: Vec<SparseVector>,
    /// What the provider counted, summed over the attempts; absent when none said.
    pub usage: Option<Usage>,
    /// The provider's id of the (last) request.
    pub request_id: Option<String>,
}

/// One sparse vector: parallel lists in the order in which the provider sent them, each index once.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SparseVector {
    /// Vocabulary indices.
    pub indices: Vec<u32>,
    /// Weights.
    pub values: Vec<f32>,
}

impl Embeddings {
    /// Dense vectors from a flat buffer of `n * dim` numbers in input order.
    pub fn dense(dim: usize, values: Vec<f32>) -> Result<Self> {
        if (dim == 0 && !values.is_empty()) || (dim != 0 && !values.len().is_multiple_of(dim)) {
            return Err(Error::new(
                Kind::InvalidResponse,
                format!("{} numbers are not whole vectors of {dim}", values.len()),
            ));
        }
        Ok(Embeddings {
            dim,
            values,
            ..Self::default()
        })
    }

    /// Sparse vectors in input order.
    pub fn sparse(vectors: Vec<SparseVector>) -> Self {
        Embeddings {
            sparse: vectors,
            ..Self::default()
        }
    }

    /// How many vectors there are.
    pub fn len(&self) -> usize {
        if self.is_sparse() {
            self.sparse.len()
        } else {
            self.values.len().checked_div(self.dim).unwrap_or(0)
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the model answers sparse vectors.
    pub fn is_sparse(&self) -> bool {
        !self.sparse.is_empty()
    }

    /// Numbers a dense vector; 0 for sparse ones.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// All dense numbers, `n x dim`, row by row.
    pub fn as_flat(&self) -> &[f32] {
        &self.values
    }

    /// The flat buffer itself.
    pub fn into_flat(self) -> Vec<f32> {
        self.values
    }

    /// Dense vector `index`.
    pub fn get(&self, index: usize) -> Option<&[f32]> {
        if self.dim == 0 {
            return None;
        }
        let start = index.checked_mul(self.dim)?;
        self.values.get(start..start.checked_add(self.dim)?)
    }

    /// Sparse vector `index`.
    pub fn get_sparse(&self, index: usize) -> Option<&SparseVector> {
        self.sparse.get(index)
    }

    /// The dense vectors in input order.
    pub fn iter(&self) -> std::slice::ChunksExact<'_, f32> {
        self.values.chunks_exact(self.dim.max(1))
    }

    /// Appends another part's vectors. They must be of the same form and dimension.
    pub fn append(&mut self, mut other: Embeddings) -> Result<()> {
        if self.is_empty() {
            let (usage, id) = (self.usage.take(), self.request_id.take());
            *self = other;
            self.usage = Usage::sum(usage, self.usage);
            self.request_id = self.request_id.take().or(id);
            return Ok(());
        }
        if self.is_sparse() != other.is_sparse() || self.dim != other.dim {
            return Err(Error::new(
                Kind::InvalidResponse,
                format!(
                    "the parts of one call have vectors of {} and of {} numbers",
                    self.dim, other.dim
                ),
            )
            .with_item(self.len()));
        }
        self.values.append(&mut other.values);
        self.sparse.append(&mut other.sparse);
        self.usage = Usage::sum(self.usage, other.usage);
        self.request_id = other.request_id.or(self.request_id.take());
        Ok(())
    }

    /// Checks an answer against its request: count, dimensions, finiteness. Names the item that is wrong.
    pub(crate) fn check(&self, inputs: usize, dimensions: Option<u32>) -> Result<()> {
        let bad = |message: String| Error::new(Kind::InvalidResponse, message);
        if self.len() != inputs {
            return Err(bad(format!("{} vectors for {inputs} inputs", self.len())));
        }
        if let (false, Some(wanted)) = (self.is_sparse(), dimensions)
            && self.dim != wanted as usize
        {
            return Err(bad(format!(
                "item 0 has {} numbers, {wanted} were asked for",
                self.dim
            ))
            .with_item(0));
        }
        if let Some(at) = self.values.iter().position(|v| !v.is_finite()) {
            let item = at / self.dim.max(1);
            return Err(bad(format!("item {item} has a number that is not finite")).with_item(item));
        }
        self.sparse
            .iter()
            .enumerate()
            .try_for_each(|(item, vector)| vector.check(item))
    }
}

impl SparseVector {
    /// The lists belong together: as long as each other, each index once, every weight finite.
    fn check(&self, item: usize) -> Result<()> {
        let (indices, values) = (&self.indices, &self.values);
        let problem = if indices.len() != values.len() {
            format!("{} indices and {} values", indices.len(), values.len())
        } else if values.iter().any(|x| !x.is_finite()) {
            "a number that is not finite".to_owned()
        } else if let Some(twice) = self.index_twice() {
            format!("index {twice} twice in its sparse vector")
        } else {
            return Ok(());
        };
        Err(Error::new(Kind::InvalidResponse, format!("item {item} has {problem}")).with_item(item))
    }

    fn index_twice(&self) -> Option<u32> {
        if self.indices.is_sorted_by(|a, b| a < b) {
            return None;
        }
        let mut sorted = self.indices.clone();
        sorted.sort_unstable();
        let pair = sorted.windows(2).find(|pair| pair[0] == pair[1])?;
        Some(pair[0])
    }
}

/// Places vectors by index while an answer is read: no list of lists, nothing placed twice, dense and sparse never mixed.
#[derive(Debug)]
pub struct EmbeddingsBuilder {
    inputs: usize,
    dim: usize,
    values: Vec<f32>,
    sparse: Vec<SparseVector>,
    seen: Vec<bool>,
    filled: usize,
}

impl EmbeddingsBuilder {
    /// For `inputs` vectors.
    pub fn new(inputs: usize) -> Self {
        EmbeddingsBuilder {
            inputs,
            dim: 0,
            values: Vec::new(),
            sparse: Vec::new(),
            seen: vec![false; inputs],
            filled: 0,
        }
    }

    /// Places the vector of input `index`. Out of range, twice, empty, or of another length than the first is an error.
    pub fn put(&mut self, index: usize, vector: &[f32]) -> Result<()> {
        let bad =
            |message: String| Err(Error::new(Kind::InvalidResponse, message).with_item(index));
        self.free(index)?;
        if vector.is_empty() {
            return bad(format!("item {index} has an empty vector"));
        }
        if !self.sparse.is_empty() {
            return bad(format!(
                "item {index} has a dense vector, others sparse ones"
            ));
        }
        if self.dim == 0 {
            self.dim = vector.len();
        }
        if vector.len() != self.dim {
            return bad(format!(
                "item {index} has {} numbers, the others {}",
                vector.len(),
                self.dim
            ));
        }
        if index == self.filled && self.values.len() == index * self.dim {
            if self.values.is_empty() {
                self.values
                    .reserve_exact(self.inputs.saturating_mul(self.dim));
            }
            self.values.extend_from_slice(vector);
        } else {
            self.values.resize(self.inputs * self.dim, 0.0);
            self.values[index * self.dim..(index + 1) * self.dim].copy_from_slice(vector);
        }
        self.seen[index] = true;
        self.filled += 1;
        Ok(())
    }

    /// Places the sparse vector of input `index`; one without any entry is a vector too. Out of range, twice, beside a dense one,
    /// or lists that don't belong together are errors.
    pub fn put_sparse(&mut self, index: usize, vector: SparseVector) -> Result<()> {
        self.free(index)?;
        if self.dim != 0 {
            return Err(Error::new(
                Kind::InvalidResponse,
                format!("item {index} has a sparse vector, others dense ones"),
            )
            .with_item(index));
        }
        vector.check(index)?;
        if self.sparse.is_empty() {
            self.sparse.resize_with(self.inputs, SparseVector::default);
        }
        self.sparse[index] = vector;
        self.seen[index] = true;
        self.filled += 1;
        Ok(())
    }

    /// Whether a vector may still be placed at `index`.
    fn free(&self, index: usize) -> Result<()> {
        let problem = match self.seen.get(index) {
            None => format!("index {index} for {} inputs", self.inputs),
            Some(true) => format!("index {index} came twice"),
            Some(false) => return Ok(()),
        };
        Err(Error::new(Kind::InvalidResponse, problem).with_item(index))
    }

    /// All of them, or an error naming the first that is missing.
    pub fn finish(self) -> Result<Embeddings> {
        if let Some(missing) = self.seen.iter().position(|seen| !seen) {
            return Err(Error::new(
                Kind::InvalidResponse,
                format!(
                    "{} vectors for {} inputs: item {missing} is missing",
                    self.filled, self.inputs
                ),
            )
            .with_item(missing));
        }
        if self.sparse.is_empty() {
            Embeddings::dense(self.dim, self.values)
        } else {
            Ok(Embeddings::sparse(self.sparse))
        }
    }
}

/// The result of one part of a call: its items and what became of them.
#[derive(Debug)]
pub struct EmbedPartResult {
    /// The items of the call, 0-based.
    pub items: Range<usize>,
    /// Their vectors, or why there are none.
    pub result: Result<Embeddings>,
}
