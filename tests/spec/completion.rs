//! Completion pacing.

use std::time::Duration;

use antfly_framework::testing::{Gate, Reply, Server};
use antfly_framework::{GenerateRequest, Kind, Operation, StreamEvent};
use serde_json::{Value, json};

use crate::support::*;

fn paced(rpm: u32) -> Value {
    json!({ "rate_limit": { "requests_per_minute": rpm, "pacing": "completion" } })
}

fn paced_once(rpm: u32) -> Value {
    let mut more = paced(rpm);
    more["retry"] = json!({ "max_attempts": 1 });
    more
}

/// With nothing in flight any more at five seconds, the next attempt leaves at six and not before.
async fn next_leaves_at_six(world: &World, caller: &impl Scoped, next: &Caller) {
    assert_eq!(world.elapsed(), secs(5));
    until("the delay", || caller.snap().completion_remaining.is_some()).await;
    assert_eq!(caller.snap().completion_remaining, Some(secs(1)));
    let call = next.call();
    caller.queued(1).await;
    world.clock.advance(secs(1) - nanos(1));
    caller.still_queued(1).await;
    world.clock.advance(nanos(1));
    done(call).await.unwrap();
    assert_eq!(world.starts(2).await, [secs(0), secs(6)]);
}

#[tokio::test]
async fn the_interval_is_sixty_seconds_by_rpm_rounded_up() {
    for (rpm, interval) in [
        (6000, Duration::from_millis(10)),
        (60, secs(1)),
        (7, nanos(8_571_428_572)),
        (u32::MAX, nanos(14)),
    ] {
        for operation in OPERATIONS {
            let world = World::new();
            let server = good();
            let caller = world.open(operation, &server, paced(rpm));
            caller.once().await.unwrap();
            assert_eq!(caller.snap().completion_remaining, Some(interval));
            let next = caller.call();
            caller.queued(1).await;
            world.clock.advance(interval - nanos(1));
            caller.still_queued(1).await;
            world.clock.advance(nanos(1));
            done(next).await.unwrap();
            assert_eq!(world.starts(2).await, [secs(0), interval]);
        }
    }
}

#[tokio::test]
async fn at_most_one_attempt_is_active() {
    let world = World::new();
    let gate = Gate::new();
    let server = gated(std::slice::from_ref(&gate));
    let caller = world.embedder(&server, paced(6000));
    let calls = [caller.call(), caller.call(), caller.call()];
    server.wait_for_requests(1).await;
    caller.queued(2).await;
    // However long it takes, nobody joins it.
    world.clock.advance(secs(300));
    caller.still_queued(2).await;
    assert_eq!(caller.snap().active, 1);
    gate.open();
    for left in [1, 0] {
        until("the answer", || caller.snap().active == 0).await;
        world.clock.advance(Duration::from_millis(10));
        caller.queued(left).await;
    }
    for call in calls {
        done(call).await.unwrap();
    }
    assert_eq!(server.peak_open_requests(), 1);
}

#[tokio::test]
async fn the_interval_starts_after_the_response_is_consumed_not_before() {
    let world = World::new();
    let gate = Gate::new();
    let server = first([slow_body(&gate)]);
    let caller = world.open(Operation::Generate, &server, paced(60));
    let call = caller.call();
    server.wait_for_requests(1).await;
    quiet().await;
    // Neither sending the request nor the head of the answer has started it.
    assert_eq!(caller.snap().completion_remaining, None);
    world.clock.advance(secs(5));
    assert_eq!(caller.snap().active, 1);
    gate.open();
    done(call).await.unwrap();
    next_leaves_at_six(&world, &caller, &caller).await;
}

fn paused_stream(gate: &Gate) -> Server {
    first([Reply::sse([STREAM[0]])
        .pause(gate)
        .event(STREAM[1])
        .event(STREAM[2])])
}

#[tokio::test]
async fn the_interval_starts_after_a_stream_has_been_read_to_its_end() {
    let world = World::new();
    let gate = Gate::new();
    let server = paused_stream(&gate);
    let generator = world.generator(&server, paced(60));
    let mut stream = generator
        .stream(GenerateRequest::prompt("hi"))
        .await
        .unwrap();
    let item = stream.next().await.unwrap().unwrap();
    assert_eq!(item, StreamEvent::Text("hi".into()));
    world.clock.advance(secs(5));
    gate.open();
    while let Some(event) = stream.next().await {
        // Not even the last item is the end: the consumer may still be busy with it.
        assert_eq!(generator.snap().completion_remaining, None, "{event:?}");
        assert_eq!(generator.snap().active, 1);
    }
    let next = Caller::Generator(generator.clone());
    next_leaves_at_six(&world, &generator, &next).await;
}

#[tokio::test]
async fn the_interval_starts_when_a_stream_is_dropped() {
    let world = World::new();
    let gate = Gate::new();
    let server = paused_stream(&gate);
    let generator = world.generator(&server, paced(60));
    let mut stream = generator
        .stream(GenerateRequest::prompt("hi"))
        .await
        .unwrap();
    stream.next().await.unwrap().unwrap();
    world.clock.advance(secs(5));
    assert_eq!(generator.snap().completion_remaining, None);
    drop(stream);
    let next = Caller::Generator(generator.clone());
    next_leaves_at_six(&world, &generator, &next).await;
    gate.open();
}

#[tokio::test]
async fn the_interval_starts_when_a_call_is_dropped_in_flight() {
    let world = World::new();
    let gate = Gate::new();
    let server = gated(std::slice::from_ref(&gate));
    let caller = world.embedder(&server, paced(60));
    let call = caller.call();
    server.wait_for_requests(1).await;
    world.clock.advance(secs(5));
    call.abort();
    assert!(call.await.unwrap_err().is_cancelled());
    next_leaves_at_six(&world, &caller, &caller).await;
    gate.open();
}

#[tokio::test]
async fn the_interval_starts_after_a_transport_failure() {
    let world = World::new();
    let gate = Gate::new();
    let server = first([Reply::reset().after(&gate)]);
    let caller = world.embedder(&server, paced_once(60));
    let call = caller.call();
    server.wait_for_requests(1).await;
    world.clock.advance(secs(5));
    assert_eq!(caller.snap().completion_remaining, None);
    gate.open();
    assert_eq!(refused(done(call).await).kind(), Kind::Transport);
    next_leaves_at_six(&world, &caller, &caller).await;
}

#[tokio::test]
async fn the_interval_starts_after_a_connection_that_could_not_be_made() {
    let world = World::new();
    // A port that is taken and that nobody listens on.
    let closed = tokio::net::TcpSocket::new_v4().unwrap();
    closed.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let url = format!("http://{}", closed.local_addr().unwrap());
    let mut more = paced_once(60);
    more["url"] = url.into();
    let caller = world.try_open(&entry(Operation::Embed, more)).unwrap();
    assert_eq!(refused(caller.once().await).kind(), Kind::Transport);
    assert_eq!(caller.snap().active, 0);
    assert_eq!(caller.snap().completion_remaining, Some(secs(1)));
}

#[tokio::test]
async fn slow_responses_reduce_throughput_to_latency_plus_interval() {
    let world = World::new();
    let gates = [Gate::new(), Gate::new(), Gate::new()];
    let server = gated(&gates);
    let caller = world.embedder(&server, paced(60));
    let calls: Vec<_> = (0..3).map(|_| caller.call()).collect();
    for (n, gate) in gates.iter().enumerate() {
        server.wait_for_requests(n + 1).await;
        world.clock.advance(secs(3));
        gate.open();
        until("the answer", || caller.snap().active == 0).await;
        world.clock.advance(secs(1));
    }
    for call in calls {
        done(call).await.unwrap();
    }
    assert_eq!(world.starts(3).await, [secs(0), secs(4), secs(8)]);
}

#[tokio::test]
async fn delayed_successes_do_not_bunch_up() {
    let world = World::new();
    let gate = Gate::new();
    let server = gated(std::slice::from_ref(&gate));
    let caller = world.embedder(&server, paced(60));
    let calls: Vec<_> = (0..4).map(|_| caller.call()).collect();
    server.wait_for_requests(1).await;
    caller.queued(3).await;
    // Nine intervals' worth of lateness earns nothing.
    world.clock.advance(secs(9));
    gate.open();
    until("the answer", || caller.snap().active == 0).await;
    for left in [2, 1, 0] {
        caller.still_queued(left + 1).await;
        world.clock.advance(secs(1));
        caller.queued(left).await;
        until("the answer", || caller.snap().active == 0).await;
    }
    for call in calls {
        done(call).await.unwrap();
    }
    let starts = [secs(0), secs(10), secs(11), secs(12)];
    assert_eq!(world.starts(4).await, starts);
}

#[tokio::test]
async fn completion_retains_retry_handling_for_the_429s_it_cannot_exclude() {
    for status in [429, 500, 503] {
        let world = World::new();
        let server = first([error(status)]);
        let caller = world.embedder(&server, paced(60));
        world.drive(caller.call()).await.unwrap();
        assert_eq!(server.requests().len(), 2, "{status}");
        assert_eq!(caller.admitted(), 2, "{status}");
        // The retry waited out the interval as any attempt does.
        assert!(world.starts(2).await[1] >= secs(1), "{status}");
    }
}

#[tokio::test]
async fn the_completion_delay_is_shared_by_all_handles_of_the_scope() {
    let world = World::new();
    let server = good();
    let one = world.embedder(&server, paced(60));
    let two = world.embedder(&server, paced(60));
    one.once().await.unwrap();
    assert_eq!(two.snap().completion_remaining, Some(secs(1)));
    let call = two.call();
    one.queued(1).await;
    world.clock.advance(secs(1));
    done(call).await.unwrap();
    assert_eq!(world.starts(2).await, [secs(0), secs(1)]);
}
