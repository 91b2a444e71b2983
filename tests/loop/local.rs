//! The in-process route: its own admission, no credential, no outbound limit.

use std::sync::Arc;

use antfly_framework::provider::{
    InferenceEngine, LocalAnswer, LocalProvider, LocalRequest, Operation,
};
use antfly_framework::{
    Client, EntryConfig, Env, Error, Kind, Ranked, Ranking, RerankRequest, Result, Time,
};
use async_trait::async_trait;
use serde_json::json;
use tokio::sync::Semaphore;

/// Ranks by length, one at a time; a second waiting request is refused.
#[derive(Debug)]
struct Lengths;

#[derive(Debug)]
struct Model {
    slots: Semaphore,
    queue: Semaphore,
}

impl InferenceEngine for Lengths {
    fn knows(&self, operation: Operation, model: &str) -> bool {
        operation == Operation::Rerank && model == "lengths"
    }
    fn open(&self, _: &EntryConfig) -> Result<Arc<dyn LocalProvider>> {
        Ok(Arc::new(Model {
            slots: Semaphore::new(1),
            queue: Semaphore::new(1),
        }))
    }
}

#[async_trait]
impl LocalProvider for Model {
    async fn run(&self, request: LocalRequest) -> Result<LocalAnswer> {
        let LocalRequest::Rerank(request) = request else {
            return Err(Error::new(Kind::Unsupported, "ranks only"));
        };
        let full = |_| Error::new(Kind::Overloaded, "the queue is full");
        let _place = self.queue.try_acquire().map_err(full)?;
        let _slot = self
            .slots
            .acquire()
            .await
            .map_err(|_| Error::new(Kind::Overloaded, "closed"))?;
        let score = |index: usize| Ranked {
            index,
            score: request.documents[index].text().len() as f64,
        };
        Ok(LocalAnswer::Ranking(Ranking {
            results: (0..request.documents.len()).map(score).collect(),
            ..Ranking::default()
        }))
    }
}

fn client(env: Env) -> Client {
    Client::builder()
        .registry(antfly_providers::registry().unwrap())
        .time(Time::manual().0)
        .env(env)
        .engine(Arc::new(Lengths))
        .build()
        .unwrap()
}

fn entry(more: serde_json::Value) -> EntryConfig {
    let mut json = json!({"provider": "antfly", "model": "lengths"});
    json.as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    EntryConfig::from_json(Operation::Rerank, "rerankers.r", json).unwrap()
}

#[tokio::test]
async fn an_engine_that_knows_the_model_serves_it_in_process() {
    let reranker = client(Env::empty()).reranker(&entry(json!({}))).unwrap();
    let ranking = reranker
        .rerank(RerankRequest::new("q", ["a", "ccc", "bb"]))
        .await
        .unwrap();
    let order: Vec<_> = ranking.results.iter().map(|r| r.index).collect();
    assert_eq!(order, [1, 2, 0]);
    assert_eq!(
        reranker.scope_snapshot().counters.admitted,
        0,
        "nothing left the process"
    );
}

#[tokio::test]
async fn the_in_process_route_refuses_limits_and_resolves_no_credential() {
    // A reference that is found nowhere would be an error, were it looked at.
    let with_key = entry(json!({"api_key": "${secret:nowhere}"}));
    client(Env::empty()).reranker(&with_key).unwrap();
    let limited = entry(json!({"rate_limit": {"max_concurrency": 1}}));
    let e = client(Env::empty()).reranker(&limited).unwrap_err();
    assert_eq!(e.kind(), Kind::Config);
    assert!(e.message().starts_with("rerankers.r.rate_limit"), "{e}");
    client(Env::empty())
        .reranker(&entry(json!({"rate_limit": {}})))
        .unwrap();
}

#[tokio::test]
async fn a_url_makes_it_remote_whatever_the_engine_knows() {
    let env = Env::from_pairs([("ANTFLY_INFERENCE_URL", "http://127.0.0.1:9")]);
    for (client, entry) in [
        (client(env), entry(json!({}))),
        (
            client(Env::empty()),
            entry(json!({"url": "http://127.0.0.1:9"})),
        ),
    ] {
        let checked = client.check(&entry).unwrap();
        let endpoint = checked
            .scope
            .iter()
            .find(|(n, _)| *n == "endpoint")
            .unwrap();
        assert_eq!(endpoint.1, "http://127.0.0.1:9/ai/v1");
    }
}
