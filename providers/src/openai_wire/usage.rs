//! What the provider counted.

use antfly_framework::generate::Usage;
use serde::Deserialize;

use super::lenient::Count;

/// The `usage` object. Every field may be missing or null.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct WireUsage {
    prompt_tokens: Count,
    completion_tokens: Count,
    total_tokens: Count,
    prompt_tokens_details: Option<InputDetails>,
    completion_tokens_details: Option<OutputDetails>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct InputDetails {
    cached_tokens: Count,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct OutputDetails {
    reasoning_tokens: Count,
}

impl WireUsage {
    /// The counts; absent when none was sent.
    pub(super) fn into_usage(self) -> Option<Usage> {
        let usage = Usage {
            input_tokens: self.prompt_tokens.0,
            output_tokens: self.completion_tokens.0,
            total_tokens: self.total_tokens.0,
            cached_input_tokens: self.prompt_tokens_details.and_then(|d| d.cached_tokens.0),
            reasoning_tokens: self
                .completion_tokens_details
                .and_then(|d| d.reasoning_tokens.0),
        };
        (usage != Usage::default()).then_some(usage)
    }
}
