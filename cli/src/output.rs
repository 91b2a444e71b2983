//! The output: one line an item, in the order of the input, flushed one by one.
//!
//! A thread of its own writes, so that a slow reader of ours never holds up the calls. What may not be written yet waits here;
//! how much that can be is bounded by the [`Ticket`]s, of which there is one an item.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Write};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use antfly_framework::{Embeddings, Error, Phase};
use serde::Serialize;
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::input::Id;
use crate::progress::Stats;

/// How long an interrupted run waits for a line to be taken.
const STUCK: Duration = Duration::from_secs(1);

/// A line that is to be written.
pub(crate) enum Output {
    /// As it is, without its end.
    Line(Vec<u8>),
    /// One vector of a call. Kept as numbers, which are smaller, until its turn comes.
    Vector(Id, Arc<Embeddings>, usize),
}

impl Output {
    pub(crate) fn json(line: &impl Serialize) -> Self {
        // Nothing we write has a key that is not text, so this can't fail; if it did, the line would say so.
        Output::Line(
            serde_json::to_vec(line)
                .unwrap_or_else(|e| format!("{{\"error\":\"{e}\"}}").into_bytes()),
        )
    }

    pub(crate) fn error(id: &Id, error: &Error) -> Self {
        #[derive(Serialize)]
        struct Failed<'a> {
            id: &'a Id,
            error: Body<'a>,
        }
        #[derive(Serialize)]
        struct Body<'a> {
            kind: &'static str,
            message: &'a str,
            #[serde(skip_serializing_if = "Option::is_none")]
            status: Option<u16>,
            #[serde(skip_serializing_if = "Option::is_none")]
            code: Option<&'a str>,
            #[serde(skip_serializing_if = "Option::is_none")]
            request_id: Option<&'a str>,
            #[serde(skip_serializing_if = "Option::is_none")]
            retry_after_ms: Option<u64>,
            #[serde(skip_serializing_if = "Option::is_none")]
            attempts: Option<u32>,
            #[serde(skip_serializing_if = "Option::is_none")]
            deadline_ms: Option<u64>,
            #[serde(skip_serializing_if = "Option::is_none")]
            phase: Option<&'static str>,
        }
        // Rounded up: a wait of this length must not be too short.
        let ms =
            |wait: Duration| u64::try_from(wait.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX);
        Output::json(&Failed {
            id,
            error: Body {
                kind: error.kind().as_str(),
                message: error.message(),
                status: error.status(),
                code: error.code(),
                request_id: error.request_id(),
                retry_after_ms: error.retry_after().map(ms),
                attempts: Some(error.attempts()).filter(|n| *n > 0),
                deadline_ms: error.deadline().map(ms),
                phase: error.phase().map(Phase::as_str),
            },
        })
    }

    fn into_line(self) -> Vec<u8> {
        match self {
            Output::Line(line) => line,
            Output::Vector(id, all, at) => match (all.get(at), all.get_sparse(at)) {
                (Some(embedding), _) => vector_line(&Dense { id: &id, embedding }),
                (None, Some(sparse)) => vector_line(&Sparse {
                    id: &id,
                    indices: &sparse.indices,
                    values: &sparse.values,
                }),
                (None, None) => vector_line(&Dense {
                    id: &id,
                    embedding: &[],
                }),
            },
        }
    }
}

#[derive(Serialize)]
struct Dense<'a> {
    id: &'a Id,
    embedding: &'a [f32],
}

#[derive(Serialize)]
struct Sparse<'a> {
    id: &'a Id,
    indices: &'a [u32],
    values: &'a [f32],
}

fn vector_line(line: &impl Serialize) -> Vec<u8> {
    Output::json(line).into_line()
}

/// An item's place: while it exists, the item is unwritten and counts against what may be read ahead.
#[derive(Debug)]
pub(crate) struct Ticket {
    /// Its place in the order of the input.
    pub(crate) place: u64,
    /// How many bytes of the input end with it.
    pub(crate) end: u64,
    /// Given back when the item is written.
    pub(crate) _window: Option<OwnedSemaphorePermit>,
}

enum Event {
    /// A line of an item that is not its last.
    Part(u64, Output),
    /// An item's last line and whether it went well; `None` when it stays without one.
    Done(Ticket, Option<(Output, bool)>),
}

/// Where lines are handed in.
#[derive(Clone)]
pub(crate) struct Lines(mpsc::UnboundedSender<Event>);

impl Lines {
    pub(crate) fn part(&self, ticket: &Ticket, line: Output) {
        let _ = self.0.send(Event::Part(ticket.place, line));
    }

    pub(crate) fn ok(&self, ticket: Ticket, line: Output) {
        let _ = self.0.send(Event::Done(ticket, Some((line, true))));
    }

    pub(crate) fn failed(&self, ticket: Ticket, id: &Id, error: &Error) {
        let _ = self
            .0
            .send(Event::Done(ticket, Some((Output::error(id, error), false))));
    }

    /// The item stays unfinished and gets no line.
    pub(crate) fn unfinished(&self, ticket: Ticket) {
        let _ = self.0.send(Event::Done(ticket, None));
    }
}

/// The writing thread.
pub(crate) struct Writer {
    done: oneshot::Receiver<io::Result<()>>,
    stats: Arc<Stats>,
}

impl Writer {
    /// Starts it. When a line can't be written, `halt` is cancelled and nothing more is written.
    pub(crate) fn start(
        sink: Box<dyn Write + Send>,
        unordered: bool,
        stats: Arc<Stats>,
        halt: CancellationToken,
    ) -> (Lines, Self) {
        let (send, mut events) = mpsc::unbounded_channel();
        let (tell, done) = oneshot::channel();
        let counts = Arc::clone(&stats);
        std::thread::spawn(move || {
            let mut order = Order::new(sink, unordered, counts);
            let mut write = || {
                while let Some(event) = events.blocking_recv() {
                    order.take(event)?;
                }
                order.close()
            };
            let written = write();
            if written.is_err() {
                halt.cancel();
            }
            // Dropping the rest of the events lets nobody wait for a ticket.
            drop(events);
            let _ = tell.send(written);
        });
        (Lines(send), Writer { done, stats })
    }

    /// Waits until all is written: every [`Lines`] must be gone. `None` when it was interrupted and got stuck, as with a pipe
    /// that nobody reads: not one line written in [`STUCK`].
    pub(crate) async fn finish(mut self, interrupted: impl Fn() -> bool) -> Option<io::Result<()>> {
        let (mut seen, mut since) = (0, Instant::now());
        loop {
            if let Ok(done) = tokio::time::timeout(STUCK / 10, &mut self.done).await {
                return Some(done.unwrap_or_else(|_| Err(io::Error::other("the writer died"))));
            }
            let lines = self.stats.lines.load(Ordering::Relaxed);
            if lines != seen || !interrupted() {
                (seen, since) = (lines, Instant::now());
            } else if since.elapsed() >= STUCK {
                return None;
            }
        }
    }
}

/// Says why the output ends early.
pub(crate) fn complain(error: &io::Error) {
    match error.kind() {
        ErrorKind::BrokenPipe => crate::say("the output's reader has gone"),
        _ => crate::say(format_args!("the output can't be written: {error}")),
    }
}

/// Puts lines into order.
struct Order<W> {
    sink: W,
    unordered: bool,
    stats: Arc<Stats>,
    /// The place whose turn it is.
    next: u64,
    waiting: BTreeMap<u64, Waiting>,
}

#[derive(Default)]
struct Waiting {
    lines: Vec<Output>,
    /// Once it is done: its ticket and how it went.
    done: Option<(Ticket, Option<bool>)>,
}

impl<W: Write> Order<W> {
    fn new(sink: W, unordered: bool, stats: Arc<Stats>) -> Self {
        Order {
            sink,
            unordered,
            stats,
            next: 0,
            waiting: BTreeMap::new(),
        }
    }

    fn take(&mut self, event: Event) -> io::Result<()> {
        match event {
            Event::Part(place, line) if self.unordered || place == self.next => self.write(line),
            Event::Part(place, line) => {
                self.waiting.entry(place).or_default().lines.push(line);
                Ok(())
            }
            Event::Done(ticket, last) => {
                let (line, went) = last.map_or((None, None), |(line, ok)| (Some(line), Some(ok)));
                if self.unordered {
                    line.map_or(Ok(()), |line| self.write(line))?;
                    self.count(&ticket, went);
                    return Ok(());
                }
                let slot = self.waiting.entry(ticket.place).or_default();
                slot.lines.extend(line);
                slot.done = Some((ticket, went));
                self.advance()
            }
        }
    }

    /// Writes whatever is at its turn.
    fn advance(&mut self) -> io::Result<()> {
        while let Some(slot) = self.waiting.get_mut(&self.next) {
            let lines = std::mem::take(&mut slot.lines);
            let done = slot.done.take();
            for line in lines {
                self.write(line)?;
            }
            let Some((ticket, went)) = done else {
                return Ok(());
            };
            self.waiting.remove(&self.next);
            self.next += 1;
            self.count(&ticket, went);
        }
        Ok(())
    }

    /// Writes what is finished behind gaps: nothing more will come.
    fn close(&mut self) -> io::Result<()> {
        for (_, slot) in std::mem::take(&mut self.waiting) {
            let Some((ticket, went @ Some(_))) = slot.done else {
                continue;
            };
            for line in slot.lines {
                self.write(line)?;
            }
            self.count(&ticket, went);
        }
        Ok(())
    }

    fn write(&mut self, line: Output) -> io::Result<()> {
        let mut line = line.into_line();
        line.push(b'\n');
        self.sink.write_all(&line)?;
        self.sink.flush()?;
        self.stats.lines.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn count(&self, ticket: &Ticket, went: Option<bool>) {
        match went {
            Some(true) => self.stats.ok.fetch_add(1, Ordering::Relaxed),
            Some(false) => self.stats.failed.fetch_add(1, Ordering::Relaxed),
            None => return,
        };
        self.stats.bytes.fetch_max(ticket.end, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use antfly_framework::Kind;

    fn ticket(place: u64) -> Ticket {
        Ticket {
            place,
            end: place,
            _window: None,
        }
    }

    fn text(text: &str) -> Output {
        Output::Line(text.into())
    }

    fn done(place: u64, line: &str) -> Event {
        Event::Done(ticket(place), Some((text(line), true)))
    }

    fn run(unordered: bool, events: Vec<Event>) -> String {
        let mut written = Vec::new();
        let mut order = Order::new(&mut written, unordered, Arc::default());
        for event in events {
            order.take(event).unwrap();
        }
        order.close().unwrap();
        String::from_utf8(written).unwrap().replace('\n', " ")
    }

    #[test]
    fn lines_keep_the_order_of_the_input() {
        let events = || vec![done(2, "c"), done(0, "a"), done(3, "d"), done(1, "b")];
        assert_eq!(run(false, events()), "a b c d ");
        assert_eq!(run(true, events()), "c a d b ");
    }

    #[test]
    fn deltas_are_written_as_they_arrive_when_it_is_their_turn() {
        let mut written = Vec::new();
        let mut order = Order::new(&mut written, false, Arc::default());
        order.take(Event::Part(1, text("b1"))).unwrap();
        order.take(Event::Part(0, text("a1"))).unwrap();
        assert_eq!(order.sink.as_slice(), b"a1\n");
        order.take(done(0, "a")).unwrap();
        assert_eq!(
            order.sink.as_slice(),
            b"a1\na\nb1\n",
            "what waited follows at once"
        );
        order.take(Event::Part(1, text("b2"))).unwrap();
        order.take(done(1, "b")).unwrap();
        order.close().unwrap();
        assert_eq!(written, b"a1\na\nb1\nb2\nb\n");
    }

    #[test]
    fn what_is_finished_behind_a_gap_is_written_in_the_end() {
        let events = vec![
            done(1, "b"),
            Event::Part(2, text("c1")),
            Event::Part(3, text("d1")),
            done(3, "d"),
            Event::Done(ticket(4), None),
            done(5, "f"),
        ];
        assert_eq!(run(false, events), "b d1 d f ");
    }

    #[test]
    fn errors_leave_out_what_is_not_known() {
        let error = Error::new(Kind::RateLimited, "slow down")
            .with_status(429)
            .with_code("rate_limit_exceeded")
            .with_request_id("req_1")
            .with_retry_after(Duration::from_micros(1_499_001))
            .with_attempts(3);
        assert_eq!(
            String::from_utf8(Output::error(&Id::Line(4), &error).into_line()).unwrap(),
            r#"{"id":4,"error":{"kind":"rate_limited","message":"slow down","status":429,"code":"rate_limit_exceeded","request_id":"req_1","retry_after_ms":1500,"attempts":3}}"#
        );
        let error = Error::new(Kind::InvalidRequest, "no");
        assert_eq!(
            String::from_utf8(Output::error(&Id::Line(4), &error).into_line()).unwrap(),
            r#"{"id":4,"error":{"kind":"invalid_request","message":"no"}}"#
        );
    }

    #[test]
    fn numbers_are_written_as_short_as_they_read_back() {
        let all =
            Embeddings::dense(3, vec![0.1, -1.0, 1e-7, 3.402_823_5e38, 0.333_333_34, 0.0]).unwrap();
        let all = Arc::new(all);
        let line = |at| {
            String::from_utf8(Output::Vector(Id::Line(at), all.clone(), at as usize).into_line())
                .unwrap()
        };
        assert_eq!(line(0), r#"{"id":0,"embedding":[0.1,-1.0,1e-7]}"#);
        let back: serde_json::Value = serde_json::from_str(&line(1)).unwrap();
        assert_eq!(back["embedding"][0].as_f64().unwrap() as f32, f32::MAX);
        assert!(line(1).contains("0.33333334,0.0"), "{}", line(1));
    }

    #[test]
    fn a_sparse_vector_has_indices_and_values() {
        let all = Embeddings::sparse(vec![antfly_framework::SparseVector {
            indices: vec![1, 9],
            values: vec![0.5, 0.25],
        }]);
        let line = Output::Vector(Id::Line(0), Arc::new(all), 0).into_line();
        assert_eq!(
            String::from_utf8(line).unwrap(),
            r#"{"id":0,"indices":[1,9],"values":[0.5,0.25]}"#
        );
    }

    #[tokio::test]
    async fn a_sink_that_fails_halts_everything() {
        struct Full;
        impl Write for Full {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(ErrorKind::BrokenPipe.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let halt = CancellationToken::new();
        let (lines, writer) = Writer::start(Box::new(Full), false, Arc::default(), halt.clone());
        lines.ok(ticket(0), text("a"));
        drop(lines);
        let written = writer.finish(|| false).await.unwrap();
        assert_eq!(written.unwrap_err().kind(), ErrorKind::BrokenPipe);
        assert!(halt.is_cancelled());
    }

    #[tokio::test]
    async fn a_sink_that_takes_nothing_is_given_up_only_when_interrupted() {
        struct Stuck(std::sync::mpsc::Receiver<()>);
        impl Write for Stuck {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                let _ = self.0.recv();
                Ok(bytes.len())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let start = || {
            let (free, stuck) = std::sync::mpsc::channel();
            let halt = CancellationToken::new();
            let sink = Box::new(Stuck(stuck));
            let (lines, writer) = Writer::start(sink, false, Arc::default(), halt);
            lines.ok(ticket(0), text("a"));
            (free, writer)
        };
        let (free, writer) = start();
        assert!(writer.finish(|| true).await.is_none());
        drop(free);
        let (free, writer) = start();
        let waiting = writer.finish(|| false);
        let mut waiting = std::pin::pin!(waiting);
        let early = tokio::time::timeout(STUCK * 3 / 2, waiting.as_mut()).await;
        assert!(early.is_err());
        drop(free);
        assert!(waiting.await.unwrap().is_ok());
    }
}
