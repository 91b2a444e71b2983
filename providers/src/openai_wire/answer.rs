//! A plain chat answer.

use antfly_framework::generate::{FinishReason, Generation, ToolCall};
use antfly_framework::provider::Head;
use antfly_framework::{Error, Kind, Result};

use super::chunk::{Call, Chunk, Turn};
use super::error::{in_band, unreadable};
use super::usage::WireUsage;
use crate::refusal::clip;
use crate::refusal::is_error;

/// Reads an answer. `request_id` is the one in the head.
pub(crate) fn decode(head: &Head, body: &[u8], request_id: Option<String>) -> Result<Generation> {
    let answer = Chunk::parse(body).map_err(|problem| unreadable(head, body, problem))?;
    let Chunk {
        id,
        model,
        choices,
        usage,
        error,
        object,
        ..
    } = answer;
    let id = id.get();
    let named = |error: Error| match request_id.clone().or_else(|| id.clone()) {
        Some(id) => error.with_request_id(id),
        None => error,
    };
    if is_error(&error) {
        return Err(named(in_band(head, &error)));
    }
    if object.0.as_deref() == Some("error") {
        return Err(named(unspoken(head, body)));
    }
    let Some(mut choice) = choices.0.into_iter().next() else {
        let which = id.as_deref().unwrap_or("none");
        return Err(named(Error::new(
            Kind::InvalidResponse,
            format!("the answer has no choices (its id: {which})"),
        )));
    };
    if is_error(&choice.error) {
        return Err(named(in_band(head, &choice.error)));
    }
    let raw_finish_reason = choice.finish_reason.get();
    let finish_reason = raw_finish_reason.as_deref().map(FinishReason::from_word);
    if raw_finish_reason.as_deref() == Some("error") {
        return Err(named(failed()));
    }
    let turn = choice.message.take().or_else(|| choice.delta.take());
    let mut turn = match turn {
        Some(turn) => turn,
        None if finish_reason == Some(FinishReason::ContentFilter) => Turn::default(),
        None => {
            return Err(named(Error::new(
                Kind::InvalidResponse,
                "choices[0] has no message",
            )));
        }
    };
    let tool_calls: Vec<ToolCall> = turn.take_calls().into_iter().map(tool_call).collect();
    let reasoning = turn.take_reasoning();
    let text = turn.content.0;
    if let Some(refusal) = turn.refusal.get()
        && text.is_empty()
        && tool_calls.is_empty()
    {
        return Err(named(refused(&refusal)));
    }
    Ok(Generation {
        text,
        reasoning,
        tool_calls,
        finish_reason,
        raw_finish_reason,
        usage: usage.and_then(WireUsage::into_usage),
        request_id,
        id,
        model: model.get(),
        ..Generation::default()
    })
}

fn tool_call(call: Call) -> ToolCall {
    let function = call.function.unwrap_or_default();
    ToolCall {
        id: call.id.get().unwrap_or_default(),
        name: function.name.get().unwrap_or_default(),
        arguments: function.arguments.0,
    }
}

/// An error object without a wrapper.
pub(super) fn unspoken(head: &Head, body: &[u8]) -> Error {
    match serde_json::from_slice(body) {
        Ok(value) => in_band(head, &value),
        Err(problem) => unreadable(head, body, problem),
    }
}

/// A finish reason that is none.
pub(super) fn failed() -> Error {
    Error::new(
        Kind::Server,
        "the provider broke the answer off (finish_reason error) and did not say why",
    )
}

/// A model's refusal.
pub(super) fn refused(text: &str) -> Error {
    Error::new(
        Kind::ContentBlocked,
        format!("the model refused: {}", clip(text, 2000)),
    )
}
