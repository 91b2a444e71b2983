//! Streamed generation through ConverseStream: frames, exceptions in them, and ends of every kind.

use std::time::Duration;

use antfly_framework::testing::{Gate, Reply, Server};
use antfly_framework::{FinishReason, GenerateRequest, GenerateStream, Kind, StreamEvent};
use serde_json::json;

use crate::frames::{self, event, exception, frame, reply, stop, text, usage, whole};
use crate::support::{CLAUDE, answer, client, drive, generator, keys, manual, refusal};

fn ask() -> GenerateRequest {
    GenerateRequest::prompt("hi")
}

/// Everything a stream gives: the texts, and how it ended.
async fn read(mut stream: GenerateStream) -> (String, Result<Option<FinishReason>, Kind>) {
    let (mut texts, mut finish) = (String::new(), None);
    while let Some(event) = stream.next().await {
        match event {
            Ok(StreamEvent::Text(text)) => texts.push_str(&text),
            Ok(StreamEvent::Finish { reason, .. }) => finish = Some(reason),
            Ok(_) => {}
            Err(e) => {
                assert!(stream.next().await.is_none(), "nothing follows an error");
                return (texts, Err(e.kind()));
            }
        }
    }
    (texts, Ok(finish))
}

#[tokio::test]
async fn a_stream_gives_texts_tools_reasoning_usage_and_the_finish() {
    let tool = |delta: &str| {
        event(
            "contentBlockDelta",
            json!({"contentBlockIndex": 2, "delta": {"toolUse": {"input": delta}}}),
        )
    };
    let start =
        json!({"contentBlockIndex": 2, "start": {"toolUse": {"toolUseId": "t1", "name": "f"}}});
    let thought = json!({"contentBlockIndex": 0, "delta": {"reasoningContent": {"text": "hm"}}});
    let frames = [
        event("messageStart", json!({"role": "assistant"})),
        event("contentBlockDelta", thought),
        text("Hel"),
        event("somethingNew", json!({"x": 1})),
        text("lo"),
        event("contentBlockStart", start),
        tool("{\"a\""),
        tool(": 1}"),
        event("contentBlockStop", json!({"contentBlockIndex": 2})),
        stop("tool_use"),
        usage(9, 2),
    ];
    let server = Server::start([reply(frames).header("x-amzn-requestid", "req-7")]);
    let generator = generator(&client(keys()), &server, json!({}));
    let stream = generator.stream(ask()).await.unwrap();
    assert_eq!(stream.request_id(), Some("req-7"));
    let g = stream.collect_generation().await.unwrap();
    assert_eq!(
        (g.text.as_str(), g.reasoning.as_deref()),
        ("Hello", Some("hm"))
    );
    assert_eq!(
        (
            g.tool_calls[0].name.as_str(),
            g.tool_calls[0].arguments.as_str()
        ),
        ("f", "{\"a\": 1}")
    );
    assert_eq!(g.finish_reason, Some(FinishReason::ToolCalls));
    assert_eq!(g.usage.unwrap().total_tokens, Some(11));
    assert_eq!(
        server.requests()[0].path,
        format!("/model/{}/converse-stream", CLAUDE.replace(':', "%3A"))
    );
}

#[tokio::test]
async fn frames_cut_anywhere_give_the_same_stream() {
    let bytes = [text("a\u{1f600}b"), stop("end_turn"), usage(1, 1)].concat();
    for cut in [1, 3, 7, 50] {
        let chunks = bytes.chunks(cut).map(<[u8]>::to_vec);
        let server = Server::start([reply(chunks)]);
        let stream = generator(&client(keys()), &server, json!({}))
            .stream(ask())
            .await
            .unwrap();
        assert_eq!(
            read(stream).await,
            ("a\u{1f600}b".to_owned(), Ok(Some(FinishReason::Stop)))
        );
    }
}

#[tokio::test]
async fn b01_a_stream_that_ends_before_its_message_is_interrupted() {
    let client = client(keys());
    let broken = [
        // A proper end of the body, a closed and a reset connection, half a frame, and a frame whose checksum is wrong.
        reply([text("a"), text("b")]),
        reply([text("a"), text("b")]).then_abandon(),
        reply([text("a"), text("b"), text("c")[..20].to_vec()]),
        reply([text("a"), text("b")]).chunk({
            let mut bytes = text("c");
            *bytes.last_mut().unwrap() ^= 1;
            bytes
        }),
    ];
    for reply in broken {
        let server = Server::start([reply]);
        let generator = generator(&client, &server, json!({}));
        let stream = generator.stream(ask()).await.unwrap();
        assert_eq!(
            read(stream).await,
            ("ab".to_owned(), Err(Kind::StreamInterrupted))
        );
        assert_eq!(
            server.requests().len(),
            1,
            "d03: what was handed out is never asked for again"
        );
        assert_eq!(generator.scope_snapshot().active, 0);
    }
}

#[tokio::test]
async fn b01_a_stream_that_ends_before_its_first_item_is_interrupted_too() {
    let server = Server::start([reply([event("messageStart", json!({"role": "assistant"}))])]);
    let e = generator(&client(keys()), &server, json!({}))
        .stream(ask())
        .await
        .unwrap_err();
    assert_eq!((e.kind(), e.attempts()), (Kind::StreamInterrupted, 1));
}

#[tokio::test]
async fn b03_what_breaks_after_the_message_has_ended_takes_nothing_away() {
    let client = client(keys());
    for reply in [
        reply([text("a"), stop("end_turn")]),
        reply([text("a"), stop("end_turn"), usage(1, 1)]).then_reset(),
        reply([text("a"), stop("end_turn")]).then_abandon(),
        reply([text("a"), stop("end_turn")]).then_hang(),
        reply([text("a"), stop("end_turn"), usage(1, 1)]).then_hang(),
    ] {
        let server = Server::start([reply]);
        let idle = json!({"stream_idle_timeout_ms": 1000});
        let stream = generator(&client, &server, idle)
            .stream(ask())
            .await
            .unwrap();
        let read = tokio::time::timeout(Duration::from_secs(30), read(stream))
            .await
            .unwrap();
        assert_eq!(read, ("a".to_owned(), Ok(Some(FinishReason::Stop))));
    }
}

#[tokio::test]
async fn b15_an_exception_frame_after_texts_is_a_typed_error() {
    let client = client(keys());
    for (name, kind) in [
        ("internalServerException", Kind::Server),
        ("throttlingException", Kind::RateLimited),
        ("modelStreamErrorException", Kind::Server),
        ("validationException", Kind::InvalidRequest),
        ("serviceUnavailableException", Kind::Overloaded),
        ("neverHeardOfException", Kind::Server),
    ] {
        let server = Server::start([reply([text("a"), exception(name, "the reason")])]);
        let mut stream = generator(&client, &server, json!({}))
            .stream(ask())
            .await
            .unwrap();
        assert!(matches!(stream.next().await, Some(Ok(StreamEvent::Text(t))) if t == "a"));
        let e = stream.next().await.unwrap().unwrap_err();
        assert_eq!(
            (e.kind(), e.message(), e.is_retryable()),
            (kind, "the reason", false)
        );
        assert!(e.code().unwrap().eq_ignore_ascii_case(name));
        assert!(stream.next().await.is_none());
    }
    let headers = [
        (":message-type", "error"),
        (":error-code", "InternalFailure"),
        (":error-message", "said in headers"),
    ];
    let server = Server::start([reply([text("a"), frame(&headers, b"")])]);
    let mut stream = generator(&client, &server, json!({}))
        .stream(ask())
        .await
        .unwrap();
    let _ = stream.next().await;
    let e = stream.next().await.unwrap().unwrap_err();
    assert_eq!((e.kind(), e.message()), (Kind::Server, "said in headers"));
}

#[tokio::test]
async fn b15_before_the_first_item_an_exception_frame_is_the_attempts_failure_and_retried_as_its_kind()
 {
    let client = client(keys());
    for (name, requests) in [
        ("throttlingException", 2),
        ("internalServerException", 2),
        ("modelStreamErrorException", 2),
        ("validationException", 1),
    ] {
        let start = event("messageStart", json!({"role": "assistant"}));
        let server = Server::start([reply([start, exception(name, "no")]), whole(&["ok"])]);
        let generator = generator(&client, &server, json!({}));
        let opened = generator.stream(ask()).await;
        assert_eq!(opened.is_ok(), requests == 2, "{name}");
        assert_eq!(server.requests().len(), requests);
        drop(opened);
        assert_eq!(
            generator.scope_snapshot().counters.admitted,
            requests as u64
        );
    }
}

#[tokio::test]
async fn b15_a_throttling_frame_with_a_hint_at_its_head_cools_the_scope_for_everyone() {
    let throttled =
        reply([exception("throttlingException", "slow down")]).header("retry-after", "20");
    let server = Server::start([throttled, whole(&["ok"]), whole(&["ok"])]);
    let (client, clock) = manual(keys());
    let generator = generator(&client, &server, json!({}));
    let start = clock.now();
    let (first, second) = (generator.stream(ask()), async {
        server.wait_for_requests(1).await;
        server.wait_until_idle().await;
        // The first caller is waiting; so is whoever comes now.
        while generator.scope_snapshot().cooldown_remaining.is_none() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        generator.stream(ask()).await
    });
    let (first, second) = drive(&clock, futures::future::join(first, second)).await;
    assert!(first.is_ok() && second.is_ok());
    assert!(clock.now().saturating_duration_since(start) >= Duration::from_secs(20));
    assert_eq!(server.requests().len(), 3);
}

#[tokio::test]
async fn d05_an_event_beyond_its_bound_is_an_error_and_many_small_ones_are_not() {
    let client = client(keys());
    let bound = json!({"max_event_bytes": 1000, "model": "amazon.nova-lite-v1:0"});
    let large = [text("a"), text(&"x".repeat(2000))];
    // What comes before it is given, in pieces of its own and in the same.
    for frames in [large.to_vec(), vec![large.concat()]] {
        let server = Server::start([reply(frames)]);
        let stream = generator(&client, &server, bound.clone())
            .stream(ask())
            .await
            .unwrap();
        assert_eq!(
            read(stream).await,
            ("a".to_owned(), Err(Kind::InvalidResponse))
        );
        server.wait_for_disconnect().await;
    }
    let many = (0..100)
        .map(|_| text(&"y".repeat(500)))
        .chain([stop("end_turn"), usage(1, 1)]);
    let server = Server::start([reply(many)]);
    let stream = generator(&client, &server, bound)
        .stream(ask())
        .await
        .unwrap();
    assert_eq!(read(stream).await.0.len(), 50_000);
}

#[tokio::test]
async fn d12_silence_ends_a_stream_and_gives_the_permit_back() {
    let server = Server::start([reply([text("a")]).then_hang()]);
    let (client, clock) = manual(keys());
    let generator = generator(&client, &server, json!({"stream_idle_timeout_ms": 5000}));
    let stream = generator.stream(ask()).await.unwrap();
    let start = clock.now();
    assert_eq!(
        drive(&clock, read(stream)).await,
        ("a".to_owned(), Err(Kind::StreamInterrupted))
    );
    assert_eq!(
        clock.now().saturating_duration_since(start),
        Duration::from_secs(5)
    );
    assert_eq!(generator.scope_snapshot().active, 0);
    server.wait_for_disconnect().await;
}

#[tokio::test]
async fn a_permit_lives_until_the_end_has_been_polled_or_the_stream_is_dropped() {
    let gate = Gate::new();
    let held = || {
        reply([text("a")])
            .pause(&gate)
            .chunk([stop("end_turn"), usage(1, 1)].concat())
    };
    let server = Server::start([held(), held()]);
    let generator = generator(
        &client(keys()),
        &server,
        json!({"rate_limit": {"max_concurrency": 1}}),
    );
    let mut stream = generator.stream(ask()).await.unwrap();
    assert!(stream.next().await.is_some());
    assert_eq!(generator.scope_snapshot().active, 1);
    drop(stream);
    assert_eq!(generator.scope_snapshot().active, 0);
    server.wait_for_disconnect().await;
    let mut stream = generator.stream(ask()).await.unwrap();
    gate.open();
    while stream.next().await.is_some() {
        assert_eq!(generator.scope_snapshot().active, 1);
    }
    assert_eq!(generator.scope_snapshot().active, 0);
}

#[tokio::test]
async fn e10_b18_a_refused_opening_keeps_its_kind_delay_and_slow_body() {
    let body = json!({"message": "slow body"}).to_string();
    let (first, second) = body.split_at(9);
    let slow = |status: u16, name: &str| {
        Reply::stream(status, "application/json")
            .header("x-amzn-errortype", name)
            .chunk(first.to_owned())
            .chunk(second.to_owned())
    };
    let once = json!({"retry": {"max_attempts": 1}});
    for (reply, kind) in [
        (slow(400, "ValidationException"), Kind::InvalidRequest),
        (
            slow(429, "ThrottlingException").header("retry-after", "7"),
            Kind::RateLimited,
        ),
        (slow(403, "AccessDeniedException"), Kind::Auth),
        (slow(503, "ServiceUnavailableException"), Kind::Overloaded),
    ] {
        let server = Server::start([reply]);
        let e = generator(&client(keys()), &server, once.clone())
            .stream(ask())
            .await
            .unwrap_err();
        assert_eq!((e.kind(), e.message()), (kind, "slow body"));
        assert_eq!(
            e.retry_after(),
            (kind == Kind::RateLimited).then_some(Duration::from_secs(7))
        );
    }
}

#[tokio::test]
async fn an_answer_in_one_piece_or_a_page_where_a_stream_was_promised() {
    let server = Server::start([
        answer("in one piece"),
        Reply::bytes(200, "text/html", "<html>"),
        refusal(404, "ResourceNotFoundException", "no model"),
    ]);
    let generator = generator(&client(keys()), &server, json!({}));
    let stream = generator.stream(ask()).await.unwrap();
    assert_eq!(
        read(stream).await,
        ("in one piece".to_owned(), Ok(Some(FinishReason::Stop)))
    );
    let e = generator.stream(ask()).await.unwrap_err();
    assert_eq!((e.kind(), e.attempts()), (Kind::InvalidResponse, 1));
    let e = generator.stream(ask()).await.unwrap_err();
    assert_eq!((e.kind(), e.request_id()), (Kind::NotFound, Some("req-9")));
}

#[tokio::test]
async fn a_guardrail_stop_ends_a_stream_as_a_content_filter() {
    let server = Server::start([reply([
        text("I can't."),
        stop("guardrail_intervened"),
        usage(1, 1),
    ])]);
    let stream = generator(&client(keys()), &server, json!({}))
        .stream(ask())
        .await
        .unwrap();
    assert_eq!(
        read(stream).await,
        ("I can't.".to_owned(), Ok(Some(FinishReason::ContentFilter)))
    );
}

#[tokio::test]
async fn a_connection_is_used_again_after_a_whole_stream() {
    let server = Server::with(|_| whole(&["ok"]));
    let generator = generator(&client(keys()), &server, json!({}));
    for _ in 0..5 {
        let stream = generator.stream(ask()).await.unwrap();
        assert_eq!(read(stream).await.0, "ok");
    }
    assert!(
        server.connections() < 5,
        "{server:?} {}",
        frames::CONTENT_TYPE
    );
}

#[tokio::test]
async fn c13_several_tool_calls_of_one_stream_are_kept_apart() {
    let start = |block: u32, id: &str| {
        event(
            "contentBlockStart",
            json!({"contentBlockIndex": block, "start": {"toolUse": {"toolUseId": id, "name": "f"}}}),
        )
    };
    let tool = |block: u32, input: &str| {
        event(
            "contentBlockDelta",
            json!({"contentBlockIndex": block, "delta": {"toolUse": {"input": input}}}),
        )
    };
    let frames = [
        start(1, "t1"),
        start(2, "t2"),
        tool(1, "{\"a\""),
        tool(2, "{\"b\": 2}"),
        tool(1, ": 1}"),
        stop("tool_use"),
        usage(1, 1),
    ];
    let server = Server::start([reply(frames)]);
    let generator = generator(&client(keys()), &server, json!({}));
    let stream = generator.stream(ask()).await.unwrap();
    let g = stream.collect_generation().await.unwrap();
    let calls: Vec<_> = g
        .tool_calls
        .iter()
        .map(|c| (c.id.as_str(), c.arguments.as_str()))
        .collect();
    assert_eq!(calls, [("t1", "{\"a\": 1}"), ("t2", "{\"b\": 2}")]);
}

#[tokio::test]
async fn d09_of_a_refusal_in_an_encoding_the_status_is_told_and_none_of_its_bytes() {
    let gzip = b"\x1f\x8b\x08\x00\x00\x00\x00\x00junk".to_vec();
    let refusal = Reply::bytes(403, "application/json", gzip).header("content-encoding", "gzip");
    let server = Server::always(refusal);
    let generator = generator(&client(keys()), &server, json!({}));
    for error in [
        generator.generate(ask()).await.unwrap_err(),
        generator.stream(ask()).await.map(drop).unwrap_err(),
    ] {
        assert_eq!((error.kind(), error.status()), (Kind::Auth, Some(403)));
        assert!(!error.message().contains("junk"), "{error}");
        assert!(!error.message().contains('\u{fffd}'), "{error}");
    }
}

#[tokio::test]
async fn d09_a_stream_in_an_encoding_that_was_not_asked_for_is_an_error() {
    let server =
        Server::start([reply([text("a"), stop("end_turn")]).header("content-encoding", "gzip")]);
    let generator = generator(&client(keys()), &server, json!({}));
    let error = generator.stream(ask()).await.unwrap_err();
    assert_eq!(error.kind(), Kind::InvalidResponse, "{error}");
    assert!(error.message().contains("gzip"), "{error}");
    assert_eq!(server.requests().len(), 1);
    assert_eq!(generator.scope_snapshot().active, 0);
}

#[test]
fn the_sdks_own_decoder_reads_these_frames_and_refuses_a_changed_one() {
    use aws_smithy_eventstream::frame::{read_message_from, write_message_to};
    let bytes = event("contentBlockDelta", json!({"a": 1}));
    let message = read_message_from(bytes.as_slice()).unwrap();
    assert_eq!(
        message.headers()[1].value().as_string().unwrap().as_str(),
        "contentBlockDelta"
    );
    assert_eq!(message.payload().as_ref(), br#"{"a":1}"#);
    let mut again = Vec::new();
    write_message_to(&message, &mut again).unwrap();
    assert_eq!(again, bytes);
    let mut changed = bytes;
    let last = changed.len() - 6;
    changed[last] ^= 1;
    assert!(read_message_from(changed.as_slice()).is_err());
}
