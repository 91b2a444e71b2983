//! Rerank models through InvokeModel.

use antfly_framework::testing::{Reply, Server};
use antfly_framework::{Kind, RerankRequest};
use serde_json::json;

use crate::support::{client, keys, reranker};

#[tokio::test]
async fn cohere_and_amazon_rank_through_invoke_model() {
    let results =
        json!([{"index": 1, "relevance_score": 0.9}, {"index": 0, "relevance_score": 0.25}]);
    let server = Server::always(
        Reply::json(200, json!({ "results": results })).header("x-amzn-requestid", "r-1"),
    );
    let client = client(keys());
    for (model, path, version) in [
        (
            "cohere.rerank-v3-5:0",
            "/model/cohere.rerank-v3-5%3A0/invoke",
            Some(2),
        ),
        (
            "amazon.rerank-v1:0",
            "/model/amazon.rerank-v1%3A0/invoke",
            None,
        ),
    ] {
        let reranker = reranker(&client, &server, json!({ "model": model }));
        let ranking = reranker
            .rerank(RerankRequest::new("q", ["a", "b"]))
            .await
            .unwrap();
        let scores: Vec<_> = ranking.results.iter().map(|r| (r.index, r.score)).collect();
        assert_eq!(scores, [(1, 0.9), (0, 0.25)]);
        assert_eq!(ranking.request_id.as_deref(), Some("r-1"));
        let request = server.requests().pop().unwrap();
        assert_eq!(request.path, path);
        let mut body = json!({"query": "q", "documents": ["a", "b"]});
        if let Some(version) = version {
            body["api_version"] = json!(version);
        }
        assert_eq!(request.json(), body);
    }
}

#[tokio::test]
async fn top_n_is_on_the_wire_and_i04_a_count_that_is_wrong_is_an_error() {
    let one = json!({"results": [{"index": 1, "relevance_score": 0.9}]});
    let server = Server::start([Reply::json(200, &one), Reply::json(200, &one)]);
    let reranker = reranker(
        &client(keys()),
        &server,
        json!({"model": "amazon.rerank-v1:0"}),
    );
    let mut request = RerankRequest::new("q", ["a", "b", "c"]);
    request.top_n = Some(1);
    assert_eq!(
        reranker
            .rerank(request.clone())
            .await
            .unwrap()
            .results
            .len(),
        1
    );
    assert_eq!(server.requests()[0].json()["top_n"], 1);
    request.top_n = None;
    let e = reranker.rerank(request).await.unwrap_err();
    assert_eq!(e.kind(), Kind::InvalidResponse);
}

#[tokio::test]
async fn i01_i12_an_index_out_of_range_and_a_refused_document_are_errors() {
    let server = Server::start([
        Reply::json(
            200,
            json!({"results": [{"index": 0, "relevance_score": 1}, {"index": 99, "relevance_score": 1}]}),
        ),
        Reply::json(400, json!({"message": "document 1 is too long"}))
            .header("x-amzn-errortype", "ValidationException"),
    ]);
    let reranker = reranker(&client(keys()), &server, json!({}));
    let ask = || RerankRequest::new("q", ["a", "b"]);
    assert_eq!(reranker.rerank(ask()).await.unwrap_err().item(), Some(99));
    let e = reranker.rerank(ask()).await.unwrap_err();
    assert_eq!((e.kind(), e.attempts()), (Kind::InvalidRequest, 1));
    assert!(e.message().contains("document 1 is too long"));
    let many = RerankRequest::new("q", vec!["d"; 1001]);
    let e = reranker.rerank(many).await.unwrap_err();
    assert_eq!((e.kind(), e.attempts()), (Kind::InvalidRequest, 0));
}
