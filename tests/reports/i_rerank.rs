//! I. Reranking: indices, counts and scores.

use antfly_framework::testing::{Reply, Server};
use antfly_framework::{Error, Kind, Ranking, RerankRequest};
use serde_json::{Value, json};

use crate::support::{client, reranker};

/// Ranks `count` documents against a server that answers `data`.
async fn rank(count: usize, top_n: Option<usize>, data: Value) -> Result<Ranking, Error> {
    let server = Server::always(Reply::json(200, json!({"data": data})));
    let documents: Vec<String> = (0..count).map(|n| format!("document {n}")).collect();
    let mut request = RerankRequest::new("query", documents);
    request.top_n = top_n;
    let result = reranker(&client(), &server, json!({}))
        .rerank(request)
        .await;
    assert_eq!(
        server.requests().len(),
        1,
        "a wrong answer is not asked for again"
    );
    result
}

fn scored(indices: &[usize]) -> Value {
    let all: Vec<Value> = indices
        .iter()
        .map(|index| json!({"index": index, "score": *index as f64 / 10.0}))
        .collect();
    json!(all)
}

fn invalid(result: Result<Ranking, Error>) -> Error {
    let error = result.unwrap_err();
    assert_eq!(error.kind(), Kind::InvalidResponse, "{error}");
    assert!(!error.is_retryable());
    error
}

#[tokio::test]
async fn i01_an_index_out_of_range_is_an_error() {
    for bad in [3, 99, usize::MAX] {
        let error = invalid(rank(3, None, scored(&[0, 1, bad])).await);
        assert_eq!(error.item(), Some(bad));
    }
    for bad in [json!(-1), json!(1.5), json!("1"), Value::Null] {
        let data = json!([{"index": 0, "score": 0.1}, {"index": bad, "score": 0.2}]);
        invalid(rank(2, None, data).await);
    }
}

#[tokio::test]
async fn i04_without_top_n_the_count_must_match() {
    invalid(rank(5, None, scored(&[0, 1, 2, 3])).await);
    invalid(rank(5, None, scored(&[])).await);
    invalid(rank(5, None, scored(&[0, 1, 2, 3, 4, 4])).await);
    let ranking = rank(5, None, scored(&[0, 1, 2, 3, 4])).await.unwrap();
    assert_eq!(ranking.results.len(), 5);
}

#[tokio::test]
async fn i04_with_top_n_there_are_at_most_so_many() {
    let indices =
        |ranking: &Ranking| -> Vec<usize> { ranking.results.iter().map(|r| r.index).collect() };
    let ranking = rank(7, Some(3), scored(&[0, 1, 2, 3, 4, 5, 6]))
        .await
        .unwrap();
    assert_eq!(indices(&ranking), [6, 5, 4]);
    let ranking = rank(2, Some(3), scored(&[0, 1])).await.unwrap();
    assert_eq!(indices(&ranking), [1, 0]);
    // `top_n` is not on this wire: a server that leaves scores out has lost them.
    invalid(rank(7, Some(3), scored(&[0, 1, 2])).await);
}

#[tokio::test]
async fn i06_a_score_that_is_no_number_is_named() {
    for bad in [
        json!(null),
        json!("0.9"),
        json!(true),
        json!([0.9]),
        json!({}),
    ] {
        let data = json!([{"index": 0, "score": 0.1}, {"index": 1, "score": bad}]);
        let error = invalid(rank(2, None, data).await);
        assert!(error.message().contains("score"), "{error}");
        assert_eq!(error.item(), Some(1), "{error}");
    }
    let error = invalid(rank(2, None, json!([{"index": 0, "score": 0.1}, {"index": 1}])).await);
    assert!(error.message().contains("score"), "{error}");
    assert_eq!(error.item(), Some(1));
}

#[tokio::test]
async fn i06_so_is_one_in_the_older_form() {
    for bad in [json!(null), json!("0.9")] {
        let server = Server::always(Reply::json(200, json!({"scores": [0.5, bad]})));
        let error = invalid(
            reranker(&client(), &server, json!({}))
                .rerank(RerankRequest::new("q", ["a", "b"]))
                .await,
        );
        assert!(error.message().contains("scores"), "{error}");
        assert_eq!(error.item(), Some(1));
    }
}

#[tokio::test]
async fn i08_the_text_is_the_inputs_own_by_index() {
    let server = Server::always(Reply::json(
        200,
        json!({"data": [{"index": 2, "score": 0.9}, {"index": 0, "score": 0.5}, {"index": 1, "score": 0.7}]}),
    ));
    let request = RerankRequest::new("q", ["zero", "one", "two"]);
    let ranking = reranker(&client(), &server, json!({}))
        .rerank(request.clone())
        .await
        .unwrap();
    let ranked: Vec<(String, f64)> = ranking
        .results
        .iter()
        .map(|r| (request.documents[r.index].text(), r.score))
        .collect();
    assert_eq!(
        ranked,
        [
            ("two".to_owned(), 0.9),
            ("one".to_owned(), 0.7),
            ("zero".to_owned(), 0.5)
        ]
    );
    // The texts went out in the caller's order.
    assert_eq!(
        server.requests()[0].json()["prompts"],
        json!(["zero", "one", "two"])
    );
}

#[tokio::test]
async fn i09_one_good_position_does_not_save_the_rest() {
    invalid(rank(3, None, scored(&[0, 7, 8])).await);
    invalid(rank(3, Some(1), scored(&[0, 7, 8])).await);
    let data =
        json!([{"index": 0, "score": 0.1}, {"index": 0, "score": 0.2}, {"index": 1, "score": 0.3}]);
    invalid(rank(3, None, data).await);
}

#[tokio::test]
async fn i12_a_document_that_is_too_long_is_told_in_the_servers_words_and_not_retried() {
    for body in [
        json!({"error": "document 1 has 9000 tokens, 512 are allowed"}),
        json!({"error": {"message": "document 1 has 9000 tokens, 512 are allowed"}}),
    ] {
        let server = Server::always(Reply::json(400, body));
        let error = reranker(&client(), &server, json!({}))
            .rerank(RerankRequest::new("q", ["a", "b"]))
            .await
            .unwrap_err();
        assert_eq!(error.kind(), Kind::InvalidRequest);
        assert_eq!(
            error.message(),
            "document 1 has 9000 tokens, 512 are allowed"
        );
        assert_eq!(error.attempts(), 1);
        assert_eq!(server.requests().len(), 1);
    }
}
