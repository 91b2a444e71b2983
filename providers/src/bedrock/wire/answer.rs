//! Converse's plain answer.

use antfly_framework::generate::{FinishReason, Generation, ToolCall, Usage};
use antfly_framework::provider::Head;
use antfly_framework::{Error, Kind, Result};
use serde_json::Value;

use super::unreadable;

/// Reads an answer. What it holds besides is ignored; what it leaves out is absent.
pub(in crate::bedrock) fn decode(
    head: &Head,
    body: &[u8],
    request_id: Option<String>,
) -> Result<Generation> {
    let mut answer: Value = serde_json::from_slice(body).map_err(|e| unreadable(head, body, e))?;
    let raw_finish_reason = answer
        .get("stopReason")
        .and_then(Value::as_str)
        .map(str::to_owned);
    let blocks = match answer
        .pointer_mut("/output/message/content")
        .map(Value::take)
    {
        Some(Value::Array(blocks)) => blocks,
        // Seen when a guardrail has taken everything away.
        None | Some(Value::Null)
            if raw_finish_reason.is_some() && answer.get("output").is_some() =>
        {
            Vec::new()
        }
        _ => return Err(unreadable(head, body, "there is no message in it")),
    };
    let mut generation = Generation {
        finish_reason: raw_finish_reason.as_deref().map(FinishReason::from_word),
        raw_finish_reason,
        usage: answer.get("usage").and_then(usage),
        request_id,
        ..Generation::default()
    };
    for (at, block) in blocks.iter().enumerate() {
        add(&mut generation, at, block)?;
    }
    Ok(generation)
}

fn add(generation: &mut Generation, at: usize, block: &Value) -> Result<()> {
    if let Some(text) = block.get("text").and_then(Value::as_str) {
        generation.text.push_str(text);
    } else if let Some(call) = block.get("toolUse").filter(|call| !call.is_null()) {
        let text = |field: &str| {
            call.get(field)
                .and_then(Value::as_str)
                .map(str::to_owned)
                .ok_or_else(|| {
                    Error::new(
                        Kind::InvalidResponse,
                        format!("content[{at}].toolUse has no {field}"),
                    )
                })
        };
        generation.tool_calls.push(ToolCall {
            id: text("toolUseId")?,
            name: text("name")?,
            arguments: call
                .get("input")
                .filter(|input| !input.is_null())
                .map_or_else(|| "{}".to_owned(), Value::to_string),
        });
    } else if let Some(text) = block
        .pointer("/reasoningContent/reasoningText/text")
        .and_then(Value::as_str)
    {
        generation.reasoning.get_or_insert_default().push_str(text);
    } else if let Some(pieces) = block
        .pointer("/citationsContent/content")
        .and_then(Value::as_array)
    {
        for text in pieces
            .iter()
            .filter_map(|piece| piece.get("text")?.as_str())
        {
            generation.text.push_str(text);
        }
    }
    Ok(())
}

fn usage(value: &Value) -> Option<Usage> {
    let count = |name: &str| value.get(name).and_then(Value::as_u64);
    let usage = Usage {
        input_tokens: count("inputTokens"),
        output_tokens: count("outputTokens"),
        total_tokens: count("totalTokens"),
        cached_input_tokens: count("cacheReadInputTokens"),
        reasoning_tokens: None,
    };
    (usage != Usage::default()).then_some(usage)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(body: &str) -> Result<Generation> {
        let head = Head {
            status: 200,
            headers: http::HeaderMap::new(),
        };
        decode(&head, body.as_bytes(), None)
    }

    #[test]
    fn text_tools_reasoning_and_usage_are_read_and_the_rest_is_ignored() {
        let g = read(
            r#"{"output": {"message": {"role": "assistant", "content": [
                {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "s"}}},
                {"text": "Hel"}, {"novelty": {"x": 1}}, {"text": "lo"},
                {"toolUse": {"toolUseId": "t1", "name": "f", "input": {"a": [1, null]}}},
                {"toolUse": {"toolUseId": "t2", "name": "g"}},
                {"text": null, "toolUse": null}, {"toolUse": {"toolUseId": "t3", "name": "h", "input": null}}]}},
              "stopReason": "tool_use", "metrics": {"latencyMs": 1},
              "usage": {"inputTokens": 9, "outputTokens": 2, "totalTokens": 11, "cacheReadInputTokens": 4}}"#,
        )
        .unwrap();
        assert_eq!(
            (g.text.as_str(), g.reasoning.as_deref()),
            ("Hello", Some("hm"))
        );
        assert_eq!(g.tool_calls[0].arguments, r#"{"a":[1,null]}"#);
        assert_eq!(g.tool_calls[1].arguments, "{}");
        assert_eq!(
            (g.tool_calls[2].arguments.as_str(), g.tool_calls.len()),
            ("{}", 3)
        );
        assert_eq!(g.finish_reason, Some(FinishReason::ToolCalls));
        let usage = g.usage.unwrap();
        assert_eq!(
            (usage.total_tokens, usage.cached_input_tokens),
            (Some(11), Some(4))
        );
    }

    #[test]
    fn every_stop_reason_is_normalised_and_stays_available() {
        for (word, reason) in [
            ("end_turn", FinishReason::Stop),
            ("stop_sequence", FinishReason::Stop),
            ("max_tokens", FinishReason::Length),
            ("model_context_window_exceeded", FinishReason::Length),
            ("tool_use", FinishReason::ToolCalls),
            ("guardrail_intervened", FinishReason::ContentFilter),
            ("content_filtered", FinishReason::ContentFilter),
            (
                "Malformed_Tool_Use",
                FinishReason::Other("malformed_tool_use".to_owned()),
            ),
        ] {
            let body = format!(
                r#"{{"output": {{"message": {{"content": []}}}}, "stopReason": "{word}"}}"#
            );
            let g = read(&body).unwrap();
            assert_eq!(
                (g.finish_reason, g.raw_finish_reason.as_deref()),
                (Some(reason), Some(word))
            );
            assert_eq!(g.usage, None, "not sent is absent");
        }
    }

    #[test]
    fn c12_an_answer_without_a_message_is_an_error() {
        for body in [
            "{}",
            "[]",
            "<html>",
            r#"{"output": {"message": {"content": "x"}}, "stopReason": "end_turn"}"#,
        ] {
            let e = read(body).unwrap_err();
            assert_eq!(
                (e.kind(), e.is_retryable()),
                (Kind::InvalidResponse, false),
                "{body}"
            );
        }
        let e = read(r#"{"output": {"message": {"content": [{"toolUse": {"name": "f"}}]}}}"#)
            .unwrap_err();
        assert!(
            e.message().contains("content[0].toolUse has no toolUseId"),
            "{e}"
        );
    }
}
