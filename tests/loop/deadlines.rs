//! A call whose time is over says how long that was and what it was at, on every route.

use std::sync::Arc;
use std::time::Duration;

use antfly_framework::limiter::ManualClock;
use antfly_framework::provider::{
    InferenceEngine, LocalAnswer, LocalProvider, LocalRequest, Operation,
};
use antfly_framework::testing::{Gate, Reply, Server};
use antfly_framework::{
    CallOptions, Client, EmbedRequest, EntryConfig, Env, Error, GenerateRequest, Kind, Phase,
    RerankRequest, Result, Time,
};
use serde_json::json;

use crate::support::{Answer, drive, fake};

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn within(seconds: u64) -> CallOptions {
    CallOptions::default().with_timeout(secs(seconds))
}

#[track_caller]
fn told(error: &Error, seconds: u64, phase: Phase) {
    assert_eq!(error.kind(), Kind::DeadlineExceeded, "{error}");
    let known = (error.deadline(), error.phase());
    assert_eq!(known, (Some(secs(seconds)), Some(phase)), "{error}");
    let length = format!("the deadline of {seconds}s");
    assert!(error.message().contains(&length), "{error}");
    let copy = error.duplicate();
    assert_eq!((copy.deadline(), copy.phase()), known);
}

#[tokio::test]
async fn a_deadline_in_the_queue_says_admission_and_how_long_it_was() {
    let limits = json!({"rate_limit": {"max_concurrency": 1}, "timeout_ms": 7000});
    let (client, entry, _, clock) = fake("late-queue", Operation::Embed, limits);
    let embedder = client.embedder(&entry).unwrap();
    let _slot = embedder.lease().try_admit(1).unwrap();
    let texts = || EmbedRequest::texts(["a"]);
    // The entry's own, the caller's, and the caller's as an instant.
    let e = drive(&clock, embedder.embed(texts())).await.unwrap_err();
    told(&e, 7, Phase::Admission);
    let call = embedder.embed_with(texts(), within(5));
    told(&drive(&clock, call).await.unwrap_err(), 5, Phase::Admission);
    let until = clock.now().saturating_add(secs(3));
    let options = within(60).with_deadline(until);
    let e = drive(&clock, embedder.embed_with(texts(), options))
        .await
        .unwrap_err();
    told(&e, 3, Phase::Admission);
    assert_eq!(
        e.message(),
        "the deadline of 3s passed while waiting for admission"
    );
    // The parts of a split call share one deadline.
    let many = EmbedRequest::texts((0..9).map(|n| n.to_string()));
    let call = embedder.embed_with(many, within(4));
    told(&drive(&clock, call).await.unwrap_err(), 4, Phase::Admission);
}

#[tokio::test]
async fn what_can_not_fit_says_why_and_against_which_deadline() {
    let limits = json!({"rate_limit": {"requests_per_minute": 6}});
    let (client, entry, _, clock) = fake("late-cooldown", Operation::Embed, limits);
    let embedder = client.embedder(&entry).unwrap();
    let texts = || EmbedRequest::texts(["a"]);
    drive(&clock, embedder.embed(texts())).await.unwrap();
    let call = embedder.embed_with(texts(), within(9));
    let e = drive(&clock, call).await.unwrap_err();
    told(&e, 9, Phase::Admission);
    assert_eq!(
        e.message(),
        "the request rate has room only after the deadline of 9s"
    );
    embedder.lease().cool_for(secs(30));
    let call = embedder.embed_with(texts(), within(2));
    let e = drive(&clock, call).await.unwrap_err();
    told(&e, 2, Phase::Admission);
    assert_eq!(e.retry_after(), Some(secs(30)));
    assert_eq!(
        e.message(),
        "the cooldown of the scope ends after the deadline of 2s"
    );
}

#[tokio::test]
async fn a_deadline_while_the_credential_loads_says_credential() {
    let (client, entry, world, clock) = fake("late-credential", Operation::Embed, json!({}));
    *world.gate.lock().unwrap() = Some(Gate::new());
    let embedder = client.embedder(&entry).unwrap();
    let call = embedder.embed_with(EmbedRequest::texts(["a"]), within(2));
    told(
        &drive(&clock, call).await.unwrap_err(),
        2,
        Phase::Credential,
    );
}

#[tokio::test]
async fn on_an_sdks_route_sending_ends_where_the_answer_begins() {
    let (client, entry, world, clock) = fake("late-sdk", Operation::Embed, json!({}));
    let embedder = client.embedder(&entry).unwrap();
    for (answer, phase) in [
        (Answer::Never, Phase::Sending),
        (Answer::HeadOnly, Phase::Reading),
    ] {
        world.answer(answer);
        let call = embedder.embed_with(EmbedRequest::texts(["a"]), within(2));
        let e = drive(&clock, call).await.unwrap_err();
        told(&e, 2, phase);
        assert_eq!(e.attempts(), 1);
    }
}

fn over_http(server: &Server, operation: Operation) -> (Client, EntryConfig, ManualClock) {
    let (time, clock) = Time::manual();
    let client = Client::builder()
        .registry(antfly_providers::registry().unwrap())
        .time(time)
        .env(Env::empty())
        .build()
        .unwrap();
    let json = json!({"provider": "openai", "model": "m", "url": server.url(), "timeout_ms": 5000});
    let entry = EntryConfig::from_json(operation, "entries.e", json).unwrap();
    (client, entry, clock)
}

#[tokio::test]
async fn over_http_sending_ends_where_the_answer_begins() {
    let slow = Reply::stream(429, "application/json")
        .header("retry-after", "1")
        .then_hang();
    let server = Server::start([Reply::hang(), slow]);
    let (client, entry, clock) = over_http(&server, Operation::Embed);
    let embedder = client.embedder(&entry).unwrap();
    for (number, phase) in [(1, Phase::Sending), (2, Phase::Reading)] {
        let call = tokio::spawn({
            let embedder = embedder.clone();
            async move { embedder.embed(EmbedRequest::texts(["a"])).await }
        });
        server.wait_for_requests(number).await;
        // A 429 cools its scope at its head: that it is read is seen there.
        while phase == Phase::Reading && embedder.scope_snapshot().cooldown_remaining.is_none() {
            tokio::task::yield_now().await;
        }
        clock.advance(secs(5));
        told(&call.await.unwrap().unwrap_err(), 5, phase);
    }
}

#[tokio::test]
async fn a_stream_that_outlives_its_deadline_says_reading() {
    let delta = json!({"choices": [{"index": 0, "delta": {"content": "one"}}]}).to_string();
    let server = Server::start([Reply::sse([delta]).then_hang()]);
    let (client, entry, clock) = over_http(&server, Operation::Generate);
    let generator = client.generator(&entry).unwrap();
    let asked = generator.stream_with(GenerateRequest::prompt("p"), within(3));
    let mut stream = asked.await.unwrap();
    stream.next().await.unwrap().unwrap();
    let rest = tokio::spawn(async move { stream.next().await.unwrap().unwrap_err() });
    tokio::task::yield_now().await;
    clock.advance(secs(3));
    told(&rest.await.unwrap(), 3, Phase::Reading);
}

/// Never done.
#[derive(Debug)]
struct Stuck;

impl InferenceEngine for Stuck {
    fn knows(&self, _: Operation, _: &str) -> bool {
        true
    }
    fn open(&self, _: &EntryConfig) -> Result<Arc<dyn LocalProvider>> {
        Ok(Arc::new(Stuck))
    }
}

#[async_trait::async_trait]
impl LocalProvider for Stuck {
    async fn run(&self, _: LocalRequest) -> Result<LocalAnswer> {
        futures::future::pending().await
    }
}

#[tokio::test]
async fn a_model_in_this_process_says_running() {
    let (time, clock) = Time::manual();
    let client = Client::builder()
        .registry(antfly_providers::registry().unwrap())
        .time(time)
        .env(Env::empty())
        .engine(Arc::new(Stuck))
        .build()
        .unwrap();
    let entry = |operation| {
        let json = json!({"provider": "antfly", "model": "m"});
        EntryConfig::from_json(operation, "entries.e", json).unwrap()
    };
    let reranker = client.reranker(&entry(Operation::Rerank)).unwrap();
    let call = reranker.rerank_with(RerankRequest::new("q", ["d"]), within(2));
    told(&drive(&clock, call).await.unwrap_err(), 2, Phase::Running);
    let embedder = client.embedder(&entry(Operation::Embed)).unwrap();
    let call = embedder.embed_with(EmbedRequest::texts(["a"]), within(2));
    told(&drive(&clock, call).await.unwrap_err(), 2, Phase::Running);
    let generator = client.generator(&entry(Operation::Generate)).unwrap();
    let call = generator.stream_with(GenerateRequest::prompt("p"), within(2));
    let e = drive(&clock, call).await.err().unwrap();
    told(&e, 2, Phase::Running);
}
