//! Folders that lie: whatever stands in their files, a call ends with vectors or with an error that names the file. A panic would be
//! one too (`broke off`), and is what these look for.

use std::path::Path;

use antfly_providers::{Kind, Operation};
use serde_json::{Map, Value, json};

use crate::support::*;

const MODELS: [&str; 8] = [
    "bert-encoder",
    "distilbert-encoder",
    "modernbert-encoder",
    "mpnet-encoder",
    "xlm-roberta-encoder",
    "bert-classifier",
    "modernbert-mean-classifier",
    "roberta-classifier",
];

/// Texts that a tokenizer may stumble over.
const TEXTS: [&str; 5] = [
    "the a an",
    "\u{301}\u{302}",
    "[CLS] [SEP]",
    "\u{200b}\u{feff}",
    "\0",
];

/// What a call of the model in `folder` comes to.
async fn asked(folder: &Path, model: &str) -> Result<(), antfly_providers::Error> {
    match model.ends_with("-classifier") {
        true => {
            let (client, _clock) = client_of(folder);
            let reranker = client.reranker(&entry(Operation::Rerank, model, json!({})))?;
            let request = antfly_providers::RerankRequest::new("the", TEXTS);
            reranker.rerank(request).await.map(drop)
        }
        false => embed(folder, model, json!({}), &TEXTS).await.map(drop),
    }
}

/// The call of a folder that lies: fine, or an error that says what is wrong.
async fn survives(folder: &Path, model: &str, lie: &str) -> bool {
    match asked(folder, model).await {
        Ok(()) => true,
        Err(e) => {
            let told = matches!(
                e.kind(),
                Kind::Config | Kind::InvalidRequest | Kind::InvalidResponse
            );
            assert!(told && !e.message().is_empty(), "{model}, {lie}: {e}");
            false
        }
    }
}

fn json_of(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

#[tokio::test]
async fn a_configuration_that_lies_is_an_error_and_never_a_panic() {
    let lies = [
        json!(0),
        json!(1),
        json!(3),
        json!(-1),
        json!(1 << 24),
        json!(u64::MAX),
        json!(1e300),
        json!(-0.5),
        json!(null),
        json!(true),
        json!(""),
        json!("x"),
        json!([]),
        json!([""]),
        json!({}),
    ];
    let (mut fine, mut refused) = (0, 0);
    for model in MODELS {
        let scratch = Scratch::new("lying").with_tiny(model);
        let path = scratch.0.join(model).join("config.json");
        let whole = json_of(&path);
        let mut keys: Vec<String> = whole.as_object().unwrap().keys().cloned().collect();
        keys.extend(
            [
                "type_vocab_size",
                "pad_token_id",
                "relative_attention_num_buckets",
                "local_attention",
                "layer_types",
                "rope_parameters",
                "num_labels",
                "matryoshka_dimensions",
                "sentence_transformers",
            ]
            .map(str::to_owned),
        );
        for key in keys {
            for lie in &lies {
                let mut config = whole.clone();
                config[&key] = lie.clone();
                std::fs::write(&path, config.to_string()).unwrap();
                match survives(&scratch.0, model, &format!("{key} {lie}")).await {
                    true => fine += 1,
                    false => refused += 1,
                }
            }
        }
    }
    assert!(
        fine > 100 && refused > 100,
        "{fine} fine, {refused} refused"
    );
}

/// A safetensors file taken apart.
struct Tensors(Map<String, Value>, Vec<u8>);

impl Tensors {
    fn read(path: &Path) -> Self {
        let file = std::fs::read(path).unwrap();
        let (length, rest) = file.split_first_chunk::<8>().unwrap();
        let (header, data) = rest.split_at(u64::from_le_bytes(*length) as usize);
        Tensors(serde_json::from_slice(header).unwrap(), data.to_vec())
    }

    fn write(&self, path: &Path) {
        let header = serde_json::to_vec(&self.0).unwrap();
        let mut out = (header.len() as u64).to_le_bytes().to_vec();
        out.extend(header);
        out.extend(&self.1);
        std::fs::write(path, out).unwrap();
    }

    /// Gives a tensor another shape, and room for it in full precision.
    fn resize(&mut self, name: &str, shape: &[usize]) {
        let bytes = 4 * shape.iter().product::<usize>();
        let start = self.1.len();
        self.0[name] =
            json!({ "dtype": "F32", "shape": shape, "data_offsets": [start, start + bytes] });
        self.1.resize(start + bytes, 0);
    }
}

#[tokio::test]
async fn a_header_that_lies_is_an_error_and_never_a_panic() {
    let most = u64::MAX;
    let lies = [
        ("shape", json!([])),
        ("shape", json!([0])),
        ("shape", json!([0, 16])),
        ("shape", json!([most, 16])),
        ("shape", json!([most, most, 0])),
        ("shape", json!([1_u64 << 62, 16])),
        ("shape", json!([-1, 16])),
        ("shape", json!(7)),
        ("data_offsets", json!([0, 0])),
        ("data_offsets", json!([8, 4])),
        ("data_offsets", json!([0, most])),
        ("data_offsets", json!([most, most])),
        ("data_offsets", json!([most - 3, most])),
        ("data_offsets", json!([0])),
        ("dtype", json!("F64")),
        ("dtype", json!("I8")),
        ("dtype", json!("")),
        ("dtype", json!(null)),
    ];
    for model in MODELS {
        let scratch = Scratch::new("header").with_tiny(model);
        let path = scratch.0.join(model).join("model.safetensors");
        let whole = Tensors::read(&path);
        for name in whole.0.keys().filter(|name| *name != "__metadata__") {
            for (key, lie) in &lies {
                let mut tensors = Tensors(whole.0.clone(), whole.1.clone());
                tensors.0[name][key] = lie.clone();
                tensors.write(&path);
                let fine = survives(&scratch.0, model, &format!("{name} {key} {lie}")).await;
                // Some tensors of a file are nothing the model asks for, or need not be there.
                assert!(!fine || *key == "dtype", "{model}, {name} {key} {lie}");
            }
        }
        for header in ["", "{", "[]", "null", r#"{"a":1}"#, r#"{"a":{}}"#] {
            let mut out = (header.len() as u64).to_le_bytes().to_vec();
            out.extend(header.as_bytes());
            std::fs::write(&path, out).unwrap();
            assert!(!survives(&scratch.0, model, header).await, "{header}");
        }
        for length in [100 << 20, (100 << 20) + 1, most - 7, most] {
            let mut out = length.to_le_bytes().to_vec();
            out.extend(b"{}");
            std::fs::write(&path, out).unwrap();
            let lie = format!("a header of {length}");
            assert!(!survives(&scratch.0, model, &lie).await, "{lie}");
        }
    }
}

/// A tiny model with changes to its configuration and tensors.
async fn changed(
    model: &str,
    config: Value,
    change: impl FnOnce(&mut Tensors),
) -> Result<(), antfly_providers::Error> {
    let scratch = Scratch::new("changed").with_tiny(model);
    let folder = scratch.0.join(model);
    let mut whole = json_of(&folder.join("config.json"));
    whole
        .as_object_mut()
        .unwrap()
        .extend(config.as_object().unwrap().clone());
    std::fs::write(folder.join("config.json"), whole.to_string()).unwrap();
    let path = folder.join("model.safetensors");
    let mut tensors = Tensors::read(&path);
    change(&mut tensors);
    tensors.write(&path);
    asked(&scratch.0, model).await
}

#[tokio::test]
async fn a_table_of_token_types_without_a_row_is_refused() {
    let e = changed("bert-encoder", json!({ "type_vocab_size": 0 }), |tensors| {
        tensors.resize("embeddings.token_type_embeddings.weight", &[0, 16]);
    })
    .await
    .unwrap_err();
    assert_eq!(e.kind(), Kind::Config, "{e}");
    assert!(e.message().contains("type_vocab_size is 0"), "{e}");
}

#[tokio::test]
async fn a_padding_id_past_every_position_is_refused() {
    for model in ["mpnet-encoder", "xlm-roberta-encoder", "roberta-classifier"] {
        for id in [u64::MAX, u64::MAX - 1, 1 << 32, 50, 49] {
            let e = changed(model, json!({ "pad_token_id": id }), |_| {})
                .await
                .unwrap_err();
            assert!(e.message().contains("leaves no position"), "{model}: {e}");
        }
    }
}

#[tokio::test]
async fn heads_whose_numbers_do_not_turn_in_pairs_are_refused() {
    let heads = json!({ "num_attention_heads": 16 });
    let e = changed("modernbert-encoder", heads.clone(), |_| {})
        .await
        .unwrap_err();
    assert_eq!(e.kind(), Kind::Config, "{e}");
    assert!(e.message().contains("num_attention_heads"), "{e}");
    // Nothing turns in a BERT.
    changed("bert-encoder", heads, |_| {}).await.unwrap();
}

#[tokio::test]
async fn distance_buckets_that_have_no_meaning_are_refused() {
    for (buckets, runs) in [
        (2, false),
        (4, true),
        (5, false),
        (510, true),
        (512, false),
        (4096, false),
    ] {
        let config = json!({ "relative_attention_num_buckets": buckets });
        let done = changed("mpnet-encoder", config, |tensors| {
            tensors.resize("encoder.relative_attention_bias.weight", &[buckets, 2]);
        })
        .await;
        match done {
            Ok(()) => assert!(runs, "{buckets}"),
            Err(e) => {
                assert!(!runs, "{buckets}: {e}");
                assert!(e.message().contains("from 4 to 510"), "{buckets}: {e}");
            }
        }
    }
}

#[tokio::test]
async fn weights_that_are_no_numbers_are_told_and_give_no_vector() {
    for (model, number) in [
        ("bert-encoder", f32::NAN),
        ("modernbert-encoder", f32::INFINITY),
        ("mpnet-encoder", f32::NEG_INFINITY),
        ("bert-classifier", f32::NAN),
        ("modernbert-mean-classifier", f32::NAN),
    ] {
        let e = changed(model, json!({}), |tensors| {
            for four in tensors.1.as_chunks_mut::<4>().0 {
                *four = number.to_le_bytes();
            }
        })
        .await
        .unwrap_err();
        assert_eq!(e.kind(), Kind::InvalidResponse, "{model}: {e}");
        assert!(!e.is_retryable(), "{model}: {e}");
    }
}

#[tokio::test]
async fn a_position_table_of_one_row_leaves_no_room_and_says_so() {
    let e = changed(
        "bert-encoder",
        json!({ "max_position_embeddings": 1 }),
        |tensors| tensors.resize("embeddings.position_embeddings.weight", &[1, 16]),
    )
    .await
    .unwrap_err();
    assert!(e.message().contains("leaves no room"), "{e}");
}

#[tokio::test]
async fn a_vocabulary_smaller_than_the_tokenizers_is_told_by_the_token() {
    let e = changed("bert-encoder", json!({ "vocab_size": 6 }), |tensors| {
        tensors.resize("embeddings.word_embeddings.weight", &[6, 16]);
    })
    .await
    .unwrap_err();
    assert_eq!(e.kind(), Kind::Config, "{e}");
    assert!(e.message().contains("the model knows 6"), "{e}");
}

/// Numbers without a pattern.
fn next(state: &mut u64) -> usize {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    (*state >> 20) as usize
}

#[tokio::test]
async fn a_tokenizer_whose_parts_do_not_fit_each_other_is_named() {
    for (model, token) in [("bert-encoder", "[SEP]"), ("roberta-classifier", "</s>")] {
        let scratch = Scratch::new("template").with_tiny(model);
        let path = scratch.0.join(model).join("tokenizer.json");
        let mut tokenizer = json_of(&path);
        let known = tokenizer["post_processor"]["special_tokens"].as_object_mut();
        let known = known.unwrap();
        let mut last = known.remove(token).unwrap();
        last["id"] = json!("[OTHER]");
        known.insert("[OTHER]".to_owned(), last);
        std::fs::write(&path, tokenizer.to_string()).unwrap();
        let e = asked(&scratch.0, model).await.unwrap_err();
        assert_eq!(e.kind(), Kind::Config, "{model}: {e}");
        assert!(e.message().contains("tokenizer.json"), "{model}: {e}");
    }
}

#[tokio::test]
async fn random_bytes_in_any_file_never_panic() {
    let mut state = 0x9e37_79b9_7f4a_7c15;
    for model in MODELS {
        let scratch = Scratch::new("random").with_tiny(model);
        for file in ["config.json", "tokenizer.json", "model.safetensors"] {
            let path = scratch.0.join(model).join(file);
            let whole = std::fs::read(&path).unwrap();
            // Of the weights, the header: other numbers are only other vectors.
            let end = whole.len().min(3000);
            for _ in 0..40 {
                let mut bytes = whole.clone();
                for _ in 0..=next(&mut state) % 3 {
                    let at = next(&mut state) % end;
                    bytes[at] = match next(&mut state) % 3 {
                        0 => b"0123456789-.eE\"[]{},: "[next(&mut state) % 22],
                        1 => next(&mut state) as u8,
                        _ => bytes[next(&mut state) % end],
                    };
                }
                std::fs::write(&path, &bytes).unwrap();
                survives(&scratch.0, model, &format!("{file}, random")).await;
            }
            std::fs::write(&path, &whole).unwrap();
        }
    }
}

#[tokio::test]
async fn texts_of_every_kind_have_a_vector_or_an_error_that_names_them() {
    let long = "a".repeat(200_000);
    let marks = "\u{301}".repeat(50_000);
    let words = "the ".repeat(20_000);
    let emoji = "\u{1f469}\u{200d}\u{1f680}".repeat(5_000);
    let texts = [
        long.as_str(),
        &marks,
        &words,
        &emoji,
        "\u{fdd0}\u{10ffff}",
        "[UNK] [PAD] [MASK]",
        "</s><s><pad>",
        "\u{202e}\u{2066}",
        "\r\n\t",
    ];
    for model in ["bert-encoder", "xlm-roberta-encoder", "roberta-classifier"] {
        let scratch = Scratch::new("texts").with_tiny(model);
        for text in texts {
            let shown: String = text.chars().take(8).collect();
            let done = match model.ends_with("-classifier") {
                true => scores(&scratch.0, model, json!({}), text, &[text, "the"])
                    .await
                    .map(drop),
                false => embed(&scratch.0, model, json!({}), &["the", text])
                    .await
                    .map(drop),
            };
            if let Err(e) = done {
                assert_eq!(e.kind(), Kind::InvalidRequest, "{model}, {shown:?}: {e}");
            }
        }
    }
}
