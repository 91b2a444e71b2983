//! The ranking API.

use antfly_providers::testing::{Reply, Server};
use antfly_providers::{Env, Kind, RerankRequest, Reranker};
use serde_json::{Value, json};

use crate::google::*;
use crate::support::*;

fn open(server: &Server, extra: Value) -> (Reranker, Google) {
    let google = Google::start();
    let path = google.file(&google.user());
    let mut fields = with_file(&path, extra);
    fields["model"] = json!("semantic-ranker-default@latest");
    let reranker = vertex_reranker(&client_of(Env::empty()), server, fields);
    (reranker, google)
}

#[tokio::test]
async fn records_travel_under_ids_and_scores_come_back_to_their_documents() {
    let server = Server::start([Reply::json(200, fixture!("rank.json"))]);
    let (reranker, _google) = open(
        &server,
        json!({"extra_body": {"userLabels": {"team": "a"}}}),
    );
    let ranking = reranker
        .rerank(RerankRequest::new("why is the sky blue?", ["a", "b", "c"]))
        .await
        .unwrap();
    let order: Vec<(usize, f64)> = ranking.results.iter().map(|r| (r.index, r.score)).collect();
    assert_eq!(order, [(2, 0.98), (0, 0.64), (1, 0.64)]);
    let sent = &server.requests()[0];
    assert_eq!(
        sent.path,
        "/v1/projects/p-1/locations/global/rankingConfigs/default_ranking_config:rank"
    );
    assert_eq!(
        sent.json(),
        json!({"model": "semantic-ranker-default@latest", "query": "why is the sky blue?",
               "records": [{"id": "0", "content": "a"}, {"id": "1", "content": "b"}, {"id": "2", "content": "c"}],
               "ignoreRecordDetailsInResponse": true, "userLabels": {"team": "a"}})
    );
    assert_eq!(bearers(&server), ["token-1"]);
}

#[tokio::test]
async fn i04_top_n_is_sent_and_bounds_the_answer() {
    let record = |id: &str, score: f64| json!({"id": id, "score": score});
    let server = Server::start([
        Reply::json(
            200,
            json!({"records": [record("2", 0.9), record("0", 0.5)]}),
        ),
        Reply::json(
            200,
            json!({"records": [record("2", 0.9), record("0", 0.5), record("1", 0.1)]}),
        ),
        Reply::json(200, json!({"records": [record("2", 0.9)]})),
    ]);
    let (reranker, _google) = open(&server, json!({"top_n": 2}));
    let request = || RerankRequest::new("q", ["a", "b", "c"]);
    assert_eq!(reranker.rerank(request()).await.unwrap().results.len(), 2);
    assert_eq!(server.requests()[0].json()["topN"], 2);
    // More than was asked for is an error.
    let error = reranker.rerank(request()).await.unwrap_err();
    assert_eq!(error.kind(), Kind::InvalidResponse);
    // Without top_n there must be a score for each.
    let (all, _google) = open(&server, json!({}));
    let error = all.rerank(request()).await.unwrap_err();
    assert_eq!(error.kind(), Kind::InvalidResponse);
    assert!(server.requests()[2].json().get("topN").is_none());
}

#[tokio::test]
async fn i01_i06_i09_ids_and_scores_that_are_wrong_reject_the_whole_answer() {
    for (records, words) in [
        (
            json!([{"id": "0", "score": 0.5}, {"id": "9", "score": 0.4}]),
            "index 9",
        ),
        (
            json!([{"id": "0", "score": 0.5}, {"id": "0", "score": 0.4}]),
            "twice",
        ),
        (
            json!([{"id": "0", "score": 0.5}, {"id": "x", "score": 0.4}]),
            "records[1].id",
        ),
        (
            json!([{"id": "0", "score": 0.5}, {"score": 0.4}]),
            "records[1].id",
        ),
        (
            json!([{"id": "0", "score": null}, {"id": "1", "score": 0.4}]),
            "records[0].score",
        ),
        (
            json!([{"id": "0", "score": "0.9"}, {"id": "1", "score": 0.4}]),
            "records[0].score",
        ),
        (
            json!([{"id": "0"}, {"id": "1", "score": 0.4}]),
            "records[0].score",
        ),
        (json!([{"id": "0", "score": 0.5}]), "1 scores for 2"),
        (json!([]), "0 scores for 2"),
    ] {
        let server = Server::start([Reply::json(200, json!({"records": records}))]);
        let (reranker, _google) = open(&server, json!({}));
        let error = reranker
            .rerank(RerankRequest::new("q", ["a", "b"]))
            .await
            .unwrap_err();
        assert_eq!(error.kind(), Kind::InvalidResponse);
        assert!(error.message().contains(words), "{records}: {error}");
        assert_eq!(server.requests().len(), 1);
    }
    let server = Server::start([Reply::json(200, json!({}))]);
    let (reranker, _google) = open(&server, json!({}));
    let error = reranker
        .rerank(RerankRequest::new("q", ["a"]))
        .await
        .unwrap_err();
    assert!(error.message().contains("no records"), "{error}");
}

#[tokio::test]
async fn more_than_200_documents_are_refused_before_sending() {
    let server = Server::start([]);
    let (reranker, google) = open(&server, json!({}));
    let documents: Vec<String> = (0..201).map(|i| i.to_string()).collect();
    let error = reranker
        .rerank(RerankRequest::new("q", documents))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), Kind::InvalidRequest);
    assert!(error.message().contains("200"), "{error}");
    assert!(server.requests().is_empty() && google.server.requests().is_empty());
}

#[tokio::test]
async fn f10_a_rate_limit_of_the_ranking_api_cools_its_scope() {
    let google = Google::start();
    let path = google.file(&google.user());
    let (time, _clock) = antfly_providers::Time::manual();
    let server = Server::start([Reply::json(429, fixture!("error_rate.json"))]);
    let mut fields = with_file(&path, json!({"retry": {"max_attempts": 1}}));
    fields["model"] = json!("semantic-ranker-default@latest");
    let reranker = vertex_reranker(&client_with(time, Env::empty()), &server, fields);
    let error = soon(reranker.rerank(RerankRequest::new("q", ["a"])))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), Kind::RateLimited);
    assert_eq!(reranker.scope_snapshot().cooldown_remaining, Some(ms(2500)));
}

#[tokio::test]
async fn of_a_json_document_the_field_is_ranked() {
    let record = |id: usize| json!({"id": id.to_string(), "score": 0.5});
    let answer = json!({"records": [record(0), record(1), record(2), record(3)]});
    let server = Server::start([Reply::json(200, answer)]);
    let (reranker, _google) = open(&server, json!({"field": "body"}));
    let documents = [
        r#"{"title": "t", "body": "the text"}"#,
        r#"{"title": "t"}"#,
        "{ no JSON",
        "plain",
    ];
    reranker
        .rerank(RerankRequest::new("q", documents))
        .await
        .unwrap();
    let sent = server.requests()[0].json();
    let texts: Vec<_> = (0..4)
        .map(|i| sent["records"][i]["content"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(
        texts,
        ["the text", documents[1], documents[2], documents[3]]
    );
}

#[tokio::test]
async fn i12_a_document_the_server_refuses_is_told_and_not_tried_again() {
    let told = json!({"error": {"code": 400, "status": "INVALID_ARGUMENT", "message": "records[1] is too long"}});
    let server = Server::start([Reply::json(400, told)]);
    let (reranker, _google) = open(&server, json!({}));
    let error = reranker
        .rerank(RerankRequest::new("q", ["a", "b"]))
        .await
        .unwrap_err();
    assert_eq!(
        (error.kind(), error.attempts()),
        (Kind::InvalidRequest, 1),
        "{error}"
    );
    assert!(
        error.message().contains("records[1] is too long"),
        "{error}"
    );
    assert_eq!(server.requests().len(), 1);
}
