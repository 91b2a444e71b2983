//! Reads an embeddings answer straight into the flat buffer: no list of lists, no value that is thrown away.
//!
//! An embedding is read by what it is: an array of numbers, or base64 of little-endian `f32`, whichever was asked for; on
//! Antfly's wire also a sparse vector, `{"indices", "values"}`.

use antfly_framework::embed::{Embeddings, EmbeddingsBuilder, SparseVector};
use antfly_framework::provider::Head;
use antfly_framework::{Error, Kind, Result};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

use super::cursor::{Cursor, Parsed, Str};
use super::error::{in_band, unreadable};
use super::floats;
use super::usage::WireUsage;
use crate::refusal::is_error;

/// The vectors of `inputs` texts.
#[cfg(any(feature = "openai", test))]
pub(crate) fn decode(head: &Head, body: &[u8], inputs: usize) -> Result<Embeddings> {
    decode_as(head, body, inputs, false)
}

/// The vectors of `inputs` inputs, dense or sparse.
#[cfg(feature = "antfly")]
pub(crate) fn decode_or_sparse(head: &Head, body: &[u8], inputs: usize) -> Result<Embeddings> {
    decode_as(head, body, inputs, true)
}

fn decode_as(head: &Head, body: &[u8], inputs: usize, takes_sparse: bool) -> Result<Embeddings> {
    let mut answer = Answer {
        takes_sparse,
        builder: EmbeddingsBuilder::new(inputs),
        scratch: Vec::new(),
        by_index: 0,
        by_position: 0,
        usage: None,
        error: None,
        wrong: None,
    };
    let read = answer.read(&mut Cursor::new(body));
    if let Some(wrong) = answer.wrong {
        return Err(wrong);
    }
    if let Err(problem) = read {
        return Err(unreadable(head, body, problem));
    }
    if let Some(error) = answer.error {
        return Err(in_band(head, &error));
    }
    let mut embeddings = answer.builder.finish()?;
    embeddings.usage = answer.usage.and_then(WireUsage::into_usage);
    Ok(embeddings)
}

/// What has been read so far.
struct Answer {
    takes_sparse: bool,
    builder: EmbeddingsBuilder,
    /// The vector being read; its room is used again for the next.
    scratch: Vec<f32>,
    /// Vectors placed by an index, and those that had none.
    by_index: usize,
    by_position: usize,
    usage: Option<WireUsage>,
    error: Option<Value>,
    /// An answer that parses but contradicts the request.
    wrong: Option<Error>,
}

impl Answer {
    fn read(&mut self, json: &mut Cursor<'_>) -> Parsed<()> {
        json.object(|json, name| {
            match name {
                "data" if json.peek() == Some(b'[') => json.list(|json| self.item(json))?,
                "usage" => self.usage = json.value()?,
                "error" => self.error = Some(json.value()?).filter(is_error),
                // Also `data: null`, which is as none: then every vector is missing.
                _ => _ = json.value::<IgnoredAny>()?,
            }
            Ok(())
        })?;
        json.end()
    }

    /// One element of `data`.
    fn item(&mut self, json: &mut Cursor<'_>) -> Parsed<()> {
        self.scratch.clear();
        let mut index: Option<u64> = None;
        let mut sparse = None;
        json.object(|json, name| {
            match name {
                "index" => index = json.value()?,
                "embedding" if self.takes_sparse && json.peek() == Some(b'{') => {
                    sparse = Some(json.value()?);
                }
                "embedding" => vector(json, &mut self.scratch)?,
                _ => _ = json.value::<IgnoredAny>()?,
            }
            Ok(())
        })?;
        self.place(index, sparse).map_err(|e| {
            let told = e.message().to_owned();
            self.wrong.get_or_insert(e);
            told
        })
    }

    /// Puts the vector just read where it belongs: by its index, or by its position where no item has one.
    fn place(&mut self, index: Option<u64>, sparse: Option<Sparse>) -> Result<()> {
        let position = self.by_index + self.by_position;
        let at = match index {
            Some(index) => {
                self.by_index += 1;
                usize::try_from(index).unwrap_or(usize::MAX)
            }
            None => {
                self.by_position += 1;
                position
            }
        };
        if self.by_index > 0 && self.by_position > 0 {
            let what = "some embeddings have an index and some have none";
            return Err(Error::new(Kind::InvalidResponse, what).with_item(position));
        }
        match sparse {
            Some(Sparse { indices, values }) => self
                .builder
                .put_sparse(at, SparseVector { indices, values }),
            None => self.builder.put(at, &self.scratch),
        }
    }
}

/// A sparse vector as it travels.
#[derive(Deserialize)]
struct Sparse {
    indices: Vec<u32>,
    values: Vec<f32>,
}

/// The numbers of the value here, appended to a buffer.
fn vector(json: &mut Cursor<'_>, out: &mut Vec<f32>) -> Parsed<()> {
    match json.peek() {
        Some(b'[') => json.numbers(out),
        Some(b'"') => floats::from_base64(&json.value::<Str<'_>>()?.0, out),
        _ => Err(json.problem("expected an array of numbers or base64")),
    }
}

#[cfg(test)]
#[path = "vectors_tests.rs"]
mod tests;
