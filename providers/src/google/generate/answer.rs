//! A plain answer.

use antfly_framework::generate::{FinishReason, Generation, ToolCall};
use antfly_framework::provider::Head;
use antfly_framework::{Error, Kind, Result};

use super::chunk::{Candidate, Chunk, Feedback, FunctionCall, WireUsage};
use super::{call_id, finish};
use crate::google::error::{in_band, unreadable};
use crate::refusal::is_error;

/// Reads an answer. `request_id` is the one in the head.
pub(crate) fn decode(head: &Head, body: &[u8], request_id: Option<String>) -> Result<Generation> {
    let answer = Chunk::parse(body).map_err(|problem| unreadable(head, body, problem))?;
    let Chunk {
        candidates,
        prompt_feedback,
        usage_metadata,
        model_version,
        response_id,
        error,
    } = answer;
    let id = response_id.0;
    let named = |error: Error| match request_id.clone().or_else(|| id.clone()) {
        Some(id) => error.with_request_id(id),
        None => error,
    };
    if is_error(&error) {
        return Err(named(in_band(head, &error)));
    }
    let usage = usage_metadata.and_then(WireUsage::into_usage);
    let candidate = first(candidates.0);
    if let Some(feedback) = prompt_feedback
        && is_block(candidate.as_ref(), &feedback)
    {
        return Err(named(finish::prompt_blocked(feedback, usage)));
    }
    let Some(candidate) = candidate.filter(|candidate| !says_nothing(candidate)) else {
        return Err(named(nothing(id.as_deref())));
    };
    let mut generation = Generation {
        usage,
        model: model_version.0,
        raw_finish_reason: candidate.finish_reason.0,
        ..Generation::default()
    };
    let parts = candidate.content.map(|c| c.parts.0).unwrap_or_default();
    for part in parts {
        if let Some(call) = part.function_call {
            let number = generation.tool_calls.len();
            let signature = part.thought_signature.0;
            let call = tool_call(call, signature.as_deref(), id.as_deref(), number);
            generation.tool_calls.push(call);
        }
        match part.text {
            Some(text) if part.thought == Some(true) => {
                generation.reasoning.get_or_insert_default().push_str(&text);
            }
            Some(text) => generation.text.push_str(&text),
            None => {}
        }
    }
    generation.reasoning = generation.reasoning.filter(|text| !text.is_empty());
    let called = !generation.tool_calls.is_empty();
    if let Some(word) = &generation.raw_finish_reason {
        let reason = finish::reason(word, called);
        if reason == FinishReason::ContentFilter && generation.text.is_empty() && !called {
            let said = candidate.finish_message.0;
            let ratings = &candidate.safety_ratings;
            return Err(named(finish::answer_blocked(word, said, ratings, usage)));
        }
        generation.finish_reason = Some(reason);
    }
    generation.id = id;
    generation.request_id = request_id;
    Ok(generation)
}

/// More than one candidate is never asked for; a second one must not be mixed into the first.
pub(super) fn first(candidates: Vec<Candidate>) -> Option<Candidate> {
    candidates
        .into_iter()
        .find(|candidate| candidate.index.0.unwrap_or(0) == 0)
}

/// Whether the prompt was refused: there is a reason for it, and no answer.
pub(super) fn is_block(candidate: Option<&Candidate>, feedback: &Feedback) -> bool {
    feedback.block_reason.0.is_some() && candidate.is_none_or(says_nothing)
}

/// A candidate that is one in name only.
fn says_nothing(candidate: &Candidate) -> bool {
    let parts = candidate.content.as_ref().map(|content| &content.parts.0);
    parts.is_none_or(Vec::is_empty) && candidate.finish_reason.0.is_none()
}

/// One call; `number` is its place among the answer's calls.
pub(super) fn tool_call(
    call: FunctionCall,
    signature: Option<&str>,
    answer: Option<&str>,
    number: usize,
) -> ToolCall {
    let args = call.args.unwrap_or_default();
    ToolCall {
        id: call_id::make(call.id.0.as_deref(), signature, answer, number),
        name: call.name.0.unwrap_or_default(),
        arguments: serde_json::Value::Object(args).to_string(),
    }
}

/// An answer without a candidate and without a reason.
pub(super) fn nothing(id: Option<&str>) -> Error {
    let which = id.unwrap_or("none");
    Error::new(
        Kind::InvalidResponse,
        format!("the answer has no candidates and no block reason (its id: {which})"),
    )
}
