//! B. The end of a stream, and errors inside a 200.

use antfly_framework::testing::{Gate, Reply, Server};
use antfly_framework::{Error, FinishReason, Kind, StreamEvent};
use serde_json::{Value, json};

use crate::support::{
    OPENAI_WIRE, ask, client, delta, every_split, finish, generator, manual, ms, own, read, says,
    secs, soon, sse_answer, texts, through, until, until_alarm_in,
};

#[tokio::test]
async fn b01_a_clean_end_before_the_end_mark_is_an_error_after_the_deltas() {
    let deltas = || Reply::sse([says("one"), says("two")]);
    let bodies = [
        deltas(),
        deltas().then_close(),
        deltas().until_close(),
        deltas().then_abandon(),
    ];
    let count = bodies.len();
    let server = Server::start(bodies);
    let generator = generator(&client(), &server, json!({}));
    for _ in 0..count {
        let (events, error) = read(&generator).await;
        assert_eq!(texts(&events), ["one", "two"]);
        assert!(
            !events
                .iter()
                .any(|e| matches!(e, StreamEvent::Finish { .. }))
        );
        let error = error.unwrap();
        assert_eq!(error.kind(), Kind::StreamInterrupted);
        assert!(!error.is_retryable());
    }
    assert_eq!(server.requests().len(), count);
}

#[tokio::test]
async fn b01_wherever_the_body_is_cut_it_is_never_a_success() {
    let body = format!("data: {}\n\ndata: {}\n\n", says("one"), finish("stop"));
    let finished = body.len();
    let replies: Vec<Reply> = (1..finished)
        .map(|at| Reply::stream(200, "text/event-stream").chunk(body.as_bytes()[..at].to_vec()))
        .collect();
    let count = replies.len();
    let server = Server::start(replies);
    let generator = generator(&client(), &server, json!({}));
    for at in 1..=count {
        let (events, error) = read(&generator).await;
        let ended = events
            .iter()
            .any(|e| matches!(e, StreamEvent::Finish { .. }));
        // Only the last line, whole but for its newlines, may still count.
        assert_eq!(ended, error.is_none(), "cut at {at}");
        assert_eq!(ended, at + 2 >= finished, "cut at {at}");
        if let Some(error) = error {
            assert_eq!(error.kind(), Kind::StreamInterrupted, "cut at {at}");
        }
    }
}

#[tokio::test]
async fn b01_a_finish_reason_without_the_end_mark_is_a_success() {
    let server = Server::start([Reply::sse([says("one"), finish("stop")])]);
    let (events, error) = read(&generator(&client(), &server, json!({}))).await;
    assert!(error.is_none(), "{error:?}");
    assert_eq!(texts(&events), ["one"]);
}

#[tokio::test]
async fn b03_nothing_after_the_end_mark_makes_an_error() {
    let whole = || sse_answer("one");
    let replies = [
        whole().then_close(),
        whole().then_abandon(),
        whole().then_reset(),
        whole().then_hang(),
        whole().chunk("data: {\"error\": {\"message\": \"late\"}}\n\n"),
        whole().chunk("data: {broken\n\n").then_abandon(),
        whole().event(&says("late")),
    ];
    let count = replies.len();
    for provider in OPENAI_WIRE {
        let server = Server::start(replies.clone());
        let generator = generator(&client(), &server, through(provider));
        for number in 0..count {
            let (events, error) = soon(read(&generator)).await;
            assert!(error.is_none(), "{provider}, {number}: {error:?}");
            assert_eq!(texts(&events), ["one"], "{provider}, {number}");
        }
        let requests = server.requests().len();
        assert_eq!(requests, count, "{provider}: one was asked for again");
    }
}

#[tokio::test]
async fn b03_what_the_answer_cost_is_kept_when_the_stream_breaks_right_behind_it() {
    // All of the event but the empty line that ends it.
    let cost = r#"data: {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 5, "total_tokens": 8}}"#;
    let told = |end: &str| {
        Reply::sse([says("one"), finish("stop")])
            .chunk(format!("{cost}{end}"))
            .then_abandon()
    };
    let server = Server::start([told("\n\n"), told("\n"), told("")]);
    let generator = generator(&client(), &server, json!({}));
    for number in 0..3 {
        let (events, error) = soon(read(&generator)).await;
        assert!(error.is_none(), "{number}: {error:?}");
        let usage = events.iter().find_map(|e| match e {
            StreamEvent::Usage(usage) => usage.total_tokens,
            _ => None,
        });
        assert_eq!(usage, Some(8), "{number}: {events:?}");
    }
}

#[tokio::test]
async fn b03_what_breaks_or_stops_after_the_finish_reason_takes_nothing_away() {
    let finished = || Reply::sse([says("one"), finish("stop")]);
    let replies = [
        finished().then_abandon(),
        finished().then_reset(),
        finished().then_hang(),
        // Half of what it cost, and half of the end mark.
        finished()
            .chunk("data: {\"choices\": [], \"usa")
            .then_abandon(),
        finished().chunk("data: [DO").then_abandon(),
    ];
    let count = replies.len();
    for provider in OPENAI_WIRE {
        let server = Server::start(replies.clone());
        let fields = json!({"provider": provider, "stream_idle_timeout_ms": 1000});
        let generator = generator(&client(), &server, fields);
        for number in 0..count {
            let (events, error) = soon(read(&generator)).await;
            assert!(error.is_none(), "{provider}, {number}: {error:?}");
            assert_eq!(texts(&events), ["one"], "{provider}, {number}");
            let ends = |e: &&StreamEvent| matches!(e, StreamEvent::Finish { .. });
            assert_eq!(events.iter().filter(ends).count(), 1, "{number}");
            until("the permit", || generator.scope_snapshot().active == 0).await;
        }
        let requests = server.requests().len();
        assert_eq!(requests, count, "{provider}: one was asked for again");
    }
}

/// Sends these frames after a delta and gives the error, which must end the stream.
async fn after_a_delta(provider: &str, tail: &str) -> (Vec<StreamEvent>, Error) {
    let server = Server::start([
        Reply::stream(200, "text/event-stream")
            .event(&says("one"))
            .chunk(tail.to_owned()),
        sse_answer("never asked for"),
    ]);
    let (events, error) = read(&generator(&client(), &server, through(provider))).await;
    assert_eq!(server.requests().len(), 1);
    let error = error.unwrap();
    assert_eq!(texts(&events), ["one"]);
    assert!(!error.is_retryable(), "some of it was handed out");
    (events, error)
}

#[tokio::test]
async fn b05_an_error_event_ends_the_stream_as_the_error_it_is() {
    let data = "data: {\"type\": \"error\", \"error\": {\"type\": \"overloaded_error\", \"message\": \"all is full\"}}\n\n";
    for provider in OPENAI_WIRE {
        let named = format!("event: error\n{data}data: [DONE]\n\n");
        let (_, error) = after_a_delta(provider, &named).await;
        assert_eq!(error.kind(), Kind::Overloaded);
        assert!(error.message().contains("all is full"), "{error}");
        // The same without the event's name, and as bare text.
        let (_, error) = after_a_delta(provider, data).await;
        assert_eq!(error.kind(), Kind::Overloaded);
        let (_, error) = after_a_delta(provider, "event: error\ndata: it broke\n\n").await;
        assert_eq!(error.kind(), Kind::Server);
        assert!(error.message().contains("it broke"), "{error}");
    }
}

#[tokio::test]
async fn b05_an_error_event_is_one_however_it_is_split() {
    let body = format!(
        "data: {}\n\nevent: error\r\ndata: {{\"error\": {{\"type\": \"overloaded_error\",\ndata:  \"message\": \"full\"}}}}\n\n",
        says("one")
    );
    every_split(body.as_bytes(), |events, error| {
        assert_eq!(texts(events), ["one"]);
        let error = error.unwrap();
        assert_eq!((error.kind(), error.message()), (Kind::Overloaded, "full"));
    })
    .await;
}

#[tokio::test]
async fn b08_finish_reason_error_is_an_error() {
    let chunk = json!({
        "id": "c1",
        "error": {"code": 502, "message": "upstream went away"},
        "choices": [{"index": 0, "delta": {"content": ""}, "finish_reason": "error"}],
    });
    let bare = finish("error");
    let within =
        json!({"choices": [{"index": 0, "delta": {}, "error": {"code": 429, "message": "slow"}}]});
    let tail = |chunk: &str| format!("data: {chunk}\n\ndata: [DONE]\n\n");
    for provider in OPENAI_WIRE {
        let (events, error) = after_a_delta(provider, &tail(&chunk.to_string())).await;
        assert!(
            !events
                .iter()
                .any(|e| matches!(e, StreamEvent::Finish { .. }))
        );
        assert_eq!((error.kind(), error.code()), (Kind::Server, Some("502")));
        assert!(error.message().contains("upstream went away"));
        // Without the object, and with the object inside the choice.
        let (_, error) = after_a_delta(provider, &tail(&bare)).await;
        assert_eq!(error.kind(), Kind::Server);
        let (_, error) = after_a_delta(provider, &tail(&within.to_string())).await;
        assert_eq!(error.kind(), Kind::RateLimited);
    }
}

#[tokio::test]
async fn b08_tool_arguments_before_the_error_are_not_handed_out_as_complete() {
    let call = json!({"tool_calls": [{"index": 0, "id": "t", "function": {"name": "f", "arguments": "{\"a\":"}}]});
    let server = Server::always(Reply::sse([
        delta(call),
        json!({"error": {"code": 502, "message": "gone"}, "choices": [{"index": 0, "delta": {}, "finish_reason": "error"}]})
            .to_string(),
        "[DONE]".to_owned(),
    ]));
    for provider in OPENAI_WIRE {
        let generator = generator(&client(), &server, through(provider));
        let stream = generator.stream(ask()).await.unwrap();
        let error = stream.collect_generation().await.unwrap_err();
        assert_eq!(error.kind(), Kind::Server, "{provider}");
    }
}

fn limited() -> Value {
    json!({"error": {"type": "server_error", "code": "rate_limit_exceeded", "message": "slow down"}})
}

#[tokio::test]
async fn b12_a_rate_limit_as_the_only_chunk_fails_the_open() {
    let server = Server::always(Reply::sse([limited().to_string()]));
    let generator = generator(&client(), &server, json!({"retry": {"max_attempts": 1}}));
    let error = generator.stream(ask()).await.unwrap_err();
    assert_eq!(error.kind(), Kind::RateLimited);
    assert_eq!(error.code(), Some("rate_limit_exceeded"));
    assert_eq!((error.attempts(), error.status()), (1, Some(200)));
    assert_eq!(generator.scope_snapshot().counters.admitted, 1);
    assert_eq!(generator.scope_snapshot().active, 0);
}

#[tokio::test]
async fn b12_an_open_that_failed_in_band_is_tried_again_with_a_new_admission() {
    let server = Server::start([Reply::sse([limited().to_string()]), sse_answer("one")]);
    let generator = generator(&client(), &server, json!({}));
    let (events, error) = read(&generator).await;
    assert!(error.is_none(), "{error:?}");
    assert_eq!(texts(&events), ["one"]);
    assert_eq!(server.requests().len(), 2);
    assert_eq!(generator.scope_snapshot().counters.admitted, 2);
}

#[tokio::test]
async fn b18_an_error_body_is_read_for_a_stream_as_for_a_plain_call() {
    for (status, code) in [
        (400, "context_length_exceeded"),
        (429, "rate_limit_exceeded"),
    ] {
        let body = json!({"error": {"message": "it is too long", "code": code}}).to_string();
        let (a, b) = body.split_at(body.len() / 2);
        let gate = Gate::new();
        let slow = Reply::stream(status, "application/json")
            .header("x-request-id", "r1")
            .chunk(a.to_owned())
            .pause(&gate)
            .chunk(b.to_owned());
        let server = Server::always(slow);
        let generator = generator(&client(), &server, json!({"retry": {"max_attempts": 1}}));
        let streamed = {
            let generator = generator.clone();
            tokio::spawn(async move { generator.stream(ask()).await.map(drop) })
        };
        server.wait_for_requests(1).await;
        gate.open();
        let streamed = soon(streamed).await.unwrap().unwrap_err();
        let plain = generator.generate(ask()).await.unwrap_err();
        for error in [&streamed, &plain] {
            assert_eq!(error.status(), Some(status));
            assert_eq!(error.code(), Some(code));
            assert_eq!(error.message(), "it is too long");
            assert_eq!(error.request_id(), Some("r1"));
        }
        assert_eq!(streamed.kind(), plain.kind());
        assert_eq!(streamed.to_string(), plain.to_string());
    }
}

#[tokio::test]
async fn b18_an_error_body_that_never_ends_is_under_the_deadline() {
    let (client, clock) = manual();
    let server = Server::always(
        Reply::stream(400, "application/json")
            .chunk("{\"error\":")
            .then_hang(),
    );
    let generator = generator(&client, &server, json!({"timeout_ms": 2000}));
    let call = {
        let generator = generator.clone();
        tokio::spawn(async move { generator.stream(ask()).await.map(drop) })
    };
    server.wait_for_requests(1).await;
    until_alarm_in(&clock, secs(2)).await;
    clock.advance(ms(1999));
    assert!(!call.is_finished());
    clock.advance(ms(1));
    let error = soon(call).await.unwrap().unwrap_err();
    assert_eq!(error.kind(), Kind::DeadlineExceeded);
    server.wait_for_disconnect().await;
    until("the permit", || generator.scope_snapshot().active == 0).await;
}

#[tokio::test]
async fn b18_an_error_body_without_end_is_read_up_to_a_bound() {
    let text = vec![b'x'; 70_000];
    let server = Server::always(Reply::stream(400, "text/plain").chunk(text).then_hang());
    let generator = generator(&client(), &server, json!({}));
    let error = soon(generator.stream(ask())).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.status()),
        (Kind::InvalidRequest, Some(400))
    );
    assert!(error.message().len() < 5000);
}

#[tokio::test]
async fn b01_the_end_reason_is_kept_as_the_provider_said_it() {
    let server = Server::start([Reply::sse([
        says("one"),
        finish("length"),
        "[DONE]".to_owned(),
    ])]);
    let (events, error) = read(&generator(&client(), &server, json!({}))).await;
    assert!(error.is_none(), "{error:?}");
    assert_eq!(
        events.last(),
        Some(&StreamEvent::Finish {
            reason: FinishReason::Length,
            raw: "length".to_owned()
        })
    );
}

#[tokio::test]
async fn b13_an_error_line_after_good_lines_is_an_error() {
    let body = "{\"text\":\"one\"}\n{\"text\":\"two\"}\n{\"error\":\"the runner died\"}";
    for end in ["", "\n"] {
        let server = Server::start([
            Reply::stream(200, "application/x-ndjson").chunk(format!("{body}{end}"))
        ]);
        let (events, error) = read(&own::generator(&server, json!({}))).await;
        assert_eq!(texts(&events), ["one", "two"]);
        let error = error.unwrap();
        assert_eq!(
            (error.kind(), error.message()),
            (Kind::Server, "the runner died")
        );
        assert!(!error.is_retryable());
        assert_eq!(server.requests().len(), 1);
    }
}

#[tokio::test]
async fn b13_lines_that_end_without_their_last_are_an_error_too() {
    let server = Server::start([
        Reply::stream(200, "application/x-ndjson").chunk("{\"text\":\"one\"}\n{\"done\":tr")
    ]);
    let (events, error) = read(&own::generator(&server, json!({}))).await;
    assert_eq!(texts(&events), ["one"]);
    assert_eq!(error.unwrap().kind(), Kind::StreamInterrupted);
}
