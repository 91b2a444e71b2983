//! D. The life of a stream: time, retry, size, drop.

use antfly_framework::testing::{Gate, Reply, Server};
use antfly_framework::{CallOptions, CancellationToken, EntryConfig, Kind, Operation, StreamEvent};
use bytes::Bytes;
use serde_json::{Value, json};

use crate::support::{
    Way, ask, client, delta, finish, generator, manual, ms, read, says, secs, soon, sse_answer,
    texts, until, until_alarm_in,
};

#[tokio::test]
async fn d01_a_steady_stream_outlives_the_entrys_timeout() {
    const TOKENS: usize = 10;
    let (client, clock) = manual();
    let gates: Vec<Gate> = (0..TOKENS).map(|_| Gate::new()).collect();
    let mut reply = Reply::sse([says("first")]);
    for gate in &gates {
        reply = reply.pause(gate).event(&says("t"));
    }
    let server = Server::start([reply.event(&finish("stop")).event("[DONE]")]);
    let generator = generator(
        &client,
        &server,
        json!({"timeout_ms": 600, "stream_idle_timeout_ms": 1000}),
    );
    let reader = tokio::spawn(async move { read(&generator).await });
    server.wait_for_requests(1).await;
    for gate in &gates {
        // Each token comes 900 ms after the one before: 9 seconds in all.
        until_alarm_in(&clock, ms(1000)).await;
        clock.advance(ms(900));
        gate.open();
    }
    let (events, error) = soon(reader).await.unwrap();
    assert!(error.is_none(), "{error:?}");
    assert_eq!(texts(&events).len(), TOKENS + 1);
    assert!(clock.now() >= antfly_framework::Instant::default().saturating_add(secs(9)));
}

#[tokio::test]
async fn d03_a_stream_that_breaks_after_its_first_item_is_not_asked_for_again() {
    let broken = || {
        [
            Reply::sse([says("one"), says("two")]).then_reset(),
            Reply::sse([says("one"), says("two")]).then_abandon(),
        ]
    };
    for reply in broken() {
        let gate = Gate::new();
        let server = Server::start([reply.pause(&gate), sse_answer("again")]);
        let generator = generator(&client(), &server, json!({}));
        let mut stream = generator.stream(ask()).await.unwrap();
        let mut got = Vec::new();
        while texts(&got).len() < 2 {
            got.push(stream.next().await.unwrap().unwrap());
        }
        gate.open();
        let error = stream.next().await.unwrap().unwrap_err();
        assert_eq!(error.kind(), Kind::StreamInterrupted);
        assert!(!error.is_retryable());
        assert!(stream.next().await.is_none());
        assert_eq!(texts(&got), ["one", "two"]);
        assert_eq!(server.requests().len(), 1);
        assert_eq!(generator.scope_snapshot().counters.admitted, 1);
        drop(stream);
        assert_eq!(generator.scope_snapshot().active, 0);
    }
}

#[tokio::test]
async fn d03_tool_arguments_of_two_attempts_are_never_joined() {
    let piece = |arguments: &str| {
        delta(
            json!({"tool_calls": [{"index": 0, "id": "t", "function": {"name": "f", "arguments": arguments}}]}),
        )
    };
    let server = Server::start([
        Reply::sse([piece("{\"a\":")]).then_abandon(),
        Reply::sse([
            piece("{\"a\":1}"),
            finish("tool_calls"),
            "[DONE]".to_owned(),
        ]),
    ]);
    let (events, error) = read(&generator(&client(), &server, json!({}))).await;
    assert_eq!(error.unwrap().kind(), Kind::StreamInterrupted);
    let arguments: String = events
        .iter()
        .filter_map(|e| match e {
            StreamEvent::ToolCall(c) => Some(c.arguments.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(arguments, "{\"a\":");
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn d05_an_event_without_end_is_refused_at_the_bound() {
    let line = vec![b'x'; 600];
    let fields = "data: 0123456789\n".repeat(40).into_bytes();
    let comment = [b": ".as_slice(), &line].concat();
    for chunk in [line, fields, comment] {
        // Twice the chunk is over the bound, once is not.
        let endless = Reply::sse([says("one")])
            .chunk(chunk.clone())
            .chunk(chunk)
            .then_hang();
        let server = Server::start([endless]);
        let generator = generator(&client(), &server, json!({"max_event_bytes": 1000}));
        let (events, error) = soon(read(&generator)).await;
        assert_eq!(texts(&events), ["one"]);
        let error = error.unwrap();
        assert_eq!(error.kind(), Kind::InvalidResponse);
        assert!(error.message().contains("max_event_bytes"), "{error}");
        assert!(!error.is_retryable());
        server.wait_for_disconnect().await;
        assert_eq!(server.requests().len(), 1);
        assert_eq!(generator.scope_snapshot().active, 0);
    }
}

#[tokio::test]
async fn d05_before_the_first_item_it_fails_the_open_and_is_not_retried() {
    let server = Server::always(
        Reply::stream(200, "text/event-stream")
            .chunk(vec![b'x'; 2000])
            .then_hang(),
    );
    let generator = generator(&client(), &server, json!({"max_event_bytes": 1000}));
    let error = soon(generator.stream(ask())).await.unwrap_err();
    assert_eq!(error.kind(), Kind::InvalidResponse);
    server.wait_for_disconnect().await;
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn d05_the_bound_has_a_documented_default() {
    let entry = EntryConfig::new(Operation::Generate, "openai", "m");
    assert_eq!(entry.max_event_bytes, 8 * 1024 * 1024);
}

#[tokio::test]
async fn d05_a_plain_body_is_bounded_too() {
    for way in [Way::Generate, Way::Embed, Way::Rerank] {
        for reply in [
            Reply::json(200, " ".repeat(2000)),
            Reply::stream(200, "application/json")
                .chunk(vec![b' '; 600])
                .chunk(vec![b' '; 600])
                .then_hang(),
        ] {
            let server = Server::always(reply);
            let asker = way.open(&client(), &server, json!({"max_response_bytes": 1000}));
            let error = soon(asker.ask()).await.unwrap_err();
            assert_eq!(error.kind(), Kind::InvalidResponse, "{way:?}");
            assert!(error.message().contains("max_response_bytes"), "{error}");
            assert_eq!(server.requests().len(), 1);
        }
    }
}

/// A chunk of many small events, and how many they are.
fn small_events() -> (Bytes, usize) {
    let event = format!("data: {}\n\n", says("t"));
    let count = 65_536 / event.len();
    (Bytes::from(event.repeat(count)), count)
}

async fn read_small_events(chunks: usize) {
    let (chunk, count) = small_events();
    let reply = (0..chunks).fold(Reply::stream(200, "text/event-stream"), |reply, _| {
        reply.chunk(chunk.clone())
    });
    let server = Server::start([reply.event(&finish("stop")).event("[DONE]")]);
    let generator = generator(&client(), &server, json!({"max_event_bytes": 4096}));
    let mut stream = generator.stream(ask()).await.unwrap();
    let mut seen = 0;
    while let Some(event) = stream.next().await {
        seen += usize::from(matches!(event.unwrap(), StreamEvent::Text(_)));
    }
    assert_eq!(seen, chunks * count);
}

#[tokio::test]
async fn d07_a_long_stream_of_small_events_passes_a_small_bound() {
    read_small_events(32).await;
}

/// The peak is the process's, so the measuring is done in a process of its own: this binary, told to run this test alone.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn d07_memory_stays_flat_over_many_small_events() {
    const ALONE: &str = "ANTFLY_TEST_ALONE";
    const NAME: &str = "d_lifecycle::d07_memory_stays_flat_over_many_small_events";
    if std::env::var_os(ALONE).is_none() {
        let child = std::process::Command::new(std::env::current_exe().unwrap())
            .args([NAME, "--exact", "--nocapture"])
            .env(ALONE, "1")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&child.stdout);
        assert!(child.status.success(), "{said}");
        assert!(said.contains("1 passed"), "{said}");
        return;
    }
    let peak = || -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find(|l| l.starts_with("VmHWM:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    };
    read_small_events(16).await;
    let before = peak();
    read_small_events(512).await; // 32 MiB
    let grown = peak() - before;
    assert!(grown < 8 * 1024, "the peak grew by {grown} KiB");
}

#[tokio::test]
async fn d09_an_encoding_that_was_not_offered_is_a_typed_error() {
    for way in Way::ALL {
        for encoding in ["gzip", "br", "zstd", "x-unheard-of"] {
            let server = Server::always(
                Reply::stream(200, "text/event-stream")
                    .header("content-encoding", encoding)
                    .chunk(vec![0x1f, 0x8b, 8, 0])
                    .chunk(vec![1, 2, 3]),
            );
            let asker = way.open(&client(), &server, json!({}));
            let error = asker.ask().await.unwrap_err();
            assert_eq!(error.kind(), Kind::InvalidResponse, "{way:?} {encoding}");
            assert!(error.message().contains(encoding), "{error}");
            let requests = server.requests();
            assert_eq!(requests.len(), 1, "{way:?} {encoding}");
            assert_eq!(requests[0].header("accept-encoding"), Some("identity"));
        }
    }
}

#[tokio::test]
async fn d09_an_encoded_error_body_does_not_hide_the_status() {
    let server = Server::always(
        Reply::bytes(503, "application/json", vec![0x1f, 0x8b, 8, 0])
            .header("content-encoding", "gzip"),
    );
    let error = generator(&client(), &server, json!({}))
        .generate(ask())
        .await
        .unwrap_err();
    assert_eq!(
        (error.kind(), error.status()),
        (Kind::Overloaded, Some(503))
    );
    assert_eq!(server.requests().len(), 3);
}

/// How a silent stream is ended.
#[derive(Clone, Copy, Debug, PartialEq)]
enum By {
    Idle,
    Deadline,
    Cancel,
    Drop,
}

#[tokio::test]
async fn d12_a_stream_gone_silent_ends_by_idle_deadline_cancel_or_drop() {
    for by in [By::Idle, By::Deadline, By::Cancel, By::Drop] {
        let (client, clock) = manual();
        let server = Server::start([Reply::sse([says("one"), says("two")]).then_hang()]);
        let limit = json!({"rate_limit": {"max_concurrency": 1}, "stream_idle_timeout_ms": 5000});
        let generator = generator(&client, &server, limit);
        let cancel = CancellationToken::new();
        let mut options = CallOptions::default().with_cancel(cancel.clone());
        if by == By::Deadline {
            options.timeout = Some(ms(3000));
        }
        let mut stream = generator.stream_with(ask(), options).await.unwrap();
        let mut got = Vec::new();
        while texts(&got).len() < 2 {
            got.push(stream.next().await.unwrap().unwrap());
        }
        assert_eq!(generator.scope_snapshot().active, 1);
        if by == By::Drop {
            drop(stream);
        } else {
            let rest = tokio::spawn(async move {
                let error = stream.next().await.unwrap().unwrap_err();
                assert!(stream.next().await.is_none());
                error
            });
            let (wait, kind) = match by {
                By::Idle => (5000, Kind::StreamInterrupted),
                By::Deadline => (3000, Kind::DeadlineExceeded),
                _ => (5000, Kind::Cancelled),
            };
            until_alarm_in(&clock, ms(wait)).await;
            if by == By::Cancel {
                cancel.cancel();
            } else {
                clock.advance(ms(wait));
            }
            let error = soon(rest).await.unwrap();
            assert_eq!(error.kind(), kind, "{by:?}");
            assert!(!error.is_retryable(), "{by:?}");
        }
        server.wait_for_disconnect().await;
        until("the permit", || generator.scope_snapshot().active == 0).await;
        assert_eq!(server.requests().len(), 1);
    }
}

#[tokio::test]
async fn d12_silence_before_the_first_token_ends_as_well() {
    let extras: [(Value, Kind); 2] = [
        (
            json!({"stream_idle_timeout_ms": 2000}),
            Kind::StreamInterrupted,
        ),
        (json!({"timeout_ms": 2000}), Kind::DeadlineExceeded),
    ];
    for (extra, kind) in extras {
        let (client, clock) = manual();
        let server = Server::always(
            Reply::stream(200, "text/event-stream")
                .event(&delta(json!({"role": "assistant"})))
                .then_hang(),
        );
        let generator = generator(&client, &server, extra);
        let call = {
            let generator = generator.clone();
            tokio::spawn(async move { generator.stream(ask()).await.map(drop) })
        };
        server.wait_for_requests(1).await;
        until_alarm_in(&clock, ms(2000)).await;
        // Both clocks must be armed: the call's own, and that of the silence once the head is there.
        until("the stream's alarm", || clock.armed() >= 2).await;
        clock.advance(ms(2000));
        let error = soon(call).await.unwrap().unwrap_err();
        assert_eq!(error.kind(), kind);
        until("the permit", || generator.scope_snapshot().active == 0).await;
    }
}
