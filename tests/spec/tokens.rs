//! Text token budgets.

use antfly_framework::testing::{Reply, Server};
use antfly_framework::{
    CallOptions, EmbedRequest, GenerateRequest, Kind, Operation, RerankRequest, StreamEvent,
};
use serde_json::{Value, json};

use crate::support::*;

fn budget(tokens: usize) -> Value {
    json!({ "rate_limit": { "tokens_per_minute": tokens } })
}

/// Bytes of every body the server got.
fn body_bytes(server: &Server) -> u64 {
    (server.requests().iter())
        .map(|request| request.body.len() as u64)
        .sum()
}

fn reserved(caller: &impl Scoped) -> u64 {
    caller.snap().counters.tokens_admitted
}

/// Bytes of the body that a caller of this operation sends.
async fn bytes_sent(operation: Operation) -> usize {
    let server = good();
    let more = match operation {
        Operation::Generate => json!({ "max_tokens": 50 }),
        _ => json!({}),
    };
    World::new()
        .open(operation, &server, more)
        .once()
        .await
        .unwrap();
    server.requests()[0].body.len()
}

/// An entry whose attempts cost their body and this cap.
fn with_cap(operation: Operation, mut more: Value) -> Value {
    if operation == Operation::Generate {
        more["max_tokens"] = 50.into();
    }
    more
}

const fn cap(operation: Operation) -> usize {
    match operation {
        Operation::Generate => 50,
        _ => 0,
    }
}

#[tokio::test]
async fn each_attempt_reserves_its_body_in_utf8_bytes() {
    let world = World::new();
    let server = good();
    let text = "zwölf Boxkämpfer \u{1f94a} \"quoted\"\n";
    let entry = |operation| entry(operation, at(&server, budget(100_000)));
    let embedder = world.client.embedder(&entry(Operation::Embed)).unwrap();
    embedder
        .embed(EmbedRequest::texts([text, "two"]))
        .await
        .unwrap();
    let bytes = body_bytes(&server);
    assert!(bytes as usize > text.len());
    assert_eq!(embedder.scope_snapshot().counters.tokens_admitted, bytes);
    assert_eq!(embedder.scope_snapshot().token_debt, bytes as f64);

    let reranker = world.client.reranker(&entry(Operation::Rerank)).unwrap();
    reranker
        .rerank(RerankRequest::new(text, [text]))
        .await
        .unwrap();
    let reserved = reranker.scope_snapshot().counters.tokens_admitted;
    assert_eq!(bytes + reserved, body_bytes(&server));
}

#[tokio::test]
async fn a_generation_reserves_its_output_cap_beside_its_body() {
    let world = World::new();
    let server = good();
    let mut more = budget(100_000);
    more["max_tokens"] = 50.into();
    let generator = world.generator(&server, more);
    generator
        .generate(GenerateRequest::prompt("hi"))
        .await
        .unwrap();
    assert_eq!(reserved(&generator), body_bytes(&server) + 50);
    // A request's own cap stands before the entry's.
    let own = GenerateRequest::prompt("hi").with_max_tokens(70);
    generator.generate(own.clone()).await.unwrap();
    assert_eq!(reserved(&generator), body_bytes(&server) + 50 + 70);
    let stream = generator.stream(own).await.unwrap();
    stream.collect_generation().await.unwrap();
    assert_eq!(reserved(&generator), body_bytes(&server) + 50 + 70 + 70);
    let caps: Vec<_> = (server.requests().iter())
        .map(|r| r.json()["max_tokens"].clone())
        .collect();
    assert_eq!(caps, [50, 70, 70]);
}

#[tokio::test]
async fn a_generation_batch_reserves_the_sum_over_all_its_items() {
    let world = World::new();
    let server = good();
    let mut more = budget(100_000);
    more["max_tokens"] = 50.into();
    let generator = world.generator(&server, more);
    let batch = vec![
        GenerateRequest::prompt("one"),
        GenerateRequest::prompt("the second").with_max_tokens(7),
        GenerateRequest::prompt("3"),
    ];
    for answer in generator.generate_batch(batch).await {
        answer.unwrap();
    }
    assert_eq!(reserved(&generator), body_bytes(&server) + 50 + 7 + 50);
}

#[tokio::test]
async fn the_parts_of_a_split_embedding_call_each_reserve_their_own_body() {
    let world = World::new();
    let server = good();
    let embedder = world
        .client
        .embedder(&entry(Operation::Embed, at(&server, budget(1000))))
        .unwrap();
    let texts = ["a".repeat(200), "b".repeat(200), "c".repeat(200)];
    let request = EmbedRequest::texts(texts).with_batch_size(1);
    assert_eq!(embedder.embed(request).await.unwrap().len(), 3);
    assert_eq!(server.requests().len(), 3);
    assert_eq!(
        embedder.scope_snapshot().counters.tokens_admitted,
        body_bytes(&server)
    );
}

#[tokio::test]
async fn the_budget_is_no_billing_and_real_usage_never_changes_it() {
    // The server counts a million tokens in every answer.
    for operation in [Operation::Embed, Operation::Generate] {
        let world = World::new();
        let server = good();
        let caller = world.open(operation, &server, with_cap(operation, budget(5000)));
        caller.once().await.unwrap();
        let cost = body_bytes(&server) + cap(operation) as u64;
        assert_eq!(caller.snap().token_debt, cost as f64);
        caller.once().await.unwrap();
        assert_eq!(caller.snap().token_debt, 2.0 * cost as f64);
    }
    // Nor does a stream that ends far below its cap.
    let world = World::new();
    let server = good();
    let generator = world.generator(&server, budget(5000));
    let request = GenerateRequest::prompt("hi").with_max_tokens(2000);
    let mut stream = generator.stream(request).await.unwrap();
    assert_eq!(
        stream.next().await.unwrap().unwrap(),
        StreamEvent::Text("hi".into())
    );
    drop(stream);
    assert_eq!(
        generator.snap().token_debt,
        (body_bytes(&server) + 2000) as f64
    );
}

#[tokio::test]
async fn spent_tokens_come_back_with_time_alone() {
    for operation in OPERATIONS {
        let cost = bytes_sent(operation).await + cap(operation);
        let world = World::new();
        let server = good();
        // Each call costs the whole budget: a minute's worth.
        let caller = world.open(operation, &server, with_cap(operation, budget(cost)));
        caller.once().await.unwrap();
        let next = caller.call();
        caller.queued(1).await;
        world.clock.advance(secs(60) - nanos(1));
        caller.still_queued(1).await;
        world.clock.advance(nanos(1));
        done(next).await.unwrap();
        assert_eq!(world.starts(2).await, [secs(0), secs(60)], "{operation}");
    }
}

#[tokio::test]
async fn failed_attempts_are_not_refunded() {
    for operation in OPERATIONS {
        for reply in [
            error(500),
            error(400),
            Reply::reset(),
            Reply::json(200, "{}"),
        ] {
            let world = World::new();
            let server = first([reply.clone()]);
            let mut more = with_cap(operation, budget(5000));
            more["retry"] = json!({ "max_attempts": 1 });
            let caller = world.open(operation, &server, more);
            refused(caller.once().await);
            let cost = body_bytes(&server) + cap(operation) as u64;
            assert_eq!(server.requests().len(), 1);
            assert_eq!(reserved(&caller), cost, "{reply:?}");
            assert_eq!(caller.snap().token_debt, cost as f64, "{reply:?}");
        }
    }
}

#[tokio::test]
async fn retries_reserve_again() {
    for operation in OPERATIONS {
        let cost = bytes_sent(operation).await + cap(operation);
        let world = World::new();
        let server = first([error(503)]);
        // Room for one and a half: the retry waits for the other half.
        let tokens = cost + cost / 2;
        let caller = world.open(operation, &server, with_cap(operation, budget(tokens)));
        let call = caller.call();
        until("the backoff", || {
            let due = world.clock.next_alarm();
            due.is_some_and(|at| at.saturating_duration_since(world.clock.now()) <= secs(1))
        })
        .await;
        world.clock.advance(secs(1));
        caller.queued(1).await;
        world.clock.advance(secs(60));
        done(call).await.unwrap();
        assert_eq!(server.requests().len(), 2);
        assert_eq!(reserved(&caller), 2 * cost as u64, "{operation}");
        assert_eq!(
            reserved(&caller),
            body_bytes(&server) + 2 * cap(operation) as u64
        );
    }
}

#[tokio::test]
async fn redirect_hops_reserve_again() {
    let world = World::new();
    let server = first([Reply::status(307).header("location", "/v1/embeddings?again")]);
    let caller = world.embedder(&server, budget(5000));
    caller.once().await.unwrap();
    assert_eq!(server.requests().len(), 2);
    assert_eq!(reserved(&caller), body_bytes(&server));
}

#[tokio::test]
async fn a_request_larger_than_the_entire_budget_fails_immediately_and_sends_nothing() {
    for operation in OPERATIONS {
        let cost = bytes_sent(operation).await + cap(operation);
        let world = World::new();
        let server = first([error(429).header("retry-after", 100)]);
        let open = |tokens| {
            let mut more = with_cap(operation, budget(tokens));
            more["retry"] = json!({ "max_attempts": 1 });
            world.open(operation, &server, more)
        };
        // One of exactly the budget passes; it leaves the scope without tokens and in a cooldown.
        let enough = open(cost);
        assert_eq!(refused(enough.once().await).kind(), Kind::RateLimited);
        drop(enough);
        let caller = open(cost - 1);
        let before = caller.snap();
        let error = refused(caller.once().await);
        // Not even the cooldown was waited for.
        assert_eq!(error.kind(), Kind::ExceedsTokenBudget, "{operation}");
        assert!(!error.is_retryable());
        assert_eq!(error.attempts(), 0);
        assert!(error.message().contains(&cost.to_string()), "{error}");
        assert!(error.message().contains(&(cost - 1).to_string()), "{error}");
        assert_eq!(world.elapsed(), secs(0));
        assert_eq!(server.requests().len(), 1);
        let after = caller.snap();
        assert_eq!(after.queued, 0);
        assert_eq!(after.counters.admitted, before.counters.admitted);
        assert_eq!(
            after.counters.tokens_admitted,
            before.counters.tokens_admitted
        );
        assert_eq!(after.token_debt, before.token_debt);
    }
}

#[tokio::test]
async fn one_item_too_large_fails_the_embedding_call_before_any_part_is_sent() {
    let world = World::new();
    let server = good();
    let embedder = world
        .client
        .embedder(&entry(Operation::Embed, at(&server, budget(300))))
        .unwrap();
    let request = EmbedRequest::texts(["small".to_owned(), "x".repeat(300)]);
    let error = refused(embedder.embed(request).await);
    assert_eq!(error.kind(), Kind::ExceedsTokenBudget);
    assert_eq!(error.item(), Some(1));
    assert_eq!(server.requests().len(), 0);
    assert_eq!(embedder.scope_snapshot().counters.admitted, 0);
}

#[tokio::test]
async fn generation_under_a_budget_uses_the_generators_default_cap_when_omitted() {
    let world = World::new();
    let server = good();
    let generator = world.generator(&server, budget(100_000));
    generator
        .generate(GenerateRequest::prompt("hi"))
        .await
        .unwrap();
    let stream = generator
        .stream(GenerateRequest::prompt("hi"))
        .await
        .unwrap();
    stream.collect_generation().await.unwrap();
    for request in server.requests() {
        // What is reserved is also what is asked for.
        assert_eq!(request.json()["max_tokens"], 1024);
    }
    assert_eq!(reserved(&generator), body_bytes(&server) + 2 * 1024);
}

#[tokio::test]
async fn generation_without_a_budget_sends_no_cap_that_nobody_gave() {
    let world = World::new();
    let server = good();
    let more = json!({ "rate_limit": { "requests_per_minute": 60, "burst": 9 } });
    let generator = world.generator(&server, more);
    generator
        .generate(GenerateRequest::prompt("hi"))
        .await
        .unwrap();
    let body = server.requests()[0].json();
    assert_eq!(body.get("max_tokens"), None);
    assert_eq!(body.get("max_completion_tokens"), None);
    let capped = GenerateRequest::prompt("hi").with_max_tokens(9);
    generator.generate(capped).await.unwrap();
    assert_eq!(server.requests()[1].json()["max_tokens"], 9);
}

#[tokio::test]
async fn generation_requires_a_positive_output_cap() {
    let zero = refused(try_entry(Operation::Generate, json!({ "max_tokens": 0 })));
    assert_eq!(zero.kind(), Kind::Config);
    assert!(
        zero.message().starts_with("generators.one.max_tokens: 0"),
        "{zero}"
    );
    for more in [budget(100_000), json!({})] {
        let world = World::new();
        let server = good();
        let generator = world.generator(&server, more);
        let request = GenerateRequest::prompt("hi").with_max_tokens(0);
        let plain = refused(generator.generate(request.clone()).await);
        let streamed = refused(generator.stream(request.clone()).await);
        let mut batch = generator.generate_batch(vec![request]).await;
        for error in [plain, streamed, refused(batch.remove(0))] {
            assert_eq!(error.kind(), Kind::InvalidRequest);
            assert!(error.message().contains("max_tokens"), "{error}");
        }
        assert_eq!(server.requests().len(), 0);
        assert_eq!(generator.snap().counters.admitted, 0);
    }
}

#[tokio::test]
async fn an_output_cap_cannot_be_raised_past_the_reservation_by_an_extra_field() {
    for name in ["max_tokens", "max_completion_tokens", "n"] {
        let world = World::new();
        let server = good();
        let mut more = at(&server, budget(100_000));
        more["extra_body"] = json!({ name: 90_000 });
        let error = refused(world.try_open(&entry(Operation::Generate, more)));
        assert_eq!(error.kind(), Kind::Config);
        assert!(error.message().contains(name), "{error}");

        let generator = world.generator(&server, budget(100_000));
        let mut request = GenerateRequest::prompt("hi");
        request.extra_body.insert(name.to_owned(), 90_000.into());
        refused(generator.generate(request).await);
        assert_eq!(server.requests().len(), 0);
    }
}

#[tokio::test]
async fn a_wait_for_tokens_honours_its_deadline() {
    let cost = bytes_sent(Operation::Embed).await;
    let world = World::new();
    let server = good();
    let caller = world.embedder(&server, budget(cost));
    caller.once().await.unwrap();
    let hopeless = caller.call_with(CallOptions::default().with_timeout(secs(59)));
    assert_eq!(refused(done(hopeless).await).kind(), Kind::DeadlineExceeded);
    assert_eq!(world.elapsed(), secs(0));
    assert_eq!(reserved(&caller), cost as u64);
}
