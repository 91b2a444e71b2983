//! One request an attempt, every attempt admitted; what a refusal means for this call and for the scope.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use antfly_framework::testing::{Gate, Reply, Server};
use antfly_framework::{CallOptions, EmbedRequest, GenerateRequest, Kind, Time};
use serde_json::json;

use crate::frames::{text, whole};
use crate::support::{
    Log, answer, client, client_on, drive, embedder, entry, env, generator, keys, manual, refusal,
    signer, vector,
};

fn texts() -> EmbedRequest {
    EmbedRequest::texts(["a"])
}

#[tokio::test]
async fn g10_k16_the_server_sees_as_many_requests_as_were_admitted_whatever_it_answers() {
    for (reply, attempts) in [
        (refusal(429, "ThrottlingException", "slow down"), 30),
        (refusal(503, "ServiceUnavailableException", "later"), 30),
        (refusal(500, "InternalServerException", "oops"), 30),
        (refusal(408, "ModelTimeoutException", "too long"), 30),
        (Reply::reset(), 30),
        (refusal(400, "ValidationException", "bad"), 1),
        (refusal(424, "ModelErrorException", "bad"), 1),
    ] {
        let server = Server::always(reply);
        let log = Log::default();
        let client = client_on(Time::thread(), keys(), &log);
        let extra =
            json!({"retry": {"max_attempts": 30, "initial_backoff_ms": 1, "max_backoff_ms": 1}});
        let embedder = embedder(&client, &server, extra);
        let e = embedder.embed(texts()).await.unwrap_err();
        let requests = server.requests().len();
        let admitted = embedder.scope_snapshot().counters.admitted;
        assert_eq!(
            (requests, admitted, e.attempts()),
            (attempts, attempts as u64, attempts as u32),
            "{e}"
        );
        assert_eq!(log.records().len(), attempts);
    }
}

#[tokio::test]
async fn e08_the_last_refusal_is_told_whole() {
    let server = Server::always(refusal(429, "ThrottlingException", "Too many requests"));
    let e = generator(&client(keys()), &server, json!({}))
        .generate(GenerateRequest::prompt("x"))
        .await
        .unwrap_err();
    assert_eq!(
        (e.kind(), e.status(), e.attempts()),
        (Kind::RateLimited, Some(429), 3)
    );
    assert_eq!(
        (e.code(), e.message()),
        (Some("ThrottlingException"), "Too many requests")
    );
    assert_eq!(e.request_id(), Some("req-9"));
}

#[tokio::test]
async fn f01_retry_after_is_read_from_the_raw_answer_and_cools_everyone() {
    let date = "Sun, 06 Nov 1994 08:49:37 GMT";
    for hint in [
        ("retry-after", "10"),
        ("retry-after", "Sun, 06 Nov 1994 08:49:47 GMT"),
        ("x-amz-retry-after", "10000"),
    ] {
        let throttled = refusal(429, "ThrottlingException", "slow down")
            .header("date", date)
            .header(hint.0, hint.1);
        let server = Server::start([throttled, vector(), vector()]);
        let (client, clock) = manual(keys());
        let embedder = embedder(&client, &server, json!({}));
        let start = clock.now();
        let (first, second) = (embedder.embed(texts()), async {
            while embedder.scope_snapshot().cooldown_remaining.is_none() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            embedder.embed(texts()).await
        });
        let (first, second) = drive(&clock, futures::future::join(first, second)).await;
        assert!(first.is_ok() && second.is_ok(), "{hint:?}");
        assert!(
            clock.now().saturating_duration_since(start) >= Duration::from_secs(10),
            "{hint:?}"
        );
        assert_eq!(server.requests().len(), 3);
    }
}

#[tokio::test]
async fn a_429_cools_the_scope_at_its_head_before_its_body_is_there() {
    let gate = Gate::new();
    let slow = Reply::stream(429, "application/json")
        .header("retry-after", "9")
        .pause(&gate)
        .chunk(r#"{"message": "slow down"}"#);
    let server = Server::start([slow]);
    let (client, _clock) = manual(keys());
    let embedder = embedder(&client, &server, json!({"retry": {"max_attempts": 1}}));
    let call = embedder.embed(texts());
    let watched = async {
        while embedder.scope_snapshot().cooldown_remaining.is_none() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(server.open_requests(), 1, "its body is still to come");
        gate.open();
    };
    let (refused, ()) = futures::future::join(call, watched).await;
    assert_eq!(
        refused.unwrap_err().retry_after(),
        Some(Duration::from_secs(9))
    );
}

#[tokio::test]
async fn f15_a_hint_beyond_the_deadline_fails_at_once_and_stays_for_the_scope() {
    let server = Server::start([
        refusal(429, "ThrottlingException", "slow down").header("retry-after", "15")
    ]);
    let (client, clock) = manual(keys());
    let embedder = embedder(&client, &server, json!({}));
    let start = clock.now();
    let e = embedder
        .embed_with(
            texts(),
            CallOptions::default().with_timeout(Duration::from_secs(10)),
        )
        .await
        .unwrap_err();
    assert_eq!(
        (e.kind(), e.retry_after(), clock.now()),
        (Kind::RateLimited, Some(Duration::from_secs(15)), start)
    );
    assert_eq!(
        embedder.scope_snapshot().cooldown_remaining,
        Some(Duration::from_secs(15))
    );
}

#[tokio::test]
async fn f11_a_used_up_quota_is_not_retried_and_cools_nothing() {
    let server = Server::start([refusal(400, "ServiceQuotaExceededException", "used up")]);
    let embedder = embedder(&client(keys()), &server, json!({}));
    let e = embedder.embed(texts()).await.unwrap_err();
    assert_eq!((e.kind(), e.attempts()), (Kind::QuotaExhausted, 1));
    assert_eq!(embedder.scope_snapshot().cooldown_remaining, None);
}

#[tokio::test]
async fn a_redirect_is_an_error_and_is_not_followed() {
    let elsewhere = Server::start([]);
    for status in [301, 302, 303, 307, 308] {
        let server = Server::start([Reply::status(status).header("location", elsewhere.url())]);
        let e = embedder(&client(keys()), &server, json!({}))
            .embed(texts())
            .await
            .unwrap_err();
        assert_eq!(
            (e.kind(), e.status(), e.attempts()),
            (Kind::Redirect, Some(status), 1)
        );
    }
    assert!(elsewhere.requests().is_empty());
}

#[tokio::test]
async fn a_plain_body_beyond_its_bound_and_one_that_breaks_off_are_not_asked_for_again() {
    let client = client(keys());
    for (reply, kind) in [
        (
            Reply::json(200, json!({"embedding": vec![0.5; 1000]})),
            Kind::InvalidResponse,
        ),
        (
            Reply::stream(200, "application/json")
                .chunk(vec![b' '; 600])
                .chunk(vec![b' '; 600]),
            Kind::InvalidResponse,
        ),
        (vector().cut_after(10), Kind::Transport),
        (
            Reply::bytes(200, "application/json", "xx").header("content-encoding", "gzip"),
            Kind::InvalidResponse,
        ),
    ] {
        let server = Server::start([reply]);
        let embedder = embedder(&client, &server, json!({"max_response_bytes": 1000}));
        let e = embedder.embed(texts()).await.unwrap_err();
        assert_eq!(
            (e.kind(), e.attempts(), e.is_retryable()),
            (kind, 1, false),
            "{e}"
        );
        assert_eq!(embedder.scope_snapshot().active, 0);
    }
}

#[tokio::test]
async fn e13_a_connection_that_closed_while_idle_is_a_retry_and_admitted() {
    let server = Server::start([vector(), Reply::close(), vector()]);
    let embedder = embedder(&client(keys()), &server, json!({}));
    embedder.embed(texts()).await.unwrap();
    embedder.embed(texts()).await.unwrap();
    assert_eq!(
        (
            server.requests().len(),
            embedder.scope_snapshot().counters.admitted
        ),
        (3, 3)
    );
}

#[tokio::test]
async fn g08_calls_that_run_out_of_time_give_their_permits_back() {
    let server = Server::with(|_| Reply::hang());
    let (client, clock) = manual(keys());
    let embedder = embedder(
        &client,
        &server,
        json!({"rate_limit": {"max_concurrency": 2}}),
    );
    let calls = (0..6).map(|_| {
        embedder.embed_with(
            texts(),
            CallOptions::default().with_timeout(Duration::from_secs(3)),
        )
    });
    let late = async {
        server.wait_for_requests(2).await;
        clock.advance(Duration::from_secs(3));
    };
    let (done, ()) = futures::future::join(futures::future::join_all(calls), late).await;
    assert!(
        done.iter()
            .all(|r| r.as_ref().unwrap_err().kind() == Kind::DeadlineExceeded)
    );
    assert_eq!(
        (
            embedder.scope_snapshot().active,
            embedder.scope_snapshot().queued
        ),
        (0, 0)
    );
    assert_eq!(server.requests().len(), 2);
    server.wait_for_disconnects(2).await;
}

#[tokio::test]
async fn d01_a_slow_first_byte_is_nobodys_business_but_the_deadlines() {
    // The SDK's own limits (connecting, reading, stalled streams) are off: only the gate ends this wait.
    let gate = Gate::new();
    let server = Server::start([whole(&["ok"]).after(&gate), whole(&["ok"])]);
    let generator = generator(&client(keys()), &server, json!({}));
    let opening = generator.stream(GenerateRequest::prompt("x"));
    let opened = futures::future::join(opening, async {
        server.wait_for_requests(1).await;
        tokio::time::sleep(Duration::from_millis(6500)).await;
        gate.open();
    });
    let (stream, ()) = opened.await;
    assert_eq!(
        stream.unwrap().collect_generation().await.unwrap().text,
        "ok"
    );
    assert_eq!(server.requests().len(), 1, "nothing was sent a second time");
}

#[tokio::test]
async fn a_signature_is_made_after_the_wait_for_admission() {
    let server = Server::with(|_| vector());
    let (client, clock) = manual(keys());
    let embedder = embedder(
        &client,
        &server,
        json!({"rate_limit": {"requests_per_minute": 7}}),
    );
    embedder.embed(texts()).await.unwrap();
    let mut waiting = Box::pin(embedder.embed(texts()));
    assert!(futures::poll!(waiting.as_mut()).is_pending());
    // The wait is of 8.6 s on the client's clock; of the wall's, enough for a signature's second to have passed.
    tokio::time::sleep(Duration::from_millis(2100)).await;
    let granted = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap()
        .as_secs();
    clock.advance(Duration::from_secs(9));
    waiting.await.unwrap();
    let signed = server.requests()[1]
        .header("x-amz-date")
        .unwrap()
        .to_owned();
    let at = aws_smithy_types::DateTime::from_str(
        &format!(
            "{}-{}-{}T{}:{}:{}Z",
            &signed[0..4],
            &signed[4..6],
            &signed[6..8],
            &signed[9..11],
            &signed[11..13],
            &signed[13..15]
        ),
        aws_smithy_types::date_time::Format::DateTime,
    )
    .unwrap();
    assert!(
        at.secs() >= i64::try_from(granted).unwrap(),
        "signed {signed}, before the grant"
    );
}

#[tokio::test]
async fn a_signature_refused_for_its_date_is_made_by_the_services_clock_the_next_time() {
    let (ahead, date) = ("20360102T030405Z", "Wed, 02 Jan 2036 03:04:05 GMT");
    let server = Server::with(move |request| match request.header("x-amz-date") {
        Some(stamp) if stamp.starts_with(&ahead[..8]) => vector(),
        stamp => {
            let said = format!(
                "Signature expired: {} is now earlier than {ahead}",
                stamp.unwrap_or("")
            );
            refusal(403, "InvalidSignatureException", &said).header("date", date)
        }
    });
    let embedder = embedder(&client(keys()), &server, json!({}));
    embedder.embed(texts()).await.unwrap();
    assert_eq!(
        (
            server.requests().len(),
            embedder.scope_snapshot().counters.admitted
        ),
        (2, 2)
    );
}

#[tokio::test]
async fn an_endpoint_that_can_not_be_spoken_to_is_a_transport_error() {
    let plain = Server::start([Reply::close(), Reply::close()]);
    let closed = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let client = client(keys());
    for (url, attempts) in [
        (format!("https://{}", plain.address()), 3),
        (format!("http://{closed}"), 3),
    ] {
        let mut entry =
            crate::support::try_entry(antfly_framework::Operation::Embed, json!({})).unwrap();
        entry.url = Some(url);
        let e = client
            .embedder(&entry)
            .unwrap()
            .embed(texts())
            .await
            .unwrap_err();
        assert_eq!((e.kind(), e.attempts()), (Kind::Transport, attempts), "{e}");
    }
    plain.take_failures();
}

#[tokio::test]
async fn calls_on_two_runtimes_each_use_connections_of_their_own() {
    let server = Server::with(|_| vector());
    let embedder = embedder(&client(keys()), &server, json!({}));
    let other = embedder.clone();
    let there = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(other.embed(texts())).map(|v| v.len())
    });
    assert_eq!(there.join().unwrap().unwrap(), 1);
    // That runtime is gone, and its connection with it.
    embedder.embed(texts()).await.unwrap();
    assert_eq!(server.requests().len(), 2);
}

#[tokio::test]
async fn a_bearer_key_is_sent_as_such_and_read_anew_for_each_attempt() {
    let server = Server::with(|_| answer("ok"));
    let client = client(env(&[(
        "AWS_BEARER_TOKEN_BEDROCK",
        "bedrock-api-key-0123456789",
    )]));
    let generator = generator(&client, &server, json!({}));
    generator
        .generate(GenerateRequest::prompt("x"))
        .await
        .unwrap();
    let request = &server.requests()[0];
    assert_eq!(
        request.header("authorization"),
        Some("Bearer bedrock-api-key-0123456789")
    );
    assert_eq!(request.header("x-amz-date"), None, "nothing is signed");
}

#[tokio::test]
async fn no_secret_comes_back_in_an_error() {
    // AWS answers a wrong signature with the whole canonical request, session token and all.
    let server = Server::with(|request| {
        let token = request
            .header("x-amz-security-token")
            .unwrap_or("none")
            .to_owned();
        let said = format!(
            "The Canonical String should have been 'x-amz-security-token:{token} bearer {:?}'",
            request.header("authorization")
        );
        refusal(403, "InvalidSignatureException", &said)
    });
    for pairs in [
        vec![
            ("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE"),
            ("AWS_SECRET_ACCESS_KEY", "hunter2hunter2"),
            ("AWS_SESSION_TOKEN", "FwoGZXIvYXdzEXAMPLE"),
        ],
        vec![("AWS_BEARER_TOKEN_BEDROCK", "bedrock-api-key-0123456789")],
    ] {
        let e = embedder(&client(env(&pairs)), &server, json!({}))
            .embed(texts())
            .await
            .unwrap_err();
        assert_eq!((e.kind(), e.attempts()), (Kind::Auth, 1));
        let shown = format!("{e} {e:?}");
        for (_, secret) in pairs
            .iter()
            .filter(|(name, _)| *name != "AWS_ACCESS_KEY_ID")
        {
            assert!(!shown.contains(secret), "{shown}");
        }
    }
}

#[tokio::test]
async fn a_dropped_call_closes_its_connection_before_its_permit_goes_back() {
    let server = Server::start([crate::frames::reply([text("a")]).then_hang(), answer("ok")]);
    let generator = generator(
        &client(keys()),
        &server,
        json!({"rate_limit": {"max_concurrency": 1}}),
    );
    let mut call = Box::pin(generator.generate(GenerateRequest::prompt("x")));
    let waiting = futures::future::select(call.as_mut(), Box::pin(server.wait_for_requests(1)));
    assert!(matches!(waiting.await, futures::future::Either::Right(_)));
    assert_eq!(generator.scope_snapshot().active, 1);
    drop(call);
    assert_eq!(generator.scope_snapshot().active, 0);
    server.wait_for_disconnect().await;
    generator
        .generate(GenerateRequest::prompt("x"))
        .await
        .unwrap();
}

#[tokio::test]
async fn the_proxy_of_the_entry_is_used_for_the_models_endpoint() {
    let proxy = Server::with(|_| vector());
    let seen = AtomicUsize::new(0);
    let mut entry = entry(antfly_framework::Operation::Embed, &proxy, json!({}));
    entry.url = Some("http://bedrock.invalid".to_owned());
    entry.proxy = antfly_framework::config::ProxySetting::Url(proxy.url());
    client(keys())
        .embedder(&entry)
        .unwrap()
        .embed(texts())
        .await
        .unwrap();
    for request in proxy.requests() {
        seen.fetch_add(1, Ordering::Relaxed);
        assert!(
            request.path.starts_with("http://bedrock.invalid/model/"),
            "{}",
            request.path
        );
        assert_eq!(
            (request.header("host"), signer(&request)),
            (Some("bedrock.invalid"), "AKIDEXAMPLE".to_owned())
        );
    }
    assert_eq!(seen.load(Ordering::Relaxed), 1);
}
