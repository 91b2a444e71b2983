//! How long a permit is held: until the answer has been dealt with, and not a moment longer.

use std::time::Duration;

use serde_json::json;

use super::{Check, check};
use crate::testing::Gate;
use crate::testing::conformance::bench::{Bench, Context, Step};
use crate::testing::conformance::call::{Ask, SAID, Way};
use crate::testing::conformance::verdict::{Verdict, fail, same, skip, worked};
use crate::testing::conformance::wire::Stream;

pub(super) const CHECKS: &[Check] = &[
    check!(
        "permit.body",
        "a permit is held until the whole body has been read",
        body
    ),
    check!(
        "permit.refusal",
        "a permit is held until a refusal's body has been read, and not while its retry waits",
        refusal
    ),
    check!(
        "permit.stream",
        "a stream holds its permit until its end has been polled",
        stream
    ),
    check!(
        "permit.stream_dropped",
        "a stream dropped at any stage gives its permit back and closes its connection",
        stream_dropped
    ),
    check!(
        "permit.one_at_a_time",
        "with max_concurrency 1 the server never sees two requests at once",
        one_at_a_time
    ),
    check!(
        "permit.completion",
        "with pacing: completion the next request leaves a whole gap after the end of the one before",
        completion
    ),
];

/// The handler holds the body of the first answer back until the gate is open.
fn held(gate: &Gate) -> Step {
    let gate = gate.clone();
    Step::make(move |_, good| good.halfway(&gate))
}

/// A call that is in the middle of its exchange: one permit, one request.
fn in_flight(b: &Bench<'_>) -> bool {
    b.requests().len() == 1 && b.server.open_requests() == 1 && b.asker.snapshot().active == 1
}

async fn body(cx: &Context) -> Verdict {
    cx.wire()?;
    for way in cx.ways().into_iter().filter(|w| *w != Way::Stream) {
        let gate = Gate::new();
        let b = cx.bench(way, json!({}), vec![held(&gate)])?;
        let mut call = std::pin::pin!(b.asker.ask(way, Ask::of(1)));
        b.until(call.as_mut(), "half of the body is there", in_flight)
            .await?;
        settle(&b, call.as_mut()).await?;
        same(
            "permits while half of the body is missing",
            1,
            b.asker.snapshot().active,
        )?;
        gate.open();
        worked("the rest of the body", b.drive(call).await?)?;
        same("permits after it", 0, b.asker.snapshot().active)?;
    }
    Ok(())
}

/// Lets the bytes on their way arrive: the call is polled for a while and must not end.
async fn settle<F: Future>(b: &Bench<'_>, call: std::pin::Pin<&mut F>) -> Verdict {
    let started = std::time::Instant::now();
    b.until(call, "the bytes sent have been read", move |_| {
        started.elapsed() > Duration::from_millis(10)
    })
    .await
}

async fn refusal(cx: &Context) -> Verdict {
    let wire = cx.wire()?;
    for way in cx.ways() {
        let gate = Gate::new();
        let reply = wire.error(500, "no").halfway(&gate);
        let retry = json!({"retry": {"max_attempts": 2, "initial_backoff_ms": 10_000, "max_backoff_ms": 10_000}});
        let b = cx.bench(way, retry, vec![Step::Say(reply)])?;
        let mut call = std::pin::pin!(b.asker.ask(way, Ask::of(1)));
        b.until(call.as_mut(), "half of the refusal is there", in_flight)
            .await?;
        settle(&b, call.as_mut()).await?;
        same(
            "permits while half of the refusal is missing",
            1,
            b.asker.snapshot().active,
        )?;
        gate.open();
        b.until(
            call.as_mut(),
            "no permit is held while the retry waits",
            |b| b.asker.snapshot().active == 0,
        )
        .await?;
        same("requests so far", 1, b.requests().len())?;
        worked("the retry", b.drive(call).await?)?;
    }
    Ok(())
}

fn script(cx: &Context) -> Verdict<Stream> {
    match cx.wire()?.stream(&SAID) {
        Some(stream) => Ok(stream),
        None => skip("the wire has no streams"),
    }
}

async fn stream(cx: &Context) -> Verdict {
    let script = script(cx)?;
    let b = cx.bench(
        Way::Stream,
        json!({}),
        vec![Step::Say(script.reply(script.whole()))],
    )?;
    let Some(generator) = b.asker.generator() else {
        return skip("not a generator");
    };
    let opened = b
        .drive(generator.stream(Ask::of(1).generate_request()))
        .await?;
    let mut stream = worked("the stream opens", opened)?;
    let mut events = 0;
    loop {
        same(
            "permits before the end has been polled",
            1,
            b.asker.snapshot().active,
        )?;
        match b.drive(stream.next()).await? {
            Some(event) => {
                worked("an event", event)?;
                events += 1;
            }
            None => break,
        }
    }
    if events == 0 {
        return fail("events", "none");
    }
    same(
        "permits after the end has been polled",
        0,
        b.asker.snapshot().active,
    )
}

async fn stream_dropped(cx: &Context) -> Verdict {
    let script = script(cx)?;
    // Dropped after this many events; the server has more to say and holds it back.
    for taken in 0..=2_usize {
        let gate = Gate::new();
        let mut reply = script.reply(script.opening.iter().chain(&script.deltas[..2]).cloned());
        reply = reply.pause(&gate);
        for rest in script.deltas[2..]
            .iter()
            .chain(&script.finish)
            .chain(&script.end)
        {
            reply = reply.chunk(rest.clone());
        }
        let b = cx.bench(Way::Stream, json!({}), vec![Step::Say(reply)])?;
        let Some(generator) = b.asker.generator() else {
            return skip("not a generator");
        };
        let opened = b
            .drive(generator.stream(Ask::of(1).generate_request()))
            .await?;
        let mut stream = worked("the stream opens", opened)?;
        for _ in 0..taken {
            match b.drive(stream.next()).await? {
                Some(event) => drop(worked("an event", event)?),
                None => return fail("an event", "the end"),
            }
        }
        same("permits before the drop", 1, b.asker.snapshot().active)?;
        drop(stream);
        b.free(&format!("a stream dropped after {taken} events"))
            .await?;
        gone(&b, 1).await?;
    }
    Ok(())
}

/// The client has hung up on a request that was not answered to its end: the permit that came back was not one of work that
/// goes on.
pub(super) async fn gone(b: &Bench<'_>, count: usize) -> Verdict {
    b.soon("the connection is closed", |b| {
        b.server.disconnects() >= count
    })
    .await
}

async fn one_at_a_time(cx: &Context) -> Verdict {
    cx.wire()?;
    for way in cx.ways() {
        let b = cx.bench(way, json!({"rate_limit": {"max_concurrency": 1}}), vec![])?;
        let calls = (0..6).map(|_| b.asker.ask(way, Ask::of(1)));
        for told in b.drive(futures::future::join_all(calls)).await? {
            worked("one of six calls at once", told)?;
        }
        same("requests at the server", 6, b.requests().len())?;
        same("the most at once", 1, b.server.peak_open_requests())?;
    }
    Ok(())
}

async fn completion(cx: &Context) -> Verdict {
    const GAP: Duration = Duration::from_secs(1);
    cx.wire()?;
    for way in cx.ways() {
        let gate = Gate::new();
        let paced = json!({"rate_limit": {"requests_per_minute": 60, "pacing": "completion"}});
        let b = cx.bench(way, paced, vec![held(&gate)])?;
        let calls = (0..2).map(|_| b.asker.ask(way, Ask::of(1)));
        let mut calls = std::pin::pin!(futures::future::join_all(calls));
        let what = "one call is in the middle of its answer, the other in line";
        b.until(calls.as_mut(), what, |b| {
            in_flight(b) && b.asker.snapshot().queued == 1
        })
        .await?;
        // However long the first takes, the gap begins with its end.
        b.clock.advance(5 * GAP);
        settle(&b, calls.as_mut()).await?;
        alone(&b, "while the first is under way")?;
        gate.open();
        b.until(calls.as_mut(), "the gap begins", |b| {
            b.asker.snapshot().completion_remaining == Some(GAP)
        })
        .await?;
        b.clock.advance(GAP - Duration::from_millis(1));
        settle(&b, calls.as_mut()).await?;
        alone(&b, "a millisecond before the end of the gap")?;
        b.clock.advance(Duration::from_millis(1));
        for told in b.stand_still(calls).await? {
            worked("one of two calls", told)?;
        }
        same("requests at the server", 2, b.requests().len())?;
        same("admitted", 2, b.asker.snapshot().counters.admitted)?;
    }
    Ok(())
}

/// One request has left and no other was admitted.
fn alone(b: &Bench<'_>, when: &str) -> Verdict {
    let (sent, admitted) = (b.requests().len(), b.asker.snapshot().counters.admitted);
    same(
        &format!("requests at the server and admitted {when}"),
        (1, 1),
        (sent, admitted),
    )
}
