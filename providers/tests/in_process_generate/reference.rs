//! Greedy answers, token for token those of an independent runtime.

use std::io::Read as _;
use std::path::Path;

use antfly_providers::{GenerateRequest, Message, Role};
use serde_json::Value;

use crate::fetched::models;
use crate::{generator, tiny};

/// FNV-1a of a file's first mebibyte: that the fixture is of this file.
fn digest(path: &Path) -> String {
    let mut first = Vec::new();
    let file = std::fs::File::open(path).unwrap();
    file.take(1 << 20).read_to_end(&mut first).unwrap();
    let mix = |digest: u64, byte: &u8| (digest ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
    format!("{:016x}", first.iter().fold(0xcbf2_9ce4_8422_2325, mix))
}

fn request(chat: &Value) -> GenerateRequest {
    let turns = chat["messages"].as_array().unwrap();
    let messages = turns.iter().map(|turn| {
        let role = match turn["role"].as_str().unwrap() {
            "system" => Role::System,
            "user" => Role::User,
            _ => Role::Assistant,
        };
        Message::new(role, turn["content"].as_str().unwrap())
    });
    let mut request = GenerateRequest::messages(messages);
    let tokens = chat["output_tokens"].as_u64().unwrap();
    request.max_tokens = Some(u32::try_from(tokens).unwrap());
    request.temperature = Some(0.0);
    request
}

/// Every chat of a fixture: as many tokens in, the same text out, ended for the same reason.
pub(crate) async fn check(model: &Path, fixture: &str) {
    let fixture: Value = serde_json::from_str(fixture).unwrap();
    assert_eq!(
        digest(model),
        fixture["fnv1a_of_first_mebibyte"],
        "the fixture is of another file"
    );
    let generator = generator(model);
    let chats = fixture["chats"].as_array().unwrap();
    assert!(chats.len() >= 3);
    for chat in chats {
        let answer = generator.generate(request(chat)).await.unwrap();
        let usage = answer.usage.unwrap();
        assert_eq!(usage.input_tokens, chat["input_tokens"].as_u64(), "{chat}");
        assert_eq!(answer.text, chat["text"].as_str().unwrap(), "{chat}");
        assert_eq!(
            usage.output_tokens,
            chat["output_tokens"].as_u64(),
            "{chat}"
        );
        assert_eq!(
            answer.finish_reason.unwrap().as_str(),
            chat["finish"],
            "{chat}"
        );
    }
}

#[tokio::test]
async fn a_real_models_greedy_answers_are_llama_cpps() {
    let file = models().join("SmolLM2-135M-Instruct/SmolLM2-135M-Instruct.Q4_1.gguf");
    check(&file, include_str!("fixtures/SmolLM2-135M-Instruct.json")).await;
}

/// The formats of 32 numbers to a scale and the plain ones, dealt to the matrices of one small model: `reference.py` reads the file
/// that this test writes.
#[tokio::test]
async fn a_small_model_of_every_plain_format_answers_as_in_llama_cpp() {
    let file = tiny::random(1, 64, 96, 4, 2, &[8, 3, 2, 6, 7, 0, 1, 30]).write("random-32");
    check(&file, include_str!("fixtures/random-32.json")).await;
}
