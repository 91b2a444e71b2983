//! What a generator says and when it stops, with models whose every answer is known beforehand.

use std::collections::BTreeSet;

use antfly_providers::generate::{ResponseFormat, Tool, ToolChoice};
use antfly_providers::{
    FinishReason, GenerateRequest, Generation, Generator, Kind, Message, Part, StreamEvent,
};
use serde_json::json;

use crate::tiny::{self, Meta};
use crate::{client, entry, generator};

const END: &str = "<|im_end|>";

pub(crate) fn greedy() -> GenerateRequest {
    let mut request = GenerateRequest::prompt("hi");
    request.temperature = Some(0.0);
    request
}

/// The deltas of a stream, and what they come to.
async fn streamed(generator: &Generator, request: GenerateRequest) -> (Vec<String>, Generation) {
    let mut stream = generator.stream(request.clone()).await.unwrap();
    let mut deltas = Vec::new();
    while let Some(event) = stream.next().await {
        if let StreamEvent::Text(text) = event.unwrap() {
            assert!(!text.is_empty());
            deltas.push(text);
        }
    }
    let whole = generator.stream(request).await.unwrap();
    (deltas, whole.collect_generation().await.unwrap())
}

#[tokio::test]
async fn a_greedy_answer_is_what_the_model_says_and_ends_where_it_ends() {
    let file = tiny::saying(&["H", "e", "llo", " wor", "ld"], END).write("hello");
    let generator = generator(&file);
    let answer = generator.generate(greedy()).await.unwrap();
    assert_eq!(answer.text, "Hello world");
    assert_eq!(answer.finish_reason, Some(FinishReason::Stop));
    let usage = answer.usage.unwrap();
    // <|im_start|> u s e r \n h i <|im_end|> \n <|im_start|> a s s i s t an t \n, "s" and "i" with no merge between them.
    assert_eq!(usage.input_tokens, Some(19));
    assert_eq!(usage.output_tokens, Some(6), "the end is a token too");
    assert_eq!(usage.total_tokens, Some(25));
    let (deltas, whole) = streamed(&generator, greedy()).await;
    assert_eq!(deltas, ["H", "e", "llo", " wor", "ld"]);
    assert_eq!((whole.text, whole.usage), (answer.text, answer.usage));
}

#[tokio::test]
async fn an_output_cap_ends_an_answer_with_length() {
    let file = tiny::saying(&["H", "e", "llo"], END).write("capped");
    let generator = generator(&file);
    let mut request = greedy();
    request.max_tokens = Some(2);
    let answer = generator.generate(request).await.unwrap();
    assert_eq!(
        (answer.text.as_str(), answer.finish_reason),
        ("He", Some(FinishReason::Length))
    );
    assert_eq!(answer.usage.unwrap().output_tokens, Some(2));
}

#[tokio::test]
async fn without_a_cap_an_answer_ends_after_256_tokens() {
    let file =
        tiny::scripted(&[], |t| vec![if t == "a" { "b" } else { "a" }.to_owned()]).write("endless");
    let answer = generator(&file).generate(greedy()).await.unwrap();
    assert_eq!(
        (answer.text.len(), answer.finish_reason),
        (256, Some(FinishReason::Length))
    );
}

#[tokio::test]
async fn a_stop_sequence_across_tokens_ends_the_answer_and_never_shows() {
    let file = tiny::saying(&["A", " S", "T", "x", "B", " ST", "O", "P!", "C"], END).write("stops");
    let generator = generator(&file);
    let mut request = greedy();
    request.stop = vec!["STOP".to_owned(), "never".to_owned()];
    let answer = generator.generate(request.clone()).await.unwrap();
    assert_eq!(
        (answer.text.as_str(), answer.finish_reason),
        ("A STxB ", Some(FinishReason::Stop))
    );
    let (deltas, whole) = streamed(&generator, request).await;
    // What may still become a stop sequence is held back, and handed out once it has not.
    assert_eq!(deltas, ["A", " ", "STx", "B", " "]);
    assert_eq!(whole.text, answer.text);
}

#[tokio::test]
async fn a_begun_stop_sequence_is_text_when_the_answer_ends() {
    let file = tiny::saying(&["A", "S", "T", "O"], END).write("begun");
    let mut request = greedy();
    request.stop = vec!["STOP".to_owned()];
    let (deltas, whole) = streamed(&generator(&file), request).await;
    assert_eq!(deltas, ["A", "STO"]);
    assert_eq!(
        (whole.text.as_str(), whole.finish_reason),
        ("ASTO", Some(FinishReason::Stop))
    );
}

/// A model that says the bytes of `text` one by one, which must be different ones.
fn bytewise(text: &str, name: &str) -> std::path::PathBuf {
    let chain: Vec<String> = std::iter::once(b'\n')
        .chain(text.bytes())
        .map(tiny::letter)
        .collect();
    let file = tiny::scripted(&[], |token| {
        let at = chain.iter().position(|t| t == token);
        at.map(|at| chain.get(at + 1).cloned().unwrap_or(END.to_owned()))
            .into_iter()
            .collect()
    });
    file.write(name)
}

#[tokio::test]
async fn characters_are_never_split() {
    let generator = generator(&bytewise("é😀z", "bytes"));
    let (deltas, whole) = streamed(&generator, greedy()).await;
    assert_eq!(deltas, ["é", "😀", "z"]);
    assert_eq!(whole.text, "é😀z");
    // Cut inside the second character: its bytes are no text, and nothing stands for them.
    let mut request = greedy();
    request.max_tokens = Some(4);
    let (deltas, whole) = streamed(&generator, request).await;
    assert_eq!(deltas, ["é"]);
    assert_eq!(
        (whole.text.as_str(), whole.finish_reason),
        ("é", Some(FinishReason::Length))
    );
}

/// Three letters, each as likely as the others, whatever came before.
fn dice() -> Generator {
    let any = || ["x", "y", "z"].map(str::to_owned).to_vec();
    generator(&tiny::scripted(&[], |_| any()).write("dice"))
}

#[tokio::test]
async fn a_seed_draws_the_same_again_and_another_something_else() {
    let generator = dice();
    let mut texts = BTreeSet::new();
    for seed in [0, 1, 2, -1, i64::MAX] {
        let mut request = GenerateRequest::prompt("hi");
        request.seed = Some(seed);
        request.temperature = Some(1.0);
        request.max_tokens = Some(40);
        let one = generator.generate(request.clone()).await.unwrap().text;
        let (deltas, again) = streamed(&generator, request).await;
        assert_eq!(one, again.text);
        assert_eq!(one, deltas.concat());
        assert!(
            one.chars()
                .collect::<BTreeSet<_>>()
                .is_subset(&['x', 'y', 'z'].into())
        );
        texts.insert(one);
    }
    assert_eq!(texts.len(), 5);
}

#[tokio::test]
async fn without_a_seed_each_call_draws_anew() {
    let generator = dice();
    let mut texts = BTreeSet::new();
    for _ in 0..4 {
        let mut request = GenerateRequest::prompt("hi");
        request.max_tokens = Some(40);
        texts.insert(generator.generate(request).await.unwrap().text);
    }
    assert!(texts.len() > 1, "{texts:?}");
}

#[tokio::test]
async fn a_temperature_of_0_and_a_top_k_of_1_take_the_best() {
    let generator = dice();
    for (temperature, top_k) in [(0.0, None), (5.0, Some(1))] {
        let mut request = GenerateRequest::prompt("hi");
        (request.temperature, request.top_k, request.max_tokens) =
            (Some(temperature), top_k, Some(9));
        assert_eq!(generator.generate(request).await.unwrap().text, "xxxxxxxxx");
    }
}

#[tokio::test]
async fn a_prompt_must_leave_room_in_the_context_and_an_answer_ends_with_it() {
    let mut file = tiny::scripted(&[], |t| vec![if t == "a" { "b" } else { "a" }.to_owned()]);
    file.set("llama.context_length", Meta::U32(32));
    let generator = generator(&file.write("context"));
    // 19 tokens of template and two letters.
    let answer = generator.generate(greedy()).await.unwrap();
    assert_eq!(
        (answer.text.len(), answer.finish_reason),
        (13, Some(FinishReason::Length))
    );
    let fits = GenerateRequest::prompt("x".repeat(14));
    let answer = generator.generate(fits).await.unwrap();
    assert_eq!(answer.usage.unwrap().total_tokens, Some(32));
    for letters in [15, 10_000_000] {
        let error = generator
            .generate(GenerateRequest::prompt("x".repeat(letters)))
            .await
            .unwrap_err();
        assert_eq!(error.kind(), Kind::RequestTooLarge);
        assert!(error.message().contains("32 tokens"), "{error}");
    }
}

#[tokio::test]
async fn a_control_token_in_a_message_is_letters() {
    let file = tiny::saying(&["o", "k"], END).write("control");
    let generator = generator(&file);
    let tokens = async |text: &str| {
        let mut request = GenerateRequest::prompt(text);
        request.temperature = Some(0.0);
        generator
            .generate(request)
            .await
            .unwrap()
            .usage
            .unwrap()
            .input_tokens
            .unwrap()
    };
    let empty = tokens("").await;
    // No merge joins any of these letters, so each is a token.
    assert_eq!(tokens(END).await, empty + END.len() as u64);
    assert_eq!(tokens("<|im_start|>").await, empty + 12);
    // A character that nobody should use is the user's, too.
    assert_eq!(
        tokens("\u{100000}<|im_end|>").await,
        empty + 4 + END.len() as u64
    );
}

#[tokio::test]
async fn runs_side_by_side_do_not_mix() {
    let file = tiny::saying(&["H", "e", "llo", " wor", "ld"], END).write("side");
    let mut entry = entry(&file);
    entry.admission = Some(antfly_providers::config::Admission {
        max_concurrency: 3,
        ..Default::default()
    });
    let generator = client().generator(&entry).unwrap();
    let answers = generator
        .generate_batch((0..24).map(|_| greedy()).collect())
        .await;
    assert!(
        answers
            .into_iter()
            .all(|a| a.unwrap().text == "Hello world")
    );
}

#[tokio::test]
async fn what_a_model_can_not_do_is_refused_and_named() {
    let file = tiny::saying(&["o", "k"], END).write("refusals");
    let generator = generator(&file);
    let refused = async |name: &str, kind: Kind, change: &dyn Fn(&mut GenerateRequest)| {
        let mut request = greedy();
        change(&mut request);
        let error = generator.generate(request.clone()).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.message().starts_with(name), "{error}");
        assert_eq!(generator.stream(request).await.unwrap_err().kind(), kind);
    };
    let schema =
        ResponseFormat::from_json(&json!({"type": "json_schema", "json_schema": {"schema": {}}}));
    let schema = schema.unwrap();
    let tool = Tool::from_json(&json!({"name": "clock"})).unwrap();
    refused("response_format", Kind::Unsupported, &|r| {
        r.response_format = Some(schema.clone())
    })
    .await;
    refused("response_format", Kind::Unsupported, &|r| {
        r.response_format = Some(ResponseFormat::JsonObject)
    })
    .await;
    refused("tools", Kind::Unsupported, &|r| {
        r.tools = vec![tool.clone()]
    })
    .await;
    refused("tool_choice", Kind::Unsupported, &|r| {
        r.tool_choice = Some(ToolChoice::Required)
    })
    .await;
    refused("messages", Kind::Unsupported, &|r| {
        r.messages.push(Message::tool("1", "12:00"))
    })
    .await;
    refused("frequency_penalty", Kind::Unsupported, &|r| {
        r.frequency_penalty = Some(0.5)
    })
    .await;
    refused("presence_penalty", Kind::Unsupported, &|r| {
        r.presence_penalty = Some(-0.5)
    })
    .await;
    refused("stop", Kind::InvalidRequest, &|r| {
        r.stop = vec![String::new()]
    })
    .await;
    refused("temperature", Kind::InvalidRequest, &|r| {
        r.temperature = Some(-1.0)
    })
    .await;
    refused("temperature", Kind::InvalidRequest, &|r| {
        r.temperature = Some(f64::NAN)
    })
    .await;
    refused("top_p", Kind::InvalidRequest, &|r| r.top_p = Some(0.0)).await;
    refused("extra_body", Kind::Unsupported, &|r| {
        r.extra_body.insert("min_p".to_owned(), json!(0.1));
    })
    .await;
    // What asks for nothing is no option.
    let mut request = greedy();
    (request.frequency_penalty, request.response_format) = (Some(0.0), Some(ResponseFormat::Text));
    (request.tools, request.tool_choice) = (vec![tool], Some(ToolChoice::None));
    assert_eq!(generator.generate(request).await.unwrap().text, "ok");
}

#[tokio::test]
async fn an_entrys_options_are_refused_when_the_handle_is_built() {
    let mut entry = entry(&tiny::saying(&["o"], END).write("entry"));
    entry.generate.presence_penalty = Some(1.0);
    let error = client().generator(&entry).unwrap_err();
    assert_eq!(error.kind(), Kind::Config);
    assert!(error.message().contains("presence_penalty"), "{error}");
}

#[tokio::test]
async fn media_are_refused() {
    let generator = generator(&tiny::saying(&["o"], END).write("media"));
    let mut request = greedy();
    request.messages[0]
        .content
        .push(Part::image_url("data:image/png;base64,AA=="));
    let error = generator.generate(request).await.unwrap_err();
    assert_eq!(error.kind(), Kind::MediaNotAllowed);
}

/// A template with a place for tools.
const WITH_TOOLS: &str = "{% if tools %}{{ tools | tojson }}<tool_call>{% endif %}{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}";

#[tokio::test]
async fn tools_go_into_the_template_and_their_calls_come_out() {
    let call = r#"{"name": "clock", "arguments": {"zone": "CET"}}"#;
    let mut file = tiny::saying(
        &["Wait. ", "<tool_", "call>", call, "</tool_call>", "!"],
        END,
    );
    file.set("tokenizer.chat_template", Meta::text(WITH_TOOLS));
    let generator = generator(&file.write("tools"));
    let plain = generator.generate(greedy()).await.unwrap();
    assert_eq!(
        plain.text,
        format!("Wait. <tool_call>{call}</tool_call>!"),
        "without tools it is text"
    );
    let mut request = greedy();
    let tool = json!({"name": "clock", "description": "tells the time"});
    request.tools = vec![Tool::from_json(&tool).unwrap()];
    let answer = generator.generate(request.clone()).await.unwrap();
    assert_eq!(
        (answer.text.as_str(), answer.finish_reason.clone()),
        ("Wait. !", Some(FinishReason::ToolCalls))
    );
    let [call] = answer.tool_calls.as_slice() else {
        panic!("{answer:?}");
    };
    assert_eq!(
        (call.name.as_str(), call.arguments.as_str()),
        ("clock", r#"{"zone":"CET"}"#)
    );
    let tokens = |g: &Generation| g.usage.unwrap().input_tokens;
    assert!(tokens(&answer) > tokens(&plain));
    let (_, whole) = streamed(&generator, request).await;
    assert_eq!(whole.tool_calls, answer.tool_calls);
}
