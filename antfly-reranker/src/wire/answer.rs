//! The answer: `data[]` with index and score, or an older server's `scores` in input order.

use antfly_framework::generate::Usage;
use antfly_framework::provider::Head;
use antfly_framework::rerank::{Ranked, Ranking};
use antfly_framework::{Error, Kind, Result};
use serde::Deserialize;
use serde_json::Value;

use crate::error;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Answer {
    data: Option<Vec<Item>>,
    scores: Option<Vec<Value>>,
    usage: Value,
    error: Value,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Item {
    index: Value,
    score: Value,
}

/// Reads an answer. The framework checks indices and counts against the request.
pub(crate) fn decode(head: &Head, body: &[u8]) -> Result<Ranking> {
    let answer = parse(body).map_err(|problem| error::unreadable(head, body, problem))?;
    if error::is_error(&answer.error) {
        return Err(error::in_band(&answer.error));
    }
    let results = match (answer.data, answer.scores) {
        (Some(data), _) => data
            .iter()
            .enumerate()
            .map(|(at, item)| of_item(at, item))
            .collect::<Result<_>>()?,
        (None, Some(scores)) => scores
            .iter()
            .enumerate()
            .map(|(index, value)| {
                let score = score(value, || format!("scores[{index}]"), index)?;
                Ok(Ranked { index, score })
            })
            .collect::<Result<_>>()?,
        (None, None) => {
            return Err(Error::new(
                Kind::InvalidResponse,
                "the answer has neither data nor scores",
            ));
        }
    };
    Ok(Ranking {
        results,
        usage: usage(&answer.usage),
        request_id: None,
        // `top_n` is not on this wire: every document has a score.
        limited_by_provider: false,
    })
}

/// An object. A list is refused: derived parsing would take it for the fields in their order.
fn parse(body: &[u8]) -> serde_json::Result<Answer> {
    if body.trim_ascii_start().starts_with(b"[") {
        return Err(serde::de::Error::custom("a list instead of an object"));
    }
    serde_json::from_slice(body)
}

fn of_item(at: usize, item: &Item) -> Result<Ranked> {
    let index = item
        .index
        .as_u64()
        .and_then(|index| usize::try_from(index).ok())
        .ok_or_else(|| wrong(&format!("data[{at}].index"), &item.index, "an index", at))?;
    let score = score(&item.score, || format!("data[{at}].score"), index)?;
    Ok(Ranked { index, score })
}

/// A score is a number. A text that looks like one is as wrong as none: nobody knows what else that server gets wrong.
fn score(value: &Value, field: impl Fn() -> String, index: usize) -> Result<f64> {
    match value {
        Value::Number(number) => number.as_f64(),
        _ => None,
    }
    .ok_or_else(|| wrong(&field(), value, "a number", index))
}

fn wrong(field: &str, value: &Value, wanted: &str, index: usize) -> Error {
    let what = match value {
        Value::Null => "missing or null",
        Value::String(_) => "a string",
        Value::Number(_) => "a number out of range",
        _ => "of another type",
    };
    Error::new(
        Kind::InvalidResponse,
        format!("{field} (document {index}) is {what}, not {wanted}"),
    )
    .with_item(index)
}

fn usage(value: &Value) -> Option<Usage> {
    let count = |name: &str| value.get(name).and_then(Value::as_u64);
    let usage = Usage {
        input_tokens: count("prompt_tokens"),
        output_tokens: count("completion_tokens"),
        total_tokens: count("total_tokens"),
        ..Usage::default()
    };
    (usage != Usage::default()).then_some(usage)
}

#[cfg(test)]
#[path = "answer_tests.rs"]
mod tests;
