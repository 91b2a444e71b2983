//! The queue, deadlines, cancellation and loading, seen from outside.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use antfly_providers::{CallOptions, CancellationToken, EmbedRequest, Embedder, Kind, Operation};
use serde_json::json;
use tracing::field::{Field, Visit};
use tracing::span;

use crate::support::*;

/// Enough work to be in the middle of, on any machine: every text is another.
fn plenty(model_calls: usize) -> EmbedRequest {
    EmbedRequest::texts((0..model_calls * 32).map(|n| format!("the {n} of the and the {n}")))
}

/// Polls a call once, so that it has its place.
async fn begun<T>(call: &mut std::pin::Pin<Box<impl Future<Output = T>>>) {
    assert!(futures::poll!(call.as_mut()).is_pending());
}

#[tokio::test]
async fn five_hundred_callers_are_all_served_in_the_order_they_came() {
    let scratch = Scratch::new("callers").with_tiny("bert-encoder");
    let (client, _clock) = client_of(&scratch.0);
    let embedder = client
        .embedder(&entry(Operation::Embed, "bert-encoder", json!({})))
        .unwrap();
    let done = Arc::new(std::sync::Mutex::new(Vec::new()));
    let mut calls = Vec::new();
    for number in 0..500 {
        let (embedder, done) = (embedder.clone(), Arc::clone(&done));
        calls.push(tokio::spawn(async move {
            let vectors = embedder
                .embed(EmbedRequest::texts([format!("the {number}")]))
                .await;
            done.lock().unwrap().push(number);
            vectors.unwrap().len()
        }));
    }
    for call in calls {
        assert_eq!(call.await.unwrap(), 1);
    }
    // One at a time, and each told before the next is done: on one async thread, in order.
    assert_eq!(*done.lock().unwrap(), (0..500).collect::<Vec<_>>());
}

#[tokio::test]
async fn one_more_than_the_queue_holds_is_refused_at_once() {
    let scratch = Scratch::new("full").with_tiny("bert-encoder");
    let (client, _clock) = client_of(&scratch.0);
    let admission = json!({ "admission": { "max_concurrency": 1, "max_queue": 1 } });
    let embedder = client
        .embedder(&entry(Operation::Embed, "bert-encoder", admission))
        .unwrap();
    let mut first = Box::pin(embedder.embed(plenty(64)));
    begun(&mut first).await;
    let mut second = Box::pin(embedder.embed(EmbedRequest::texts(["a"])));
    begun(&mut second).await;
    let e = embedder
        .embed(EmbedRequest::texts(["a"]))
        .await
        .unwrap_err();
    assert_eq!(e.kind(), Kind::Overloaded);
    assert!(e.is_retryable());
    assert_eq!(e.provider(), Some("in_process"));
    assert!(e.message().contains("admission.max_queue 1"), "{e}");
    assert_eq!(first.await.unwrap().len(), 64 * 32);
    assert_eq!(second.await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_deadline_ends_the_wait_and_a_cancellation_too() {
    let scratch = Scratch::new("deadline").with_tiny("bert-encoder");
    let (client, clock) = client_of(&scratch.0);
    let embedder = client
        .embedder(&entry(Operation::Embed, "bert-encoder", json!({})))
        .unwrap();
    let mut first = Box::pin(embedder.embed(plenty(64)));
    begun(&mut first).await;

    let options = CallOptions::default().with_timeout(Duration::from_secs(3));
    let mut late = Box::pin(embedder.embed_with(EmbedRequest::texts(["a"]), options));
    begun(&mut late).await;
    let cancel = CancellationToken::new();
    let options = CallOptions::default().with_cancel(cancel.clone());
    let mut cancelled = Box::pin(embedder.embed_with(EmbedRequest::texts(["a"]), options));
    begun(&mut cancelled).await;

    clock.advance(Duration::from_secs(3));
    assert_eq!(late.await.unwrap_err().kind(), Kind::DeadlineExceeded);
    cancel.cancel();
    assert_eq!(cancelled.await.unwrap_err().kind(), Kind::Cancelled);
    assert_eq!(first.await.unwrap().len(), 64 * 32, "it had its time");
}

#[tokio::test]
async fn a_caller_that_goes_away_frees_the_model_for_the_next() {
    let scratch = Scratch::new("gone").with_tiny("bert-encoder");
    let (client, _clock) = client_of(&scratch.0);
    let embedder = client
        .embedder(&entry(Operation::Embed, "bert-encoder", json!({})))
        .unwrap();
    embedder.embed(EmbedRequest::texts(["warm"])).await.unwrap();
    let began = std::time::Instant::now();
    embedder.embed(plenty(8)).await.unwrap();
    let of_eight = began.elapsed();
    // A hundred thousand texts would take a thousand times as long.
    let mut endless = Box::pin(embedder.embed(plenty(8 * 1000)));
    begun(&mut endless).await;
    drop(endless);
    let began = std::time::Instant::now();
    embedder.embed(EmbedRequest::texts(["next"])).await.unwrap();
    let waited = began.elapsed();
    assert!(
        waited < of_eight * 200,
        "{waited:?} after a run cut short, {of_eight:?} for a small one"
    );
}

#[tokio::test]
async fn entries_of_one_model_share_its_queue_and_may_not_disagree_about_it() {
    let scratch = Scratch::new("shared").with_tiny("bert-encoder");
    let (client, _clock) = client_of(&scratch.0);
    let with = |n: u32| json!({ "admission": { "max_concurrency": n } });
    let one = client
        .embedder(&entry(Operation::Embed, "bert-encoder", with(1)))
        .unwrap();
    let e = client
        .reranker(&entry(Operation::Rerank, "bert-encoder", with(2)))
        .unwrap_err();
    assert_eq!(e.kind(), Kind::PolicyConflict);
    assert!(e.message().starts_with("rerankers.one.admission: "), "{e}");
    assert!(
        e.message().contains("max_concurrency: 1") && e.message().contains("max_concurrency: 2"),
        "{e}"
    );
    client
        .reranker(&entry(Operation::Rerank, "bert-encoder", json!({})))
        .unwrap();
    // Once nobody holds it, it may be another.
    drop(one);
    // A check holds it too, as long as what it found is kept: a document's entries are looked at together.
    let checked = client
        .check(&entry(Operation::Embed, "bert-encoder", with(1)))
        .unwrap();
    let e = client
        .check(&entry(Operation::Rerank, "bert-encoder", with(2)))
        .unwrap_err();
    assert_eq!(e.kind(), Kind::PolicyConflict);
    drop(checked);
    client
        .embedder(&entry(Operation::Embed, "bert-encoder", with(2)))
        .unwrap();
}

#[tokio::test]
async fn a_missing_file_is_named_and_a_load_that_failed_is_tried_again() {
    let scratch = Scratch::new("missing").with_tiny("bert-encoder");
    let weights = scratch.0.join("bert-encoder/model.safetensors");
    let elsewhere = scratch.0.join("elsewhere");
    let (client, _clock) = client_of(&scratch.0);
    let open = || client.embedder(&entry(Operation::Embed, "bert-encoder", json!({})));
    let embedder = open().unwrap();
    std::fs::rename(&weights, &elsewhere).unwrap();
    let e = open().unwrap_err();
    assert_eq!(e.kind(), Kind::Config);
    assert!(e.message().contains("model.safetensors is missing"), "{e}");
    let call = || embedder.embed(EmbedRequest::texts(["a"]));
    let e = call().await.unwrap_err();
    assert_eq!(e.kind(), Kind::Config);
    assert!(e.message().contains("model.safetensors is missing"), "{e}");
    assert!(!e.is_retryable());

    let whole = std::fs::read(&elsewhere).unwrap();
    std::fs::write(&weights, &whole[..whole.len() / 2]).unwrap();
    let e = call().await.unwrap_err();
    assert_eq!(e.kind(), Kind::Config);
    assert!(
        e.message().contains("model.safetensors can't be used"),
        "{e}"
    );
    assert!(e.message().contains("truncated"), "{e}");

    std::fs::write(&weights, "version https://git-lfs.github.com/spec/v1\n").unwrap();
    let e = call().await.unwrap_err();
    assert!(e.message().contains("Git LFS"), "{e}");
    for broken in ["", "1234", "12345678"] {
        std::fs::write(&weights, broken).unwrap();
        let e = call().await.unwrap_err();
        assert!(e.message().contains("truncated"), "{broken}: {e}");
    }

    std::fs::write(&weights, &whole).unwrap();
    assert_eq!(call().await.unwrap().len(), 1);

    let tokenizer = scratch.0.join("bert-encoder/tokenizer.json");
    std::fs::remove_file(tokenizer).unwrap();
    assert_eq!(
        call().await.unwrap().len(),
        1,
        "what is loaded stays loaded"
    );
    drop(embedder);
    let e = open().unwrap_err();
    assert!(e.message().contains("tokenizer.json is missing"), "{e}");
}

/// Counts what the loading says of one folder.
struct Loads(Arc<AtomicUsize>, String);

struct Says<'a>(&'a str, bool, bool);

impl Visit for Says<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        let value = format!("{value:?}");
        self.1 |= field.name() == "path" && value.contains(self.0);
        self.2 |= field.name() == "message" && value.starts_with("loaded the model");
    }
}

impl tracing::Subscriber for Loads {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }
    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        let mut says = Says(&self.1, false, false);
        event.record(&mut says);
        if says.1 && says.2 {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

#[tokio::test]
async fn a_model_is_loaded_once_however_many_entries_ask_for_it_at_once() {
    let scratch = Scratch::new("once").with_tiny("bert-encoder");
    let loads = Arc::new(AtomicUsize::new(0));
    let folder = scratch.0.file_name().unwrap().to_str().unwrap().to_owned();
    // The queue's threads are not this one: the subscriber is the process's, and looks at one folder only.
    tracing::subscriber::set_global_default(Loads(Arc::clone(&loads), folder)).unwrap();
    let (client, _clock) = client_of(&scratch.0);
    let admission = json!({ "admission": { "max_concurrency": 4 } });
    let open = |operation| entry(operation, "bert-encoder", admission.clone());
    let embedders: Vec<Embedder> = (0..8)
        .map(|_| client.embedder(&open(Operation::Embed)).unwrap())
        .collect();
    assert_eq!(
        loads.load(Ordering::Relaxed),
        0,
        "nothing is loaded before it is needed"
    );
    let calls: Vec<_> = embedders
        .iter()
        .flat_map(|e| [e.clone(), e.clone(), e.clone(), e.clone()])
        .map(|e| tokio::spawn(async move { e.embed(EmbedRequest::texts(["a"])).await }))
        .collect();
    for call in calls {
        assert_eq!(call.await.unwrap().unwrap().len(), 1);
    }
    assert_eq!(loads.load(Ordering::Relaxed), 1);
}
