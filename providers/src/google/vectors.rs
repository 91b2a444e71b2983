//! Reads the vectors of an answer straight into the flat buffer: no list of lists, no value that is thrown away.
//!
//! One reader for all of Google's forms: `embeddings: [{values}]` of the Gemini API, `predictions: [{embeddings: {values,
//! statistics}}]` of `predict`, and `embedding: {values}` of `embedContent`.

use std::fmt;

use antfly_framework::embed::{Embeddings, EmbeddingsBuilder};
use antfly_framework::generate::Usage;
use antfly_framework::provider::Head;
use antfly_framework::{Error, Kind, Result};
use serde::de::{
    DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor,
};
use serde_json::Value;

use super::error::{in_band, unreadable};
use super::generate::WireUsage;
use super::json::Count;
use crate::refusal::is_error;

/// The vectors of `inputs` inputs, in their order.
pub(crate) fn decode(head: &Head, body: &[u8], inputs: usize) -> Result<Embeddings> {
    let mut reading = Reading {
        builder: EmbeddingsBuilder::new(inputs),
        scratch: Vec::new(),
        count: 0,
        tokens: None,
        usage: None,
        error: Value::Null,
        wrong: None,
        inside: false,
    };
    let mut json = serde_json::Deserializer::from_slice(body);
    let read = Answer(&mut reading)
        .deserialize(&mut json)
        .and_then(|()| json.end());
    if let Some(wrong) = reading.wrong {
        return Err(wrong);
    }
    if let Err(problem) = read {
        let error = unreadable(head, body, problem);
        return Err(match reading.inside {
            true if error.kind() == Kind::InvalidResponse => error.with_item(reading.count),
            _ => error,
        });
    }
    if is_error(&reading.error) {
        return Err(in_band(head, &reading.error));
    }
    let mut vectors = reading.builder.finish()?;
    let counted = reading.tokens.map(|tokens| Usage {
        input_tokens: Some(tokens),
        ..Usage::default()
    });
    vectors.usage = reading.usage.and_then(WireUsage::into_usage).or(counted);
    Ok(vectors)
}

/// What has been read so far.
struct Reading {
    builder: EmbeddingsBuilder,
    /// The vector being read; its room is used again for the next.
    scratch: Vec<f32>,
    /// Vectors read.
    count: usize,
    /// The tokens that the vectors' own statistics tell, summed.
    tokens: Option<u64>,
    usage: Option<WireUsage>,
    error: Value,
    /// What contradicts the request, though it parses.
    wrong: Option<Error>,
    /// Whether what is being read is the vector number `count`.
    inside: bool,
}

impl Reading {
    /// The vector just read becomes that of the next input.
    fn place(&mut self) -> Result<(), String> {
        let placed = self.builder.put(self.count, &self.scratch);
        self.count += 1;
        self.scratch.clear();
        placed.map_err(|e| {
            let told = e.message().to_owned();
            self.wrong.get_or_insert(e);
            told
        })
    }
}

/// A visitor that takes null for nothing.
macro_rules! or_null {
    ($expects:literal) => {
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str($expects)
        }
        fn visit_unit<E: serde::de::Error>(self) -> Result<(), E> {
            Ok(())
        }
    };
}

/// The whole answer.
struct Answer<'a>(&'a mut Reading);

impl<'de> DeserializeSeed<'de> for Answer<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, d: D) -> Result<(), D::Error> {
        d.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Answer<'_> {
    type Value = ();
    or_null!("an answer with vectors");
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(name) = map.next_key::<std::borrow::Cow<'de, str>>()? {
            match name.as_ref() {
                "embeddings" | "predictions" => map.next_value_seed(Rows(self.0))?,
                "embedding" => {
                    let before = self.0.scratch.len();
                    map.next_value_seed(Row(self.0))?;
                    // Null, or an object without numbers: then the vector is missing.
                    if self.0.scratch.len() > before {
                        self.0.place().map_err(A::Error::custom)?;
                    }
                }
                "usageMetadata" => self.0.usage = map.next_value()?,
                "error" => self.0.error = map.next_value()?,
                _ => _ = map.next_value::<IgnoredAny>()?,
            }
        }
        Ok(())
    }
}

/// The list of vectors.
struct Rows<'a>(&'a mut Reading);

impl<'de> DeserializeSeed<'de> for Rows<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, d: D) -> Result<(), D::Error> {
        d.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Rows<'_> {
    type Value = ();
    or_null!("a list of vectors");
    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        self.0.inside = true;
        while list.next_element_seed(Row(self.0))?.is_some() {
            self.0.place().map_err(A::Error::custom)?;
        }
        self.0.inside = false;
        Ok(())
    }
}

/// One vector with what stands beside it; `predict` wraps it once more.
struct Row<'a>(&'a mut Reading);

impl<'de> DeserializeSeed<'de> for Row<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, d: D) -> Result<(), D::Error> {
        d.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Row<'_> {
    type Value = ();
    or_null!("an object with the numbers of a vector");
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(name) = map.next_key::<std::borrow::Cow<'de, str>>()? {
            match name.as_ref() {
                "embeddings" => map.next_value_seed(Row(self.0))?,
                "values" => map.next_value_seed(Numbers(&mut self.0.scratch))?,
                "statistics" => {
                    let statistics: Option<Statistics> = map.next_value()?;
                    if let Some(tokens) = statistics.and_then(|s| s.token_count.0) {
                        let sum = self.0.tokens.unwrap_or(0).saturating_add(tokens);
                        self.0.tokens = Some(sum);
                    }
                }
                _ => _ = map.next_value::<IgnoredAny>()?,
            }
        }
        Ok(())
    }
}

#[derive(Default, serde::Deserialize)]
#[serde(default)]
struct Statistics {
    token_count: Count,
}

/// Numbers appended to a buffer.
struct Numbers<'a>(&'a mut Vec<f32>);

impl<'de> DeserializeSeed<'de> for Numbers<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, d: D) -> Result<(), D::Error> {
        d.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Numbers<'_> {
    type Value = ();
    or_null!("a list of numbers");
    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while let Some(number) = list.next_element()? {
            self.0.push(number);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderMap;
    use serde_json::json;

    fn read(body: &Value, inputs: usize) -> Result<Embeddings> {
        let head = Head {
            status: 200,
            headers: HeaderMap::new(),
        };
        decode(&head, body.to_string().as_bytes(), inputs)
    }

    #[test]
    fn every_form_is_read_into_one_flat_buffer() {
        for body in [
            json!({"embeddings": [{"values": [1.0, 2.5]}, {"values": [-3, 4e-1], "shape": [2]}]}),
            json!({"predictions": [{"embeddings": {"values": [1.0, 2.5]}}, {"embeddings": {"values": [-3, 0.4]}}]}),
        ] {
            let vectors = read(&body, 2).unwrap();
            assert_eq!(vectors.as_flat(), [1.0, 2.5, -3.0, 0.4], "{body}");
            assert_eq!(vectors.usage, None);
        }
        let vectors = read(&json!({"embedding": {"values": [1.0]}}), 1).unwrap();
        assert_eq!(vectors.as_flat(), [1.0]);
    }

    #[test]
    fn tokens_are_those_of_the_answer_or_the_sum_of_the_vectors_own() {
        let tokens = |body: &Value| read(body, 1).unwrap().usage.unwrap().input_tokens;
        let one = |count: Value| json!({"embeddings": {"values": [1.0], "statistics": {"token_count": count}}});
        assert_eq!(tokens(&json!({"predictions": [one(json!(4.0))]})), Some(4));
        let both =
            json!({"predictions": [one(json!(4))], "usageMetadata": {"promptTokenCount": 7}});
        assert_eq!(tokens(&both), Some(7));
    }

    #[test]
    fn h05_what_contradicts_the_request_names_its_item() {
        for (body, item) in [
            (
                json!({"embeddings": [{"values": [1.0]}, {"values": [1.0, 2.0]}]}),
                Some(1),
            ),
            (
                json!({"embeddings": [{"values": [1.0]}, {"values": null}]}),
                Some(1),
            ),
            (json!({"embeddings": [{"values": [1.0]}, null]}), Some(1)),
            (json!({"embeddings": [{"values": [1.0]}]}), Some(1)),
            (
                json!({"embeddings": [{"values": [1.0]}, {"values": [1.0]}, {"values": [1.0]}]}),
                Some(2),
            ),
            (json!({"embedding": {}}), Some(0)),
            (json!({"embeddings": {"values": [1.0]}}), None),
            (json!({"embeddings": [{"values": ["1"]}]}), Some(0)),
            (
                json!({"embeddings": [{"values": [1.0]}, {"values": ["NaN"]}]}),
                Some(1),
            ),
            (json!([]), None),
        ] {
            let error = read(&body, 2).unwrap_err();
            assert_eq!(error.kind(), Kind::InvalidResponse, "{body}");
            assert_eq!(error.item(), item, "{body}: {error}");
        }
    }
}
