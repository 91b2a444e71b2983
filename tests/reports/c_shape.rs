//! C. The shape of answers and chunks: null, empty, missing, of another type.

use antfly_framework::testing::{Reply, Server};
use antfly_framework::{FinishReason, Kind, StreamEvent, ToolCall, Usage};
use serde_json::{Value, json};

use crate::support::{
    OPENAI_WIRE, ask, client, delta, every_split, finish, generator, read, says, texts, through,
};

fn usage() -> Usage {
    Usage {
        input_tokens: Some(3),
        output_tokens: Some(2),
        total_tokens: Some(5),
        ..Usage::default()
    }
}

fn counted(mut chunk: Value) -> Value {
    chunk["usage"] = json!({"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5});
    chunk
}

#[tokio::test]
async fn c01_a_chunk_that_only_counts_gives_usage_and_no_delta() {
    for chunk in [
        counted(json!({"choices": []})),
        counted(json!({"choices": null})),
        counted(json!({"object": "chat.completion.chunk"})),
    ] {
        let body = format!(
            "data: {}\n\ndata: {}\n\ndata: {chunk}\n\ndata: [DONE]\n\n",
            says("one"),
            finish("stop")
        );
        every_split(body.as_bytes(), |events, error| {
            assert!(error.is_none(), "{error:?}");
            assert_eq!(texts(events), ["one"]);
            let counts: Vec<_> = events
                .iter()
                .filter(|e| matches!(e, StreamEvent::Usage(_)))
                .collect();
            assert_eq!(counts, [&StreamEvent::Usage(usage())]);
        })
        .await;
    }
}

#[tokio::test]
async fn c01_usage_beside_a_choice_and_null_usage_are_read_as_well() {
    let last = counted(serde_json::from_str(&finish("stop")).unwrap());
    let mut first: Value = serde_json::from_str(&says("one")).unwrap();
    first["usage"] = Value::Null;
    let server = Server::always(Reply::sse([
        first.to_string(),
        last.to_string(),
        "[DONE]".to_owned(),
    ]));
    for provider in OPENAI_WIRE {
        let generator = generator(&client(), &server, through(provider));
        let stream = generator.stream(ask()).await.unwrap();
        let generation = stream.collect_generation().await.unwrap();
        assert_eq!(generation.text, "one", "{provider}");
        assert_eq!(generation.usage, Some(usage()), "{provider}");
    }
}

#[tokio::test]
async fn c02_a_first_chunk_without_choices_is_ignored() {
    let filter = json!({"choices": [], "prompt_filter_results": [{"prompt_index": 0, "content_filter_results": {}}]});
    let body = format!(
        "data: {filter}\n\ndata: {}\n\ndata: {}\n\ndata: [DONE]\n\n",
        says("one"),
        finish("stop")
    );
    every_split(body.as_bytes(), |events, error| {
        assert!(error.is_none(), "{error:?}");
        assert_eq!(texts(events), ["one"]);
    })
    .await;
}

#[tokio::test]
async fn c02_role_only_empty_and_null_deltas_yield_nothing() {
    let server = Server::always(Reply::sse([
        delta(json!({"role": "assistant"})),
        delta(json!({"content": ""})),
        delta(json!({"content": null, "tool_calls": null, "refusal": null})),
        delta(Value::Null),
        json!({"choices": [{"index": 0}]}).to_string(),
        says("one"),
        finish("stop"),
        "[DONE]".to_owned(),
    ]));
    for provider in OPENAI_WIRE {
        let (events, error) = read(&generator(&client(), &server, through(provider))).await;
        assert!(error.is_none(), "{provider}: {error:?}");
        assert_eq!(texts(&events), ["one"], "{provider}");
        assert!(
            events
                .iter()
                .all(|e| !matches!(e, StreamEvent::ToolCall(_) | StreamEvent::Reasoning(_)))
        );
    }
}

/// What becomes of these chunks, the same through each adapter.
async fn calls(chunks: Vec<Value>) -> Vec<ToolCall> {
    let mut events: Vec<String> = chunks
        .into_iter()
        .map(|calls| delta(json!({"tool_calls": calls})))
        .collect();
    events.extend([finish("tool_calls"), "[DONE]".to_owned()]);
    let server = Server::always(Reply::sse(events));
    let mut seen = Vec::new();
    for provider in OPENAI_WIRE {
        let generator = generator(&client(), &server, through(provider));
        let stream = generator.stream(ask()).await.unwrap();
        let generation = stream.collect_generation().await.unwrap();
        assert_eq!(generation.finish_reason, Some(FinishReason::ToolCalls));
        seen.push(generation.tool_calls);
    }
    assert!(seen.iter().all(|calls| *calls == seen[0]), "{seen:?}");
    seen.swap_remove(0)
}

fn call(id: &str, name: &str, arguments: &str) -> ToolCall {
    ToolCall {
        id: id.to_owned(),
        name: name.to_owned(),
        arguments: arguments.to_owned(),
    }
}

#[tokio::test]
async fn c06_a_tool_call_without_an_index_is_one_call() {
    let whole = json!([{"id": "t1", "function": {"name": "f", "arguments": "{\"a\":1}"}}]);
    assert_eq!(calls(vec![whole]).await, [call("t1", "f", "{\"a\":1}")]);
    let pieces = vec![
        json!([{"id": "t1", "function": {"name": "f", "arguments": "{\"a\""}}]),
        json!([{"function": {"arguments": ":1}"}}]),
    ];
    assert_eq!(calls(pieces).await, [call("t1", "f", "{\"a\":1}")]);
}

#[tokio::test]
async fn c06_several_calls_without_index_are_never_merged() {
    let expected = [call("t1", "f", "{\"a\":1}"), call("t2", "g", "{\"b\":2}")];
    let one = json!({"id": "t1", "function": {"name": "f", "arguments": "{\"a\":1}"}});
    let two = json!({"id": "t2", "function": {"name": "g", "arguments": "{\"b\":2}"}});
    assert_eq!(calls(vec![json!([one, two])]).await, expected);
    assert_eq!(calls(vec![json!([one]), json!([two])]).await, expected);
    // In pieces, told apart by the id.
    let pieces = vec![
        json!([{"id": "t1", "function": {"name": "f", "arguments": "{\"a\":"}}]),
        json!([{"id": "t2", "function": {"name": "g", "arguments": "{\"b\":"}}]),
        json!([{"id": "t1", "function": {"arguments": "1}"}}]),
        json!([{"id": "t2", "function": {"arguments": "2}"}}]),
    ];
    assert_eq!(calls(pieces).await, expected);
    // All with the same index, told apart by the id.
    let (mut a, mut b) = (one.clone(), two.clone());
    (a["index"], b["index"]) = (json!(0), json!(0));
    assert_eq!(calls(vec![json!([a]), json!([b])]).await, expected);
    // Without ids as well, told apart by the name.
    let bare = vec![
        json!([{"function": {"name": "f", "arguments": "{\"a\":1}"}}]),
        json!([{"function": {"name": "g", "arguments": "{\"b\":2}"}}]),
    ];
    assert_eq!(
        calls(bare).await,
        [call("", "f", "{\"a\":1}"), call("", "g", "{\"b\":2}")]
    );
}

#[tokio::test]
async fn c08_null_choices_are_an_invalid_response() {
    let server = Server::always(Reply::json(200, json!({"id": "gen-1", "choices": null})));
    let generator = generator(&client(), &server, json!({}));
    let error = generator.generate(ask()).await.unwrap_err();
    assert_eq!(error.kind(), Kind::InvalidResponse);
    assert_eq!(error.request_id(), Some("gen-1"));
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn c08_an_error_object_beside_them_is_the_one_reported() {
    for choices in [json!(null), json!([])] {
        let body = json!({
            "id": "gen-1",
            "choices": choices,
            "error": {"message": "the model is gone", "code": "model_not_found"},
        });
        let server = Server::always(Reply::json(200, body));
        let generator = generator(&client(), &server, json!({}));
        let error = generator.generate(ask()).await.unwrap_err();
        assert_eq!(error.kind(), Kind::NotFound);
        assert_eq!(error.code(), Some("model_not_found"));
        assert_eq!(error.message(), "the model is gone");
    }
}

#[tokio::test]
async fn c08_a_stream_of_null_choices_is_an_error_too() {
    let chunk = json!({"id": "gen-1", "choices": null}).to_string();
    let server = Server::start([Reply::sse([chunk, "[DONE]".to_owned()])]);
    let (events, error) = read(&generator(&client(), &server, json!({}))).await;
    assert!(events.is_empty());
    assert_eq!(error.unwrap().kind(), Kind::InvalidResponse);
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn c09_refused_content_is_told_as_such_and_not_retried() {
    let body = json!({"error": {"code": "content_filter", "message": "the prompt was blocked"}});
    for provider in OPENAI_WIRE {
        let server = Server::always(Reply::json(400, &body));
        let generator = generator(&client(), &server, through(provider));
        for error in [
            generator.generate(ask()).await.unwrap_err(),
            generator.stream(ask()).await.unwrap_err(),
        ] {
            assert_eq!(error.kind(), Kind::ContentBlocked, "{provider}");
            assert!(error.message().contains("the prompt was blocked"));
        }
        assert_eq!(server.requests().len(), 2, "{provider}");
    }
}

#[tokio::test]
async fn c09_an_answer_cut_by_the_filter_keeps_its_reason_and_usage() {
    let body =
        counted(json!({"id": "c1", "choices": [{"index": 0, "finish_reason": "content_filter"}]}));
    let server = Server::always(Reply::json(200, body));
    for provider in OPENAI_WIRE {
        let generation = generator(&client(), &server, through(provider))
            .generate(ask())
            .await
            .unwrap();
        assert_eq!(generation.finish_reason, Some(FinishReason::ContentFilter));
        assert_eq!(generation.usage, Some(usage()), "{provider}");
        assert_eq!(generation.text, "", "{provider}");
    }
}

#[tokio::test]
async fn c12_empty_choices_are_a_typed_error_with_the_id() {
    for (header, id) in [(None, "gen-7"), (Some("req-7"), "req-7")] {
        let mut reply = Reply::json(200, json!({"choices": [], "id": "gen-7"}));
        if let Some(value) = header {
            reply = reply.header("x-request-id", value);
        }
        let server = Server::always(reply);
        let error = generator(&client(), &server, json!({}))
            .generate(ask())
            .await
            .unwrap_err();
        assert_eq!(error.kind(), Kind::InvalidResponse);
        assert!(error.message().contains("gen-7"), "{error}");
        assert_eq!(error.request_id(), Some(id));
        assert!(!error.is_retryable());
        assert_eq!(server.requests().len(), 1);
    }
}

#[tokio::test]
async fn c13_all_calls_of_one_chunk_are_kept_in_order_beside_its_text() {
    let chunk = delta(json!({"content": "both", "tool_calls": [
        {"index": 0, "id": "t1", "function": {"name": "f", "arguments": "{}"}},
        {"index": 1, "id": "t2", "function": {"name": "g", "arguments": "{}"}},
    ]}));
    let body = format!(
        "data: {chunk}\n\ndata: {}\n\ndata: [DONE]\n\n",
        finish("tool_calls")
    );
    every_split(body.as_bytes(), |events, error| {
        assert!(error.is_none(), "{error:?}");
        assert_eq!(texts(events), ["both"]);
        let named: Vec<_> = events
            .iter()
            .filter_map(|e| match e {
                StreamEvent::ToolCall(c) => Some((c.index, c.id.as_deref(), c.name.as_deref())),
                _ => None,
            })
            .collect();
        assert_eq!(
            named,
            [(0, Some("t1"), Some("f")), (1, Some("t2"), Some("g"))]
        );
    })
    .await;
}

#[tokio::test]
async fn c13_a_plain_answer_keeps_all_its_calls_too() {
    let body = json!({"choices": [{"index": 0, "finish_reason": "tool_calls", "message": {"content": "both", "tool_calls": [
        {"id": "t1", "type": "function", "function": {"name": "f", "arguments": "{}"}},
        {"id": "t2", "type": "function", "function": {"name": "g", "arguments": "{}"}},
    ]}}]});
    let server = Server::always(Reply::json(200, body));
    for provider in OPENAI_WIRE {
        let generation = generator(&client(), &server, through(provider))
            .generate(ask())
            .await
            .unwrap();
        assert_eq!(generation.text, "both", "{provider}");
        assert_eq!(
            generation.tool_calls,
            [call("t1", "f", "{}"), call("t2", "g", "{}")]
        );
    }
}
