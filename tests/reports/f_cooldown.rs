//! F. Retry-After and the cooldown of a scope. The clock moves only when told.

use antfly_framework::testing::{Reply, Server};
use antfly_framework::{CallOptions, CancellationToken, Kind};
use serde_json::{Value, json};

use crate::support::{
    OPENAI_WIRE, Way, answer, ask, client, generator, manual, ms, read, secs, soon, through, until,
    until_alarm_in,
};

fn limited() -> Reply {
    Reply::json(429, json!({"error": {"message": "slow down"}}))
}

fn one_try() -> Value {
    json!({"retry": {"max_attempts": 1}})
}

/// The same through this adapter.
fn one_try_through(provider: &str) -> Value {
    json!({"provider": provider, "retry": {"max_attempts": 1}})
}

#[tokio::test]
async fn f01_a_date_opens_the_cooldown_as_seconds_do_and_nobody_sends_before_it() {
    let now = ("date", "Sun, 06 Nov 1994 08:49:37 GMT");
    for after in [
        "3",
        "Sun, 06 Nov 1994 08:49:40 GMT",
        "Sunday, 06-Nov-94 08:49:40 GMT",
        "Sun Nov  6 08:49:40 1994",
    ] {
        let (client, clock) = manual();
        let server = Server::start([
            limited().header(now.0, now.1).header("retry-after", after),
            answer("one"),
            answer("two"),
        ]);
        let first = generator(&client, &server, one_try());
        let error = first.generate(ask()).await.unwrap_err();
        assert_eq!(error.kind(), Kind::RateLimited, "{after}");
        assert_eq!(error.retry_after(), Some(secs(3)), "{after}");
        assert_eq!(first.scope_snapshot().cooldown_remaining, Some(secs(3)));

        // Another handle of the same scope, plain and streamed.
        let second = generator(&client, &server, one_try());
        let waiting: Vec<_> = (0..2)
            .map(|_| {
                let second = second.clone();
                tokio::spawn(async move { second.generate(ask()).await })
            })
            .collect();
        until("two in line", || second.scope_snapshot().queued == 2).await;
        clock.advance(ms(2999));
        tokio::task::yield_now().await;
        assert_eq!(second.scope_snapshot().queued, 2, "{after}");
        assert_eq!(second.scope_snapshot().counters.admitted, 1, "{after}");
        assert_eq!(server.requests().len(), 1, "{after}");
        clock.advance(ms(1));
        // A scope without limits starts again step by step, so that the whole line does not fall on the provider at once.
        until("the first of them", || {
            second.scope_snapshot().counters.admitted == 2
        })
        .await;
        clock.advance(ms(100));
        for call in waiting {
            soon(call).await.unwrap().unwrap();
        }
        assert_eq!(server.requests().len(), 3);
    }
}

#[tokio::test]
async fn f01_the_call_that_was_told_waits_as_well() {
    let (client, clock) = manual();
    let server = Server::start([limited().header("retry-after", "3"), answer("one")]);
    let generator = generator(&client, &server, json!({}));
    let call = {
        let generator = generator.clone();
        tokio::spawn(async move { generator.generate(ask()).await })
    };
    until_alarm_in(&clock, secs(3)).await;
    clock.advance(ms(2999));
    tokio::task::yield_now().await;
    assert_eq!(generator.scope_snapshot().counters.admitted, 1);
    clock.advance(ms(1));
    soon(call).await.unwrap().unwrap();
    assert_eq!(server.requests().len(), 2);
}

#[tokio::test]
async fn f02_a_malformed_value_counts_as_absent_and_the_backoff_is_never_zero() {
    for values in [
        &["Wed, 99 Foo 2026"][..],
        &["soon"],
        &[""],
        &["\u{b2}"],
        &["-5"],
        &["1e9"],
        &["NaN"],
        &["inf"],
        &["soon", "later"],
    ] {
        let (client, clock) = manual();
        let reply = values
            .iter()
            .fold(limited(), |reply, value| reply.header("retry-after", value));
        let server = Server::start([reply, answer("one")]);
        let retry = json!({"retry": {"initial_backoff_ms": 1000, "max_backoff_ms": 1000}});
        let generator = generator(&client, &server, retry);
        let call = {
            let generator = generator.clone();
            tokio::spawn(async move { generator.generate(ask()).await })
        };
        let second_at_most = || {
            clock
                .next_alarm()
                .is_some_and(|at| at <= clock.now().saturating_add(secs(1)))
        };
        until("the backoff", second_at_most).await;
        let wait = clock
            .next_alarm()
            .unwrap()
            .saturating_duration_since(clock.now());
        assert!(wait >= ms(1), "{values:?}: {wait:?}");
        assert_eq!(
            generator.scope_snapshot().cooldown_until,
            None,
            "{values:?}"
        );
        assert_eq!(server.requests().len(), 1, "{values:?}");
        clock.advance(wait);
        soon(call).await.unwrap().unwrap();
        assert_eq!(server.requests().len(), 2);
    }
}

#[tokio::test]
async fn f02_of_two_headers_the_longest_well_formed_wait_counts() {
    for values in [["soon", "4"], ["4", "soon"], ["4", "2"], ["1", "4"]] {
        let (client, _clock) = manual();
        let reply = values
            .iter()
            .fold(limited(), |reply, value| reply.header("retry-after", value));
        let server = Server::start([reply]);
        let error = generator(&client, &server, one_try())
            .generate(ask())
            .await
            .unwrap_err();
        assert_eq!(error.retry_after(), Some(secs(4)), "{values:?}");
    }
}

#[tokio::test]
async fn f05_a_long_wait_is_kept_to_the_second() {
    let (client, clock) = manual();
    let server = Server::start([limited().header("retry-after", "90"), answer("one")]);
    let generator = generator(&client, &server, json!({}));
    let call = {
        let generator = generator.clone();
        tokio::spawn(async move { generator.generate(ask()).await })
    };
    until_alarm_in(&clock, secs(90)).await;
    clock.advance(ms(89_999));
    tokio::task::yield_now().await;
    assert_eq!(generator.scope_snapshot().counters.admitted, 1);
    clock.advance(ms(1));
    soon(call).await.unwrap().unwrap();
}

#[tokio::test]
async fn f05_a_wait_beyond_the_deadline_fails_now_and_keeps_the_cooldown() {
    for way in Way::ALL {
        let (client, clock) = manual();
        let server = Server::start([limited().header("retry-after", "90"), way.good()]);
        let asker = way.open(&client, &server, json!({"timeout_ms": 10_000}));
        let error = soon(asker.ask()).await.unwrap_err();
        assert_eq!(error.kind(), Kind::RateLimited, "{way:?}");
        assert_eq!(error.retry_after(), Some(secs(90)));
        assert_eq!(error.attempts(), 1);
        assert_eq!(asker.snapshot().cooldown_remaining, Some(secs(90)));
        // The next call is told at once, and sends nothing.
        clock.advance(secs(30));
        let error = soon(asker.ask()).await.unwrap_err();
        assert_eq!(error.kind(), Kind::DeadlineExceeded, "{way:?}");
        assert_eq!(error.retry_after(), Some(secs(60)));
        assert_eq!(error.attempts(), 0);
        assert_eq!(server.requests().len(), 1);
        clock.advance(secs(60));
        asker.ask().await.unwrap();
    }
}

#[tokio::test]
async fn f07_a_wait_as_long_as_the_cap_is_within_it_and_no_margin_counts_against_it() {
    let (client, clock) = manual();
    let server = Server::start([limited().header("retry-after", "60"), answer("one")]);
    let generator = generator(&client, &server, json!({"timeout_ms": 60_001}));
    let call = tokio::spawn(async move { generator.generate(ask()).await });
    until_alarm_in(&clock, secs(60)).await;
    clock.advance(secs(60));
    assert_eq!(soon(call).await.unwrap().unwrap().text, "one");
}

#[tokio::test]
async fn f07_at_the_very_deadline_the_wait_is_still_accepted() {
    let (client, clock) = manual();
    let server = Server::start([limited().header("retry-after", "60"), answer("one")]);
    let generator = generator(&client, &server, json!({"timeout_ms": 60_000}));
    let call = {
        let generator = generator.clone();
        tokio::spawn(async move { generator.generate(ask()).await })
    };
    // It neither gives up now nor sleeps for nothing: at the end of the wait it is admitted.
    until("the backoff", || clock.armed() >= 2).await;
    assert!(!call.is_finished());
    clock.advance(secs(60));
    let _ = soon(call).await.unwrap();
    assert_eq!(generator.scope_snapshot().counters.admitted, 2);
}

#[tokio::test]
async fn f10_a_hint_in_the_body_opens_the_same_cooldown() {
    let body = json!({"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "quota", "details": [
        {"@type": "type.googleapis.com/google.rpc.Help"},
        {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "2.5s"},
    ]}});
    for provider in OPENAI_WIRE {
        for body in [body.clone(), json!([body])] {
            let (client, _clock) = manual();
            let server = Server::start([Reply::json(429, &body)]);
            let generator = generator(&client, &server, one_try_through(provider));
            let error = generator.generate(ask()).await.unwrap_err();
            assert_eq!(error.kind(), Kind::RateLimited, "{provider}");
            assert_eq!(error.retry_after(), Some(ms(2500)), "{provider}");
            assert_eq!(
                generator.scope_snapshot().cooldown_remaining,
                Some(ms(2500))
            );
        }
    }
}

#[tokio::test]
async fn f10_of_a_head_and_a_body_hint_the_longer_counts() {
    let body = json!({"error": {"message": "quota", "details": [
        {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "5s"},
    ]}});
    for provider in OPENAI_WIRE {
        for (header, expected) in [("2", 5), ("9", 9)] {
            let (client, _clock) = manual();
            let server = Server::start([Reply::json(429, &body).header("retry-after", header)]);
            let generator = generator(&client, &server, one_try_through(provider));
            let error = generator.generate(ask()).await.unwrap_err();
            assert_eq!(error.retry_after(), Some(secs(expected)), "{provider}");
            assert_eq!(
                generator.scope_snapshot().cooldown_remaining,
                Some(secs(expected))
            );
        }
    }
}

#[tokio::test]
async fn f10_without_a_hint_only_the_caller_backs_off() {
    for (provider, way) in Way::EACH {
        let server = Server::start([limited(), way.good()]);
        let asker = way.open(&client(), &server, one_try_through(provider));
        let error = asker.ask().await.unwrap_err();
        assert_eq!(error.kind(), Kind::RateLimited, "{provider} {way:?}");
        assert_eq!(error.retry_after(), None);
        assert_eq!(asker.snapshot().cooldown_until, None);
        // The next caller goes at once.
        asker.ask().await.unwrap();
    }
}

#[tokio::test]
async fn f11_used_up_quota_is_no_rate_limit() {
    for word in ["code", "type"] {
        for (provider, way) in Way::EACH {
            if way == Way::Rerank {
                continue; // A gateway in front of a reranker answers 402.
            }
            let body = json!({"error": {"message": "check your plan", word: "insufficient_quota"}});
            let server = Server::always(Reply::json(429, body));
            let asker = way.open(&client(), &server, through(provider));
            let error = asker.ask().await.unwrap_err();
            assert_eq!(error.kind(), Kind::QuotaExhausted, "{provider} {way:?}");
            assert!(!error.is_retryable());
            assert_eq!((error.status(), error.attempts()), (Some(429), 1));
            assert_eq!(server.requests().len(), 1, "{provider} {way:?}");
            assert_eq!(asker.snapshot().cooldown_until, None, "{provider} {way:?}");
        }
    }
}

#[tokio::test]
async fn f11_inside_a_200_stream_it_is_the_same() {
    let chunk = json!({"error": {"message": "check your plan", "code": "insufficient_quota"}});
    for provider in OPENAI_WIRE {
        let server = Server::always(Reply::sse([chunk.to_string()]));
        let (events, error) = read(&generator(&client(), &server, through(provider))).await;
        assert!(events.is_empty());
        assert_eq!(error.unwrap().kind(), Kind::QuotaExhausted, "{provider}");
        assert_eq!(server.requests().len(), 1, "{provider}");
    }
}

#[tokio::test]
async fn f14_a_wait_is_bounded_though_the_caller_sets_no_deadline() {
    let (client, clock) = manual();
    let server = Server::start([limited().header("retry-after", "3600")]);
    let generator = generator(&client, &server, json!({}));
    let error = soon(generator.generate(ask())).await.unwrap_err();
    assert_eq!(error.kind(), Kind::RateLimited);
    assert_eq!(error.retry_after(), Some(secs(3600)));
    assert_eq!(
        generator.scope_snapshot().cooldown_remaining,
        Some(secs(3600))
    );
    assert_eq!(clock.now(), antfly_framework::Instant::default());
}

#[tokio::test]
async fn f14_values_beyond_measure_saturate() {
    for value in [
        "99999999999999999999999999",
        "1e999",
        "184467440737095516160s",
    ] {
        let (client, _clock) = manual();
        let server = Server::always(limited().header("retry-after", value));
        let generator = generator(&client, &server, one_try());
        let error = soon(generator.generate(ask())).await.unwrap_err();
        assert_eq!(error.kind(), Kind::RateLimited, "{value}");
        if !value.contains('e') {
            assert!(error.retry_after().unwrap() > secs(u64::from(u32::MAX)));
        }
    }
}

#[test]
fn f14_a_timeout_of_zero_is_no_way_to_say_none() {
    use antfly_framework::Operation;
    let extra = json!({"timeout_ms": 0});
    let refused = crate::support::try_entry(Operation::Generate, "http://127.0.0.1:9", extra)
        .and_then(|entry| client().generator(&entry));
    let error = refused.unwrap_err();
    assert_eq!(error.kind(), Kind::Config);
    assert!(error.message().contains("timeout_ms"), "{error}");
}

#[tokio::test]
async fn f14_cancellation_ends_the_wait_at_once() {
    // In the backoff of the call that was told, and in the line of another one.
    for in_line in [false, true] {
        let (client, clock) = manual();
        let server = Server::start([limited().header("retry-after", "100")]);
        let generator = generator(&client, &server, json!({}));
        if in_line {
            let options = CallOptions::default().with_timeout(secs(1));
            generator.generate_with(ask(), options).await.unwrap_err();
        }
        let cancel = CancellationToken::new();
        let call = {
            let (generator, cancel) = (generator.clone(), cancel.clone());
            let options = CallOptions::default().with_cancel(cancel);
            tokio::spawn(async move { generator.generate_with(ask(), options).await })
        };
        until_alarm_in(&clock, secs(100)).await;
        let scope = generator.scope_snapshot();
        assert_eq!(scope.queued, usize::from(in_line));
        cancel.cancel();
        let error = soon(call).await.unwrap().unwrap_err();
        assert_eq!(error.kind(), Kind::Cancelled);
        let scope = generator.scope_snapshot();
        assert_eq!((scope.active, scope.queued), (0, 0));
        assert_eq!(scope.cooldown_remaining, Some(secs(100)));
        assert_eq!(server.requests().len(), 1);
    }
}

#[tokio::test]
async fn f15_no_sleep_when_the_next_attempt_cannot_make_the_deadline() {
    for way in Way::ALL {
        let (client, clock) = manual();
        let server = Server::start([limited().header("retry-after", "15")]);
        let asker = way.open(&client, &server, json!({"timeout_ms": 10_000}));
        // The clock never moves: a sleep would hang.
        let error = soon(asker.ask()).await.unwrap_err();
        assert_eq!(error.kind(), Kind::RateLimited, "{way:?}");
        assert_eq!(error.retry_after(), Some(secs(15)));
        assert_eq!(clock.now(), antfly_framework::Instant::default());
        assert_eq!(asker.snapshot().active, 0);
        assert_eq!(server.requests().len(), 1);
    }
}
