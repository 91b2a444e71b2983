//! Every family and every head, on seeded random weights, against transformers. See `reference.py`.

use antfly_providers::Operation;
use serde::Deserialize;
use serde_json::json;

use crate::support::*;

#[derive(Deserialize)]
struct Expected<T> {
    query: String,
    documents: Vec<String>,
    numbers: Vec<T>,
}

fn expected<T: serde::de::DeserializeOwned>(name: &str) -> Expected<T> {
    let file = here("tiny").join(name).join("expected.json");
    serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap()
}

async fn classifier(name: &str) {
    let expected = expected::<f64>(name);
    let documents: Vec<&str> = expected.documents.iter().map(String::as_str).collect();
    let scores = scores(&here("tiny"), name, json!({}), &expected.query, &documents)
        .await
        .unwrap();
    for (item, (is, should)) in scores.iter().zip(&expected.numbers).enumerate() {
        let apart = (is - should).abs();
        assert!(
            apart <= 2e-5 * should.abs().max(1.0),
            "{name}, document {item}: {is} is not {should}"
        );
    }
    let distinct: std::collections::BTreeSet<_> = scores.iter().map(|s| (s * 1e4) as i64).collect();
    assert!(
        distinct.len() >= 6,
        "{name}: the scores tell nothing apart: {scores:?}"
    );
}

async fn encoder(name: &str) {
    let expected = expected::<Vec<f32>>(name);
    let documents: Vec<&str> = expected.documents.iter().map(String::as_str).collect();
    let vectors = embed(&here("tiny"), name, json!({}), &documents)
        .await
        .unwrap();
    for (item, (is, should)) in vectors.iter().zip(&expected.numbers).enumerate() {
        for (at, (x, y)) in is.iter().zip(should).enumerate() {
            assert!(
                (x - y).abs() <= 2e-5 * y.abs().max(1.0),
                "{name}, text {item}, number {at}: {x} is not {y}"
            );
        }
    }
    assert_eq!(vectors.len(), documents.len());
}

#[tokio::test]
async fn berts_head_agrees_with_transformers() {
    classifier("bert-classifier").await;
}

#[tokio::test]
async fn a_score_goes_through_a_sigmoid_unless_the_folder_says_otherwise() {
    classifier("bert-sigmoid").await;
}

#[tokio::test]
async fn xlm_robertas_head_agrees_with_transformers() {
    classifier("xlm-roberta-classifier").await;
    classifier("roberta-classifier").await;
}

#[tokio::test]
async fn modernberts_heads_agree_with_transformers() {
    classifier("modernbert-classifier").await;
    classifier("modernbert-mean-classifier").await;
}

#[tokio::test]
async fn distilberts_head_agrees_with_transformers() {
    classifier("distilbert-classifier").await;
}

#[tokio::test]
async fn every_familys_encoder_agrees_with_transformers() {
    for name in [
        "bert-encoder",
        "xlm-roberta-encoder",
        "distilbert-encoder",
        "mpnet-encoder",
        "modernbert-encoder",
    ] {
        encoder(name).await;
    }
}

#[tokio::test]
async fn a_cross_encoder_makes_no_vectors_and_takes_no_scoring() {
    let (client, _clock) = client_of(&here("tiny"));
    let embeds = entry(Operation::Embed, "bert-classifier", json!({}));
    let e = client.embedder(&embeds).unwrap_err();
    assert!(e.message().contains("makes no vectors"), "{e}");
    let scored = json!({ "scoring": "cosine" });
    let ranks = entry(Operation::Rerank, "bert-classifier", scored);
    let e = client.reranker(&ranks).unwrap_err();
    assert!(e.message().starts_with("rerankers.one.scoring: "), "{e}");
}
