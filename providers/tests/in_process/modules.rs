//! What a folder lists beside the model: projections agree with sentence-transformers (`modules.json`, made by `reference.py`), and
//! what does not run here is an error that names the file, not another vector.

use std::path::{Path, PathBuf};

use antfly_providers::{Kind, Operation};
use serde_json::{Map, Value, json};

use crate::support::*;

const MODEL: &str = "bert-encoder";

fn reference() -> Value {
    serde_json::from_str(include_str!("modules.json")).unwrap()
}

/// The numbers that `reference.py` makes of the same seed.
fn made_up(count: usize, seed: usize) -> Vec<f32> {
    let number = |i: usize| ((i * 7919 + seed * 104_729) % 2003) as f64 / 2003.0 - 0.5;
    (0..count).map(|i| number(i) as f32).collect()
}

/// A safetensors file with one tensor more.
fn with_tensor(file: &[u8], name: &str, shape: &[usize], numbers: &[f32]) -> Vec<u8> {
    let (length, rest) = file.split_first_chunk::<8>().unwrap_or((&[0; 8], &[]));
    let (header, data) = rest.split_at(u64::from_le_bytes(*length) as usize);
    let mut header: Map<String, Value> = serde_json::from_slice(header).unwrap_or_default();
    let end = data.len() + 4 * numbers.len();
    header.insert(
        name.to_owned(),
        json!({ "dtype": "F32", "shape": shape, "data_offsets": [data.len(), end] }),
    );
    let header = serde_json::to_vec(&header).unwrap();
    let mut out = (header.len() as u64).to_le_bytes().to_vec();
    out.extend(header);
    out.extend(data);
    out.extend(numbers.iter().flat_map(|n| n.to_le_bytes()));
    out
}

fn write(folder: &Path, name: &str, value: &Value) {
    let path = folder.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, value.to_string()).unwrap();
}

/// The tiny encoder with what sentence-transformers saved beside it, and the weights of its projections.
fn arranged(name: &str, model: &Value, first_seed: usize) -> (Scratch, usize) {
    let scratch = Scratch::new(name).with_tiny(MODEL);
    let folder = scratch.0.join(MODEL);
    let mut seed = first_seed;
    for (file, said) in model["files"].as_object().unwrap() {
        write(&folder, file, said);
        if let Some(dense) = file.strip_suffix("_Dense/config.json") {
            let number = |key: &str| said[key].as_u64().unwrap() as usize;
            let (inputs, outputs) = (number("in_features"), number("out_features"));
            let weight = made_up(inputs * outputs, seed);
            let mut weights = with_tensor(&[], "linear.weight", &[outputs, inputs], &weight);
            seed += 1;
            if said["bias"] == true {
                weights = with_tensor(&weights, "linear.bias", &[outputs], &made_up(outputs, seed));
                seed += 1;
            }
            let file = folder.join(format!("{dense}_Dense/model.safetensors"));
            std::fs::write(file, weights).unwrap();
        }
    }
    (scratch, seed)
}

#[tokio::test]
async fn projections_agree_with_sentence_transformers() {
    let reference = reference();
    let texts: Vec<&str> = (reference["texts"].as_array().unwrap().iter())
        .map(|t| t.as_str().unwrap())
        .collect();
    let mut seed = 1;
    for name in ["tanh", "identity-without-bias", "two", "normalised-before"] {
        let model = &reference["models"][name];
        let (scratch, next) = arranged(name, model, seed);
        seed = next;
        let vectors = embed(&scratch.0, MODEL, json!({}), &texts).await.unwrap();
        let expected: Vec<Vec<f32>> = serde_json::from_value(model["vectors"].clone()).unwrap();
        assert_eq!(
            (vectors.len(), vectors.dim()),
            (texts.len(), expected[0].len())
        );
        for (item, (is, should)) in vectors.iter().zip(&expected).enumerate() {
            for (x, y) in is.iter().zip(should) {
                assert!(
                    (x - y).abs() < 2e-5,
                    "{name}, text {item}: {is:?} is not {should:?}"
                );
            }
        }
        // A reranker by cosine goes through the same.
        let by_cosine = scores(&scratch.0, MODEL, json!({}), texts[0], &texts)
            .await
            .unwrap();
        for (item, score) in by_cosine.iter().enumerate() {
            let should = cosine(&expected[0], &expected[item]);
            assert!(
                (score - should).abs() < 2e-5,
                "{name}, text {item}: {score} is not {should}"
            );
        }
        let dimensions = json!({ "dimensions": expected[0].len() });
        embed(&scratch.0, MODEL, dimensions, &texts[..1])
            .await
            .unwrap();
    }
}

/// The folder of `name` with one thing changed.
fn changed(name: &str, change: impl FnOnce(&Path)) -> (Scratch, PathBuf) {
    let reference = reference();
    let seed = if name == "tanh" { 1 } else { 3 };
    let (scratch, _) = arranged(&format!("changed-{name}"), &reference["models"][name], seed);
    let folder = scratch.0.join(MODEL);
    change(&folder);
    (scratch, folder)
}

/// What embedding and reranking entries say of a folder: the same.
fn refusal(scratch: &Scratch, model: &str) -> String {
    let (client, _clock) = client_of(&scratch.0);
    let embeds = client.embedder(&entry(Operation::Embed, model, json!({})));
    let embeds = embeds.map(drop).unwrap_err();
    for scoring in ["cosine", "late_interaction"] {
        let ranks = entry(Operation::Rerank, model, json!({ "scoring": scoring }));
        let ranks = client.reranker(&ranks).map(drop).unwrap_err();
        assert_eq!(ranks.message(), embeds.message());
    }
    assert_eq!(embeds.kind(), Kind::Config, "{embeds}");
    embeds.message().to_owned()
}

#[test]
fn a_module_that_does_not_run_here_is_named_with_those_that_do() {
    let of = |kind: &str| format!("sentence_transformers.models.{kind}");
    let transformer = json!({ "path": "", "type": of("Transformer") });
    let pooling = json!({ "path": "1_Pooling", "type": of("Pooling") });
    let dense = json!({ "path": "2_Dense", "type": of("Dense") });
    for (number, kind) in [
        of("WeightedLayerPooling"),
        of("LayerNorm"),
        of("LSTM"),
        "sentence_transformers.sparse_encoder.models.SpladePooling".to_owned(),
        "pylate.models.Dense.Dense".to_owned(),
        "custom_st.Pooling".to_owned(),
    ]
    .iter()
    .enumerate()
    {
        let other = json!({ "path": format!("3_{number}"), "type": kind });
        let list = json!([transformer, pooling, other]);
        let (scratch, _) = changed("tanh", |f| write(f, "modules.json", &list));
        let said = refusal(&scratch, MODEL);
        for part in [
            "modules.json",
            kind.as_str(),
            &format!("3_{number}"),
            "Pooling, Dense and Normalize",
        ] {
            assert!(said.contains(part), "{said} does not name {part}");
        }
    }
    let elsewhere = json!({ "path": "0_Transformer", "type": of("Transformer") });
    for (list, word) in [
        (json!([elsewhere, pooling]), "0_Transformer"),
        (json!([transformer, dense]), "one vector a token"),
        (json!([transformer]), "no Pooling"),
        (json!([transformer, pooling, pooling]), "once"),
        (json!([transformer, pooling, dense, pooling]), "right after"),
    ] {
        let (scratch, _) = changed("tanh", |f| write(f, "modules.json", &list));
        let said = refusal(&scratch, MODEL);
        assert!(
            said.contains("modules.json") && said.contains(word),
            "{said}"
        );
    }
}

#[test]
fn what_a_projections_file_asks_for_and_does_not_run_here_is_named() {
    for (key, value, words) in [
        (
            "activation_function",
            json!("torch.nn.modules.activation.Hardshrink"),
            "Hardshrink",
        ),
        ("activation_function", json!("custom.Tanh"), "custom.Tanh"),
        (
            "activation_function",
            Value::Null,
            "activation_function is null",
        ),
        ("in_features", json!(12), "in_features is 12, not 16"),
        ("out_features", json!(0), "out_features is 0"),
        ("use_residual", json!(true), "use_residual"),
        (
            "module_input_name",
            json!("token_embeddings"),
            "module_input_name",
        ),
        (
            "module_output_name",
            json!("elsewhere"),
            "module_output_name",
        ),
    ] {
        let (scratch, _) = changed("tanh", |folder| {
            let file = folder.join("2_Dense/config.json");
            let mut said: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
            said[key] = value.clone();
            write(folder, "2_Dense/config.json", &said);
        });
        let said = refusal(&scratch, MODEL);
        assert!(
            said.contains("2_Dense/config.json") && said.contains(words),
            "{said}"
        );
    }
    let (scratch, _) = changed("tanh", |f| {
        std::fs::remove_file(f.join("2_Dense/model.safetensors")).unwrap();
    });
    let said = refusal(&scratch, MODEL);
    assert!(
        said.contains("2_Dense/model.safetensors is missing"),
        "{said}"
    );
    let (scratch, _) = changed("two", |f| {
        write(
            f,
            "4_Normalize/config.json",
            &json!({ "module_input_name": "token_embeddings" }),
        );
    });
    let said = refusal(&scratch, MODEL);
    assert!(said.contains("4_Normalize/config.json"), "{said}");
}

#[tokio::test]
async fn a_projections_weights_are_what_its_file_says() {
    let dense = "2_Dense/model.safetensors";
    let weight = made_up(8 * 16, 1);
    let no_bias = with_tensor(&[], "linear.weight", &[8, 16], &weight);
    let narrow = with_tensor(&[], "linear.weight", &[8, 15], &weight[..8 * 15]);
    let narrow = with_tensor(&narrow, "linear.bias", &[8], &weight[..8]);
    for (weights, words) in [(no_bias, "linear.bias"), (narrow, "[8, 15]")] {
        let (scratch, _) = changed("tanh", |f| std::fs::write(f.join(dense), weights).unwrap());
        let e = embed(&scratch.0, MODEL, json!({}), &["a"])
            .await
            .unwrap_err();
        assert_eq!(e.kind(), Kind::Config, "{e}");
        assert!(
            e.message().contains(dense) && e.message().contains(words),
            "{e}"
        );
    }
}

#[tokio::test]
async fn a_projection_of_colberts_is_refused_and_never_left_out() {
    let config = |folder: &Path, key: &str, value: Value| {
        let file = folder.join("config.json");
        let mut said: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
        said[key] = value;
        write(folder, "config.json", &said);
    };
    let bare = |name: &str| {
        let scratch = Scratch::new(name).with_tiny(MODEL);
        let folder = scratch.0.join(MODEL);
        (scratch, folder)
    };
    let (scratch, folder) = bare("colbert-architecture");
    config(&folder, "architectures", json!(["HF_ColBERT"]));
    let said = refusal(&scratch, MODEL);
    assert!(
        said.contains("config.json") && said.contains("HF_ColBERT"),
        "{said}"
    );

    let (scratch, folder) = bare("colbert-metadata");
    write(&folder, "artifact.metadata", &json!({ "dim": 128 }));
    let said = refusal(&scratch, MODEL);
    assert!(
        said.contains("artifact.metadata") && said.contains("ColBERT"),
        "{said}"
    );

    let (scratch, folder) = bare("adapter");
    write(
        &folder,
        "adapter_config.json",
        &json!({ "peft_type": "LORA" }),
    );
    let said = refusal(&scratch, MODEL);
    assert!(said.contains("adapter_config.json"), "{said}");

    for kind in ["ColBERT", "MultiVectorEncoder", "SparseEncoder"] {
        let (scratch, folder) = bare("saved-as");
        write(
            &folder,
            "config_sentence_transformers.json",
            &json!({ "model_type": kind }),
        );
        let said = refusal(&scratch, MODEL);
        assert!(said.contains("config_sentence_transformers.json"), "{said}");
        assert!(
            said.contains(kind) && said.contains("SentenceTransformer"),
            "{said}"
        );
    }

    // No file says so, but there it is.
    let (scratch, folder) = bare("colbert-weights");
    let file = folder.join("model.safetensors");
    let weights = std::fs::read(&file).unwrap();
    let projected = with_tensor(&weights, "linear.weight", &[8, 16], &made_up(8 * 16, 1));
    std::fs::write(&file, projected).unwrap();
    let late = json!({ "scoring": "late_interaction" });
    let ranked = scores(&scratch.0, MODEL, late, "a", &["b"])
        .await
        .unwrap_err();
    let embedded = embed(&scratch.0, MODEL, json!({}), &["a"])
        .await
        .unwrap_err();
    for e in [ranked, embedded] {
        assert_eq!(e.kind(), Kind::Config, "{e}");
        assert!(e.message().contains("model.safetensors"), "{e}");
        assert!(e.message().contains("linear.weight"), "{e}");
    }
    // Heads of other uses change no vector.
    let head = with_tensor(
        &weights,
        "cls.predictions.decoder.weight",
        &[8, 16],
        &made_up(8 * 16, 1),
    );
    std::fs::write(&file, head).unwrap();
    embed(&scratch.0, MODEL, json!({}), &["a"]).await.unwrap();
}

#[test]
fn an_architecture_that_does_not_run_here_is_named_with_those_that_do() {
    for (key, value) in [
        ("model_type", json!("deberta-v2")),
        ("model_type", json!("nomic_bert")),
        ("model_type", json!("t5")),
        ("model_type", json!("dpr")),
        ("model_type", Value::Null),
        ("position_embedding_type", json!("alibi")),
        ("position_embedding_type", json!("relative_key")),
        ("is_decoder", json!(true)),
        ("hidden_act", json!("mish")),
    ] {
        for model in [MODEL, "bert-classifier"] {
            let scratch = Scratch::new("architecture").with_tiny(model);
            let folder = scratch.0.join(model);
            let file = std::fs::read(folder.join("config.json")).unwrap();
            let mut said: Value = serde_json::from_slice(&file).unwrap();
            said[key] = value.clone();
            write(&folder, "config.json", &said);
            let (client, _clock) = client_of(&scratch.0);
            let e = client
                .reranker(&entry(Operation::Rerank, model, json!({})))
                .map(drop)
                .unwrap_err();
            assert_eq!(e.kind(), Kind::Config, "{e}");
            assert!(
                e.message().contains("config.json") && e.message().contains(key),
                "{e}"
            );
            if let (Some(word), "model_type") = (value.as_str(), key) {
                let allowed =
                    "bert, camembert, distilbert, modernbert, mpnet, roberta and xlm-roberta";
                assert!(
                    e.message().contains(word) && e.message().contains(allowed),
                    "{e}"
                );
            }
            if model == MODEL {
                assert_eq!(refusal(&scratch, model), e.message());
            }
        }
    }
}

#[tokio::test]
async fn a_cross_encoder_has_no_modules_and_its_activation_may_stand_in_the_librarys_file() {
    let model = "bert-classifier";
    let scratch = Scratch::new("cross").with_tiny(model);
    let folder = scratch.0.join(model);
    let texts = ["the a", "and of to"];
    let plain = scores(&scratch.0, model, json!({}), "in", &texts)
        .await
        .unwrap();
    // The folder's own config.json says Identity; what newer versions save beside it wins.
    let saved = json!({ "model_type": "CrossEncoder", "activation_fn": "torch.nn.modules.activation.Sigmoid" });
    write(&folder, "config_sentence_transformers.json", &saved);
    let bent = scores(&scratch.0, model, json!({}), "in", &texts)
        .await
        .unwrap();
    for (x, y) in plain.iter().zip(&bent) {
        assert!(
            (1.0 / (1.0 + (-x).exp()) - y).abs() < 1e-6,
            "{plain:?}, {bent:?}"
        );
    }
    let kind = "sentence_transformers.models.Transformer";
    let list = json!([{ "path": "", "type": kind }]);
    write(&folder, "modules.json", &list);
    let (client, _clock) = client_of(&scratch.0);
    let ranks = entry(Operation::Rerank, model, json!({}));
    client.reranker(&ranks).unwrap();
    let more = json!([{ "path": "", "type": kind }, { "path": "1_Dense", "type": "sentence_transformers.base.modules.dense.Dense" }]);
    write(&folder, "modules.json", &more);
    let e = client.reranker(&ranks).map(drop).unwrap_err();
    assert!(
        e.message().contains("modules.json") && e.message().contains("1_Dense"),
        "{e}"
    );
}

#[tokio::test]
async fn prompts_are_put_before_texts_and_one_that_is_not_there_is_named() {
    let scratch = Scratch::new("prompts").with_tiny(MODEL);
    let file = "config_sentence_transformers.json";
    let set = |said: Value| write(&scratch.0.join(MODEL), file, &said);
    let of = async |more: Value, text: &str| {
        let vectors = embed(&scratch.0, MODEL, more, &[text]).await.unwrap();
        vectors.get(0).unwrap().to_vec()
    };
    let bare = of(json!({}), "is in").await;
    let with_the = of(json!({}), "the is in").await;
    assert_ne!(bare, with_the);
    set(json!({ "prompts": { "query": "the ", "document": null }, "default_prompt_name": null }));
    assert_eq!(of(json!({}), "is in").await, bare);
    assert_eq!(
        of(json!({ "input_type": "query" }), "is in").await,
        with_the
    );
    assert_eq!(of(json!({ "input_type": "document" }), "is in").await, bare);
    set(json!({ "prompts": { "query": "the " }, "default_prompt_name": "query" }));
    assert_eq!(of(json!({}), "is in").await, with_the);
    set(json!({ "prompts": { "query": "the " }, "default_prompt_name": "passage" }));
    let said = refusal(&scratch, MODEL);
    assert!(
        said.contains(file) && said.contains("\"passage\""),
        "{said}"
    );

    let model = "bert-classifier";
    let scratch = Scratch::new("pair-prompts").with_tiny(model);
    let prompts = json!({ "prompts": { "query": "the " }, "default_prompt_name": "query" });
    write(&scratch.0.join(model), file, &prompts);
    let (client, _clock) = client_of(&scratch.0);
    let ranks = entry(Operation::Rerank, model, json!({}));
    let e = client.reranker(&ranks).map(drop).unwrap_err();
    assert!(e.message().contains("default_prompt_name"), "{e}");
}
