//! A client on a clock of its own, callers of the three operations, and a server that answers all of them.

use std::collections::VecDeque;
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use antfly_framework::testing::{Gate, ManualClock, Received, Reply, Server};
use antfly_framework::{
    AttemptObserver, AttemptRecord, CallOptions, Checked, Client, ClientBuilder, EmbedRequest,
    Embedder, EntryConfig, Env, Error, GenerateRequest, Generator, Instant, Operation, Policy,
    RerankRequest, Reranker, Result, ScopeSnapshot, Time,
};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

pub(crate) const OPERATIONS: [Operation; 3] =
    [Operation::Embed, Operation::Generate, Operation::Rerank];

/// How long anything that must happen may take, in real time.
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

pub(crate) const fn nanos(n: u64) -> Duration {
    Duration::from_nanos(n)
}

// ---- entries --------------------------------------------------------------------------------------------------------

/// The path of the entry that `entry` makes.
pub(crate) fn path(operation: Operation) -> &'static str {
    match operation {
        Operation::Embed => "embedders.one",
        Operation::Generate => "generators.one",
        _ => "rerankers.one",
    }
}

/// An entry as JSON: `openai` (`antfly` for reranking), model `m`, and `more` on top; `null` takes a field away.
pub(crate) fn json_entry(operation: Operation, more: Value) -> Value {
    let provider = match operation {
        Operation::Rerank => "antfly",
        _ => "openai",
    };
    let mut entry = json!({ "provider": provider, "model": "m" });
    for (key, value) in more.as_object().unwrap() {
        entry[key] = value.clone();
    }
    entry
}

pub(crate) fn try_entry(operation: Operation, more: Value) -> Result<EntryConfig> {
    EntryConfig::from_json(operation, path(operation), json_entry(operation, more))
}

pub(crate) fn entry(operation: Operation, more: Value) -> EntryConfig {
    try_entry(operation, more).unwrap()
}

/// `more` with a URL.
pub(crate) fn at(server: &Server, mut more: Value) -> Value {
    more["url"] = server.url().into();
    more
}

/// The error of something that must fail.
pub(crate) fn refused<T>(result: Result<T>) -> Error {
    match result {
        Ok(_) => panic!("this must be refused"),
        Err(error) => error,
    }
}

// ---- the client -----------------------------------------------------------------------------------------------------

/// Attempts that have ended.
#[derive(Debug, Default)]
pub(crate) struct Log(Mutex<Vec<AttemptRecord>>);

impl AttemptObserver for Log {
    fn attempt(&self, record: &AttemptRecord) {
        self.0.lock().unwrap().push(record.clone());
    }
}

/// A client with a limiter and a clock of its own.
pub(crate) struct World {
    pub(crate) client: Client,
    pub(crate) clock: ManualClock,
    log: Arc<Log>,
    origin: Instant,
}

impl World {
    /// With an empty environment.
    pub(crate) fn new() -> Self {
        Self::with_env([])
    }

    pub(crate) fn with_env<const N: usize>(env: [(&str, &str); N]) -> Self {
        Self::build(env, |builder| builder)
    }

    pub(crate) fn build<const N: usize>(
        env: [(&str, &str); N],
        more: impl FnOnce(ClientBuilder) -> ClientBuilder,
    ) -> Self {
        let (time, clock) = Time::manual();
        let log = Arc::new(Log::default());
        let builder = Client::builder()
            .registry(antfly_providers::registry().unwrap())
            .time(time)
            .env(Env::from_pairs(env))
            .observer(log.clone())
            .jitter_seed(1);
        World {
            client: more(builder).build().unwrap(),
            origin: clock.now(),
            clock,
            log,
        }
    }

    pub(crate) fn try_open(&self, entry: &EntryConfig) -> Result<Caller> {
        Ok(match entry.operation {
            Operation::Embed => Caller::Embedder(self.client.embedder(entry)?),
            Operation::Generate => Caller::Generator(self.client.generator(entry)?),
            _ => Caller::Reranker(self.client.reranker(entry)?),
        })
    }

    /// A caller of `server` with these further fields.
    pub(crate) fn open(&self, operation: Operation, server: &Server, more: Value) -> Caller {
        self.try_open(&entry(operation, at(server, more))).unwrap()
    }

    pub(crate) fn embedder(&self, server: &Server, more: Value) -> Caller {
        self.open(Operation::Embed, server, more)
    }

    pub(crate) fn generator(&self, server: &Server, more: Value) -> Generator {
        let entry = entry(Operation::Generate, at(server, more));
        self.client.generator(&entry).unwrap()
    }

    pub(crate) fn check(&self, operation: Operation, more: Value) -> Checked {
        self.client.check(&entry(operation, more)).unwrap()
    }

    pub(crate) fn policy(&self, operation: Operation, more: Value) -> Policy {
        self.check(operation, more).policy
    }

    /// Since the world began.
    pub(crate) fn elapsed(&self) -> Duration {
        self.clock.now().saturating_duration_since(self.origin)
    }

    /// When each of `count` ended attempts left, in order.
    pub(crate) async fn starts(&self, count: usize) -> Vec<Duration> {
        until("every attempt's record", || {
            self.log.0.lock().unwrap().len() >= count
        })
        .await;
        let mut starts: Vec<_> = (self.log.0.lock().unwrap().iter())
            .map(|record| record.at.saturating_duration_since(self.origin))
            .collect();
        starts.sort();
        assert_eq!(starts.len(), count, "attempts in all");
        starts
    }

    /// Waits until something is due within `wait`, and moves the clock by all of `wait`.
    pub(crate) async fn pass(&self, wait: Duration) {
        until("an alarm", || {
            self.clock
                .next_alarm()
                .is_some_and(|at| at.saturating_duration_since(self.clock.now()) <= wait)
        })
        .await;
        self.clock.advance(wait);
    }

    /// Moves the clock from alarm to alarm, those within two seconds, until the call has ended.
    pub(crate) async fn drive<T>(&self, call: JoinHandle<T>) -> T {
        until("the call's end", || {
            if let Some(at) = self.clock.next_alarm() {
                let wait = at.saturating_duration_since(self.clock.now());
                if wait <= secs(2) {
                    self.clock.advance(wait);
                }
            }
            call.is_finished()
        })
        .await;
        done(call).await
    }
}

// ---- callers --------------------------------------------------------------------------------------------------------

/// A handle of any of the three operations.
#[derive(Clone, Debug)]
pub(crate) enum Caller {
    Embedder(Embedder),
    Generator(Generator),
    Reranker(Reranker),
}

impl Caller {
    /// Starts a call.
    pub(crate) fn call(&self) -> JoinHandle<Result<()>> {
        self.call_with(CallOptions::default())
    }

    /// Starts a call with options.
    pub(crate) fn call_with(&self, options: CallOptions) -> JoinHandle<Result<()>> {
        let this = self.clone();
        tokio::spawn(async move { this.run(options).await })
    }

    /// A call, from start to end.
    pub(crate) async fn once(&self) -> Result<()> {
        done(self.call()).await
    }

    async fn run(self, options: CallOptions) -> Result<()> {
        match self {
            Caller::Embedder(embedder) => {
                let request = EmbedRequest::texts(["one text"]);
                embedder.embed_with(request, options).await.map(drop)
            }
            Caller::Generator(generator) => {
                let request = GenerateRequest::prompt("say hi");
                generator.generate_with(request, options).await.map(drop)
            }
            Caller::Reranker(reranker) => {
                let request = RerankRequest::new("which", ["one", "two"]);
                reranker.rerank_with(request, options).await.map(drop)
            }
        }
    }
}

/// Whatever has a scope.
pub(crate) trait Scoped {
    fn snap(&self) -> ScopeSnapshot;

    fn admitted(&self) -> u64 {
        self.snap().counters.admitted
    }

    /// Waits until exactly so many calls stand in line.
    fn queued(&self, count: usize) -> impl Future<Output = ()> {
        until("the line", move || self.snap().queued == count)
    }

    /// Asserts that `count` calls still stand in line after whatever could happen has had its chance.
    fn still_queued(&self, count: usize) -> impl Future<Output = ()> {
        async move {
            quiet().await;
            assert_eq!(self.snap().queued, count, "{:?}", self.snap());
        }
    }
}

impl Scoped for Generator {
    fn snap(&self) -> ScopeSnapshot {
        self.scope_snapshot()
    }
}

impl Scoped for Caller {
    fn snap(&self) -> ScopeSnapshot {
        match self {
            Caller::Embedder(handle) => handle.scope_snapshot(),
            Caller::Generator(handle) => handle.scope_snapshot(),
            Caller::Reranker(handle) => handle.scope_snapshot(),
        }
    }
}

// ---- waiting in real time -------------------------------------------------------------------------------------------

/// Waits until `happened`; fails the test when it doesn't.
pub(crate) async fn until(what: &str, mut happened: impl FnMut() -> bool) {
    let waited = async {
        let mut polls = 0_u32;
        while !happened() {
            polls += 1;
            if polls < 200 {
                tokio::task::yield_now().await;
            } else {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
    };
    let waited = tokio::time::timeout(PATIENCE, waited).await;
    assert!(waited.is_ok(), "waited {PATIENCE:?} for {what}");
}

/// Lets everything that is ready run. What must *not* happen is then looked at.
pub(crate) async fn quiet() {
    for _ in 0..200 {
        tokio::task::yield_now().await;
    }
}

/// A task's result, soon.
pub(crate) async fn done<T>(task: JoinHandle<T>) -> T {
    match tokio::time::timeout(PATIENCE, task).await {
        Ok(joined) => joined.unwrap(),
        Err(_) => panic!("waited {PATIENCE:?} for a call that should have ended"),
    }
}

// ---- the server -----------------------------------------------------------------------------------------------------

/// A server that answers every operation well.
pub(crate) fn good() -> Server {
    Server::with(answer)
}

/// A server that gives these replies first, and then good answers.
pub(crate) fn first(replies: impl IntoIterator<Item = Reply>) -> Server {
    let replies: Mutex<VecDeque<Reply>> = Mutex::new(replies.into_iter().collect());
    Server::with(move |request| {
        let next = replies.lock().unwrap().pop_front();
        next.unwrap_or_else(|| answer(request))
    })
}

/// A server whose first good answers wait for these gates, one each.
pub(crate) fn gated(gates: &[Gate]) -> Server {
    let gates: Mutex<VecDeque<Gate>> = Mutex::new(gates.iter().cloned().collect());
    Server::with(move |request| match gates.lock().unwrap().pop_front() {
        Some(gate) => answer(request).after(&gate),
        None => answer(request),
    })
}

/// A good answer to a request of any operation.
pub(crate) fn answer(request: &Received) -> Reply {
    if request.json()["stream"] == true {
        return Reply::sse(STREAM);
    }
    Reply::json(200, answer_body(request))
}

/// The events of a good stream.
pub(crate) const STREAM: [&str; 3] = [
    r#"{"choices":[{"index":0,"delta":{"role":"assistant","content":"hi"}}]}"#,
    r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#,
    "[DONE]",
];

pub(crate) fn answer_body(request: &Received) -> Value {
    let body = request.json();
    let count = |field: &str| body[field].as_array().map_or(1, Vec::len);
    if request.path.contains("embeddings") {
        let data: Vec<_> = (0..count("input"))
            .map(|i| json!({ "object": "embedding", "index": i, "embedding": [1.0, 0.5] }))
            .collect();
        // What the provider counts is far from what was reserved.
        json!({ "object": "list", "model": "m", "data": data,
                "usage": { "prompt_tokens": 1_000_000, "total_tokens": 1_000_000 } })
    } else if request.path.contains("rerank") {
        let field = if body["prompts"].is_array() {
            "prompts"
        } else {
            "documents"
        };
        let data: Vec<_> = (0..count(field))
            .map(|i| json!({ "index": i, "score": 0.5 }))
            .collect();
        json!({ "data": data })
    } else {
        json!({ "id": "c", "object": "chat.completion", "model": "m",
                "choices": [{ "index": 0, "finish_reason": "stop",
                              "message": { "role": "assistant", "content": "hi" } }],
                "usage": { "prompt_tokens": 1_000_000, "completion_tokens": 1_000_000, "total_tokens": 2_000_000 } })
    }
}

/// A chat answer whose body stops in the middle until the gate is open.
pub(crate) fn slow_body(gate: &Gate) -> Reply {
    let body = r#"{"id":"c","model":"m","choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"hi"}}]}"#;
    let (head, tail) = body.split_at(40);
    Reply::status(200)
        .header("content-type", "application/json")
        .chunk(head)
        .pause(gate)
        .chunk(tail)
}

/// A refusal with this status.
pub(crate) fn error(status: u16) -> Reply {
    Reply::json(
        status,
        json!({ "error": { "message": "not now", "type": "error" } }),
    )
}
