//! Clients, entries, and ways to wait that can't pass by luck.

use std::future::Future;
use std::time::{Duration, Instant as WallInstant};

use antfly_providers::limiter::ManualClock;
use antfly_providers::testing::{Reply, Server};
use antfly_providers::{
    Client, Embedder, EntryConfig, Env, Error, GenerateRequest, Generator, Limiter, Operation,
    StreamEvent, Time,
};
use serde_json::{Value, json};

/// How long anything may take before a test fails.
const PATIENCE: Duration = Duration::from_secs(60);

macro_rules! fixture {
    ($name:literal) => {
        include_str!(concat!("../../src/google/fixtures/", $name))
    };
}
pub(crate) use fixture;

pub(crate) const KEY: &str = "AIza-test-0123456789";

pub(crate) fn client_with(time: Time, env: Env) -> Client {
    antfly_providers::client_builder()
        .unwrap()
        .limiter(Limiter::new(time))
        .env(env)
        .build()
        .unwrap()
}

/// A client on the real clock with a Gemini key in its environment.
pub(crate) fn client() -> Client {
    client_with(Time::thread(), Env::from_pairs([("GEMINI_API_KEY", KEY)]))
}

/// The same on a clock that only the test moves.
pub(crate) fn manual() -> (Client, ManualClock) {
    let (time, clock) = Time::manual();
    let env = Env::from_pairs([("GEMINI_API_KEY", KEY)]);
    (client_with(time, env), clock)
}

/// An entry, its fields replaced by those of `extra`. Retries wait a millisecond at most.
pub(crate) fn try_entry(
    operation: Operation,
    provider: &str,
    url: &str,
    extra: Value,
) -> Result<EntryConfig, Error> {
    let path = match operation {
        Operation::Embed => "embedders.w",
        Operation::Rerank => "rerankers.w",
        _ => "generators.w",
    };
    let mut value = json!({
        "provider": provider,
        "model": "gemini-2.5-flash",
        "url": url,
        "proxy": "none",
        "retry": {"max_attempts": 3, "initial_backoff_ms": 1, "max_backoff_ms": 1},
    });
    for (name, field) in extra.as_object().unwrap() {
        value[name] = field.clone();
    }
    EntryConfig::from_json(operation, path, value)
}

pub(crate) fn gemini(client: &Client, server: &Server, extra: Value) -> Generator {
    let entry = try_entry(Operation::Generate, "gemini", &server.url(), extra).unwrap();
    client.generator(&entry).unwrap()
}

pub(crate) fn gemini_embedder(client: &Client, server: &Server, extra: Value) -> Embedder {
    let mut entry = try_entry(Operation::Embed, "gemini", &server.url(), extra).unwrap();
    if entry.model == "gemini-2.5-flash" {
        entry.model = "gemini-embedding-001".to_owned();
    }
    client.embedder(&entry).unwrap()
}

pub(crate) fn ask() -> GenerateRequest {
    GenerateRequest::prompt("hi")
}

/// A whole streamed answer: each line of a fixture is one event's data.
pub(crate) fn sse(fixture: &str) -> Reply {
    Reply::sse(fixture.lines())
}

/// Reads a streamed call to its end: what came, and the error that ended it (also one that kept it from opening).
pub(crate) async fn read(generator: &Generator) -> (Vec<StreamEvent>, Option<Error>) {
    let mut events = Vec::new();
    let mut stream = match generator.stream(ask()).await {
        Ok(stream) => stream,
        Err(error) => return (events, Some(error)),
    };
    while let Some(event) = stream.next().await {
        match event {
            Ok(event) => events.push(event),
            Err(error) => {
                assert!(stream.next().await.is_none(), "something came after it");
                return (events, Some(error));
            }
        }
    }
    (events, None)
}

/// The texts among events, each as it came.
pub(crate) fn texts(events: &[StreamEvent]) -> Vec<&str> {
    events
        .iter()
        .filter_map(|event| match event {
            StreamEvent::Text(text) => Some(text.as_str()),
            _ => None,
        })
        .collect()
}

/// Lets everything run until `done`.
pub(crate) async fn until(what: &str, done: impl Fn() -> bool) {
    let started = WallInstant::now();
    while !done() {
        assert!(started.elapsed() < PATIENCE, "waited in vain for {what}");
        tokio::task::yield_now().await;
    }
}

/// Bounds a future that would hang if the fault were there.
pub(crate) async fn soon<T>(work: impl Future<Output = T>) -> T {
    match tokio::time::timeout(PATIENCE, work).await {
        Ok(done) => done,
        Err(_) => panic!("hung for {PATIENCE:?}"),
    }
}

pub(crate) const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}
