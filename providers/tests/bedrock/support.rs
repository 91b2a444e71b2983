//! Clients, entries and endpoints.

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use antfly_framework::testing::{ManualClock, Reply, Server};
use antfly_framework::{
    AttemptObserver, AttemptRecord, Client, Embedder, EntryConfig, Env, Error, Generator,
    Operation, Reranker, Time,
};
use aws_smithy_types::DateTime;
use aws_smithy_types::date_time::Format;
use serde_json::{Value, json};

pub(crate) const KEY_ID: &str = "AKIDEXAMPLE";
pub(crate) const SECRET: &str = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";
pub(crate) const TITAN: &str = "amazon.titan-embed-text-v2:0";
pub(crate) const CLAUDE: &str = "anthropic.claude-sonnet-4-5-20250929-v1:0";

/// How long anything may take before a test fails.
const PATIENCE: Duration = Duration::from_secs(60);

/// The environment's static keys, and nothing else.
pub(crate) fn keys() -> Env {
    env(&[
        ("AWS_ACCESS_KEY_ID", KEY_ID),
        ("AWS_SECRET_ACCESS_KEY", SECRET),
    ])
}

pub(crate) fn env(pairs: &[(&str, &str)]) -> Env {
    // No test looks at the profiles of the machine it runs on.
    let none = [
        ("AWS_CONFIG_FILE", "/nonexistent/config"),
        ("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent/credentials"),
    ];
    Env::from_pairs(none.iter().chain(pairs).copied())
}

/// What every attempt reported.
#[derive(Clone, Debug, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<AttemptRecord>>>);

impl AttemptObserver for Log {
    fn attempt(&self, record: &AttemptRecord) {
        self.0.lock().unwrap().push(record.clone());
    }
}

impl Log {
    pub(crate) fn records(&self) -> Vec<AttemptRecord> {
        self.0.lock().unwrap().clone()
    }
}

pub(crate) fn client_on(time: Time, env: Env, log: &Log) -> Client {
    antfly_providers::client_builder()
        .unwrap()
        .time(time)
        .env(env)
        .observer(Arc::new(log.clone()))
        .jitter_seed(1)
        .build()
        .unwrap()
}

/// A client on the real clock, for tests in which time plays no part.
pub(crate) fn client(env: Env) -> Client {
    client_on(Time::thread(), env, &Log::default())
}

/// A client on a clock that only the test moves.
pub(crate) fn manual(env: Env) -> (Client, ManualClock) {
    let (time, clock) = Time::manual();
    (client_on(time, env, &Log::default()), clock)
}

pub(crate) fn try_entry(operation: Operation, extra: Value) -> Result<EntryConfig, Error> {
    let (path, model) = match operation {
        Operation::Embed => ("embedders.w", TITAN),
        Operation::Rerank => ("rerankers.w", "cohere.rerank-v3-5:0"),
        _ => ("generators.w", CLAUDE),
    };
    let mut value = json!({
        "provider": "bedrock",
        "model": model,
        "proxy": "none",
        "retry": {"max_attempts": 3, "initial_backoff_ms": 1, "max_backoff_ms": 1},
    });
    for (name, field) in extra.as_object().unwrap() {
        value[name] = field.clone();
    }
    EntryConfig::from_json(operation, path, value)
}

pub(crate) fn entry(operation: Operation, server: &Server, mut extra: Value) -> EntryConfig {
    extra["url"] = json!(server.url());
    try_entry(operation, extra).unwrap()
}

pub(crate) fn embedder(client: &Client, server: &Server, extra: Value) -> Embedder {
    client
        .embedder(&entry(Operation::Embed, server, extra))
        .unwrap()
}

pub(crate) fn generator(client: &Client, server: &Server, extra: Value) -> Generator {
    client
        .generator(&entry(Operation::Generate, server, extra))
        .unwrap()
}

pub(crate) fn reranker(client: &Client, server: &Server, extra: Value) -> Reranker {
    client
        .reranker(&entry(Operation::Rerank, server, extra))
        .unwrap()
}

/// Titan's answer.
pub(crate) fn vector() -> Reply {
    Reply::json(
        200,
        json!({"embedding": [0.5, 0.25], "inputTextTokenCount": 3}),
    )
}

/// Converse's answer.
pub(crate) fn answer(text: &str) -> Reply {
    let message = json!({"role": "assistant", "content": [{"text": text}]});
    let usage = json!({"inputTokens": 3, "outputTokens": 2, "totalTokens": 5});
    Reply::json(
        200,
        json!({"output": {"message": message}, "stopReason": "end_turn", "usage": usage}),
    )
    .header("x-amzn-requestid", "req-1")
}

/// A refusal as AWS writes it.
pub(crate) fn refusal(status: u16, name: &str, message: &str) -> Reply {
    Reply::json(status, json!({ "message": message }))
        .header(
            "x-amzn-errortype",
            format!("{name}:http://internal.amazon.com/"),
        )
        .header("x-amzn-requestid", "req-9")
}

/// A wall-clock time so many seconds from now, as credential endpoints write it.
pub(crate) fn in_seconds(seconds: i64) -> String {
    let now = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap()
        .as_secs();
    DateTime::from_secs(i64::try_from(now).unwrap() + seconds)
        .fmt(Format::DateTime)
        .unwrap()
}

/// Credentials as the metadata services write them; `number` tells one load from another.
pub(crate) fn credentials(number: usize, seconds: i64) -> Value {
    json!({
        "Code": "Success", "Type": "AWS-HMAC", "LastUpdated": in_seconds(-60),
        "AccessKeyId": format!("ASIA{number}"), "SecretAccessKey": format!("secret-of-{number}"),
        "Token": format!("session-token-{number}"), "Expiration": in_seconds(seconds),
    })
}

/// The access key a request was signed with.
pub(crate) fn signer(request: &antfly_framework::testing::Received) -> String {
    let header = request.header("authorization").unwrap_or("");
    let id = header.split("Credential=").nth(1).unwrap_or("");
    id.split('/').next().unwrap_or("").to_owned()
}

/// Drives `work`, moving the clock to the next wait that is not far off whenever nothing has happened for a while. What waits for a
/// socket has its bounds (a stream's silence, a call's deadline) further off than that, so a slow machine can't ring them.
pub(crate) async fn drive<T>(clock: &ManualClock, work: impl Future<Output = T>) -> T {
    const FAR: Duration = Duration::from_secs(25);
    let mut work = std::pin::pin!(work);
    let started = std::time::Instant::now();
    let mut idle = 0;
    loop {
        if let std::task::Poll::Ready(done) = futures::poll!(work.as_mut()) {
            return done;
        }
        assert!(started.elapsed() < PATIENCE, "nothing happens");
        // Sockets have their own time: only what has been quiet for a while waits for the clock.
        tokio::time::sleep(Duration::from_millis(1)).await;
        idle += 1;
        if idle % 10 == 0
            && let Some(at) = clock.next_alarm()
            && at <= clock.now().saturating_add(FAR)
        {
            clock.set(at);
        }
    }
}
