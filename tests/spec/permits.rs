//! When a concurrency permit is given back.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};

use antfly_framework::testing::{Gate, Reply, Server};
use antfly_framework::{GenerateRequest, Generator, Kind, Operation};
use futures::future::BoxFuture;
use serde_json::{Value, json};
use tokio::io::AsyncWrite;

use crate::support::*;

fn one_at_a_time() -> Value {
    json!({ "rate_limit": { "max_concurrency": 1 }, "retry": { "max_attempts": 1 } })
}

/// A call of the scope that waits for the permit, and is admitted as soon as it is given back.
struct Waiting(
    Caller,
    tokio::task::JoinHandle<antfly_framework::Result<()>>,
);

impl Waiting {
    async fn behind(generator: &Generator) -> Self {
        let caller = Caller::Generator(generator.clone());
        let call = caller.call();
        caller.queued(1).await;
        Waiting(caller, call)
    }

    async fn still_waits(&self) {
        self.0.still_queued(1).await;
        assert_eq!(self.0.snap().active, 1);
        assert_eq!(self.0.admitted(), 1);
    }

    async fn goes(self) {
        done(self.1).await.unwrap();
        until("the permit", || self.0.snap().active == 0).await;
        assert_eq!(self.0.admitted(), 2);
    }
}

#[tokio::test]
async fn a_permit_is_released_after_the_responses_body_has_finished() {
    let world = World::new();
    let gate = Gate::new();
    let server = first([slow_body(&gate)]);
    let generator = world.generator(&server, one_at_a_time());
    let call = Caller::Generator(generator.clone()).call();
    server.wait_for_requests(1).await;
    let waiting = Waiting::behind(&generator).await;
    // The head and half of the body are there; the end is not.
    waiting.still_waits().await;
    gate.open();
    done(call).await.unwrap();
    waiting.goes().await;
}

#[tokio::test]
async fn a_permit_is_released_after_an_error_responses_body_has_finished() {
    let world = World::new();
    let gate = Gate::new();
    let server = first([Reply::status(400)
        .header("content-type", "application/json")
        .chunk(r#"{"error":{"message":"no"#)
        .pause(&gate)
        .chunk(r#""}}"#)]);
    let generator = world.generator(&server, one_at_a_time());
    let call = Caller::Generator(generator.clone()).call();
    server.wait_for_requests(1).await;
    let waiting = Waiting::behind(&generator).await;
    waiting.still_waits().await;
    gate.open();
    assert_eq!(refused(done(call).await).kind(), Kind::InvalidRequest);
    waiting.goes().await;
}

fn stream_server() -> Server {
    first([Reply::sse(STREAM)])
}

#[tokio::test]
async fn a_permit_is_released_when_the_consumer_has_polled_the_end_of_a_stream() {
    let world = World::new();
    let server = stream_server();
    let generator = world.generator(&server, one_at_a_time());
    let mut stream = generator
        .stream(GenerateRequest::prompt("hi"))
        .await
        .unwrap();
    let waiting = Waiting::behind(&generator).await;
    server.wait_until_idle().await;
    // The provider is done; the consumer is not, not even with the last item in its hands.
    waiting.still_waits().await;
    while let Some(event) = stream.next().await {
        event.unwrap();
        waiting.still_waits().await;
    }
    waiting.goes().await;
    drop(stream);
}

#[tokio::test]
async fn a_permit_is_released_when_a_stream_is_dropped() {
    let world = World::new();
    let gate = Gate::new();
    let server = first([Reply::sse([STREAM[0]]).pause(&gate)]);
    let generator = world.generator(&server, one_at_a_time());
    let stream = generator
        .stream(GenerateRequest::prompt("hi"))
        .await
        .unwrap();
    let waiting = Waiting::behind(&generator).await;
    waiting.still_waits().await;
    drop(stream);
    waiting.goes().await;
    // The connection went with it.
    gate.open();
    server.wait_for_disconnect().await;
}

#[tokio::test]
async fn a_permit_is_released_on_transport_failure() {
    for broken in [
        Reply::reset(),
        Reply::close(),
        Reply::json(200, "{\"id\":\"cut short\"}").cut_after(5),
    ] {
        for operation in OPERATIONS {
            let world = World::new();
            let gate = Gate::new();
            let server = first([broken.clone().after(&gate)]);
            let caller = world.open(operation, &server, one_at_a_time());
            let call = caller.call();
            server.wait_for_requests(1).await;
            let next = caller.call();
            caller.queued(1).await;
            caller.still_queued(1).await;
            assert_eq!(caller.snap().active, 1);
            gate.open();
            assert_eq!(refused(done(call).await).kind(), Kind::Transport);
            done(next).await.unwrap();
            until("the permit", || caller.snap().active == 0).await;
            assert_eq!(caller.admitted() as usize, server.requests().len());
        }
    }
}

#[tokio::test]
async fn a_permit_is_released_when_a_stream_breaks() {
    let world = World::new();
    let gate = Gate::new();
    let server = first([Reply::sse([STREAM[0]]).pause(&gate).then_reset()]);
    let generator = world.generator(&server, one_at_a_time());
    let mut stream = generator
        .stream(GenerateRequest::prompt("hi"))
        .await
        .unwrap();
    let waiting = Waiting::behind(&generator).await;
    stream.next().await.unwrap().unwrap();
    waiting.still_waits().await;
    gate.open();
    let error = loop {
        match stream.next().await.unwrap() {
            Ok(_) => {}
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), Kind::StreamInterrupted);
    waiting.goes().await;
}

#[tokio::test]
async fn a_permit_is_released_when_a_call_is_dropped_in_flight() {
    let world = World::new();
    let server = first([Reply::hang()]);
    let generator = world.generator(&server, one_at_a_time());
    let call = Caller::Generator(generator.clone()).call();
    server.wait_for_requests(1).await;
    let waiting = Waiting::behind(&generator).await;
    waiting.still_waits().await;
    call.abort();
    waiting.goes().await;
    server.wait_for_disconnect().await;
}

#[tokio::test]
async fn no_permit_is_held_during_backoff() {
    let world = World::new();
    let server = first([error(503)]);
    let more = json!({ "rate_limit": { "max_concurrency": 1 } });
    let caller = world.open(Operation::Generate, &server, more);
    let retried = caller.call();
    server.wait_for_requests(1).await;
    until("the backoff", || {
        let due = world.clock.next_alarm();
        due.is_some_and(|at| at.saturating_duration_since(world.clock.now()) <= secs(1))
    })
    .await;
    // The clock stands: the first call sits in its backoff while another passes.
    caller.once().await.unwrap();
    assert!(!retried.is_finished());
    world.drive(retried).await.unwrap();
}

/// A sink that takes every write and finishes a flush when its gate is open.
struct Sink {
    gate: Gate,
    flushing: Option<BoxFuture<'static, ()>>,
    written: Arc<Mutex<Vec<u8>>>,
    fails: bool,
}

impl Sink {
    fn new(gate: &Gate) -> (Self, Arc<Mutex<Vec<u8>>>) {
        let written = Arc::new(Mutex::new(Vec::new()));
        let sink = Sink {
            gate: gate.clone(),
            flushing: None,
            written: Arc::clone(&written),
            fails: false,
        };
        (sink, written)
    }
}

impl AsyncWrite for Sink {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.written.lock().unwrap().extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let gate = self.gate.clone();
        let flushing =
            (self.flushing).get_or_insert_with(|| Box::pin(async move { gate.passed().await }));
        ready!(flushing.as_mut().poll(cx));
        self.flushing = None;
        Poll::Ready(if self.fails {
            Err(io::Error::other("the reader has gone"))
        } else {
            Ok(())
        })
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[tokio::test]
async fn a_permit_is_released_after_the_writes_to_a_streamed_responses_consumer() {
    for fails in [false, true] {
        let world = World::new();
        let server = stream_server();
        let generator = world.generator(&server, one_at_a_time());
        let stream = generator
            .stream(GenerateRequest::prompt("hi"))
            .await
            .unwrap();
        let waiting = Waiting::behind(&generator).await;
        let gate = Gate::new();
        let (mut sink, written) = Sink::new(&gate);
        sink.fails = fails;
        let writing = tokio::spawn(async move { stream.write_to(&mut sink).await });
        until("the text", || *written.lock().unwrap() == b"hi").await;
        server.wait_until_idle().await;
        // The provider has said everything and the text is written, but the flush is still going on.
        waiting.still_waits().await;
        assert!(!writing.is_finished());
        gate.open();
        let written = done(writing).await;
        if fails {
            assert_eq!(refused(written).kind(), Kind::StreamInterrupted);
        } else {
            assert_eq!(written.unwrap().text, "hi");
        }
        waiting.goes().await;
    }
}
