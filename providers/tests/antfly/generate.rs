//! Chat completions: plain and streamed.

use antfly_providers::testing::{Reply, Server};
use antfly_providers::{
    FinishReason, GenerateRequest, Kind, Message, Operation, Part, ResponseFormat, Role,
    StreamEvent, Tool, ToolCall,
};
use serde_json::{Value, json};

use crate::support::*;

fn says(text: &str) -> Reply {
    Reply::json(
        200,
        json!({"id": "gen-1", "object": "chat.completion", "model": "m",
            "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11}}),
    )
}

fn chunk(delta: Value, finish: Option<&str>) -> String {
    json!({"id": "gen-1", "object": "chat.completion.chunk", "model": "m",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})
    .to_string()
}

#[tokio::test]
async fn a_plain_answer() {
    let server = Server::start([says("Hello!")]);
    let whole = generator(&server, json!({}))
        .generate(GenerateRequest::prompt("hi"))
        .await
        .unwrap();
    assert_eq!(whole.text, "Hello!");
    assert_eq!(whole.finish_reason, Some(FinishReason::Stop));
    assert_eq!(whole.usage.unwrap().total_tokens, Some(11));
    let sent = &server.requests()[0];
    assert_eq!(sent.path, "/ai/v1/generate");
    assert_eq!(
        sent.json(),
        json!({"model": "m", "messages": [{"role": "user", "content": "hi"}]}),
        "no cap that nobody gave"
    );
}

#[tokio::test]
async fn options_travel_by_their_names_and_those_of_the_server_by_extra_fields() {
    let server = Server::start([says("x")]);
    let generator = generator(
        &server,
        json!({"max_tokens": 64, "temperature": 0.5, "top_p": 0.9, "top_k": 40, "frequency_penalty": 0.1,
            "presence_penalty": 0.2, "stop": ["."], "seed": 7, "extra_body": {"min_p": 0.05}}),
    );
    let mut request = GenerateRequest::messages([Message::system("s"), Message::user("u")]);
    request
        .extra_body
        .insert("repetition_penalty".to_owned(), json!(1.1));
    generator.generate(request).await.unwrap();
    assert_eq!(
        server.requests()[0].json(),
        json!({"model": "m",
            "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}],
            "max_tokens": 64, "temperature": 0.5, "top_p": 0.9, "top_k": 40, "frequency_penalty": 0.1,
            "presence_penalty": 0.2, "stop": ["."], "seed": 7, "min_p": 0.05, "repetition_penalty": 1.1})
    );
}

#[tokio::test]
async fn under_a_token_budget_an_omitted_cap_is_the_servers_own_and_is_sent_and_paid() {
    let server = Server::start([says("x")]);
    let generator = generator(
        &server,
        json!({"rate_limit": {"tokens_per_minute": 10_000}}),
    );
    generator
        .generate(GenerateRequest::prompt("hi"))
        .await
        .unwrap();
    let sent = &server.requests()[0];
    assert_eq!(sent.json()["max_tokens"], 256);
    let body = sent.body.len() as u64;
    let used = generator.scope_snapshot().counters.tokens_admitted;
    assert_eq!(used, body + 256);
}

#[tokio::test]
async fn a_stream_ends_with_its_mark() {
    let server = Server::start([Reply::sse([
        chunk(json!({"role": "assistant"}), None),
        chunk(json!({"content": "Hel"}), None),
        chunk(json!({"content": "lo"}), None),
        chunk(json!({}), Some("length")),
        json!({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}})
            .to_string(),
        "[DONE]".to_owned(),
    ])]);
    let stream = generator(&server, json!({}))
        .stream(GenerateRequest::prompt("hi"))
        .await
        .unwrap();
    let whole = stream.collect_generation().await.unwrap();
    assert_eq!(
        (whole.text.as_str(), whole.finish_reason),
        ("Hello", Some(FinishReason::Length))
    );
    assert_eq!(whole.usage.unwrap().output_tokens, Some(2));
    assert_eq!(server.requests()[0].json()["stream"], true);
}

#[tokio::test]
async fn b01_a_stream_that_ends_early_is_an_error_after_its_text() {
    let server = Server::start([Reply::sse([chunk(json!({"content": "half"}), None)])]);
    let mut stream = generator(&server, json!({}))
        .stream(GenerateRequest::prompt("hi"))
        .await
        .unwrap();
    let (mut text, mut error) = (String::new(), None);
    while let Some(event) = stream.next().await {
        match event {
            Ok(StreamEvent::Text(delta)) => text += &delta,
            Ok(_) => {}
            Err(e) => error = Some(e),
        }
    }
    assert_eq!(text, "half");
    assert_eq!(error.unwrap().kind(), Kind::StreamInterrupted);
}

#[tokio::test]
async fn tools_and_their_calls() {
    let server = Server::start([Reply::sse([
        chunk(
            json!({"tool_calls": [{"index": 0, "id": "c1", "type": "function", "function": {"name": "look", "arguments": "{\"a\""}}]}),
            None,
        ),
        chunk(
            json!({"tool_calls": [{"index": 0, "function": {"arguments": ":1}"}}]}),
            None,
        ),
        chunk(json!({}), Some("tool_calls")),
        "[DONE]".to_owned(),
    ])]);
    let mut request = GenerateRequest::prompt("hi");
    request.tools =
        vec![Tool::from_json(&json!({"name": "look", "parameters": {"type": "object"}})).unwrap()];
    request.response_format = Some(ResponseFormat::JsonSchema {
        name: "n".to_owned(),
        schema: json!({"type": "object"}),
        strict: Some(true),
    });
    let stream = generator(&server, json!({})).stream(request).await.unwrap();
    let whole = stream.collect_generation().await.unwrap();
    assert_eq!(
        whole.tool_calls,
        [ToolCall {
            id: "c1".to_owned(),
            name: "look".to_owned(),
            arguments: "{\"a\":1}".to_owned(),
        }]
    );
    let sent = server.requests()[0].json();
    assert_eq!(
        sent["tools"],
        json!([{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}])
    );
    assert_eq!(
        sent["response_format"],
        json!({"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}, "strict": true}})
    );
}

#[tokio::test]
async fn images_travel_as_openai_sends_them_and_other_media_by_its_bytes() {
    let server = Server::start([says("x")]);
    let message = Message {
        role: Role::User,
        content: vec![
            Part::text("t"),
            Part::image_url("https://h/x.png"),
            Part::media(vec![1, 2, 3], "image/png"),
            Part::media(vec![1, 2, 3], "audio/wav"),
            Part::media(vec![1, 2, 3], "application/pdf"),
        ],
        tool_calls: Vec::new(),
        tool_call_id: None,
    };
    generator(&server, json!({}))
        .generate(GenerateRequest::messages([message]))
        .await
        .unwrap();
    assert_eq!(
        server.requests()[0].json()["messages"][0]["content"],
        json!([
            {"type": "text", "text": "t"},
            {"type": "image_url", "image_url": {"url": "https://h/x.png"}},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AQID"}},
            {"type": "media", "data": "AQID", "mime_type": "audio/wav"},
            {"type": "media", "data": "AQID", "mime_type": "application/pdf"},
        ])
    );
}

#[tokio::test]
async fn fields_the_adapter_writes_are_refused_in_an_entry_and_in_a_request() {
    let bad = entry(
        Operation::Generate,
        json!({"extra_body": {"max_tokens": 9}}),
    );
    let e = client().generator(&bad.unwrap()).unwrap_err();
    assert!(
        e.message()
            .starts_with("generators.w.extra_body.max_tokens: "),
        "{e}"
    );
    let server = Server::start([]);
    let mut request = GenerateRequest::prompt("hi");
    request.extra_body.insert("stream".to_owned(), json!(true));
    let e = generator(&server, json!({}))
        .generate(request)
        .await
        .unwrap_err();
    assert_eq!(e.kind(), Kind::InvalidRequest);
    assert!(server.requests().is_empty());
}
