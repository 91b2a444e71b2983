//! Streams that go on for long: in time, and in bytes.

use std::cell::Cell;
use std::time::{Duration, Instant as WallInstant};

use bytes::Bytes;
use serde_json::json;

use super::permits::gone;
use super::streams::{read, script, silence, text};
use super::{Check, check};
use crate::error::{Error, Kind};
use crate::generate::StreamEvent;
use crate::testing::conformance::bench::{Bench, Context, Step};
use crate::testing::conformance::call::{Ask, SAID, Way};
use crate::testing::conformance::verdict::{Verdict, fail, holds, refused, same, skip, worked};
use crate::testing::conformance::wire::Stream;
use crate::testing::{Gate, Reply};

pub(super) const CHECKS: &[Check] = &[
    check!(
        "stream.long",
        "a stream that goes on steadily outlives timeout_ms and stream_idle_timeout_ms many times over",
        long
    ),
    check!(
        "stream.bound",
        "an event without end is invalid_response at max_event_bytes, and its connection is closed",
        bound
    ),
    check!(
        "stream.small",
        "any number of small events passes a small max_event_bytes",
        small
    ),
    check!(
        "stream.unread",
        "what nobody has read yet of a long stream is left at the provider",
        unread
    ),
];

/// Texts of the long stream.
const TEXTS: usize = 10;
const IDLE: Duration = Duration::from_millis(1000);
const STEP: Duration = Duration::from_millis(900);

async fn long(cx: &Context) -> Verdict {
    let Some(script) = cx.wire()?.stream(&["t"; TEXTS]) else {
        return skip("the wire has no streams");
    };
    let gates: Vec<Gate> = (1..TEXTS).map(|_| Gate::new()).collect();
    let first = script.opening.iter().chain(script.deltas.first()).cloned();
    let mut reply = script.reply(first);
    for (gate, delta) in gates.iter().zip(&script.deltas[1..]) {
        reply = reply.pause(gate).chunk(delta.clone());
    }
    for frame in script.finish.iter().chain(&script.end) {
        reply = reply.chunk(frame.clone());
    }
    let bounds = json!({"timeout_ms": 600, "stream_idle_timeout_ms": 1000});
    let b = cx.bench(Way::Stream, bounds, vec![Step::Say(reply)])?;
    let Some(generator) = b.asker.generator() else {
        return skip("not a generator");
    };
    let seen = Cell::new(0);
    let mut work = std::pin::pin!(async {
        let mut stream = generator.stream(Ask::of(1).generate_request()).await?;
        while let Some(event) = stream.next().await {
            seen.set(seen.get() + text(&[event?]).len());
        }
        Ok::<_, Error>(())
    });
    for (at, gate) in gates.iter().enumerate() {
        // Ten texts, each 900 ms after the one before.
        let what = format!("text {at} is there after {:?}", STEP * at as u32);
        let there = || seen.get() > at;
        silence(&b, work.as_mut(), &what, IDLE, STEP, there).await?;
        gate.open();
    }
    worked("the stream to its end", b.stand_still(work).await?)?;
    same("texts", TEXTS, seen.get())
}

/// A bound that the wire's own small frames keep to.
fn small_bound(script: &Stream) -> usize {
    let most = script.whole().iter().map(Bytes::len).max().unwrap_or(0);
    (4 * most).max(1000)
}

async fn bound(cx: &Context) -> Verdict {
    let script = script(cx)?;
    let limit = small_bound(&script);
    let mut endless: Vec<(&str, Bytes)> = Vec::new();
    let large = "x".repeat(3 * limit);
    if let Some(frame) = cx
        .wire()?
        .stream(&[&large])
        .and_then(|s| s.deltas.into_iter().next())
    {
        endless.push(("one event of three times the bound", frame));
    }
    let line = "x".repeat(2 * limit);
    match script.content_type {
        "text/event-stream" => {
            let fields = "data: 0123456789\n".repeat(limit / 8);
            endless.push(("a line without end", line.clone().into()));
            endless.push(("an event without end", fields.into()));
            endless.push(("a comment without end", format!(": {line}").into()));
        }
        "application/x-ndjson" => endless.push(("a line without end", line.into())),
        _ => {}
    }
    for (what, bytes) in endless {
        // Its first two thirds. Here the stream ends with them: that is not what is wrong with it.
        let cut = bytes.len() / 3;
        let first = script.reply([bytes.slice(..2 * cut)]);
        let alone = format!("{what}, and nothing before it");
        drop(refused_at_bound(cx, &alone, limit, first, "").await?);
        // Here more is promised and never comes.
        let some = script.opening.iter().chain(script.deltas.first()).cloned();
        let pieces = some.chain([bytes.slice(..cut), bytes.slice(cut..2 * cut)]);
        let after = script.reply(pieces).then_hang();
        let b = refused_at_bound(cx, what, limit, after, SAID[0]).await?;
        gone(&b, 1).await?;
    }
    Ok(())
}

async fn refused_at_bound<'a>(
    cx: &'a Context,
    what: &str,
    limit: usize,
    reply: Reply,
    before: &str,
) -> Verdict<Bench<'a>> {
    let bounds = json!({ "max_event_bytes": limit });
    let b = cx.bench(Way::Stream, bounds, vec![Step::Say(reply)])?;
    let (events, error) = read(&b).await?;
    same(&format!("{what}: the text"), before, &text(&events))?;
    let e = refused(what, Kind::InvalidResponse, error.map_or(Ok(()), Err))?;
    holds(
        &format!("{what}: the error names max_event_bytes: {e}"),
        e.message().contains("max_event_bytes"),
    )?;
    same(
        &format!("{what}: requests at the server"),
        1,
        b.requests().len(),
    )?;
    b.free(what).await?;
    Ok(b)
}

/// Many small events in one chunk, and how many they are.
fn many(cx: &Context) -> Verdict<(Stream, Bytes, usize)> {
    let Some(script) = cx.wire()?.stream(&["t"]) else {
        return skip("the wire has no streams");
    };
    let Some(event) = script.deltas.first() else {
        return fail("a frame with text", "none");
    };
    let count = (64 << 10) / event.len().max(1) + 1;
    let chunk = Bytes::from(event.repeat(count));
    Ok((script, chunk, count))
}

/// The stream with as many chunks of small events.
fn stream_of(script: &Stream, chunk: &Bytes, chunks: usize) -> Reply {
    let opening = script.opening.iter().cloned();
    let end = script.finish.iter().chain(&script.end).cloned();
    let events = std::iter::repeat_n(chunk.clone(), chunks);
    script.reply(opening.chain(events).chain(end))
}

async fn small(cx: &Context) -> Verdict {
    const CHUNKS: usize = 8;
    let (script, chunk, count) = many(cx)?;
    let limit = small_bound(&script);
    holds(
        "the events are many times the bound",
        CHUNKS * chunk.len() > 20 * limit,
    )?;
    let reply = stream_of(&script, &chunk, CHUNKS);
    let bounds = json!({ "max_event_bytes": limit });
    let b = cx.bench(Way::Stream, bounds, vec![Step::Say(reply)])?;
    let seen = worked("the stream", counted(&b).await?)?;
    same("texts", CHUNKS * count, seen)
}

/// How many texts came, each of one character.
async fn counted(b: &Bench<'_>) -> Verdict<Result<usize, Error>> {
    let Some(generator) = b.asker.generator() else {
        return skip("not a generator");
    };
    b.drive(async {
        let mut stream = generator.stream(Ask::of(1).generate_request()).await?;
        let mut seen = 0;
        while let Some(event) = stream.next().await {
            if let StreamEvent::Text(text) = event? {
                seen += text.len();
            }
        }
        Ok(seen)
    })
    .await
}

async fn unread(cx: &Context) -> Verdict {
    /// Far more than the buffers of a connection hold, the system's included.
    const CHUNKS: usize = 1024;
    /// So long nothing more must leave before it is taken for all that does.
    const REST: Duration = Duration::from_millis(100);
    let (script, chunk, _) = many(cx)?;
    let all = CHUNKS * chunk.len();
    let reply = stream_of(&script, &chunk, CHUNKS);
    let b = cx.bench(Way::Stream, json!({}), vec![Step::Say(reply)])?;
    let Some(generator) = b.asker.generator() else {
        return skip("not a generator");
    };
    let opened = b.drive(generator.stream(Ask::of(1).generate_request()));
    let mut stream = worked("the stream opens", opened.await?)?;
    match b.drive(stream.next()).await? {
        Some(event) => drop(worked("the first event", event)?),
        None => return fail("an event", "the end"),
    }
    let last = Cell::new((0, WallInstant::now()));
    b.eventually("no more leaves the server", |b| {
        let sent = b.server.sent_bytes();
        let (before, since) = last.get();
        if sent != before {
            last.set((sent, WallInstant::now()));
        }
        sent == before && since.elapsed() > REST
    })
    .await?;
    let (sent, _) = last.get();
    holds(
        &format!("of {all} bytes, with one event read, less than half has left: {sent}"),
        sent < all / 2,
    )?;
    drop(stream);
    b.free("a stream dropped after one event").await?;
    gone(&b, 1).await
}
