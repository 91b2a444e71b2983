//! Clients, entries, and ways to wait that can't pass by luck.

use std::future::Future;
use std::sync::LazyLock;
use std::time::{Duration, Instant as WallInstant};

use antfly_providers::limiter::ManualClock;
use antfly_providers::testing::{Received, Reply, Server};
use antfly_providers::{
    Client, Embedder, EntryConfig, Env, Error, GenerateRequest, Generator, Limiter, Operation,
    StreamEvent, Time,
};
use serde_json::{Value, json};

use crate::google::{answer, vertex, vertex_embedder};

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

/// A metadata server for every test to which the token is no matter.
static METADATA: LazyLock<Server> = LazyLock::new(|| Server::with(|_| answer(TOKEN, 3600)));

/// What it gives.
pub(crate) const TOKEN: &str = "ya29.metadata-0123456789";

/// A Gemini key, and a metadata server for Vertex AI.
fn both() -> Env {
    let host = METADATA.address().to_string();
    Env::from_pairs([("GEMINI_API_KEY", KEY), ("GCE_METADATA_HOST", &host)])
}

/// A client on the real clock with credentials for both adapters in its environment.
pub(crate) fn client() -> Client {
    client_with(Time::thread(), both())
}

/// The same on a clock that only the test moves.
pub(crate) fn manual() -> (Client, ManualClock) {
    let (time, clock) = Time::manual();
    (client_with(time, both()), clock)
}

/// The adapters of Google's wire. What the wire decides is tested through each.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Api {
    Gemini,
    Vertex,
}

impl Api {
    pub(crate) const ALL: [Api; 2] = [Api::Gemini, Api::Vertex];

    pub(crate) fn generator(self, client: &Client, server: &Server, extra: Value) -> Generator {
        match self {
            Api::Gemini => gemini(client, server, extra),
            Api::Vertex => vertex(client, server, in_project(extra)),
        }
    }

    /// Of a model that takes many texts a request.
    pub(crate) fn embedder(self, client: &Client, server: &Server, extra: Value) -> Embedder {
        match self {
            Api::Gemini => gemini_embedder(client, server, extra),
            Api::Vertex => {
                let mut fields = in_project(extra);
                fields["model"] = json!("text-embedding-005");
                vertex_embedder(client, server, fields)
            }
        }
    }

    /// The texts of such a request.
    pub(crate) fn texts(self, request: &Received) -> Vec<String> {
        let body = request.json();
        let (list, text) = match self {
            Api::Gemini => ("requests", "/content/parts/0/text"),
            Api::Vertex => ("instances", "/content"),
        };
        let items = body[list].as_array().into_iter().flatten();
        items
            .map(|item| item.pointer(text).unwrap().as_str().unwrap().to_owned())
            .collect()
    }

    /// Its answer: a vector of one number for each.
    pub(crate) fn vectors(self, numbers: &[f32]) -> Reply {
        let all: Vec<_> = numbers.iter().map(|n| json!({"values": [n]})).collect();
        Reply::json(
            200,
            match self {
                Api::Gemini => json!({ "embeddings": all }),
                Api::Vertex => {
                    let all: Vec<_> = all.iter().map(|v| json!({ "embeddings": v })).collect();
                    json!({ "predictions": all })
                }
            },
        )
    }
}

fn in_project(mut extra: Value) -> Value {
    extra["project_id"] = json!("p-1");
    extra
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
