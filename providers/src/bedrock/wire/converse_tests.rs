use antfly_framework::content::Part;
use antfly_framework::generate::{Message, Role, ToolCall};

use super::*;

fn write(request: &GenerateRequest) -> Result<Value> {
    Ok(serde_json::from_slice(&body(request)?).unwrap())
}

fn tool_named(name: &str) -> Tool {
    Tool {
        name: name.to_owned(),
        description: Some("d".to_owned()),
        parameters: json!({"type": "object", "properties": {"z": {}, "a": {}}}),
        strict: None,
    }
}

#[test]
fn a_prompt_is_one_turn_and_what_is_not_set_is_left_out() {
    let wire = write(&GenerateRequest::prompt("hi")).unwrap();
    assert_eq!(
        wire,
        json!({"messages": [{"role": "user", "content": [{"text": "hi"}]}]})
    );
}

#[test]
fn every_setting_has_its_place_and_numbers_are_exact() {
    let mut request = GenerateRequest::messages([Message::system("be brief"), Message::user("hi")])
        .with_max_tokens(64);
    request.temperature = Some(0.7);
    request.top_p = Some(0.9);
    request.stop = vec!["END".into()];
    request.extra_body.insert(
        "guardrailConfig".into(),
        json!({"guardrailIdentifier": "g"}),
    );
    let text = String::from_utf8(body(&request).unwrap()).unwrap();
    assert!(text.contains(r#""temperature":0.7,"topP":0.9"#), "{text}");
    let wire: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(wire["system"], json!([{"text": "be brief"}]));
    assert_eq!(
        wire["inferenceConfig"],
        json!({"maxTokens": 64, "temperature": 0.7, "topP": 0.9, "stopSequences": ["END"]})
    );
    assert_eq!(wire["guardrailConfig"], json!({"guardrailIdentifier": "g"}));
}

#[test]
fn turns_of_one_side_are_joined_and_tool_results_are_the_users() {
    let call = |id: &str, arguments: &str| ToolCall {
        id: id.into(),
        name: "f".into(),
        arguments: arguments.into(),
    };
    let mut assistant = Message::assistant("  ");
    assistant.tool_calls = vec![call("1", r#"{"b": 1, "a": 2}"#), call("2", "")];
    let mut request = GenerateRequest::messages([
        Message::user("a"),
        Message::user("b"),
        assistant,
        Message::tool("1", "one"),
        Message::tool("2", ""),
    ]);
    request.tools = vec![tool_named("f")];
    let wire = write(&request).unwrap();
    assert_eq!(
        wire["messages"],
        json!([
            {"role": "user", "content": [{"text": "a"}, {"text": "b"}]},
            {"role": "assistant", "content": [
                {"toolUse": {"toolUseId": "1", "name": "f", "input": {"b": 1, "a": 2}}},
                {"toolUse": {"toolUseId": "2", "name": "f", "input": {}}}]},
            {"role": "user", "content": [
                {"toolResult": {"toolUseId": "1", "content": [{"text": "one"}]}},
                {"toolResult": {"toolUseId": "2", "content": []}}]},
        ])
    );
}

#[test]
fn tools_and_their_choice() {
    let mut request = GenerateRequest::prompt("hi");
    request.tools = vec![tool_named("f")];
    for (choice, wire) in [
        (None, None),
        (Some(ToolChoice::Auto), Some(json!({"auto": {}}))),
        (Some(ToolChoice::Required), Some(json!({"any": {}}))),
        (
            Some(ToolChoice::Tool("f".into())),
            Some(json!({"tool": {"name": "f"}})),
        ),
    ] {
        request.tool_choice = choice;
        let config = write(&request).unwrap()["toolConfig"].clone();
        assert_eq!(config.get("toolChoice").cloned(), wire);
        let spec = &config["tools"][0]["toolSpec"];
        assert_eq!(spec["inputSchema"]["json"], request.tools[0].parameters);
    }
    request.tool_choice = Some(ToolChoice::None);
    assert_eq!(write(&request).unwrap().get("toolConfig"), None);
    request.messages.push(Message::tool("1", "x"));
    assert_eq!(write(&request).unwrap_err().kind(), Kind::Unsupported);
    request.tools.clear();
    request.tool_choice = Some(ToolChoice::Required);
    assert_eq!(write(&request).unwrap_err().kind(), Kind::InvalidRequest);
}

#[test]
fn a_schema_keeps_its_order_so_that_a_cached_prompt_stays_one() {
    let mut request = GenerateRequest::prompt("hi");
    request.tools = vec![tool_named("f")];
    let first = body(&request).unwrap();
    assert!((0..20).all(|_| body(&request.clone()).unwrap() == first));
}

#[test]
fn an_answer_by_schema() {
    let mut request = GenerateRequest::prompt("hi");
    request
        .extra_body
        .insert("outputConfig".into(), json!({"effort": "low"}));
    assert_eq!(
        write(&request).unwrap()["outputConfig"],
        json!({"effort": "low"})
    );
    request.response_format = Some(ResponseFormat::JsonSchema {
        name: "s".into(),
        schema: json!({"type": "object"}),
        strict: None,
    });
    assert_eq!(
        write(&request).unwrap()["outputConfig"],
        json!({"effort": "low", "textFormat": {"type": "json_schema",
               "structure": {"jsonSchema": {"name": "s", "schema": "{\"type\":\"object\"}"}}}})
    );
    request.response_format = Some(ResponseFormat::JsonObject);
    assert_eq!(write(&request).unwrap_err().kind(), Kind::Unsupported);
}

#[test]
fn media_by_bytes_by_data_uri_and_from_s3() {
    let content = vec![
        Part::text("look"),
        Part::media(&b"img"[..], "image/jpeg"),
        Part::media(&b"pdf"[..], "application/pdf"),
        Part::media(&b"txt"[..], "text/plain; charset=utf-8"),
        Part::image_url("data:image/png;base64,aW1n"),
        Part::image_url("s3://bucket/cat.webp"),
    ];
    let request = GenerateRequest::messages([Message {
        role: Role::User,
        content,
        tool_calls: Vec::new(),
        tool_call_id: None,
    }]);
    assert_eq!(
        write(&request).unwrap()["messages"][0]["content"],
        json!([
            {"text": "look"},
            {"image": {"format": "jpeg", "source": {"bytes": "aW1n"}}},
            {"document": {"format": "pdf", "name": "document-2", "source": {"bytes": "cGRm"}}},
            {"document": {"format": "txt", "name": "document-3", "source": {"bytes": "dHh0"}}},
            {"image": {"format": "png", "source": {"bytes": "aW1n"}}},
            {"image": {"format": "webp", "source": {"s3Location": {"uri": "s3://bucket/cat.webp"}}}},
        ])
    );
    for part in [
        Part::image_url("https://example.com/cat.png"),
        Part::media(&b"x"[..], "image/tiff"),
        Part::media(&b"x"[..], "application/zip"),
        Part::image_url("data:image/png,raw"),
        Part::image_url("data:image/png;base64,"),
        Part::image_url("data:image/png;base64,a*b"),
    ] {
        let message = Message {
            content: vec![part],
            ..Message::user("")
        };
        let e = write(&GenerateRequest::messages([message])).unwrap_err();
        assert_eq!(e.kind(), Kind::MediaNotAllowed, "{e}");
    }
}

#[test]
fn what_converse_lacks_and_what_the_adapter_owns_is_refused() {
    let refused = |change: &dyn Fn(&mut GenerateRequest)| {
        let mut request = GenerateRequest::prompt("hi");
        change(&mut request);
        let e = body(&request).unwrap_err();
        (e.kind(), e.message().split(':').next().unwrap().to_owned())
    };
    assert_eq!(
        refused(&|r| r.top_k = Some(1)),
        (Kind::Unsupported, "top_k".into())
    );
    assert_eq!(
        refused(&|r| r.seed = Some(1)),
        (Kind::Unsupported, "seed".into())
    );
    for (name, value, shown) in [
        ("messages", json!([]), "extra_body.messages"),
        ("inferenceConfig", json!({}), "extra_body.inferenceConfig"),
        (
            "outputConfig",
            json!({"textFormat": {}}),
            "extra_body.outputConfig.textFormat",
        ),
        (
            "additionalModelRequestFields",
            json!({"max_tokens": 9}),
            "extra_body.additionalModelRequestFields.max_tokens",
        ),
        (
            "additionalModelRequestFields",
            json!({"inferenceConfig": {"maxTokens": 9}}),
            "extra_body.additionalModelRequestFields.maxTokens",
        ),
    ] {
        let found = refused(&|r| {
            r.extra_body.insert(name.into(), value.clone());
        });
        assert_eq!(found, (Kind::InvalidRequest, shown.to_owned()));
    }
    // JSON has no such numbers: they would travel as null.
    let e = |change: &dyn Fn(&mut GenerateRequest)| {
        let mut request = GenerateRequest::prompt("hi");
        change(&mut request);
        body(&request).unwrap_err().message().to_owned()
    };
    assert!(e(&|r| r.temperature = Some(f64::NAN)).starts_with("temperature is NaN"));
    assert!(e(&|r| r.top_p = Some(f64::INFINITY)).starts_with("top_p is inf"));
    let empty = GenerateRequest::messages([Message::user(" ")]);
    assert_eq!(body(&empty).unwrap_err().kind(), Kind::InvalidRequest);
    let alone = GenerateRequest::messages([Message::system("s")]);
    assert_eq!(body(&alone).unwrap_err().kind(), Kind::InvalidRequest);
    let mut call = Message::assistant("");
    call.tool_calls.push(ToolCall {
        id: "1".into(),
        name: "f".into(),
        arguments: "[1]".into(),
    });
    let e = body(&GenerateRequest::messages([call])).unwrap_err();
    assert!(e.message().starts_with("messages[0]"), "{e}");
}
