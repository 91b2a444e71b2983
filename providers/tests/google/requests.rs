//! What `generateContent` is asked.

use antfly_providers::content::{Media, MediaKind, MediaSource};
use antfly_providers::testing::{Reply, Server};
use antfly_providers::{
    GenerateRequest, Kind, Message, Operation, Part, ResponseFormat, Role, Tool, ToolCall,
    ToolChoice,
};
use serde_json::{Value, json};

use crate::support::*;

/// The body that a request leaves as.
async fn sent(extra: Value, request: GenerateRequest) -> Value {
    let server = Server::start([Reply::json(200, fixture!("generate.json"))]);
    gemini(&client(), &server, extra)
        .generate(request)
        .await
        .unwrap();
    server.requests()[0].json()
}

/// Why a request can't leave; nothing is sent.
async fn refused(request: GenerateRequest) -> (Kind, String) {
    let server = Server::start([]);
    let error = gemini(&client(), &server, json!({}))
        .generate(request)
        .await
        .unwrap_err();
    assert!(server.requests().is_empty());
    (error.kind(), error.message().to_owned())
}

fn call(id: &str, name: &str, arguments: &str) -> ToolCall {
    ToolCall {
        id: id.to_owned(),
        name: name.to_owned(),
        arguments: arguments.to_owned(),
    }
}

fn calls(calls: impl IntoIterator<Item = ToolCall>) -> Message {
    let mut message = Message::new(Role::Assistant, "");
    message.tool_calls = calls.into_iter().collect();
    message
}

#[tokio::test]
async fn every_option_has_its_place() {
    let body = sent(
        json!({"max_tokens": 64, "temperature": 0.5, "top_p": 0.9, "top_k": 40, "frequency_penalty": 0.1, "presence_penalty": 0.2,
               "seed": 7, "stop": ["END"], "extra_body": {"safetySettings": [{"category": "HARM_CATEGORY_HARASSMENT",
               "threshold": "BLOCK_NONE"}], "generationConfig": {"thinkingConfig": {"thinkingBudget": 0}}}}),
        GenerateRequest::messages([Message::system("Be brief."), Message::user("hi")]),
    )
    .await;
    assert_eq!(
        body,
        json!({
            "contents": [{"role": "user", "parts": [{"text": "hi"}]}],
            "systemInstruction": {"parts": [{"text": "Be brief."}]},
            "generationConfig": {"maxOutputTokens": 64, "temperature": 0.5, "topP": 0.9, "topK": 40, "frequencyPenalty": 0.1,
                "presencePenalty": 0.2, "seed": 7, "stopSequences": ["END"], "thinkingConfig": {"thinkingBudget": 0}},
            "safetySettings": [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}],
        })
    );
}

#[tokio::test]
async fn tools_and_choices_are_declared() {
    let schema =
        json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]});
    let tool = |name: &str, parameters: &Value| Tool {
        name: name.to_owned(),
        description: Some("d".to_owned()),
        parameters: parameters.clone(),
        strict: None,
    };
    for (choice, config) in [
        (ToolChoice::Auto, json!({"mode": "AUTO"})),
        (ToolChoice::None, json!({"mode": "NONE"})),
        (ToolChoice::Required, json!({"mode": "ANY"})),
        (
            ToolChoice::Tool("weather".to_owned()),
            json!({"mode": "ANY", "allowedFunctionNames": ["weather"]}),
        ),
    ] {
        let mut request = ask();
        request.tools = vec![
            tool("weather", &schema),
            tool("now", &json!({"type": "object", "properties": {}})),
        ];
        request.tool_choice = Some(choice);
        let body = sent(json!({}), request).await;
        assert_eq!(
            body["tools"],
            json!([{"functionDeclarations": [
                {"name": "weather", "description": "d", "parametersJsonSchema": schema},
                {"name": "now", "description": "d"}]}])
        );
        assert_eq!(body["toolConfig"], json!({"functionCallingConfig": config}));
    }
}

#[tokio::test]
async fn a_json_schema_is_enforced() {
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
    let mut request = ask();
    request.response_format = Some(ResponseFormat::JsonSchema {
        name: "answer".to_owned(),
        schema: schema.clone(),
        strict: Some(true),
    });
    assert_eq!(
        sent(json!({}), request).await["generationConfig"],
        json!({"responseMimeType": "application/json", "responseJsonSchema": schema})
    );
    let mut request = ask();
    request.response_format = Some(ResponseFormat::JsonObject);
    assert_eq!(
        sent(json!({}), request).await["generationConfig"],
        json!({"responseMimeType": "application/json"})
    );
}

#[tokio::test]
async fn calls_go_back_with_id_and_signature_and_their_results_in_one_turn() {
    let server = Server::start([
        Reply::json(200, fixture!("generate_tools.json")),
        sse(fixture!("stream_tools.sse")),
        Reply::json(200, fixture!("generate.json")),
        Reply::json(200, fixture!("generate.json")),
    ]);
    let generator = gemini(&client(), &server, json!({}));
    let plain = generator.generate(ask()).await.unwrap();
    let streamed = generator.stream(ask()).await.unwrap();
    let streamed = streamed.collect_generation().await.unwrap();
    for (answer, ids, signature) in [
        (plain, [None, None], "CsIBAXLI2nw+/sig=="),
        (streamed, [Some("fc-1"), Some("fc-2")], "CsIBAXLI2nw="),
    ] {
        let ids = ids.map(|id: Option<&str>| json!(id));
        let mut said = Message::assistant(answer.text.clone());
        said.tool_calls.clone_from(&answer.tool_calls);
        let request = GenerateRequest::messages([
            Message::user("weather?"),
            said,
            Message::tool(&answer.tool_calls[0].id, r#"{"celsius":3}"#),
            Message::tool(&answer.tool_calls[1].id, "warm"),
            Message::user("and?"),
        ]);
        generator.generate(request).await.unwrap();
        let body = server.requests().last().unwrap().json();
        let turns = body["contents"].as_array().unwrap();
        assert_eq!(turns.len(), 4, "{body}");
        let parts = &turns[1]["parts"];
        assert_eq!(turns[1]["role"], "model");
        assert_eq!(parts[0], json!({"text": "Both at once."}));
        assert_eq!(parts[1]["thoughtSignature"], signature);
        assert_eq!(parts[1]["functionCall"]["args"], json!({"city": "Oslo"}));
        assert_eq!(parts[1]["functionCall"]["id"], ids[0]);
        assert_eq!(parts[2]["functionCall"]["id"], ids[1]);
        assert!(parts[2].get("thoughtSignature").is_none());
        assert_eq!(turns[2]["role"], "user");
        let results = &turns[2]["parts"];
        assert_eq!(
            results[0]["functionResponse"]["response"],
            json!({"celsius": 3})
        );
        assert_eq!(results[0]["functionResponse"]["name"], "weather");
        assert_eq!(results[0]["functionResponse"]["id"], ids[0]);
        assert_eq!(
            results[1]["functionResponse"]["response"],
            json!({"output": "warm"})
        );
    }
}

#[tokio::test]
async fn media_travel_inline_or_by_reference() {
    let mut message = Message::user("what is it?");
    message.content.extend([
        Part::media(vec![1, 2], "image/png"),
        Part::image_url("https://example.com/cat.jpg"),
        Part::Media(Media {
            kind: MediaKind::File,
            source: MediaSource::FileId(
                "https://generativelanguage.googleapis.com/v1beta/files/abc".to_owned(),
            ),
        }),
        Part::media(vec![3], "audio/wav"),
    ]);
    let body = sent(json!({}), GenerateRequest::messages([message])).await;
    assert_eq!(
        body["contents"][0]["parts"],
        json!([
            {"text": "what is it?"},
            {"inlineData": {"mimeType": "image/png", "data": "AQI="}},
            {"fileData": {"mimeType": "image/jpeg", "fileUri": "https://example.com/cat.jpg"}},
            {"fileData": {"fileUri": "https://generativelanguage.googleapis.com/v1beta/files/abc"}},
            {"inlineData": {"mimeType": "audio/wav", "data": "Aw=="}},
        ])
    );
}

#[tokio::test]
async fn what_cant_be_sent_is_refused_before_sending_and_named() {
    let media_in_system = {
        let mut message = Message::system("look");
        message.content.push(Part::media(vec![1], "image/png"));
        GenerateRequest::messages([message, Message::user("hi")])
    };
    for (request, kind, words) in [
        (
            GenerateRequest::messages([Message::system("a")]),
            Kind::InvalidRequest,
            "there are only system messages",
        ),
        (
            GenerateRequest::messages([Message::user("hi"), Message::user("")]),
            Kind::InvalidRequest,
            "message 1 is empty",
        ),
        (
            GenerateRequest::messages([Message::user("hi"), calls([call("1", "f", "[1]")])]),
            Kind::InvalidRequest,
            "message 1: the arguments",
        ),
        (
            GenerateRequest::messages([Message::user("hi"), Message::tool("1", "x")]),
            Kind::InvalidRequest,
            "message 1: no earlier message calls a tool",
        ),
        (
            GenerateRequest::messages([Message::user("hi"), Message::new(Role::Tool, "x")]),
            Kind::InvalidRequest,
            "message 1: a tool's result needs",
        ),
        (
            media_in_system,
            Kind::MediaNotAllowed,
            "message 0: a system instruction is text",
        ),
    ] {
        let (told, message) = refused(request).await;
        assert_eq!(told, kind, "{message}");
        assert!(message.starts_with(words), "{message}");
    }
    let mut request = ask();
    request.extra_body.insert(
        "generation_config".to_owned(),
        json!({"candidate_count": 2}),
    );
    let (kind, message) = refused(request).await;
    assert_eq!(kind, Kind::InvalidRequest);
    assert!(
        message.starts_with("extra_body.generation_config.candidate_count: "),
        "{message}"
    );
}

#[tokio::test]
async fn extra_body_of_an_entry_may_not_hold_what_is_the_adapters() {
    for (extra, path) in [
        (json!({"contents": []}), "contents"),
        (json!({"system_instruction": {}}), "system_instruction"),
        (json!({"tools": []}), "tools"),
        (
            json!({"generationConfig": {"maxOutputTokens": 9}}),
            "generationConfig.maxOutputTokens",
        ),
        (
            json!({"generationConfig": {"responseSchema": {}}}),
            "generationConfig.responseSchema",
        ),
    ] {
        let entry = try_entry(
            Operation::Generate,
            "gemini",
            "http://127.0.0.1:9",
            json!({"extra_body": extra}),
        );
        let error = client().generator(&entry.unwrap()).unwrap_err();
        assert_eq!(error.kind(), Kind::Config);
        let path = format!("generators.w.extra_body.{path}: ");
        assert!(error.message().starts_with(&path), "{error}");
    }
}

#[tokio::test]
async fn a_token_budget_sends_the_cap_it_reserves() {
    let server = Server::start([Reply::json(200, fixture!("generate.json"))]);
    let generator = gemini(
        &client(),
        &server,
        json!({"rate_limit": {"tokens_per_minute": 5000}}),
    );
    generator.generate(ask()).await.unwrap();
    let sent = &server.requests()[0];
    assert_eq!(sent.json()["generationConfig"]["maxOutputTokens"], 1024);
    let spent = generator.scope_snapshot().counters.tokens_admitted;
    assert_eq!(spent, sent.body.len() as u64 + 1024);
}

#[tokio::test]
async fn j02_a_path_prefix_of_the_url_is_kept() {
    for base in ["/a/b", "/a/b/"] {
        let server = Server::start([Reply::json(200, fixture!("generate.json"))]);
        let url = format!("{}{base}", server.url());
        gemini(&client(), &server, json!({ "url": url }))
            .generate(GenerateRequest::prompt("hi"))
            .await
            .unwrap();
        let path = &server.requests()[0].path;
        assert!(
            path.starts_with("/a/b/") && path.ends_with("models/gemini-2.5-flash:generateContent"),
            "{path}"
        );
    }
}
