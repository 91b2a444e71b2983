//! `rerank`: one call, best first.

use antfly_framework::testing::{Received, Reply, Server};
use serde_json::{Value, json};

use crate::support::{Folder, config, run};

/// Scores by length: the longest is the best.
fn scores(request: &Received) -> Reply {
    let body = request.json();
    let data: Vec<Value> = body["prompts"]
        .as_array()
        .unwrap()
        .iter()
        .enumerate()
        .map(|(index, text)| json!({"object": "rerank.score", "index": index, "score": text.as_str().unwrap().len() as f64 / 8.0}))
        .collect();
    Reply::json(
        200,
        json!({"object": "list", "data": data, "model": "small"}),
    )
}

#[test]
fn all_lines_are_ranked_in_one_call_best_first() {
    let server = Server::with(scores);
    let folder = Folder::new();
    let config = config(&folder, "rerankers", &server, json!({"ranker": {}}));
    let input = "{\"id\": \"a\", \"text\": \"xx\"}\n\"xxxx\"\n{\"id\": null, \"text\": \"x\"}\n";
    let out = run(&["rerank", "--config", &config, "--query", "q"], input);
    assert_eq!(out.code, Some(0), "{}", out.stderr);
    assert_eq!(
        out.lines(),
        [
            json!({"id": 1, "index": 1, "score": 0.5}),
            json!({"id": "a", "index": 0, "score": 0.25}),
            json!({"id": null, "index": 2, "score": 0.125}),
        ]
    );
    let requests = server.requests();
    assert_eq!(requests.len(), 1);
    assert_eq!(requests[0].json()["query"], "q");
}

#[test]
fn bad_documents_follow_and_the_index_counts_lines() {
    let server = Server::with(scores);
    let folder = Folder::new();
    let config = config(&folder, "rerankers", &server, json!({"ranker": {}}));
    let input = "nonsense\n{\"id\": \"a\", \"text\": \"x\"}\n{\"id\": \"e\", \"text\": \"\"}\n{\"id\": \"b\", \"text\": \"xx\"}\n";
    let out = run(&["rerank", "--config", &config, "--query", "q"], input);
    assert_eq!(out.code, Some(1), "{}", out.stderr);
    let got = out.lines();
    assert_eq!(got[0], json!({"id": "b", "index": 3, "score": 0.25}));
    assert_eq!(got[1], json!({"id": "a", "index": 1, "score": 0.125}));
    assert_eq!(got[2]["id"], 0);
    assert_eq!(got[2]["error"]["kind"], "invalid_request");
    assert_eq!(got[3]["id"], "e");
    assert_eq!(got.len(), 4);
}

#[test]
fn a_failed_call_fails_every_document_in_the_order_of_the_input() {
    let server = Server::always(Reply::json(404, json!({"error": "no such model"})));
    let folder = Folder::new();
    let config = config(&folder, "rerankers", &server, json!({"ranker": {}}));
    let input = "\"a\"\nnonsense\n\"b\"\n";
    let out = run(&["rerank", "--config", &config, "--query", "q"], input);
    assert_eq!(out.code, Some(1), "{}", out.stderr);
    let got = out.lines();
    let ids: Vec<&Value> = got.iter().map(|line| &line["id"]).collect();
    assert_eq!(ids, [0, 1, 2]);
    let kinds: Vec<&Value> = got.iter().map(|line| &line["error"]["kind"]).collect();
    assert_eq!(kinds, ["not_found", "invalid_request", "not_found"]);
}

#[test]
fn no_document_is_no_call() {
    let server = Server::with(scores);
    let folder = Folder::new();
    let config = config(&folder, "rerankers", &server, json!({"ranker": {}}));
    let out = run(&["rerank", "--config", &config, "--query", "q"], "");
    assert_eq!((out.code, out.stdout.as_str()), (Some(0), ""));
    assert!(server.requests().is_empty());
}
