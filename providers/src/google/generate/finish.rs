//! Why an answer ended, and what a block is told as.

use antfly_framework::generate::{FinishReason, Usage};
use antfly_framework::{Error, Kind};

use super::chunk::{Feedback, Rating};
use crate::google::json::Items;

/// Google's word, normalised. A model that calls tools ends with `STOP` as well.
pub(super) fn reason(word: &str, called: bool) -> FinishReason {
    match word {
        "STOP" if called => FinishReason::ToolCalls,
        word if is_filter(word) => FinishReason::ContentFilter,
        word => FinishReason::from_word(word),
    }
}

/// Words of the filters, of what is too like a source, and of secrets and persons.
fn is_filter(word: &str) -> bool {
    matches!(
        word,
        "SAFETY"
            | "BLOCKLIST"
            | "PROHIBITED_CONTENT"
            | "SPII"
            | "RECITATION"
            | "MODEL_ARMOR"
            | "IMAGE_SAFETY"
            | "IMAGE_PROHIBITED_CONTENT"
            | "IMAGE_RECITATION"
    )
}

/// The prompt was refused: no candidate comes.
pub(super) fn prompt_blocked(feedback: Feedback, usage: Option<Usage>) -> Error {
    let reason = feedback.block_reason.0.unwrap_or_default();
    let said = feedback.block_reason_message.0;
    blocked("the prompt", &reason, said, &feedback.safety_ratings, usage)
}

/// The answer was cut before anything of it came.
pub(super) fn answer_blocked(
    reason: &str,
    said: Option<String>,
    ratings: &Items<Rating>,
    usage: Option<Usage>,
) -> Error {
    blocked("the answer", reason, said, ratings, usage)
}

fn blocked(
    what: &str,
    reason: &str,
    said: Option<String>,
    ratings: &Items<Rating>,
    usage: Option<Usage>,
) -> Error {
    let mut message = format!("{what} was blocked: {reason}");
    let categories: Vec<&str> = ratings
        .0
        .iter()
        .filter(|rating| rating.blocked == Some(true))
        .filter_map(|rating| rating.category.0.as_deref())
        .collect();
    if !categories.is_empty() {
        message += &format!(" ({})", categories.join(", "));
    }
    if let Some(said) = said {
        message += &format!("; {said}");
    }
    if let Some(counted) = usage.and_then(|usage| usage.total_tokens.or(usage.input_tokens)) {
        message += &format!("; {counted} tokens were counted");
    }
    Error::new(Kind::ContentBlocked, message).with_code(reason)
}
