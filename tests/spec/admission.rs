//! What is admitted, and how a wait for it ends early.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use antfly_framework::secret::SecretStore;
use antfly_framework::testing::{Gate, Reply, Server};
use antfly_framework::{CallOptions, CancellationToken, GenerateRequest, Kind, Operation, Result};
use secrecy::SecretString;
use serde_json::json;

use crate::support::*;

fn requests(server: &Server) -> u64 {
    server.requests().len() as u64
}

#[tokio::test]
async fn admission_happens_for_each_attempt_retries_included() {
    for operation in OPERATIONS {
        let world = World::new();
        let server = first([error(503), error(500)]);
        let limits = json!({ "rate_limit": { "requests_per_minute": 60, "max_concurrency": 1 } });
        let caller = world.open(operation, &server, limits);
        world.drive(caller.call()).await.unwrap();
        assert_eq!(requests(&server), 3);
        assert_eq!(caller.admitted(), 3);
        // Each waited for its own slot: backoff alone is at most 0.5 and 1 second.
        let starts = world.starts(3).await;
        assert_eq!(starts[0], secs(0));
        assert!(starts[1] >= secs(1), "{starts:?}");
        assert!(starts[2] >= secs(2), "{starts:?}");
    }
}

#[tokio::test]
async fn admission_happens_for_each_attempt_of_a_stream_too() {
    let world = World::new();
    let hop = Reply::status(307).header("location", "/v1/chat/completions?again");
    let server = first([error(503), hop]);
    let generator = world.generator(&server, json!({ "rate_limit": { "max_concurrency": 1 } }));
    let streaming = generator.clone();
    let call = tokio::spawn(async move {
        let stream = streaming.stream(GenerateRequest::prompt("hi")).await?;
        stream.collect_generation().await
    });
    assert_eq!(world.drive(call).await.unwrap().text, "hi");
    assert_eq!(requests(&server), 3);
    assert_eq!(generator.snap().counters.admitted, 3);
}

#[tokio::test]
async fn admission_happens_for_each_attempt_transport_failures_included() {
    let world = World::new();
    let server = first([Reply::reset(), Reply::close()]);
    let caller = world.embedder(&server, json!({}));
    world.drive(caller.call()).await.unwrap();
    assert_eq!(requests(&server), 3);
    assert_eq!(caller.admitted(), 3);
}

#[tokio::test]
async fn admission_happens_for_each_attempt_redirects_included() {
    for operation in OPERATIONS {
        for status in [307, 308] {
            let world = World::new();
            let server = Server::with(move |request| {
                if request.path.ends_with("hop=2") {
                    return answer(request);
                }
                let hop = if request.path.ends_with("hop=1") {
                    2
                } else {
                    1
                };
                let path = request.path.split('?').next().unwrap();
                Reply::status(status).header("location", format!("{path}?hop={hop}"))
            });
            // One slot: the attempt before must give it back before the hop asks.
            let limits =
                json!({ "rate_limit": { "requests_per_minute": 60, "max_concurrency": 1 } });
            let caller = world.open(operation, &server, limits);
            let call = caller.call();
            for left in [2, 1] {
                server.wait_for_requests(3 - left).await;
                caller.queued(1).await;
                world.clock.advance(secs(1) - nanos(1));
                caller.still_queued(1).await;
                world.clock.advance(nanos(1));
            }
            done(call).await.unwrap();
            assert_eq!(requests(&server), 3);
            assert_eq!(caller.admitted(), 3);
            let starts = [secs(0), secs(1), secs(2)];
            assert_eq!(world.starts(3).await, starts);
            assert!(
                server
                    .requests()
                    .iter()
                    .all(|r| r.body == server.requests()[0].body)
            );
        }
    }
}

#[tokio::test]
async fn a_redirect_is_charged_to_the_original_scope() {
    let world = World::new();
    let there = good();
    let location = format!("{}/v1/embeddings", there.url());
    let here = first([Reply::status(307).header("location", location)]);
    let caller = world.embedder(&here, json!({}));
    caller.once().await.unwrap();
    assert_eq!((requests(&here), requests(&there)), (1, 1));
    assert_eq!(caller.admitted(), 2);
    assert_eq!(world.client.limiter().scope_count(), 1);
}

#[tokio::test]
async fn single_and_batched_generation_use_the_same_admission_scope() {
    let world = World::new();
    let server = good();
    let more = json!({ "rate_limit": { "requests_per_minute": 60, "burst": 2 } });
    let batching = world.generator(&server, more.clone());
    let single = world.open(Operation::Generate, &server, more);
    let prompts = ["a", "b"].map(GenerateRequest::prompt);
    for answer in batching.generate_batch(prompts.to_vec()).await {
        answer.unwrap();
    }
    // The batch has used the burst up: a single generation waits, and so does a streamed one.
    let call = single.call();
    single.queued(1).await;
    let streaming = batching.clone();
    let stream = tokio::spawn(async move {
        let stream = streaming
            .stream(GenerateRequest::prompt("c"))
            .await
            .unwrap();
        stream.collect_generation().await
    });
    single.queued(2).await;
    world.clock.advance(secs(1));
    done(call).await.unwrap();
    world.clock.advance(secs(1));
    assert_eq!(done(stream).await.unwrap().text, "hi");
    let starts = [secs(0), secs(0), secs(1), secs(2)];
    assert_eq!(world.starts(4).await, starts);
    assert_eq!(single.admitted(), 4);
    assert_eq!(world.client.limiter().scope_count(), 1);
}

#[tokio::test]
async fn a_single_generation_uses_up_what_a_batch_then_waits_for() {
    let world = World::new();
    let server = good();
    let more = json!({ "rate_limit": { "requests_per_minute": 60, "burst": 2 } });
    let generator = world.generator(&server, more);
    generator
        .generate(GenerateRequest::prompt("first"))
        .await
        .unwrap();
    let batching = generator.clone();
    let prompts = ["a", "b"].map(GenerateRequest::prompt);
    let batch = tokio::spawn(async move { batching.generate_batch(prompts.to_vec()).await });
    server.wait_for_requests(2).await;
    generator.queued(1).await;
    world.clock.advance(secs(1));
    for answer in done(batch).await {
        answer.unwrap();
    }
    assert_eq!(world.starts(3).await, [secs(0), secs(0), secs(1)]);
}

/// A store that answers when its gate is open.
#[derive(Debug)]
struct Slow {
    gate: Gate,
    asked: AtomicUsize,
}

#[async_trait::async_trait]
impl SecretStore for Slow {
    fn id(&self) -> String {
        "slow".to_owned()
    }
    fn holds(&self, _name: &str) -> Result<bool> {
        Ok(true)
    }
    async fn get(&self, _name: &str) -> Result<Option<SecretString>> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        self.gate.passed().await;
        Ok(Some("late".into()))
    }
}

#[tokio::test]
async fn loading_a_credential_is_separate_from_the_models_invocation_and_consumes_no_quota() {
    let store = Arc::new(Slow {
        gate: Gate::new(),
        asked: AtomicUsize::new(0),
    });
    let world = World::build([], |b| b.secret_store(store.clone()));
    let server = good();
    let more = json!({
        "api_key": "${secret:k}",
        "rate_limit": { "requests_per_minute": 60, "max_concurrency": 1, "tokens_per_minute": 5000 },
    });
    let caller = world.embedder(&server, more);
    let call = caller.call();
    until("the store", || store.asked.load(Ordering::Relaxed) > 0).await;
    quiet().await;
    let snap = caller.snap();
    assert_eq!(
        (snap.active, snap.queued, snap.counters.admitted),
        (0, 0, 0)
    );
    assert_eq!((snap.request_debt, snap.token_debt), (0.0, 0.0));
    store.gate.open();
    done(call).await.unwrap();
    assert_eq!((requests(&server), caller.admitted()), (1, 1));
}

#[tokio::test]
async fn no_attempt_sits_on_a_permit_while_its_credential_source_is_asked() {
    /// Answers once, and then only when its gate is open.
    #[derive(Debug)]
    struct Once(AtomicUsize, Gate);

    #[async_trait::async_trait]
    impl SecretStore for Once {
        fn id(&self) -> String {
            "once".to_owned()
        }
        fn holds(&self, _name: &str) -> Result<bool> {
            Ok(true)
        }
        async fn get(&self, _name: &str) -> Result<Option<SecretString>> {
            if self.0.fetch_add(1, Ordering::Relaxed) > 0 {
                self.1.passed().await;
            }
            Ok(Some("key".into()))
        }
    }

    let gate = Gate::new();
    let store = Arc::new(Once(AtomicUsize::new(0), gate.clone()));
    let world = World::build([], |b| b.secret_store(store));
    let server = good();
    let limits = json!({ "max_concurrency": 1 });
    let more = json!({ "api_key": "${secret:k}", "rate_limit": limits });
    let caller = world.embedder(&server, more);
    // The first call has a key: what it was admitted for leaves at once.
    caller.once().await.unwrap();
    assert_eq!((server.requests().len(), caller.admitted()), (1, 1));
    // The second one waits for its key, without a permit.
    let call = caller.call();
    quiet().await;
    assert_eq!((caller.snap().active, caller.snap().queued), (0, 0));
    assert_eq!(caller.admitted(), 1);
    gate.open();
    done(call).await.unwrap();
    assert_eq!((server.requests().len(), caller.admitted()), (2, 2));
}

/// A scope whose one slot is taken until the gate opens.
async fn occupied(world: &World, server: &Server) -> (Caller, tokio::task::JoinHandle<Result<()>>) {
    let limits = json!({ "rate_limit": {
        "max_concurrency": 1, "requests_per_minute": 60, "burst": 9, "tokens_per_minute": 9000 } });
    let caller = world.embedder(server, limits);
    let call = caller.call();
    server.wait_for_requests(1).await;
    (caller, call)
}

#[tokio::test]
async fn waiting_honours_the_requests_deadline_and_reserves_nothing() {
    for by_timeout in [true, false] {
        let world = World::new();
        let gate = Gate::new();
        let server = gated(std::slice::from_ref(&gate));
        let (caller, first) = occupied(&world, &server).await;
        let options = if by_timeout {
            CallOptions::default().with_timeout(secs(5))
        } else {
            CallOptions::default().with_deadline(world.clock.now().saturating_add(secs(5)))
        };
        let late = caller.call_with(options);
        caller.queued(1).await;
        world.clock.advance(secs(5) - nanos(1));
        caller.still_queued(1).await;
        let before = caller.snap();
        world.clock.advance(nanos(1));
        let error = refused(done(late).await);
        assert_eq!(error.kind(), Kind::DeadlineExceeded);
        assert_eq!(error.attempts(), 0);
        assert_eq!(error.scope(), Some(before.key.as_str()));
        let after = caller.snap();
        assert_eq!(after.queued, 0);
        assert_eq!(after.counters.admitted, 1);
        assert_eq!(
            after.counters.tokens_admitted,
            before.counters.tokens_admitted
        );
        assert!(after.request_debt <= before.request_debt);
        assert!(after.token_debt <= before.token_debt);
        gate.open();
        done(first).await.unwrap();
        caller.once().await.unwrap();
        assert_eq!(requests(&server), 2);
    }
}

#[tokio::test]
async fn waiting_honours_the_entrys_own_timeout() {
    let world = World::new();
    let gate = Gate::new();
    let server = gated(std::slice::from_ref(&gate));
    let limits = json!({ "rate_limit": { "max_concurrency": 1 } });
    let slow = world.embedder(&server, limits);
    let mut more = json!({ "rate_limit": { "max_concurrency": 1 } });
    more["timeout_ms"] = 2000.into();
    let hasty = world.embedder(&server, more);
    let first = slow.call();
    server.wait_for_requests(1).await;
    let late = hasty.call();
    hasty.queued(1).await;
    world.clock.advance(secs(2));
    assert_eq!(refused(done(late).await).kind(), Kind::DeadlineExceeded);
    gate.open();
    done(first).await.unwrap();
}

#[tokio::test]
async fn a_deadline_that_is_certain_not_to_be_met_fails_at_once() {
    for limits in [
        json!({ "requests_per_minute": 1 }),
        json!({ "requests_per_minute": 1, "pacing": "completion" }),
    ] {
        let world = World::new();
        let server = good();
        let caller = world.embedder(&server, json!({ "rate_limit": limits }));
        caller.once().await.unwrap();
        let call = caller.call_with(CallOptions::default().with_timeout(secs(60) - nanos(1)));
        let error = refused(done(call).await);
        assert_eq!(error.kind(), Kind::DeadlineExceeded);
        assert_eq!(world.elapsed(), secs(0));
        // One that can be met is met: nothing was reserved by the other.
        let call = caller.call_with(CallOptions::default().with_timeout(secs(61)));
        caller.queued(1).await;
        world.clock.advance(secs(60));
        done(call).await.unwrap();
        assert_eq!(requests(&server), 2);
    }
}

#[tokio::test]
async fn waiting_honours_cancellation_and_reserves_nothing() {
    let world = World::new();
    let gate = Gate::new();
    let server = gated(std::slice::from_ref(&gate));
    let (caller, first) = occupied(&world, &server).await;
    let before = caller.snap();
    let cancel = CancellationToken::new();
    let call = caller.call_with(CallOptions::default().with_cancel(cancel.clone()));
    caller.queued(1).await;
    // One behind it moves up.
    let behind = caller.call();
    caller.queued(2).await;
    cancel.cancel();
    let error = refused(done(call).await);
    assert_eq!(error.kind(), Kind::Cancelled);
    assert_eq!(error.attempts(), 0);
    let after = caller.snap();
    assert_eq!(after.queued, 1);
    assert_eq!(after.counters.admitted, 1);
    assert_eq!(after.request_debt, before.request_debt);
    assert_eq!(after.token_debt, before.token_debt);
    gate.open();
    done(first).await.unwrap();
    done(behind).await.unwrap();
    assert_eq!(requests(&server), 2);
}

#[tokio::test]
async fn a_dropped_wait_reserves_nothing_and_the_next_moves_up() {
    let world = World::new();
    let gate = Gate::new();
    let server = gated(std::slice::from_ref(&gate));
    let (caller, first) = occupied(&world, &server).await;
    let dropped = caller.call();
    caller.queued(1).await;
    let behind = caller.call();
    caller.queued(2).await;
    dropped.abort();
    caller.queued(1).await;
    gate.open();
    done(first).await.unwrap();
    done(behind).await.unwrap();
    assert_eq!((requests(&server), caller.admitted()), (2, 2));
}

#[tokio::test]
async fn completion_waits_honour_deadline_and_cancellation_too() {
    let world = World::new();
    let gate = Gate::new();
    let server = gated(std::slice::from_ref(&gate));
    let limits = json!({ "rate_limit": { "requests_per_minute": 60, "pacing": "completion" } });
    let caller = world.embedder(&server, limits);
    let first = caller.call();
    server.wait_for_requests(1).await;
    let late = caller.call_with(CallOptions::default().with_timeout(secs(5)));
    caller.queued(1).await;
    let cancel = CancellationToken::new();
    let gone = caller.call_with(CallOptions::default().with_cancel(cancel.clone()));
    caller.queued(2).await;
    world.clock.advance(secs(5));
    assert_eq!(refused(done(late).await).kind(), Kind::DeadlineExceeded);
    cancel.cancel();
    assert_eq!(refused(done(gone).await).kind(), Kind::Cancelled);
    gate.open();
    done(first).await.unwrap();
    assert_eq!(caller.snap().queued, 0);
    assert_eq!((requests(&server), caller.admitted()), (1, 1));
    // Neither delayed the next by an interval of its own.
    assert_eq!(caller.snap().completion_remaining, Some(secs(1)));
}
