//! The objects of a chat answer, whole (`message`) or in pieces (`delta`): one set of types, since servers mix them.

use serde::Deserialize;
use serde_json::Value;

use super::lenient::{Count, Items, JsonText, Text, Word};
use super::usage::WireUsage;

/// An answer, or one chunk of it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Chunk {
    pub(super) id: Word,
    pub(super) model: Word,
    /// `error` names an error object of vLLM's; its other fields are then the error.
    pub(super) object: Word,
    /// `ping` and `error` come here from gateways that speak another wire behind.
    pub(super) r#type: Word,
    pub(super) choices: Items<Choice>,
    pub(super) usage: Option<WireUsage>,
    pub(super) error: Value,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Choice {
    pub(super) index: Count,
    pub(super) message: Option<Turn>,
    pub(super) delta: Option<Turn>,
    pub(super) finish_reason: Word,
    pub(super) error: Value,
}

/// What was said, or a piece of it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Turn {
    pub(super) content: Text,
    pub(super) refusal: Word,
    /// DeepSeek and vLLM.
    pub(super) reasoning_content: Value,
    /// OpenRouter and others.
    pub(super) reasoning: Value,
    pub(super) tool_calls: Items<Call>,
    /// The form before tools; servers of that age still send it.
    pub(super) function_call: Option<Function>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Call {
    pub(super) index: Count,
    pub(super) id: Word,
    pub(super) function: Option<Function>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Function {
    pub(super) name: Word,
    pub(super) arguments: JsonText,
}

impl Chunk {
    /// Reads one. A list is refused: derived parsing would take it for the fields in their order.
    pub(super) fn parse(body: &[u8]) -> serde_json::Result<Self> {
        if body.trim_ascii_start().starts_with(b"[") {
            return Err(serde::de::Error::custom("a list instead of an object"));
        }
        serde_json::from_slice(body)
    }
}

impl Turn {
    /// The reasoning, whichever field holds it.
    pub(super) fn take_reasoning(&mut self) -> Option<String> {
        // It is beside the answer: one of another form reads as none.
        [&mut self.reasoning_content, &mut self.reasoning]
            .into_iter()
            .filter_map(|field| serde_json::from_value::<Text>(field.take()).ok())
            .map(|text| text.0)
            .find(|text| !text.is_empty())
    }

    /// The calls, old form included.
    pub(super) fn take_calls(&mut self) -> Vec<Call> {
        let mut calls = std::mem::take(&mut self.tool_calls).0;
        if calls.is_empty()
            && let Some(function) = self.function_call.take()
        {
            calls.push(Call {
                index: Count(Some(0)),
                id: Word::default(),
                function: Some(function),
            });
        }
        calls
    }
}
