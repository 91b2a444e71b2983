//! What comes back: numbers or an error, and as many as were asked for.

use antfly_framework::provider::Operation;
use antfly_framework::{Kind, RerankRequest};
use serde_json::json;

use crate::support::{Scratch, client_of, embed, entry, here};

#[tokio::test]
async fn h20_a_vector_that_is_no_number_is_an_error_and_no_vector() {
    let broken = Scratch::new("no-number").with_tiny("bert-encoder");
    let path = broken.0.join("bert-encoder/model.safetensors");
    let mut bytes = std::fs::read(&path).unwrap();
    // The weights begin behind the header and its length.
    let (length, rest) = bytes.split_first_chunk_mut::<8>().unwrap();
    let header = usize::try_from(u64::from_le_bytes(*length)).unwrap();
    rest[header..header + 4].copy_from_slice(&f32::NAN.to_le_bytes());
    std::fs::write(&path, bytes).unwrap();
    let texts = ["a text", "another"];
    let e = embed(&broken.0, "bert-encoder", json!({}), &texts)
        .await
        .unwrap_err();
    assert_eq!(e.kind(), Kind::InvalidResponse, "{e}");
    assert!(!e.is_retryable());
    let good = embed(&here("tiny"), "bert-encoder", json!({}), &texts).await;
    assert_eq!(good.unwrap().len(), 2);
}

#[tokio::test]
async fn i04_top_n_is_the_most_that_comes_back_and_more_than_there_are_is_all() {
    let (client, _clock) = client_of(&here("tiny"));
    let documents = ["a text", "another", "a third", "the last of them"];
    let indices = async |more| {
        let reranker = client
            .reranker(&entry(Operation::Rerank, "bert-classifier", more))
            .unwrap();
        let ranking = reranker.rerank(RerankRequest::new("a query", documents));
        let results = ranking.await.unwrap().results;
        assert!(results.is_sorted_by(|a, b| a.score >= b.score));
        results.into_iter().map(|r| r.index).collect::<Vec<_>>()
    };
    let all = indices(json!({})).await;
    assert_eq!(all.len(), 4);
    assert_eq!(indices(json!({"top_n": 2})).await, all[..2]);
    assert_eq!(indices(json!({"top_n": 99})).await, all);
}
