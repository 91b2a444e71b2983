//! Reads an embeddings answer straight into the flat buffer: no list of lists, no value that is thrown away.
//!
//! An embedding is read by what it is: an array of numbers, or base64 of little-endian `f32`, whichever was asked for.

use std::borrow::Cow;
use std::fmt;

use antfly_framework::embed::{Embeddings, EmbeddingsBuilder};
use antfly_framework::provider::Head;
use antfly_framework::{Error, Kind, Result};
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use super::super::error::{in_band, is_error, unreadable};
use super::floats;
use super::usage::WireUsage;

/// The vectors of `inputs` texts.
pub(in crate::openai) fn decode(head: &Head, body: &[u8], inputs: usize) -> Result<Embeddings> {
    let mut answer = Answer {
        builder: EmbeddingsBuilder::new(inputs),
        scratch: Vec::new(),
        placed: Placed::default(),
        usage: None,
        error: None,
        wrong: None,
    };
    let mut json = serde_json::Deserializer::from_slice(body);
    let read = (&mut answer)
        .deserialize(&mut json)
        .and_then(|()| json.end());
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
    builder: EmbeddingsBuilder,
    /// The vector being read; its room is used again for the next.
    scratch: Vec<f32>,
    placed: Placed,
    usage: Option<WireUsage>,
    error: Option<Value>,
    /// An answer that parses but contradicts the request.
    wrong: Option<Error>,
}

/// How the vectors read so far were placed.
#[derive(Default)]
struct Placed {
    by_index: usize,
    by_position: usize,
}

impl<'de> DeserializeSeed<'de> for &mut Answer {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, d: D) -> std::result::Result<(), D::Error> {
        d.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for &mut Answer {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an embeddings answer")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<(), A::Error> {
        while let Some(name) = map.next_key::<Cow<'de, str>>()? {
            match name.as_ref() {
                "data" => map.next_value_seed(Data(self))?,
                "usage" => self.usage = map.next_value()?,
                "error" => self.error = Some(map.next_value()?).filter(is_error),
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }
}

/// The list under `data`.
struct Data<'a>(&'a mut Answer);

impl<'de> DeserializeSeed<'de> for Data<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, d: D) -> std::result::Result<(), D::Error> {
        d.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Data<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of embeddings")
    }

    fn visit_unit<E: serde::de::Error>(self) -> std::result::Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> std::result::Result<(), A::Error> {
        while seq.next_element_seed(Item(self.0))?.is_some() {}
        Ok(())
    }
}

/// One element of `data`.
struct Item<'a>(&'a mut Answer);

impl<'de> DeserializeSeed<'de> for Item<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, d: D) -> std::result::Result<(), D::Error> {
        d.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Item<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an embedding object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<(), A::Error> {
        let answer = self.0;
        answer.scratch.clear();
        let mut index: Option<u64> = None;
        while let Some(name) = map.next_key::<Cow<'de, str>>()? {
            match name.as_ref() {
                "index" => index = map.next_value()?,
                "embedding" => map.next_value_seed(Vector(&mut answer.scratch))?,
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        answer.place(index).map_err(|e| {
            let told = serde::de::Error::custom(e.message());
            answer.wrong.get_or_insert(e);
            told
        })
    }
}

impl Answer {
    /// Puts the vector just read where it belongs: by its index, or by its position where no item has one.
    fn place(&mut self, index: Option<u64>) -> Result<()> {
        let position = self.placed.by_index + self.placed.by_position;
        let at = match index {
            Some(index) => {
                self.placed.by_index += 1;
                usize::try_from(index).unwrap_or(usize::MAX)
            }
            None => {
                self.placed.by_position += 1;
                position
            }
        };
        if self.placed.by_index > 0 && self.placed.by_position > 0 {
            return Err(Error::new(
                Kind::InvalidResponse,
                "some embeddings have an index and some have none",
            )
            .with_item(position));
        }
        self.builder.put(at, &self.scratch)
    }
}

/// The numbers under `embedding`, added to a buffer.
struct Vector<'a>(&'a mut Vec<f32>);

impl<'de> DeserializeSeed<'de> for Vector<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, d: D) -> std::result::Result<(), D::Error> {
        d.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Vector<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of numbers or base64")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> std::result::Result<(), A::Error> {
        while let Some(number) = seq.next_element::<f32>()? {
            self.0.push(number);
        }
        Ok(())
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> std::result::Result<(), E> {
        floats::from_base64(text, self.0).map_err(E::custom)
    }
}

#[cfg(test)]
#[path = "vectors_tests.rs"]
mod tests;
