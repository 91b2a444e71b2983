//! Plain generation through Converse.

use antfly_framework::testing::{Reply, Server};
use antfly_framework::{
    CallOptions, FinishReason, GenerateRequest, Kind, Message, Operation, Part, Tool, ToolChoice,
};
use aws_smithy_types::body::SdkBody;
use serde_json::{Value, json};

use crate::support::{CLAUDE, Log, answer, client, client_on, entry, generator, keys};

#[tokio::test]
async fn a_conversation_travels_with_system_media_tools_and_settings() {
    let server = Server::with(|_| answer("ok"));
    let extra = json!({"max_tokens": 64, "temperature": 0.7, "top_p": 0.9, "stop": ["END"],
                       "extra_body": {"additionalModelRequestFields": {"top_k": 5}}});
    let generator = generator(&client(keys()), &server, extra);
    let mut user = Message::user("look");
    user.content.push(Part::media(&b"img"[..], "image/png"));
    user.content
        .push(Part::media(&b"pdf"[..], "application/pdf"));
    let mut request = GenerateRequest::messages([Message::system("be brief"), user]);
    request.tools = vec![Tool {
        name: "f".into(),
        description: Some("does f".into()),
        parameters: json!({"type": "object"}),
        strict: None,
    }];
    request.tool_choice = Some(ToolChoice::Required);
    let g = generator.generate(request).await.unwrap();
    assert_eq!(
        (g.text.as_str(), g.finish_reason),
        ("ok", Some(FinishReason::Stop))
    );
    assert_eq!(
        (g.request_id.as_deref(), g.usage.unwrap().total_tokens),
        (Some("req-1"), Some(5))
    );
    let request = &server.requests()[0];
    assert_eq!(
        request.path,
        format!("/model/{}/converse", CLAUDE.replace(':', "%3A"))
    );
    assert_eq!(
        request.json(),
        json!({
            "messages": [{"role": "user", "content": [
                {"text": "look"},
                {"image": {"format": "png", "source": {"bytes": "aW1n"}}},
                {"document": {"format": "pdf", "name": "document-2", "source": {"bytes": "cGRm"}}}]}],
            "system": [{"text": "be brief"}],
            "inferenceConfig": {"maxTokens": 64, "temperature": 0.7, "topP": 0.9, "stopSequences": ["END"]},
            "toolConfig": {"tools": [{"toolSpec": {"name": "f", "description": "does f",
                           "inputSchema": {"json": {"type": "object"}}}}], "toolChoice": {"any": {}}},
            "additionalModelRequestFields": {"top_k": 5},
        })
    );
}

#[tokio::test]
async fn a_guardrail_stop_is_a_content_filter_and_not_an_error() {
    let body = json!({"output": {"message": {"role": "assistant", "content": [{"text": "I can't."}]}},
                      "stopReason": "guardrail_intervened",
                      "usage": {"inputTokens": 3, "outputTokens": 0, "totalTokens": 3}});
    let server = Server::start([Reply::json(200, body)]);
    let g = generator(&client(keys()), &server, json!({}))
        .generate(GenerateRequest::prompt("x"))
        .await
        .unwrap();
    assert_eq!(g.finish_reason, Some(FinishReason::ContentFilter));
    assert_eq!(
        (g.raw_finish_reason.as_deref(), g.text.as_str()),
        (Some("guardrail_intervened"), "I can't.")
    );
    assert_eq!(
        g.usage.unwrap().output_tokens,
        Some(0),
        "0 that was sent is 0"
    );
}

#[tokio::test]
async fn the_bytes_that_are_paid_for_are_the_bytes_that_are_sent() {
    let server = Server::with(|request| match request.path.ends_with("invoke") {
        true => Reply::json(200, json!({"embedding": [1.0]})),
        false => answer("ok"),
    });
    let log = Log::default();
    let client = client_on(antfly_framework::Time::thread(), keys(), &log);
    let limit = json!({"rate_limit": {"tokens_per_minute": 100_000}});
    let generator = generator(&client, &server, limit.clone());
    let request =
        GenerateRequest::messages([Message::system("s\u{e9}"), Message::user("\u{1f600} hi")])
            .with_max_tokens(50);
    generator.generate(request).await.unwrap();
    let embedder = client
        .embedder(&entry(Operation::Embed, &server, limit))
        .unwrap();
    embedder
        .embed(antfly_framework::EmbedRequest::texts(["na\u{ef}ve"]))
        .await
        .unwrap();
    let sent = server.requests();
    let paid: Vec<u64> = log.records().iter().map(|r| r.tokens).collect();
    assert_eq!(
        paid,
        [sent[0].body.len() as u64 + 50, sent[1].body.len() as u64]
    );
    for request in &sent {
        assert_eq!(
            request.header("content-length"),
            Some(request.body.len().to_string().as_str())
        );
    }
}

#[tokio::test]
async fn a_cap_nobody_gave_is_1024_under_a_token_budget_and_left_out_without_one() {
    let server = Server::with(|_| answer("ok"));
    let client = client(keys());
    let ask = || GenerateRequest::prompt("x");
    generator(&client, &server, json!({}))
        .generate(ask())
        .await
        .unwrap();
    let budget =
        json!({"model": "amazon.nova-lite-v1:0", "rate_limit": {"tokens_per_minute": 5000}});
    let limited = generator(&client, &server, budget);
    limited.generate(ask()).await.unwrap();
    let bodies: Vec<Value> = server.requests().iter().map(|r| r.json()).collect();
    assert_eq!(bodies[0].get("inferenceConfig"), None);
    assert_eq!(bodies[1]["inferenceConfig"], json!({"maxTokens": 1024}));
    // Media can't be priced in text tokens.
    let mut message = Message::user("look");
    message
        .content
        .push(Part::image_url("data:image/png;base64,aW1n"));
    let e = limited
        .generate(GenerateRequest::messages([message]))
        .await
        .unwrap_err();
    assert_eq!(
        (e.kind(), server.requests().len()),
        (Kind::MediaNotAllowed, 2)
    );
}

#[tokio::test]
async fn e01_a_page_and_an_empty_answer_are_typed_errors_and_the_raw_answer_is_there_on_demand() {
    let server = Server::start([
        Reply::bytes(200, "text/html", "<html>login</html>"),
        Reply::json(200, json!({})),
        answer("ok"),
    ]);
    let generator = generator(&client(keys()), &server, json!({}));
    for word in ["<html>login", "no message"] {
        let e = generator
            .generate(GenerateRequest::prompt("x"))
            .await
            .unwrap_err();
        assert_eq!(
            (e.kind(), e.status(), e.attempts()),
            (Kind::InvalidResponse, Some(200), 1)
        );
        assert!(e.message().contains(word), "{e}");
    }
    let options = CallOptions::default().with_raw();
    let g = generator
        .generate_with(GenerateRequest::prompt("x"), options)
        .await
        .unwrap();
    assert_eq!(g.raw.unwrap()["stopReason"], "end_turn");
}

/// The SDK writes the same request from its own types, in a run that is stopped before anything leaves. Only the form of numbers
/// and the order of documents differ, which is why its bytes are not used.
#[tokio::test]
async fn the_body_is_what_the_sdk_would_write() {
    use aws_sdk_bedrockruntime::primitives::Blob;
    use aws_sdk_bedrockruntime::types::{
        AnyToolChoice, ContentBlock, ConversationRole, ImageBlock, ImageFormat, ImageSource,
        InferenceConfiguration, Message as SdkMessage, SystemContentBlock, Tool as SdkTool,
        ToolChoice as SdkChoice, ToolConfiguration, ToolInputSchema, ToolResultBlock,
        ToolResultContentBlock, ToolSpecification, ToolUseBlock,
    };
    use aws_smithy_types::Document;

    let document = |fields: &[(&str, Document)]| {
        Document::Object(
            fields
                .iter()
                .map(|(k, v)| ((*k).to_owned(), v.clone()))
                .collect(),
        )
    };
    let image = ImageBlock::builder()
        .format(ImageFormat::Png)
        .source(ImageSource::Bytes(Blob::new("img")))
        .build()
        .unwrap();
    let call = ToolUseBlock::builder()
        .tool_use_id("1")
        .name("f")
        .input(document(&[("a", Document::from(1_u64))]))
        .build()
        .unwrap();
    let result = ToolResultBlock::builder()
        .tool_use_id("1")
        .content(ToolResultContentBlock::Text("one".into()))
        .build()
        .unwrap();
    let turn = |role, blocks: Vec<ContentBlock>| {
        SdkMessage::builder()
            .role(role)
            .set_content(Some(blocks))
            .build()
            .unwrap()
    };
    let schema = document(&[("type", Document::from("object"))]);
    let tool = ToolSpecification::builder()
        .name("f")
        .description("d")
        .input_schema(ToolInputSchema::Json(schema));
    let written = sdk_writes(|client| {
        client
            .converse()
            .model_id(CLAUDE)
            .system(SystemContentBlock::Text("s".into()))
            .messages(turn(
                ConversationRole::User,
                vec![ContentBlock::Text("hi".into()), ContentBlock::Image(image)],
            ))
            .messages(turn(
                ConversationRole::Assistant,
                vec![ContentBlock::ToolUse(call)],
            ))
            .messages(turn(
                ConversationRole::User,
                vec![ContentBlock::ToolResult(result)],
            ))
            .inference_config(
                InferenceConfiguration::builder()
                    .max_tokens(9)
                    .temperature(0.5)
                    .top_p(0.25)
                    .stop_sequences("E")
                    .build(),
            )
            .tool_config(
                ToolConfiguration::builder()
                    .tools(SdkTool::ToolSpec(tool.build().unwrap()))
                    .tool_choice(SdkChoice::Any(AnyToolChoice::builder().build()))
                    .build()
                    .unwrap(),
            )
    })
    .await;

    let server = Server::with(|_| answer("ok"));
    let mut user = Message::user("hi");
    user.content.push(Part::media(&b"img"[..], "image/png"));
    let mut assistant = Message::assistant("");
    assistant.tool_calls.push(antfly_framework::ToolCall {
        id: "1".into(),
        name: "f".into(),
        arguments: r#"{"a": 1}"#.into(),
    });
    let mut request = GenerateRequest::messages([
        Message::system("s"),
        user,
        assistant,
        Message::tool("1", "one"),
    ]);
    (request.max_tokens, request.temperature, request.top_p) = (Some(9), Some(0.5), Some(0.25));
    request.stop = vec!["E".into()];
    request.tools = vec![Tool {
        name: "f".into(),
        description: Some("d".into()),
        parameters: json!({"type": "object"}),
        strict: None,
    }];
    request.tool_choice = Some(ToolChoice::Required);
    generator(&client(keys()), &server, json!({}))
        .generate(request)
        .await
        .unwrap();
    assert_eq!(server.requests()[0].json(), written);
}

type Fluent = aws_sdk_bedrockruntime::operation::converse::builders::ConverseFluentBuilder;

/// The body the SDK serialises, taken from it just before it would go on.
async fn sdk_writes(call: impl FnOnce(&aws_sdk_bedrockruntime::Client) -> Fluent) -> Value {
    use aws_sdk_bedrockruntime::config::interceptors::BeforeTransmitInterceptorContextRef;
    use aws_sdk_bedrockruntime::config::{
        BehaviorVersion, ConfigBag, Intercept, Region, RuntimeComponents,
    };
    use std::sync::{Arc, Mutex};

    #[derive(Debug)]
    struct Stop(Arc<Mutex<Vec<u8>>>);
    impl Intercept for Stop {
        fn name(&self) -> &'static str {
            "Stop"
        }
        fn read_after_serialization(
            &self,
            context: &BeforeTransmitInterceptorContextRef<'_>,
            _: &RuntimeComponents,
            _: &mut ConfigBag,
        ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
            let body: &SdkBody = context.request().body();
            *self.0.lock().unwrap() = body.bytes().unwrap().to_vec();
            Err("stopped before anything is sent".into())
        }
    }
    let http = aws_smithy_runtime_api::client::http::http_client_fn(|_, _| {
        unreachable!("nothing is sent")
    });
    let config = aws_sdk_bedrockruntime::Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new("us-east-1"))
        .http_client(http)
        .build();
    let body = Arc::new(Mutex::new(Vec::new()));
    let client = aws_sdk_bedrockruntime::Client::from_conf(config);
    let stopped = call(&client)
        .customize()
        .interceptor(Stop(Arc::clone(&body)))
        .send()
        .await;
    assert!(stopped.is_err());
    let body = body.lock().unwrap();
    serde_json::from_slice(&body).unwrap()
}
