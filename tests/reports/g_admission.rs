//! G. Admission: concurrency, rates and token budgets.

use antfly_framework::content::Part;
use antfly_framework::limiter::ManualClock;
use antfly_framework::rerank::Document;
use antfly_framework::testing::{Gate, Reply, Server};
use antfly_framework::{
    CallOptions, Client, GenerateRequest, Generation, Generator, Kind, Message, Operation,
    RerankRequest, Result, Role,
};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::support::{
    Way, answer, ask, client, generator, manual, ms, reranker, secs, soon, try_entry, until,
};

#[tokio::test]
async fn g01_what_can_never_fit_the_budget_is_refused_at_once() {
    for way in Way::ALL {
        let (client, clock) = manual();
        let server = Server::start([]);
        // The smallest body is larger than this.
        let asker = way.open(
            &client,
            &server,
            json!({"rate_limit": {"tokens_per_minute": 10}}),
        );
        let error = soon(asker.ask()).await.unwrap_err();
        assert_eq!(error.kind(), Kind::ExceedsTokenBudget, "{way:?}");
        assert!(!error.is_retryable());
        let scope = asker.snapshot();
        assert_eq!((scope.active, scope.queued), (0, 0));
        assert_eq!((scope.token_debt, scope.request_debt), (0.0, 0.0));
        assert_eq!(scope.counters.admitted, 0);
        assert_eq!(server.connections(), 0);
        assert_eq!(clock.now(), antfly_framework::Instant::default());
    }
}

#[tokio::test]
async fn g01_the_output_cap_counts_and_the_boundary_fits() {
    let (client, _clock) = manual();
    let request = || ask().with_max_tokens(100);
    let server = Server::always(answer("ok"));
    let free = generator(&client, &server, json!({"model": "free"}));
    free.generate(request()).await.unwrap();
    let cost = server.requests()[0].body.len() + 100;
    for (budget, fits) in [(cost, true), (cost - 1, false)] {
        let limit = json!({"model": "free", "rate_limit": {"tokens_per_minute": budget}});
        let limited = generator(&manual().0, &server, limit);
        let result = limited.generate(request()).await;
        assert_eq!(result.is_ok(), fits, "{result:?}");
    }
}

#[tokio::test]
async fn g03_many_429s_change_no_configured_rate_and_the_wait_stays_bounded() {
    let (client, clock) = manual();
    let server = Server::with({
        let seen = std::sync::atomic::AtomicUsize::new(0);
        move |_| {
            if seen.fetch_add(1, std::sync::atomic::Ordering::SeqCst) < 20 {
                Reply::json(429, json!({"error": {"message": "slow down"}}))
            } else {
                answer("ok")
            }
        }
    });
    let limit = json!({"requests_per_minute": 60, "burst": 30, "tokens_per_minute": 6000});
    let extra = json!({"rate_limit": limit, "retry": {"max_attempts": 1}, "max_tokens": 10});
    let generator = generator(&client, &server, extra);
    let policy = generator.policy();
    for _ in 0..20 {
        let error = generator.generate(ask()).await.unwrap_err();
        assert_eq!(error.kind(), Kind::RateLimited);
    }
    assert_eq!(generator.policy(), policy);
    assert_eq!(generator.scope_snapshot().policy, policy);
    assert_eq!(generator.policy().tokens_per_minute(), Some(6000));
    assert_eq!(generator.policy().requests_per_minute(), Some(60));
    // A large request, with no deadline of its own: its wait is known and less than the whole budget takes to come back.
    let large = ask().with_max_tokens(5000);
    let wait = generator.estimated_wait(5200).unwrap();
    assert!(wait > ms(0) && wait <= secs(60), "{wait:?}");
    let call = {
        let generator = generator.clone();
        tokio::spawn(async move { generator.generate(large).await })
    };
    until("the place in line", || {
        generator.scope_snapshot().queued == 1
    })
    .await;
    clock.advance(wait);
    soon(call).await.unwrap().unwrap();
    assert_eq!(server.requests().len(), 21);
}

fn with_image(image: Part) -> GenerateRequest {
    GenerateRequest::messages([Message {
        content: vec![Part::text("what is this"), image],
        ..Message::new(Role::User, "")
    }])
}

#[tokio::test]
async fn g04_media_under_a_token_budget_is_refused_here_and_passes_without_one() {
    let images = || {
        [
            Part::image_url("data:image/png;base64,AAAA"),
            Part::image_url("https://example.com/a.png"),
            Part::media(vec![0_u8; 1000], "image/png"),
        ]
    };
    let server = Server::with(|_| answer("a cat"));
    let budget = json!({"rate_limit": {"tokens_per_minute": 1_000_000}});
    let limited = generator(&client(), &server, budget);
    for image in images() {
        for error in [
            limited
                .generate(with_image(image.clone()))
                .await
                .unwrap_err(),
            limited.stream(with_image(image)).await.unwrap_err(),
        ] {
            assert_eq!(error.kind(), Kind::MediaNotAllowed);
            assert_eq!((error.status(), error.attempts()), (None, 0));
            assert!(!error.is_retryable());
        }
    }
    assert_eq!(server.connections(), 0);
    assert_eq!(limited.scope_snapshot().token_debt, 0.0);

    let free = generator(
        &client(),
        &server,
        json!({"rate_limit": {"max_concurrency": 1}}),
    );
    for image in images() {
        free.generate(with_image(image)).await.unwrap();
    }
    assert_eq!(server.requests().len(), images().len());
}

#[tokio::test]
async fn g04_media_in_documents_is_the_same() {
    let request = || {
        let parts = vec![Part::media(vec![0_u8; 10], "image/png")];
        RerankRequest {
            query: "q".to_owned(),
            documents: vec![Document::Parts(parts)],
            top_n: None,
        }
    };
    let server = Server::always(Way::Rerank.good());
    let budget = json!({"rate_limit": {"tokens_per_minute": 1_000_000}});
    let error = reranker(&client(), &server, budget)
        .rerank(request())
        .await
        .unwrap_err();
    assert_eq!(error.kind(), Kind::MediaNotAllowed);
    assert_eq!(server.connections(), 0);
    reranker(&client(), &server, json!({}))
        .rerank(request())
        .await
        .unwrap();
}

/// A server that never answers what holds `silent`, and answers everything else.
fn half_silent() -> Server {
    Server::with(|request| {
        if request.text().contains("silent") {
            Reply::hang()
        } else {
            answer("ok")
        }
    })
}

#[tokio::test]
async fn g08_calls_that_time_out_leave_no_permit_behind() {
    let (client, clock) = manual();
    let server = half_silent();
    let generator = generator(
        &client,
        &server,
        json!({"rate_limit": {"max_concurrency": 2}}),
    );
    let calls: Vec<_> = (0..20)
        .map(|_| {
            let generator = generator.clone();
            let options = CallOptions::default().with_timeout(secs(5));
            tokio::spawn(async move {
                generator
                    .generate_with(GenerateRequest::prompt("silent"), options)
                    .await
            })
        })
        .collect();
    server.wait_for_requests(2).await;
    until("the line", || generator.scope_snapshot().queued == 18).await;
    assert_eq!(generator.scope_snapshot().active, 2);
    clock.advance(secs(5));
    for call in calls {
        let error = soon(call).await.unwrap().unwrap_err();
        assert_eq!(error.kind(), Kind::DeadlineExceeded);
    }
    let scope = generator.scope_snapshot();
    assert_eq!((scope.active, scope.queued), (0, 0));
    soon(generator.generate(ask())).await.unwrap();
    assert_eq!(generator.scope_snapshot().active, 0);
    assert_eq!(server.requests().len(), 3);
}

#[tokio::test]
async fn g08_neither_do_calls_that_are_dropped() {
    let server = half_silent();
    let generator = generator(
        &client(),
        &server,
        json!({"rate_limit": {"max_concurrency": 2}}),
    );
    let calls: Vec<_> = (0..20)
        .map(|_| {
            let generator = generator.clone();
            tokio::spawn(async move {
                generator
                    .stream(GenerateRequest::prompt("silent"))
                    .await
                    .map(drop)
            })
        })
        .collect();
    server.wait_for_requests(2).await;
    until("the line", || generator.scope_snapshot().queued == 18).await;
    for call in &calls {
        call.abort();
    }
    for call in calls {
        assert!(call.await.unwrap_err().is_cancelled());
    }
    let scope = generator.scope_snapshot();
    assert_eq!((scope.active, scope.queued), (0, 0));
    soon(generator.generate(ask())).await.unwrap();
}

#[test]
fn g09_every_zero_is_a_config_error() {
    for operation in [Operation::Embed, Operation::Generate, Operation::Rerank] {
        for field in [
            "max_concurrency",
            "requests_per_minute",
            "burst",
            "tokens_per_minute",
        ] {
            let mut limit = json!({"requests_per_minute": 10});
            limit[field] = json!(0);
            let extra = json!({"rate_limit": limit});
            let error = try_entry(operation, "http://127.0.0.1:9", extra).unwrap_err();
            assert_eq!(error.kind(), Kind::Config);
            let path = format!("rate_limit.{field}");
            assert!(error.message().contains(&path), "{error}");
        }
    }
    for field in ["requests_per_minute", "burst"] {
        let extra = json!({ field: 0 });
        let error = try_entry(Operation::Embed, "http://127.0.0.1:9", extra).unwrap_err();
        assert_eq!(error.kind(), Kind::Config);
        assert!(error.message().contains(field), "{error}");
    }
    for extra in [
        json!({"retry": {"max_attempts": 0}}),
        json!({"batch_size": 0}),
        json!({"stream_idle_timeout_ms": 0}),
    ] {
        let error = try_entry(Operation::Embed, "http://127.0.0.1:9", extra.clone())
            .and_then(|entry| client().embedder(&entry))
            .unwrap_err();
        assert_eq!(error.kind(), Kind::Config, "{extra}");
    }
}

#[tokio::test]
async fn g10_the_server_sees_as_many_requests_as_there_are_attempts() {
    for way in Way::ALL {
        for status in [429, 503] {
            for attempts in [1, 4] {
                let server = Server::always(Reply::status(status));
                let retry =
                    json!({"max_attempts": attempts, "initial_backoff_ms": 1, "max_backoff_ms": 1});
                let asker = way.open(&client(), &server, json!({"retry": retry}));
                let error = asker.ask().await.unwrap_err();
                assert_eq!(error.attempts(), attempts);
                assert_eq!(
                    server.requests().len(),
                    attempts as usize,
                    "{way:?} {status}"
                );
                let admitted = asker.snapshot().counters.admitted;
                assert_eq!(admitted, u64::from(attempts), "{way:?} {status}");
            }
        }
    }
}

#[tokio::test]
async fn g11_every_operation_goes_through_the_same_admission() {
    for way in Way::ALL {
        let (client, clock) = manual();
        let server = Server::with(move |_| way.good());
        let limit = json!({"rate_limit": {"requests_per_minute": 2, "burst": 2}});
        let asker = way.open(&client, &server, limit);
        asker.ask().await.unwrap();
        asker.ask().await.unwrap();
        let third = {
            let asker = asker.clone();
            tokio::spawn(async move { asker.ask().await })
        };
        until("the third in line", || asker.snapshot().queued == 1).await;
        clock.advance(ms(29_999));
        tokio::task::yield_now().await;
        assert_eq!(asker.snapshot().counters.admitted, 2, "{way:?}");
        assert_eq!(server.requests().len(), 2, "{way:?}");
        clock.advance(ms(1));
        soon(third).await.unwrap().unwrap();
        assert_eq!(server.requests().len(), 3, "{way:?}");
    }
}

/// Starts `count` calls of `way` and gives them back.
fn start(asker: &crate::support::Asker, count: usize) -> Vec<JoinHandle<Result<()>>> {
    (0..count)
        .map(|_| {
            let asker = asker.clone();
            tokio::spawn(async move { asker.ask().await })
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn g16_never_more_than_the_limit_reach_the_server() {
    for way in [Way::Generate, Way::Stream] {
        // Concurrency: ten are held at the server, and the other forty stay in line.
        let gate = Gate::new();
        let server = Server::always(way.good().after(&gate));
        let limit = json!({"rate_limit": {"max_concurrency": 10}});
        let asker = way.open(&client(), &server, limit);
        let calls = start(&asker, 50);
        server.wait_for_requests(10).await;
        until("the line", || asker.snapshot().queued == 40).await;
        assert_eq!(asker.snapshot().active, 10);
        assert_eq!(server.requests().len(), 10);
        gate.open();
        for call in calls {
            soon(call).await.unwrap().unwrap();
        }
        assert_eq!(server.requests().len(), 50);
        assert_eq!(asker.snapshot().active, 0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn g16_nor_more_than_the_rate_whatever_becomes_of_them() {
    let failed = json!({"error": {"message": "no", "code": 500}}).to_string();
    let replies: [(Way, Reply, bool); 3] = [
        (Way::Generate, answer("ok"), true),
        (Way::Stream, Way::Stream.good(), true),
        (Way::Stream, Reply::sse([failed]), false),
    ];
    for (way, reply, good) in replies {
        let (client, clock) = manual();
        let server = Server::always(reply);
        let extra = json!({
            "rate_limit": {"requests_per_minute": 10, "burst": 10},
            "retry": {"max_attempts": 1},
        });
        let asker = way.open(&client, &server, extra);
        let calls = start(&asker, 50);
        until("all have asked", || {
            let scope = asker.snapshot();
            scope.counters.admitted == 10 && scope.queued == 40 && scope.active == 0
        })
        .await;
        // Time stands still, so the ten are all there will be; what failed was spent as well.
        assert_eq!(server.requests().len(), 10);
        for admitted in 11..=50 {
            clock.advance(secs(6));
            // Its answer too: the clock must not run past the silence a stream may keep.
            until("the next", || {
                let scope = asker.snapshot();
                scope.counters.admitted >= admitted && scope.active == 0
            })
            .await;
            assert_eq!(asker.snapshot().counters.admitted, admitted);
        }
        for call in calls {
            assert_eq!(soon(call).await.unwrap().is_ok(), good);
        }
        assert_eq!(server.requests().len(), 50);
    }
}

/// Two calls, of which the first takes five seconds. Gives the scope, the gate that ends the first, and the calls.
async fn two_calls(
    client: &Client,
    clock: &ManualClock,
    limit: Value,
) -> (Generator, Server, Gate, Vec<JoinHandle<Result<Generation>>>) {
    let gate = Gate::new();
    let server = Server::start([answer("one").after(&gate), answer("two")]);
    let generator = generator(client, &server, json!({"rate_limit": limit}));
    let calls: Vec<_> = (0..2)
        .map(|_| {
            let generator = generator.clone();
            tokio::spawn(async move { generator.generate(ask()).await })
        })
        .collect();
    server.wait_for_requests(1).await;
    until("the second in line", || {
        generator.scope_snapshot().queued == 1
    })
    .await;
    clock.advance(secs(5));
    (generator, server, gate, calls)
}

#[tokio::test]
async fn g19_completion_pacing_keeps_a_gap_after_each_finish() {
    let (client, clock) = manual();
    let limit = json!({"requests_per_minute": 60, "pacing": "completion"});
    let (generator, server, gate, calls) = two_calls(&client, &clock, limit).await;
    tokio::task::yield_now().await;
    assert_eq!(generator.scope_snapshot().counters.admitted, 1);
    gate.open();
    until("the gap", || {
        generator.scope_snapshot().completion_remaining == Some(secs(1))
    })
    .await;
    clock.advance(ms(999));
    tokio::task::yield_now().await;
    assert_eq!(generator.scope_snapshot().counters.admitted, 1);
    assert_eq!(server.requests().len(), 1);
    clock.advance(ms(1));
    for call in calls {
        soon(call).await.unwrap().unwrap();
    }
    assert_eq!(server.requests().len(), 2);
}

#[tokio::test]
async fn g19_a_token_bucket_keeps_the_rate_and_promises_no_gap() {
    let (client, clock) = manual();
    let limit = json!({"requests_per_minute": 60, "burst": 1});
    let (generator, server, gate, calls) = two_calls(&client, &clock, limit).await;
    // The second starts while the first still runs.
    server.wait_for_requests(2).await;
    assert_eq!(generator.scope_snapshot().counters.admitted, 2);
    gate.open();
    for call in calls {
        soon(call).await.unwrap().unwrap();
    }
}
