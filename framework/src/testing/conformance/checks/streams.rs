//! Streams: whole, split anywhere, cut short, failing inside.

use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use serde_json::json;

use super::{Check, check};
use crate::error::{Error, Kind};
use crate::generate::{FinishReason, StreamEvent};
use crate::testing::Reply;
use crate::testing::conformance::bench::{Bench, Context, Step};
use crate::testing::conformance::call::{Ask, SAID, Way, said};
use crate::testing::conformance::verdict::{Verdict, fail, holds, same, skip};
use crate::testing::conformance::wire::Stream;

pub(super) const CHECKS: &[Check] = &[
    check!(
        "stream.whole",
        "every text arrives in order, then why it ended, then nothing",
        whole
    ),
    check!(
        "stream.split",
        "a stream split at any byte is the same stream",
        split
    ),
    check!(
        "stream.cut",
        "a stream that ends before its finish reason is stream_interrupted, after the text it gave",
        cut
    ),
    check!(
        "stream.broken",
        "a connection that breaks inside a stream is stream_interrupted, after the text it gave",
        broken
    ),
    check!(
        "stream.no_mark",
        "a finish reason is enough: an end mark that never comes fails nothing",
        no_mark
    ),
    check!(
        "stream.error_first",
        "an error inside a 200 before the first text is the attempt's failure",
        error_first
    ),
    check!(
        "stream.error_later",
        "an error inside a 200 after some text comes after that text and is not retried",
        error_later
    ),
    check!(
        "stream.idle",
        "a provider that falls silent is stream_interrupted after stream_idle_timeout_ms",
        idle
    ),
];

pub(super) fn script(cx: &Context) -> Verdict<Stream> {
    match cx.wire()?.stream(&SAID) {
        Some(stream) => Ok(stream),
        None => skip("the wire has no streams"),
    }
}

/// Reads one streamed call to its end: what came, and what ended it.
pub(super) async fn read(b: &Bench<'_>) -> Verdict<(Vec<StreamEvent>, Option<Error>)> {
    let Some(generator) = b.asker.generator() else {
        return skip("not a generator");
    };
    let mut events = Vec::new();
    let ended = b
        .drive(async {
            let mut stream = generator.stream(Ask::of(1).generate_request()).await?;
            while let Some(event) = stream.next().await {
                events.push(event?);
            }
            Ok::<_, Error>(())
        })
        .await?;
    if let Err(e) = &ended {
        b.keep(e);
    }
    Ok((events, ended.err()))
}

pub(super) fn text(events: &[StreamEvent]) -> String {
    events
        .iter()
        .filter_map(|e| match e {
            StreamEvent::Text(t) => Some(t.as_str()),
            _ => None,
        })
        .collect()
}

fn finish(events: &[StreamEvent]) -> Option<FinishReason> {
    events.iter().rev().find_map(|e| match e {
        StreamEvent::Finish { reason, .. } => Some(reason.clone()),
        _ => None,
    })
}

/// Waits until the idle timer has just been armed anew and `ready` is so, and lets `wait` pass.
pub(super) async fn silence<F: Future>(
    b: &Bench<'_>,
    work: Pin<&mut F>,
    what: &str,
    idle: Duration,
    wait: Duration,
    ready: impl Fn() -> bool,
) -> Verdict {
    let at = b.clock.now().saturating_add(idle);
    b.until(work, what, |b| ready() && b.clock.next_alarm() == Some(at))
        .await?;
    b.clock.advance(wait);
    Ok(())
}

pub(super) async fn with(
    cx: &Context,
    replies: Vec<Reply>,
) -> Verdict<(usize, Vec<StreamEvent>, Option<Error>)> {
    let steps = replies.into_iter().map(Step::Say).collect();
    let b = cx.bench(Way::Stream, json!({}), steps)?;
    let (events, error) = read(&b).await?;
    b.free("after the stream").await?;
    Ok((b.requests().len(), events, error))
}

/// The stream ended well and said `expected`.
pub(super) fn good(
    what: &str,
    expected: &str,
    events: &[StreamEvent],
    error: Option<&Error>,
) -> Verdict {
    if let Some(e) = error {
        return fail(format!("{what}: a whole stream"), e.to_string());
    }
    same(&format!("{what}: the text"), expected, &text(events))?;
    same(
        &format!("{what}: the finish reason"),
        Some(FinishReason::Stop),
        finish(events),
    )
}

async fn whole(cx: &Context) -> Verdict {
    let script = script(cx)?;
    let (requests, events, error) = with(cx, vec![script.reply(script.whole())]).await?;
    good("the stream", &said(), &events, error.as_ref())?;
    let empty = events
        .iter()
        .any(|e| matches!(e, StreamEvent::Text(t) | StreamEvent::Reasoning(t) if t.is_empty()));
    holds("no event without text", !empty)?;
    same("requests at the server", 1, requests)
}

async fn split(cx: &Context) -> Verdict {
    let script = script(cx)?;
    let bytes = Bytes::from(script.whole().concat());
    let mut replies: Vec<(String, Vec<Bytes>)> = (1..bytes.len())
        .map(|at| {
            let two = vec![bytes.slice(..at), bytes.slice(at..)];
            (format!("split after byte {at}"), two)
        })
        .collect();
    let single = (0..bytes.len()).map(|i| bytes.slice(i..=i)).collect();
    replies.push(("byte by byte".to_owned(), single));
    replies.push(("in one piece".to_owned(), vec![bytes]));
    // One server for all of them: a connection each would be the slowest part.
    let count = replies.len();
    let (names, replies): (Vec<_>, Vec<_>) = replies.into_iter().unzip();
    let steps = replies
        .into_iter()
        .map(|chunks| Step::Say(script.reply(chunks)))
        .collect();
    let b = cx.bench(Way::Stream, json!({}), steps)?;
    for name in &names {
        let (events, error) = read(&b).await?;
        good(name, &said(), &events, error.as_ref())?;
    }
    same("requests at the server", count, b.requests().len())
}

async fn cut(cx: &Context) -> Verdict {
    let script = script(cx)?;
    for count in 1..=script.deltas.len() {
        let some = script
            .opening
            .iter()
            .chain(&script.deltas[..count])
            .cloned();
        let what = format!("the end after {count} texts");
        let (requests, events, error) = with(cx, vec![script.reply(some)]).await?;
        interrupted(&what, count, requests, &events, error)?;
    }
    Ok(())
}

fn interrupted(
    what: &str,
    texts: usize,
    requests: usize,
    events: &[StreamEvent],
    error: Option<Error>,
) -> Verdict {
    same(
        &format!("{what}: the text"),
        SAID[..texts].concat(),
        text(events),
    )?;
    let kind = error.as_ref().map(Error::kind);
    same(
        &format!("{what}: the error"),
        Some(Kind::StreamInterrupted),
        kind,
    )?;
    same(&format!("{what}: requests at the server"), 1, requests)
}

async fn broken(cx: &Context) -> Verdict {
    let script = script(cx)?;
    for count in 1..=script.deltas.len() {
        let some = script
            .opening
            .iter()
            .chain(&script.deltas[..count])
            .cloned();
        let reply = script.reply(some).then_abandon();
        let what = format!("the connection broken after {count} texts");
        let (requests, events, error) = with(cx, vec![reply]).await?;
        interrupted(&what, count, requests, &events, error)?;
    }
    Ok(())
}

async fn no_mark(cx: &Context) -> Verdict {
    let script = script(cx)?;
    if script.end.is_empty() {
        return skip("the wire has no end mark");
    }
    let some = [&script.opening, &script.deltas, &script.finish];
    let some = some.into_iter().flatten().cloned();
    let (_, events, error) = with(cx, vec![script.reply(some)]).await?;
    good("the end without its mark", &said(), &events, error.as_ref())
}

fn errors(cx: &Context) -> Verdict<Vec<(Bytes, Kind)>> {
    let errors = cx.wire()?.stream_errors();
    if errors.is_empty() {
        return skip("the wire gives no error inside a stream (Wire::stream_errors)");
    }
    Ok(errors)
}

async fn error_first(cx: &Context) -> Verdict {
    let script = script(cx)?;
    for (frame, kind) in errors(cx)? {
        let frames = || script.opening.iter().cloned().chain([frame.clone()]);
        let replies = vec![script.reply(frames()); 3];
        let what = format!("{:?} first", String::from_utf8_lossy(&frame));
        let (requests, events, error) = with(cx, replies).await?;
        same(&format!("{what}: the text"), String::new(), text(&events))?;
        let Some(error) = error else {
            return fail(format!("{what}: an error of kind {kind}"), "a stream");
        };
        same(&format!("{what}: the kind ({error})"), kind, error.kind())?;
        let tries = if error.is_retryable() { 3 } else { 1 };
        same(&format!("{what}: requests at the server"), tries, requests)?;
    }
    Ok(())
}

async fn error_later(cx: &Context) -> Verdict {
    let script = script(cx)?;
    for (frame, kind) in errors(cx)? {
        let first = script.opening.iter().chain(script.deltas.first());
        let frames = first.cloned().chain([frame.clone()]);
        let what = format!("{:?} after a text", String::from_utf8_lossy(&frame));
        let (requests, events, error) = with(cx, vec![script.reply(frames)]).await?;
        same(
            &format!("{what}: the text"),
            SAID[0].to_owned(),
            text(&events),
        )?;
        let seen = error.as_ref().map(Error::kind);
        same(&format!("{what}: the kind"), Some(kind), seen)?;
        same(&format!("{what}: requests at the server"), 1, requests)?;
    }
    Ok(())
}

async fn idle(cx: &Context) -> Verdict {
    let script = script(cx)?;
    let first = script.opening.iter().chain(script.deltas.first()).cloned();
    let reply = script.reply(first).then_hang();
    let b = cx.bench(
        Way::Stream,
        json!({"stream_idle_timeout_ms": 30_000}),
        vec![Step::Say(reply)],
    )?;
    let Some(generator) = b.asker.generator() else {
        return skip("not a generator");
    };
    let opened = b
        .drive(generator.stream(Ask::of(1).generate_request()))
        .await?;
    let mut stream = super::super::verdict::worked("the stream opens", opened)?;
    loop {
        let mut next = std::pin::pin!(stream.next());
        match futures::poll!(next.as_mut()) {
            std::task::Poll::Ready(Some(Ok(_))) => continue,
            std::task::Poll::Ready(other) => {
                return fail("a silent stream", format!("{other:?}"));
            }
            std::task::Poll::Pending => {}
        }
        // The head's bytes may still be on their way: whatever comes is read first.
        let armed = b
            .eventually("the idle timer is armed", |b| b.clock.armed() > 0)
            .await;
        armed?;
        b.clock.advance(Duration::from_millis(30_000));
        match b.drive(next).await? {
            Some(Ok(_)) => continue,
            Some(Err(e)) => {
                b.keep(&e);
                same("the error", Kind::StreamInterrupted, e.kind())?;
                break;
            }
            None => return fail("stream_interrupted", "a stream that ended well"),
        }
    }
    drop(stream);
    b.free("after the silence").await
}
