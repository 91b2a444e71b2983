//! Clients, entries and answers.

use antfly_providers::testing::{Received, Reply, Server};
use antfly_providers::{
    Client, ClientBuilder, Embedder, EntryConfig, Env, Generator, Operation, Reranker, Result, Time,
};
use serde_json::{Value, json};

pub(crate) const KEY: &str = "ak-test-0123456789";

pub(crate) fn builder(env: &[(&str, &str)]) -> ClientBuilder {
    antfly_providers::client_builder()
        .unwrap()
        .time(Time::thread())
        .jitter_seed(1)
        .env(Env::from_pairs(env.iter().copied()))
}

pub(crate) fn client() -> Client {
    builder(&[]).build().unwrap()
}

/// An entry of the provider `antfly`, its fields those of `extra`. Retries wait a millisecond at most.
pub(crate) fn entry(operation: Operation, extra: Value) -> Result<EntryConfig> {
    let mut value = json!({
        "provider": "antfly",
        "model": "m",
        "retry": {"max_attempts": 2, "initial_backoff_ms": 1, "max_backoff_ms": 1},
    });
    for (name, field) in extra.as_object().unwrap() {
        value[name] = field.clone();
    }
    let section = match operation {
        Operation::Embed => "embedders.w",
        Operation::Generate => "generators.w",
        _ => "rerankers.w",
    };
    EntryConfig::from_json(operation, section, value)
}

fn at(operation: Operation, server: &Server, mut extra: Value) -> EntryConfig {
    extra["url"] = server.url().into();
    entry(operation, extra).unwrap()
}

pub(crate) fn embedder(server: &Server, extra: Value) -> Embedder {
    client()
        .embedder(&at(Operation::Embed, server, extra))
        .unwrap()
}

pub(crate) fn generator(server: &Server, extra: Value) -> Generator {
    client()
        .generator(&at(Operation::Generate, server, extra))
        .unwrap()
}

pub(crate) fn reranker(server: &Server, extra: Value) -> Reranker {
    client()
        .reranker(&at(Operation::Rerank, server, extra))
        .unwrap()
}

/// Vectors of these values, in this order, each with its index.
pub(crate) fn answer(embeddings: &[Value]) -> Reply {
    let data: Vec<Value> = embeddings
        .iter()
        .enumerate()
        .map(|(index, embedding)| json!({"object": "embedding", "index": index, "embedding": embedding}))
        .collect();
    Reply::json(
        200,
        json!({"object": "list", "data": data, "model": "m", "usage": {"prompt_tokens": 3, "total_tokens": 3}}),
    )
}

/// A vector of one number for each element of the request's `input`: its place in the request.
pub(crate) fn one_each(request: &Received) -> Reply {
    let count = request.json()["input"].as_array().unwrap().len();
    answer(&(0..count).map(|n| json!([n as f64])).collect::<Vec<_>>())
}
