//! Sparse embeddings: parallel lists instead of numbers.

use antfly_providers::testing::Server;
use antfly_providers::{EmbedRequest, Error, Kind, SparseVector};
use serde_json::{Value, json};

use crate::support::*;

#[tokio::test]
async fn sparse_vectors_come_back_in_input_order() {
    let server = Server::with(|request| {
        let count = request.json()["input"].as_array().unwrap().len();
        let vectors: Vec<Value> = (0..count)
            .map(|n| json!({"indices": [n, 30_000 + n], "values": [0.5, 1.25]}))
            .collect();
        answer(&vectors)
    });
    let request = EmbedRequest::texts(["a", "b", "c"]).with_batch_size(2);
    let vectors = embedder(&server, json!({})).embed(request).await.unwrap();
    assert!(vectors.is_sparse());
    assert_eq!(vectors.len(), 3);
    // The third came as the first of a second part.
    for (at, n) in [(0, 0), (1, 1), (2, 0)] {
        let expected = SparseVector {
            indices: vec![n, 30_000 + n],
            values: vec![0.5, 1.25],
        };
        assert_eq!(vectors.get_sparse(at), Some(&expected), "{at}");
    }
    assert_eq!((vectors.dim(), vectors.get(0)), (0, None));
}

#[tokio::test]
async fn a_vector_without_any_entry_is_one_too() {
    let server = Server::start([answer(&[
        json!({"indices": [], "values": []}),
        json!({"indices": [7], "values": [1.0]}),
    ])]);
    let vectors = embedder(&server, json!({}))
        .embed(EmbedRequest::texts(["a", "b"]))
        .await
        .unwrap();
    assert_eq!(vectors.get_sparse(0), Some(&SparseVector::default()));
    assert_eq!(vectors.get_sparse(1).unwrap().indices, [7]);
}

async fn wrong(second: Value) -> Error {
    let server = Server::start([answer(&[json!({"indices": [1], "values": [1.0]}), second])]);
    let e = embedder(&server, json!({}))
        .embed(EmbedRequest::texts(["a", "b"]))
        .await
        .unwrap_err();
    assert_eq!(e.kind(), Kind::InvalidResponse, "{e}");
    assert_eq!(server.requests().len(), 1, "it is not asked for again");
    e
}

#[tokio::test]
async fn lists_that_do_not_belong_together_are_an_error_that_names_the_item() {
    for (vector, what) in [
        (
            json!({"indices": [1, 2], "values": [0.5]}),
            "2 indices and 1 values",
        ),
        (
            json!({"indices": [4, 2, 4], "values": [1, 2, 3]}),
            "index 4 twice",
        ),
        (json!({"indices": [1], "values": [1e39]}), "not finite"),
        (json!([0.5, 0.5]), "dense"),
    ] {
        let e = wrong(vector).await;
        assert_eq!(e.item(), Some(1), "{e}");
        assert!(e.message().contains(what), "{e}");
    }
}

#[tokio::test]
async fn an_index_or_a_value_that_is_none_is_an_error() {
    for vector in [
        json!({"indices": [-1], "values": [1.0]}),
        json!({"indices": [1.5], "values": [1.0]}),
        json!({"indices": [4_294_967_296_u64], "values": [1.0]}),
        json!({"indices": ["1"], "values": [1.0]}),
        json!({"indices": [1], "values": [null]}),
        json!({"indices": [1]}),
        json!({"values": [1.0]}),
        json!({"indices": null, "values": null}),
        json!({}),
    ] {
        let e = wrong(vector.clone()).await;
        assert!(e.message().contains("does not parse"), "{vector}: {e}");
    }
}

#[tokio::test]
async fn a_dense_vector_first_and_a_sparse_one_later_are_not_mixed_either() {
    let server = Server::start([answer(&[
        json!([1.0]),
        json!({"indices": [1], "values": [1.0]}),
    ])]);
    let e = embedder(&server, json!({}))
        .embed(EmbedRequest::texts(["a", "b"]))
        .await
        .unwrap_err();
    assert_eq!((e.kind(), e.item()), (Kind::InvalidResponse, Some(1)));
}
