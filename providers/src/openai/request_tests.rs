use antfly_framework::config::{EmbedOptions, EncodingFormat, EntryConfig, Env};
use antfly_framework::content::{Media, MediaKind, MediaSource, Part};
use antfly_framework::embed::{EmbedInput, EmbedPart};
use antfly_framework::generate::{
    GenerateRequest, Message, ResponseFormat, Role, Tool, ToolCall, ToolChoice,
};
use antfly_framework::provider::{EmbedCodec, GenerateCodec, Operation, Prepared};
use antfly_framework::secret::Secrets;
use antfly_framework::{Kind, Result};
use serde_json::{Value, json};

use crate::openai::OpenAi;
use crate::openai::config::adapter;

const ELSEWHERE: &str = "http://localhost:8000";

fn open(entry: &EntryConfig) -> OpenAi {
    let env = Env::from_pairs([("OPENAI_API_KEY", "sk-test")]);
    adapter(entry, &env, &Secrets::new(None, env.clone())).unwrap()
}

fn body(prepared: &Prepared) -> Value {
    serde_json::from_slice(&prepared.body).unwrap()
}

fn embed(entry: &EntryConfig, inputs: &[EmbedInput]) -> Result<Prepared> {
    let part = EmbedPart {
        inputs,
        options: &entry.embed,
    };
    EmbedCodec::prepare(&open(entry), &part)
}

fn generate(url: Option<&str>, request: &GenerateRequest, stream: bool) -> Result<Prepared> {
    let mut entry = EntryConfig::new(Operation::Generate, "openai", "gpt-4o");
    entry.url = url.map(str::to_owned);
    GenerateCodec::prepare(&open(&entry), request, stream)
}

/// What a message is on the wire.
fn wire(message: Message) -> Result<Value> {
    let prepared = generate(None, &GenerateRequest::messages([message]), false)?;
    Ok(body(&prepared)["messages"][0].clone())
}

fn with(parts: Vec<Part>) -> Message {
    Message {
        content: parts,
        ..Message::user("")
    }
}

fn media(kind: MediaKind, source: MediaSource) -> Message {
    with(vec![Part::Media(Media { kind, source })])
}

#[test]
fn an_embeddings_request_asks_for_base64_at_openai_alone() {
    let mut entry = EntryConfig::new(Operation::Embed, "openai", "text-embedding-3-small");
    entry.extra_body.insert("user".to_owned(), json!("u"));
    entry.embed = EmbedOptions {
        dimensions: Some(256),
        ..EmbedOptions::default()
    };
    let inputs = [
        "a".into(),
        EmbedInput::Parts(vec![Part::text("b"), Part::text("c")]),
    ];
    let prepared = embed(&entry, &inputs).unwrap();
    assert_eq!(
        prepared.url.as_str(),
        "https://api.openai.com/v1/embeddings"
    );
    assert_eq!(prepared.output_cap, 0);
    assert_eq!(
        body(&prepared),
        json!({"model": "text-embedding-3-small", "input": ["a", "b\nc"], "encoding_format": "base64",
               "dimensions": 256, "user": "u"})
    );
    let elsewhere = EntryConfig::new(Operation::Embed, "openai", "m").with_url(ELSEWHERE);
    let prepared = embed(&elsewhere, &["a".into()]).unwrap();
    assert_eq!(prepared.url.as_str(), "http://localhost:8000/v1/embeddings");
    assert_eq!(body(&prepared), json!({"model": "m", "input": ["a"]}));
}

#[test]
fn an_encoding_that_is_asked_for_is_sent() {
    for (format, word) in [
        (EncodingFormat::Float, "float"),
        (EncodingFormat::Base64, "base64"),
    ] {
        let mut entry = EntryConfig::new(Operation::Embed, "openai", "m").with_url(ELSEWHERE);
        entry.embed.encoding_format = Some(format);
        assert_eq!(
            body(&embed(&entry, &["a".into()]).unwrap())["encoding_format"],
            word
        );
    }
}

#[test]
fn media_is_not_embedded() {
    let entry = EntryConfig::new(Operation::Embed, "openai", "m");
    let inputs = [
        "a".into(),
        EmbedInput::Parts(vec![Part::image_url("https://h/x.png")]),
    ];
    let e = embed(&entry, &inputs).unwrap_err();
    assert_eq!((e.kind(), e.item()), (Kind::MediaNotAllowed, Some(1)));
}

#[test]
fn a_plain_request_sends_what_is_set_and_nothing_else() {
    let prepared = generate(None, &GenerateRequest::prompt("hi"), false).unwrap();
    assert_eq!(
        prepared.url.as_str(),
        "https://api.openai.com/v1/chat/completions"
    );
    assert_eq!(prepared.output_cap, 0);
    assert_eq!(
        body(&prepared),
        json!({"model": "gpt-4o", "messages": [{"role": "user", "content": "hi"}]})
    );
}

#[test]
fn the_output_cap_is_spelled_by_the_endpoint_and_counted() {
    let request = GenerateRequest::prompt("hi").with_max_tokens(7);
    let own = generate(None, &request, false).unwrap();
    let elsewhere = generate(Some(ELSEWHERE), &request, false).unwrap();
    assert_eq!((own.output_cap, elsewhere.output_cap), (7, 7));
    assert_eq!(
        (
            &body(&own)["max_completion_tokens"],
            body(&own).get("max_tokens")
        ),
        (&json!(7), None)
    );
    assert_eq!(body(&elsewhere)["max_tokens"], 7);
    assert_eq!(body(&elsewhere).get("max_completion_tokens"), None);
    // The default endpoint written out is the default endpoint.
    let spelled = generate(Some("https://API.openai.com:443/v1/"), &request, false).unwrap();
    assert_eq!(body(&spelled)["max_completion_tokens"], 7);
}

#[test]
fn a_stream_asks_for_usage() {
    let body = body(&generate(Some(ELSEWHERE), &GenerateRequest::prompt("hi"), true).unwrap());
    assert_eq!(
        (&body["stream"], &body["stream_options"]),
        (&json!(true), &json!({"include_usage": true}))
    );
}

#[test]
fn every_option_has_its_field() {
    let mut request = GenerateRequest {
        tools: vec![Tool {
            name: "f".to_owned(),
            description: Some("d".to_owned()),
            parameters: json!({"type": "object"}),
            strict: Some(true),
        }],
        tool_choice: Some(ToolChoice::Tool("f".to_owned())),
        response_format: Some(ResponseFormat::JsonSchema {
            name: "s".to_owned(),
            schema: json!({"type": "object"}),
            strict: Some(false),
        }),
        temperature: Some(0.5),
        top_p: Some(0.9),
        top_k: Some(40),
        frequency_penalty: Some(0.1),
        presence_penalty: Some(-0.1),
        stop: vec!["END".to_owned()],
        seed: Some(-3),
        ..GenerateRequest::prompt("hi")
    };
    request
        .extra_body
        .insert("parallel_tool_calls".to_owned(), json!(false));
    let elsewhere = generate(Some(ELSEWHERE), &request, false).unwrap();
    assert_eq!(
        body(&elsewhere),
        json!({
            "model": "gpt-4o", "messages": [{"role": "user", "content": "hi"}],
            "tools": [{"type": "function", "function":
                {"name": "f", "description": "d", "parameters": {"type": "object"}, "strict": true}}],
            "tool_choice": {"type": "function", "function": {"name": "f"}},
            "response_format": {"type": "json_schema", "json_schema":
                {"name": "s", "schema": {"type": "object"}, "strict": false}},
            "temperature": 0.5, "top_p": 0.9, "top_k": 40, "frequency_penalty": 0.1, "presence_penalty": -0.1,
            "stop": ["END"], "seed": -3, "parallel_tool_calls": false
        })
    );
    assert_eq!(
        generate(None, &request, false).unwrap_err().kind(),
        Kind::Unsupported
    );
}

#[test]
fn a_field_the_adapter_owns_is_refused_in_a_request() {
    for name in [
        "model",
        "messages",
        "stream",
        "n",
        "max_tokens",
        "max_completion_tokens",
        "tools",
    ] {
        let mut request = GenerateRequest::prompt("hi");
        request.extra_body.insert(name.to_owned(), json!(1));
        let e = generate(None, &request, false).unwrap_err();
        assert_eq!(e.kind(), Kind::InvalidRequest);
        assert!(
            e.message().starts_with(&format!("extra_body.{name}: ")),
            "{e}"
        );
    }
}

#[test]
fn tool_turns_keep_their_calls_and_ids() {
    let assistant = Message {
        tool_calls: vec![ToolCall {
            id: "c1".to_owned(),
            name: "f".to_owned(),
            arguments: "{}".to_owned(),
        }],
        ..Message::assistant("")
    };
    assert_eq!(
        wire(assistant).unwrap(),
        json!({"role": "assistant", "content": null, "tool_calls":
            [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]})
    );
    assert_eq!(
        wire(Message::tool("c1", "42")).unwrap(),
        json!({"role": "tool", "content": "42", "tool_call_id": "c1"})
    );
    assert_eq!(
        wire(Message::new(Role::System, "s")).unwrap(),
        json!({"role": "system", "content": "s"})
    );
}

#[test]
fn parts_travel_as_parts() {
    let message = with(vec![
        Part::text("see"),
        Part::image_url("https://h/x.png"),
        Part::media(vec![0xff, 0xd8], "image/jpeg"),
        Part::media(vec![1, 2, 3], "audio/mpeg"),
        Part::media(vec![1], "audio/x-wav"),
        Part::media(vec![1], "application/pdf"),
    ]);
    assert_eq!(
        wire(message).unwrap()["content"],
        json!([
            {"type": "text", "text": "see"},
            {"type": "image_url", "image_url": {"url": "https://h/x.png"}},
            {"type": "image_url", "image_url": {"url": "data:image/jpeg;base64,/9g="}},
            {"type": "input_audio", "input_audio": {"data": "AQID", "format": "mp3"}},
            {"type": "input_audio", "input_audio": {"data": "AQ==", "format": "wav"}},
            {"type": "file", "file": {"filename": "file.pdf", "file_data": "data:application/pdf;base64,AQ=="}},
        ])
    );
}

#[test]
fn media_by_id_is_a_file_and_audio_by_data_uri_is_unpacked() {
    for kind in [MediaKind::Image, MediaKind::Audio, MediaKind::File] {
        let by_id = wire(media(kind, MediaSource::FileId("file-1".to_owned()))).unwrap();
        assert_eq!(
            by_id["content"],
            json!([{"type": "file", "file": {"file_id": "file-1"}}])
        );
    }
    let audio = media(
        MediaKind::Audio,
        MediaSource::Url("data:audio/wav;base64,AQ==".to_owned()),
    );
    assert_eq!(
        wire(audio).unwrap()["content"],
        json!([{"type": "input_audio", "input_audio": {"data": "AQ==", "format": "wav"}}])
    );
}

#[test]
fn what_has_no_wire_form_is_refused() {
    let url = || MediaSource::Url("https://h/x".to_owned());
    for kind in [MediaKind::Audio, MediaKind::File, MediaKind::Video] {
        assert_eq!(
            wire(media(kind, url())).unwrap_err().kind(),
            Kind::MediaNotAllowed,
            "{kind:?}"
        );
    }
    // Servers elsewhere may fetch a file themselves.
    let request = GenerateRequest::messages([media(MediaKind::File, url())]);
    assert!(generate(Some(ELSEWHERE), &request, false).is_ok());
}
