use antfly_framework::generate::{FinishReason, Generation};
use antfly_framework::provider::Head;
use antfly_framework::{Kind, Result};
use http::{HeaderMap, HeaderValue};

use super::decode;

fn head(content_type: &'static str) -> Head {
    let mut headers = HeaderMap::new();
    headers.insert("content-type", HeaderValue::from_static(content_type));
    Head {
        status: 200,
        headers,
    }
}

fn read(body: &str) -> Result<Generation> {
    decode(&head("application/json"), body.as_bytes(), None)
}

#[test]
fn the_specified_answer_is_read() {
    let g = read(include_str!("fixtures/chat.json")).unwrap();
    assert_eq!(
        (g.text.as_str(), g.finish_reason),
        ("Hello!", Some(FinishReason::Stop))
    );
    assert_eq!(
        (g.id.as_deref(), g.model.as_deref()),
        (Some("chatcmpl-B9MBs8Cj"), Some("gpt-4.1-2025-04-14"))
    );
    let usage = g.usage.unwrap();
    assert_eq!(
        (usage.input_tokens, usage.output_tokens, usage.total_tokens),
        (Some(19), Some(10), Some(29))
    );
    assert_eq!(
        (usage.cached_input_tokens, usage.reasoning_tokens),
        (Some(3), Some(4))
    );
    assert_eq!((g.reasoning, g.tool_calls.len(), g.raw), (None, 0, None));
}

#[test]
fn tool_calls_come_in_their_order_beside_no_text() {
    let g = read(include_str!("fixtures/chat_tools.json")).unwrap();
    assert_eq!(
        (g.text.as_str(), g.finish_reason),
        ("", Some(FinishReason::ToolCalls))
    );
    let names: Vec<_> = g
        .tool_calls
        .iter()
        .map(|c| (c.id.as_str(), c.name.as_str()))
        .collect();
    assert_eq!(names, [("call_1", "weather"), ("call_2", "time")]);
    assert_eq!(g.tool_calls[0].arguments, r#"{"place": "Bern"}"#);
}

#[test]
fn the_form_before_tools_is_a_call_as_well() {
    let g = read(r#"{"choices":[{"message":{"content":null,"function_call":{"name":"f","arguments":"{}"}},"finish_reason":"function_call"}]}"#).unwrap();
    assert_eq!(
        (g.tool_calls[0].name.as_str(), g.finish_reason),
        ("f", Some(FinishReason::ToolCalls))
    );
}

#[test]
fn c08_choices_that_are_null_are_an_invalid_answer() {
    for body in [r#"{"id":"gen-1","choices":null}"#, r#"{"id":"gen-1"}"#] {
        let e = read(body).unwrap_err();
        assert_eq!(
            (e.kind(), e.is_retryable(), e.request_id()),
            (Kind::InvalidResponse, false, Some("gen-1"))
        );
    }
    let e = read(r#"{"id":"gen-1","choices":null,"error":{"message":"m","code":"server_error"}}"#)
        .unwrap_err();
    assert_eq!((e.kind(), e.message()), (Kind::Server, "m"));
}

#[test]
fn c12_no_choices_name_the_generation_and_are_not_retried() {
    let e = read(r#"{"choices":[],"id":"gen-2"}"#).unwrap_err();
    assert_eq!((e.kind(), e.is_retryable()), (Kind::InvalidResponse, false));
    assert!(e.message().contains("gen-2"));
    let told = decode(
        &head("application/json"),
        br#"{"choices":[],"id":"gen-2"}"#,
        Some("req-1".to_owned()),
    );
    assert_eq!(told.unwrap_err().request_id(), Some("req-1"));
}

#[test]
fn e06_an_error_inside_a_success_is_the_error_it_is() {
    let e = read(r#"{"error":{"code":429,"message":"slow"},"user_id":"u"}"#).unwrap_err();
    assert_eq!((e.kind(), e.is_retryable()), (Kind::RateLimited, true));
    let e = read(
        r#"{"choices":[{"error":{"code":502,"message":"m"},"finish_reason":"error","message":{"content":""}}]}"#,
    );
    assert_eq!(e.unwrap_err().kind(), Kind::Server);
    let e = read(r#"{"choices":[{"finish_reason":"error","message":{"content":"half"}}]}"#);
    assert_eq!(e.unwrap_err().kind(), Kind::Server);
    let e = read(r#"{"object":"error","message":"m","type":"BadRequestError","code":400}"#)
        .unwrap_err();
    assert_eq!((e.kind(), e.message()), (Kind::InvalidRequest, "m"));
    let e = read(r#"[{"error":{"code":503,"message":"m","status":"UNAVAILABLE"}}]"#).unwrap_err();
    assert_eq!(e.kind(), Kind::Overloaded);
}

#[test]
fn e01_a_page_is_an_invalid_answer_whatever_its_header_says() {
    for content_type in ["text/html", "application/json"] {
        let e = decode(
            &head(content_type),
            b"<html><body>portal</body></html>",
            None,
        )
        .unwrap_err();
        assert_eq!((e.kind(), e.status()), (Kind::InvalidResponse, Some(200)));
        assert!(
            e.message().contains(content_type) && e.message().contains("<html>"),
            "{e}"
        );
    }
}

#[test]
fn content_that_is_no_text_is_an_error_and_no_silence() {
    for content in ["5", "-1", "1.5", "true", "[5]", r#"["a",[1]]"#] {
        let body = format!(
            r#"{{"choices":[{{"message":{{"content":{content}}},"finish_reason":"stop"}}]}}"#
        );
        let e = read(&body).unwrap_err();
        assert_eq!(e.kind(), Kind::InvalidResponse, "{content}");
        assert!(e.message().contains("what is said") || e.message().contains("a part"), "{e}");
    }
    // Reasoning is beside the answer: one of another form costs nothing.
    let body = r#"{"choices":[{"message":{"content":"a","reasoning":5,"reasoning_content":"hm"}}]}"#;
    let g = read(body).unwrap();
    assert_eq!((g.text.as_str(), g.reasoning.as_deref()), ("a", Some("hm")));
}

#[test]
fn content_may_be_null_a_list_or_missing() {
    for (content, text) in [
        (r#""a""#, "a"),
        ("null", ""),
        (
            r#"[{"type":"text","text":"a"},{"type":"text","text":"b"},{"type":"image_url","image_url":{}}]"#,
            "ab",
        ),
        (r#"["a","b"]"#, "ab"),
        ("[]", ""),
    ] {
        let body = format!(
            r#"{{"choices":[{{"message":{{"content":{content}}},"finish_reason":"stop"}}]}}"#
        );
        assert_eq!(read(&body).unwrap().text, text, "{content}");
    }
    assert_eq!(
        read(r#"{"choices":[{"message":{}}]}"#)
            .unwrap()
            .finish_reason,
        None
    );
    assert_eq!(
        read(r#"{"choices":[{}]}"#).unwrap_err().kind(),
        Kind::InvalidResponse
    );
}

#[test]
fn a_refusal_is_blocked_content_and_a_filter_is_an_answer() {
    let e = read(
        r#"{"choices":[{"message":{"content":null,"refusal":"I can't."},"finish_reason":"stop"}]}"#,
    )
    .unwrap_err();
    assert_eq!((e.kind(), e.is_retryable()), (Kind::ContentBlocked, false));
    for message in [r#""message":{"content":null},"#, ""] {
        let body = format!(r#"{{"choices":[{{{message}"finish_reason":"content_filter"}}]}}"#);
        let g = read(&body).unwrap();
        assert_eq!(
            (g.text.as_str(), g.finish_reason),
            ("", Some(FinishReason::ContentFilter))
        );
    }
}

#[test]
fn reasoning_is_found_under_either_name() {
    for name in ["reasoning_content", "reasoning"] {
        let body = format!(r#"{{"choices":[{{"message":{{"content":"a","{name}":"hm"}}}}]}}"#);
        assert_eq!(read(&body).unwrap().reasoning.as_deref(), Some("hm"));
    }
}

#[test]
fn usage_that_was_not_sent_is_absent() {
    let with = |usage: &str| {
        read(&format!(
            r#"{{"choices":[{{"message":{{"content":"a"}}}}],"usage":{usage}}}"#
        ))
        .unwrap()
        .usage
    };
    assert_eq!(with("null"), None);
    assert_eq!(with("{}"), None);
    let usage =
        with(r#"{"prompt_tokens":3,"completion_tokens":null,"prompt_tokens_details":null}"#)
            .unwrap();
    assert_eq!(
        (usage.input_tokens, usage.output_tokens, usage.total_tokens),
        (Some(3), None, None)
    );
}
