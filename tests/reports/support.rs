//! What every section needs: clients, entries, chat answers, and ways to wait that can't pass by luck.

pub(crate) mod own;

use std::future::Future;
use std::time::{Duration, Instant as WallInstant};

use antfly_framework::limiter::ManualClock;
use antfly_framework::testing::{Reply, Server};
use antfly_framework::{
    Client, EmbedRequest, Embedder, EntryConfig, Env, Error, GenerateRequest, Generator, Operation,
    RerankRequest, Reranker, StreamEvent, Time,
};
use bytes::Bytes;
use serde_json::{Value, json};

/// How long anything may take before a test fails.
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) fn client_on(time: Time) -> Client {
    Client::builder()
        .registry(antfly_providers::registry().unwrap())
        .time(time)
        .env(Env::empty())
        .jitter_seed(1)
        .build()
        .unwrap()
}

/// A client on the real clock, for tests in which time plays no part.
pub(crate) fn client() -> Client {
    client_on(Time::thread())
}

/// A client on a clock that only the test moves.
pub(crate) fn manual() -> (Client, ManualClock) {
    let (time, clock) = Time::manual();
    (client_on(time), clock)
}

/// An entry of `operation` at `server`, its fields replaced by those of `extra`. Retries wait a millisecond at most.
pub(crate) fn entry(operation: Operation, server: &Server, extra: Value) -> EntryConfig {
    try_entry(operation, &server.url(), extra).unwrap()
}

pub(crate) fn try_entry(
    operation: Operation,
    url: &str,
    extra: Value,
) -> Result<EntryConfig, Error> {
    let (provider, path) = match operation {
        Operation::Embed => ("openai", "embedders.w"),
        Operation::Rerank => ("antfly", "rerankers.w"),
        _ => ("openai", "generators.w"),
    };
    let mut value = json!({
        "provider": provider,
        "model": "m",
        "url": url,
        "proxy": "none",
        "retry": {"max_attempts": 3, "initial_backoff_ms": 1, "max_backoff_ms": 1},
    });
    for (name, field) in extra.as_object().unwrap() {
        value[name] = field.clone();
    }
    EntryConfig::from_json(operation, path, value)
}

/// The adapters that speak OpenAI's wire. What the wire decides is tested through each: an entry's field says which.
pub(crate) const OPENAI_WIRE: [&str; 2] = ["openai", "antfly"];

/// The fields of an entry of this adapter.
pub(crate) fn through(provider: &str) -> Value {
    json!({ "provider": provider })
}

pub(crate) fn generator(client: &Client, server: &Server, extra: Value) -> Generator {
    client
        .generator(&entry(Operation::Generate, server, extra))
        .unwrap()
}

pub(crate) fn embedder(client: &Client, server: &Server, extra: Value) -> Embedder {
    client
        .embedder(&entry(Operation::Embed, server, extra))
        .unwrap()
}

pub(crate) fn reranker(client: &Client, server: &Server, extra: Value) -> Reranker {
    client
        .reranker(&entry(Operation::Rerank, server, extra))
        .unwrap()
}

/// The four ways to ask: each makes one call and gives its error, if any.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Way {
    Generate,
    Stream,
    Embed,
    Rerank,
}

impl Way {
    pub(crate) const ALL: [Way; 4] = [Way::Generate, Way::Stream, Way::Embed, Way::Rerank];

    /// Each way through each adapter that has it; OpenAI's does not rerank.
    pub(crate) const EACH: [(&str, Way); 7] = [
        ("openai", Way::Generate),
        ("openai", Way::Stream),
        ("openai", Way::Embed),
        ("antfly", Way::Generate),
        ("antfly", Way::Stream),
        ("antfly", Way::Embed),
        ("antfly", Way::Rerank),
    ];

    pub(crate) fn open(self, client: &Client, server: &Server, extra: Value) -> Asker {
        match self {
            Way::Generate | Way::Stream => Asker::Generator(generator(client, server, extra), self),
            Way::Embed => Asker::Embedder(embedder(client, server, extra)),
            Way::Rerank => Asker::Reranker(reranker(client, server, extra)),
        }
    }

    /// A good answer to [`Asker::ask`].
    pub(crate) fn good(self) -> Reply {
        match self {
            Way::Generate => answer("ok"),
            Way::Stream => sse_answer("ok"),
            Way::Embed => Reply::json(
                200,
                json!({"data": [{"index": 0, "embedding": [1.0, 2.0]}]}),
            ),
            Way::Rerank => Reply::json(200, json!({"data": [{"index": 0, "score": 0.5}]})),
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Asker {
    Generator(Generator, Way),
    Embedder(Embedder),
    Reranker(Reranker),
}

impl Asker {
    /// One call with one small input; a stream is read to its end.
    pub(crate) async fn ask(&self) -> Result<(), Error> {
        match self {
            Asker::Generator(g, Way::Stream) => {
                let stream = g.stream(ask()).await?;
                stream.collect_generation().await.map(drop)
            }
            Asker::Generator(g, _) => g.generate(ask()).await.map(drop),
            Asker::Embedder(e) => e.embed(EmbedRequest::texts(["a"])).await.map(drop),
            Asker::Reranker(r) => r.rerank(RerankRequest::new("q", ["d"])).await.map(drop),
        }
    }

    pub(crate) fn snapshot(&self) -> antfly_framework::ScopeSnapshot {
        match self {
            Asker::Generator(g, _) => g.scope_snapshot(),
            Asker::Embedder(e) => e.scope_snapshot(),
            Asker::Reranker(r) => r.scope_snapshot(),
        }
    }
}

pub(crate) fn ask() -> GenerateRequest {
    GenerateRequest::prompt("hi")
}

/// A plain chat answer.
pub(crate) fn answer(text: &str) -> Reply {
    Reply::json(
        200,
        json!({"id": "c1", "model": "m", "choices": [
            {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        ]}),
    )
}

/// A chunk with a delta.
pub(crate) fn delta(delta: Value) -> String {
    json!({"id": "c1", "choices": [{"index": 0, "delta": delta}]}).to_string()
}

/// A chunk with text.
pub(crate) fn says(text: &str) -> String {
    delta(json!({"content": text}))
}

/// A chunk with a finish reason.
pub(crate) fn finish(reason: &str) -> String {
    json!({"id": "c1", "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}).to_string()
}

/// A whole streamed chat answer.
pub(crate) fn sse_answer(text: &str) -> Reply {
    Reply::sse([says(text), finish("stop"), "[DONE]".to_owned()])
}

/// A stream with these bytes as its body, each item in a chunk of its own.
pub(crate) fn stream_of<B: Into<Bytes>>(chunks: impl IntoIterator<Item = B>) -> Reply {
    chunks
        .into_iter()
        .fold(Reply::stream(200, "text/event-stream"), |reply, chunk| {
            reply.chunk(chunk)
        })
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
                assert!(
                    stream.next().await.is_none(),
                    "something came after the error"
                );
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

/// Sends `body` whole, cut in two at every byte, and byte by byte, and checks each time what comes out.
pub(crate) async fn every_split(body: &[u8], check: impl Fn(&[StreamEvent], Option<&Error>)) {
    let body = Bytes::copy_from_slice(body);
    let mut replies = vec![stream_of([body.clone()])];
    replies.extend((1..body.len()).map(|at| stream_of([body.slice(..at), body.slice(at..)])));
    replies.push(stream_of((0..body.len()).map(|at| body.slice(at..=at))));
    let count = replies.len();
    for provider in OPENAI_WIRE {
        let server = Server::start(replies.clone());
        let generator = generator(&client(), &server, through(provider));
        for _ in 0..count {
            let (events, error) = read(&generator).await;
            check(&events, error.as_ref());
        }
        assert_eq!(
            server.requests().len(),
            count,
            "{provider}: a stream was asked for again"
        );
    }
}

/// Lets everything run until `done`. The manual clock stands still meanwhile.
pub(crate) async fn until(what: &str, done: impl Fn() -> bool) {
    let started = WallInstant::now();
    while !done() {
        assert!(started.elapsed() < PATIENCE, "waited in vain for {what}");
        tokio::task::yield_now().await;
    }
}

/// Waits until the next alarm of the clock is `from_now` away.
pub(crate) async fn until_alarm_in(clock: &ManualClock, from_now: Duration) {
    let at = clock.now().saturating_add(from_now);
    until("an alarm", || clock.next_alarm() == Some(at)).await;
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

pub(crate) const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}
