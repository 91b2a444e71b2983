//! The objects of an answer, whole or one chunk of a stream: the same types.

use antfly_framework::generate::Usage;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::google::json::{Count, Items, Word};

/// An answer, or one chunk of it.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Chunk {
    pub(super) candidates: Items<Candidate>,
    pub(super) prompt_feedback: Option<Feedback>,
    pub(super) usage_metadata: Option<WireUsage>,
    pub(super) model_version: Word,
    pub(super) response_id: Word,
    pub(super) error: Value,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Candidate {
    pub(super) index: Count,
    pub(super) content: Option<Content>,
    pub(super) finish_reason: Word,
    pub(super) finish_message: Word,
    pub(super) safety_ratings: Items<Rating>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Content {
    pub(super) parts: Items<Part>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Part {
    pub(super) text: Option<String>,
    /// Whether the text is the model's reasoning.
    pub(super) thought: Option<bool>,
    pub(super) thought_signature: Word,
    pub(super) function_call: Option<FunctionCall>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct FunctionCall {
    pub(super) id: Word,
    pub(super) name: Word,
    pub(super) args: Option<Map<String, Value>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Feedback {
    pub(super) block_reason: Word,
    pub(super) block_reason_message: Word,
    pub(super) safety_ratings: Items<Rating>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Rating {
    pub(super) category: Word,
    pub(super) blocked: Option<bool>,
}

/// What was counted. Every field may be missing.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct WireUsage {
    pub(crate) prompt_token_count: Count,
    candidates_token_count: Count,
    total_token_count: Count,
    cached_content_token_count: Count,
    thoughts_token_count: Count,
    tool_use_prompt_token_count: Count,
}

impl Chunk {
    /// Reads an answer or a chunk.
    pub(super) fn parse(body: &[u8]) -> serde_json::Result<Self> {
        serde_json::from_slice(body)
    }
}

impl WireUsage {
    /// The counts; absent when none was sent. Google counts thoughts beside the candidates: what was written is both.
    pub(crate) fn into_usage(self) -> Option<Usage> {
        let sum = |a: Count, b: Count| match (a.0, b.0) {
            (None, None) => None,
            (a, b) => Some(a.unwrap_or(0).saturating_add(b.unwrap_or(0))),
        };
        let usage = Usage {
            input_tokens: sum(self.prompt_token_count, self.tool_use_prompt_token_count),
            output_tokens: sum(self.candidates_token_count, self.thoughts_token_count),
            total_tokens: self.total_token_count.0,
            cached_input_tokens: self.cached_content_token_count.0,
            reasoning_tokens: self.thoughts_token_count.0,
        };
        (usage != Usage::default()).then_some(usage)
    }
}
