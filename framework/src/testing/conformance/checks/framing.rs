//! Event streams in every form that servers send them in: line ends, separators, fields, comments, pings.
//!
//! The wire's own events are taken apart into lines and put together again, so each adapter meets these forms around what it
//! really reads. Each form comes whole, byte by byte, and cut at its line ends.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use bytes::Bytes;
use serde_json::json;

use super::streams::{good, read, silence, text};
use super::{Check, check};
use crate::error::{Error, Kind};
use crate::testing::conformance::bench::{Context, Kind as Leaves, Step};
use crate::testing::conformance::call::{Ask, SAID, Way, said};
use crate::testing::conformance::verdict::{Verdict, fail, same, skip};
use crate::testing::conformance::wire::Stream;
use crate::testing::{Gate, Reply};

pub(super) const CHECKS: &[Check] = &[
    check!(
        "framing.line_ends",
        "an event stream whose lines end in CRLF, in CR or now so and now so is the same stream",
        line_ends
    ),
    check!(
        "framing.separators",
        "U+2028, U+2029 and U+0085 end no line of an event stream: they stay in the text",
        separators
    ),
    check!(
        "framing.fields",
        "`data:` needs no space after it, and a line that names no known field is passed over",
        fields
    ),
    check!(
        "framing.comments",
        "comments before, between, inside and after events, also above the end mark, change nothing",
        comments
    ),
    check!(
        "framing.pings",
        "a ping and an event without data are passed over",
        pings
    ),
    check!(
        "framing.keep_alive",
        "a comment counts as a sign of life for stream_idle_timeout_ms",
        keep_alive
    ),
    check!(
        "framing.lines",
        "lines of JSON may end in CRLF, come with blank ones and several at once, and the last needs no end",
        lines
    ),
];

/// The events of a stream in order, each as its lines without the blank one that ends it.
struct Events {
    stream: Stream,
    events: Vec<String>,
    /// How many of them stand before the wire's end marks.
    marks_from: usize,
}

impl Events {
    fn of(cx: &Context, texts: &[&str]) -> Verdict<Self> {
        let Some(stream) = cx.wire()?.stream(texts) else {
            return skip("the wire has no streams");
        };
        if stream.content_type != "text/event-stream" {
            let own = stream.content_type;
            return skip(format!("the wire's streams are no event streams: {own}"));
        }
        let before = [&stream.opening, &stream.deltas, &stream.finish];
        let mut events: Vec<_> = before.into_iter().flatten().flat_map(apart).collect();
        let marks_from = events.len();
        events.extend(stream.end.iter().flat_map(apart));
        Ok(Events {
            stream,
            events,
            marks_from,
        })
    }

    /// Each event as `form` makes it, with the line ends it already has.
    fn each(&self, form: impl Fn(&str) -> String) -> String {
        self.events.iter().map(|e| form(e)).collect()
    }

    /// The stream with `more` before, between and after all events but the end marks, and `after` those.
    fn among(&self, more: &[&str], after: &str) -> String {
        let more = more.concat();
        let mut body = more.clone();
        for (at, event) in self.events.iter().enumerate() {
            body.push_str(event);
            body.push_str("\n\n");
            if at < self.marks_from {
                body.push_str(&more);
            }
        }
        body + after
    }
}

/// A body whole, byte by byte, and cut behind each CR and each LF.
fn replies(stream: &Stream, body: &str) -> Vec<Reply> {
    let bytes = Bytes::from(body.to_owned());
    let single = (0..bytes.len()).map(|i| bytes.slice(i..=i)).collect();
    let mut ways: Vec<Vec<Bytes>> = vec![vec![bytes.clone()], single];
    for end in [b'\r', b'\n'] {
        let pieces = bytes.split_inclusive(|byte| *byte == end);
        ways.push(pieces.map(Bytes::copy_from_slice).collect());
    }
    ways.into_iter().map(|w| stream.reply(w)).collect()
}

/// The events of a wire's frame, however it ends its lines.
fn apart(frame: &Bytes) -> Vec<String> {
    let text = String::from_utf8_lossy(frame).replace("\r\n", "\n");
    let text = text.replace('\r', "\n");
    let events = text.split("\n\n").map(|e| e.trim_matches('\n'));
    events
        .filter(|e| !e.is_empty())
        .map(str::to_owned)
        .collect()
}

/// Each form, however it is cut, is the whole stream and says `expected`.
async fn all_say(
    cx: &Context,
    stream: &Stream,
    expected: &str,
    forms: Vec<(&str, String)>,
) -> Verdict {
    let (mut names, mut steps) = (Vec::new(), Vec::new());
    for (what, body) in &forms {
        for (cut, reply) in ["whole", "byte by byte", "cut at CR", "cut at LF"]
            .into_iter()
            .zip(replies(stream, body))
        {
            names.push(format!("{what}, {cut}"));
            steps.push(Step::Say(reply));
        }
    }
    let b = cx.bench(Way::Stream, json!({}), steps)?;
    for name in &names {
        let (seen, error) = read(&b).await?;
        good(name, expected, &seen, error.as_ref())?;
    }
    same("requests at the server", names.len(), b.requests().len())
}

async fn line_ends(cx: &Context) -> Verdict {
    let events = Events::of(cx, &SAID)?;
    let ended = |line: &str, blank: &str| {
        events.each(|e| format!("{}{line}{blank}", e.replace('\n', line)))
    };
    // A CR before an LF would be one line end.
    let ends = [("\r\n", "\n"), ("\r", "\r\n"), ("\n", "\r\n"), ("\n", "\r")];
    let turn = Cell::new(0);
    let mixed = events.each(|e| {
        let (line, blank) = ends[turn.replace(turn.get() + 1) % ends.len()];
        format!("{}{line}{blank}", e.replace('\n', line))
    });
    let forms = vec![
        ("lines end in LF", ended("\n", "\n")),
        ("lines end in CRLF", ended("\r\n", "\r\n")),
        ("lines end in CR", ended("\r", "\r")),
        ("lines end now so and now so", mixed),
    ];
    all_say(cx, &events.stream, &said(), forms).await
}

async fn separators(cx: &Context) -> Verdict {
    let texts = ["a\u{2028}b", "\u{2029}c\u{85}", "d\u{85}\u{2028}"];
    let events = Events::of(cx, &texts)?;
    // What the wire's author escaped goes raw: JSON allows both.
    let mut body = events.each(|e| format!("{e}\n\n"));
    for (escaped, raw) in [
        ("\\u2028", "\u{2028}"),
        ("\\u2029", "\u{2029}"),
        ("\\u0085", "\u{85}"),
    ] {
        body = body.replace(escaped, raw);
        if !body.contains(raw) {
            return skip("the wire's streams don't carry texts as they are");
        }
    }
    all_say(cx, &events.stream, &texts.concat(), vec![("raw", body)]).await
}

async fn fields(cx: &Context) -> Verdict {
    let events = Events::of(cx, &SAID)?;
    let data = |event: &str, before: &str| {
        let lines = event
            .split('\n')
            .map(|line| match line.strip_prefix("data:") {
                Some(value) => format!("data:{before}{}\n", value.trim_start()),
                None => format!("{line}\n"),
            });
        format!("{}\n", lines.collect::<String>())
    };
    let tight = events.each(|e| data(e, ""));
    let unknown = events.each(|e| format!("id: 7\nnonsense\nx-field: {{\n{e}\nretry: 10\n\n"));
    // The JSON on a line of its own has no field name: it is lost, and what is left of the event is empty.
    let lost = |e: &str| data(e, "\n ");
    let first = events.events.first().map_or("", String::as_str);
    let between = events.among(&[&lost(first)], "");
    let forms = vec![
        ("no space after `data:`", tight),
        ("unknown fields", unknown),
        ("JSON on a line without a field name", between),
    ];
    all_say(cx, &events.stream, &said(), forms).await?;
    // Nothing but such events is no answer: an error, and no wait.
    let what = "nothing but lines without a field name";
    let replies = replies(&events.stream, &events.each(lost));
    for reply in replies {
        let once = json!({"retry": {"max_attempts": 1}});
        let b = cx.bench(Way::Stream, once, vec![Step::Say(reply)])?;
        let (seen, error) = read(&b).await?;
        same(&format!("{what}: the text"), String::new(), text(&seen))?;
        match error.map(|e| e.kind()) {
            Some(Kind::InvalidResponse | Kind::StreamInterrupted) => {}
            other => {
                let expected = "invalid_response or stream_interrupted";
                return fail(format!("{what}: {expected}"), format!("{other:?}"));
            }
        }
    }
    Ok(())
}

async fn comments(cx: &Context) -> Verdict {
    let events = Events::of(cx, &SAID)?;
    let comment = ": OPENROUTER PROCESSING\n\n";
    let odd = ":\n:{not json\n:data: {\n\n";
    let between = events.among(&[comment, odd, comment], comment);
    let inside = events.each(|e| {
        let lines = e.replace('\n', "\n: more\n");
        format!(": x-a=1\n: x-b=2\n{lines}\n: x-c=3\n\n")
    });
    let forms = vec![
        ("comments around events", between),
        ("comments in an event's block", inside),
    ];
    all_say(cx, &events.stream, &said(), forms).await
}

async fn pings(cx: &Context) -> Verdict {
    let events = Events::of(cx, &SAID)?;
    let empty = [
        "event: ping\ndata:\n\n",
        "event: ping\n\n",
        "data:\n\n",
        "data: \n\n",
        "data:\ndata:\n\n",
        "event: message\ndata:\n\n",
    ];
    let told = [
        "event: ping\ndata: {\"type\":\"ping\"}\n\n",
        "data: {\"type\":\"ping\"}\n\n",
    ];
    let forms = vec![
        ("events without data", events.among(&empty, empty[0])),
        ("pings that have data", events.among(&told, "")),
    ];
    all_say(cx, &events.stream, &said(), forms).await
}

async fn keep_alive(cx: &Context) -> Verdict {
    let events = Events::of(cx, &SAID)?;
    if cx.route == Leaves::Engine {
        return skip("an engine hands on events and no bytes");
    }
    const IDLE: Duration = Duration::from_secs(10);
    const NEARLY: Duration = Duration::from_secs(9);
    let script = &events.stream;
    let (comment, rest) = (Gate::new(), Gate::new());
    let first = script.opening.iter().chain(script.deltas.first()).cloned();
    let mut reply = script.reply(first).pause(&comment);
    reply = reply.chunk(": still here\n\n").pause(&rest);
    for frame in script.deltas[1..]
        .iter()
        .chain(&script.finish)
        .chain(&script.end)
    {
        reply = reply.chunk(frame.clone());
    }
    let b = cx.bench(
        Way::Stream,
        json!({"stream_idle_timeout_ms": 10_000}),
        vec![Step::Say(reply)],
    )?;
    let Some(generator) = b.asker.generator() else {
        return skip("not a generator");
    };
    let seen = RefCell::new(Vec::new());
    let mut work = std::pin::pin!(async {
        let mut stream = generator.stream(Ask::of(1).generate_request()).await?;
        while let Some(event) = stream.next().await {
            seen.borrow_mut().push(event?);
        }
        Ok::<_, Error>(())
    });
    let begun = || !text(&seen.borrow()).is_empty();
    let what = "the first text is there and more is waited for";
    silence(&b, work.as_mut(), what, IDLE, NEARLY, begun).await?;
    comment.open();
    let what = "the comment has been heard";
    silence(&b, work.as_mut(), what, IDLE, NEARLY, begun).await?;
    rest.open();
    let ended = b.stand_still(work).await?;
    let seen = seen.take();
    good("the stream", &said(), &seen, ended.err().as_ref())
}

async fn lines(cx: &Context) -> Verdict {
    // JSON lets these three stand in a text as they are.
    let texts = ["a\u{2028}b", "\u{2029}c", "\u{85}\u{1f980}"];
    let Some(stream) = cx.wire()?.stream(&texts) else {
        return skip("the wire has no streams");
    };
    if stream.content_type != "application/x-ndjson" {
        let own = stream.content_type;
        return skip(format!("the wire's streams are no lines of JSON: {own}"));
    }
    let body = String::from_utf8_lossy(&stream.whole().concat()).into_owned();
    let lines: Vec<_> = body
        .split(['\r', '\n'])
        .filter(|line| !line.trim().is_empty())
        .collect();
    let forms = vec![
        ("lines end in LF", lines.join("\n") + "\n"),
        ("lines end in CRLF", lines.join("\r\n") + "\r\n"),
        (
            "blank lines",
            format!("\n\r\n{}\n \n", lines.join("\n\n \n")),
        ),
        ("the last line without an end", lines.join("\n")),
    ];
    all_say(cx, &stream, &texts.concat(), forms).await
}
