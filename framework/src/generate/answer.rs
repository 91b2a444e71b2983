//! What a generator answers.

use super::request::ToolCall;

/// Why a generation ended, normalised; the provider's own word stays in [`Generation::raw_finish_reason`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FinishReason {
    /// The model was done, or met a stop sequence.
    Stop,
    /// The output cap or the context was reached.
    Length,
    /// The model wants tools called.
    ToolCalls,
    /// The provider's filter cut it.
    ContentFilter,
    /// Another word of the provider's, in lower case.
    Other(String),
}

impl FinishReason {
    /// The normalised word.
    pub fn as_str(&self) -> &str {
        match self {
            FinishReason::Stop => "stop",
            FinishReason::Length => "length",
            FinishReason::ToolCalls => "tool_calls",
            FinishReason::ContentFilter => "content_filter",
            FinishReason::Other(word) => word,
        }
    }

    /// OpenAI-style words, and their relatives at other providers, to the normalised form.
    pub fn from_word(word: &str) -> Self {
        match word.to_ascii_lowercase().as_str() {
            "stop" | "end_turn" | "stop_sequence" | "eos" | "complete" => FinishReason::Stop,
            "length" | "max_tokens" | "model_length" | "model_context_window_exceeded" => {
                FinishReason::Length
            }
            "tool_calls" | "tool_use" | "function_call" => FinishReason::ToolCalls,
            "content_filter" | "content_filtered" | "guardrail_intervened" | "safety" => {
                FinishReason::ContentFilter
            }
            other => FinishReason::Other(other.to_owned()),
        }
    }
}

/// What a provider counted, in tokens. A number that was not sent is absent, not 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Tokens read.
    pub input_tokens: Option<u64>,
    /// Tokens written.
    pub output_tokens: Option<u64>,
    /// Both, as the provider sums them.
    pub total_tokens: Option<u64>,
    /// Of the input, read from a cache.
    pub cached_input_tokens: Option<u64>,
    /// Of the output, spent on reasoning.
    pub reasoning_tokens: Option<u64>,
}

impl Usage {
    /// Adds two counts; absent only where both are.
    pub fn sum(a: Option<Usage>, b: Option<Usage>) -> Option<Usage> {
        fn add(a: Option<u64>, b: Option<u64>) -> Option<u64> {
            match (a, b) {
                (None, None) => None,
                (a, b) => Some(a.unwrap_or(0).saturating_add(b.unwrap_or(0))),
            }
        }
        match (a, b) {
            (None, None) => None,
            (a, b) => {
                let (a, b) = (a.unwrap_or_default(), b.unwrap_or_default());
                Some(Usage {
                    input_tokens: add(a.input_tokens, b.input_tokens),
                    output_tokens: add(a.output_tokens, b.output_tokens),
                    total_tokens: add(a.total_tokens, b.total_tokens),
                    cached_input_tokens: add(a.cached_input_tokens, b.cached_input_tokens),
                    reasoning_tokens: add(a.reasoning_tokens, b.reasoning_tokens),
                })
            }
        }
    }
}

/// A whole answer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Generation {
    /// The text; empty when the model only calls tools.
    pub text: String,
    /// Reasoning text, where the provider shows it.
    pub reasoning: Option<String>,
    /// The tool calls, in order.
    pub tool_calls: Vec<ToolCall>,
    /// Why it ended; absent when the provider didn't say.
    pub finish_reason: Option<FinishReason>,
    /// The provider's own word for it.
    pub raw_finish_reason: Option<String>,
    /// What the provider counted; absent when it didn't say.
    pub usage: Option<Usage>,
    /// The provider's id of the request.
    pub request_id: Option<String>,
    /// The id inside the answer.
    pub id: Option<String>,
    /// The model that answered, as it names itself.
    pub model: Option<String>,
    /// The answer as the provider sent it, when [`crate::CallOptions::raw`] asked for it (plain calls only).
    pub raw: Option<serde_json::Value>,
}
