//! Where a stream's events come from: an HTTP body cut into frames and decoded, an engine's own stream, or a whole answer.

use std::collections::VecDeque;
use std::time::Duration;

use antfly_limiter::Time;
use futures::StreamExt as _;
use futures::stream::BoxStream;

use crate::config::EntryConfig;
use crate::error::{Error, Kind, Result};
use crate::generate::StreamEvent;
use crate::http::{ERROR_BODY_BYTES, EventStreamParser, LineParser, ResponseBody};
use crate::provider::{Flow, Frame, Framing, StreamDecoder};

/// Where a stream's events come from.
pub(super) enum Source {
    Http(Box<HttpEvents>),
    /// Decoded elsewhere: by a vendor's SDK, or made by a model in this process.
    Engine(EngineEvents),
    Whole(VecDeque<StreamEvent>),
}

impl Source {
    /// More events into `ready`; `false` when the stream has ended well.
    pub(super) async fn more(&mut self, ready: &mut VecDeque<StreamEvent>) -> Result<bool> {
        match self {
            Source::Http(http) => http.more(ready).await,
            Source::Engine(engine) => engine.more(ready).await,
            Source::Whole(events) => {
                ready.append(events);
                Ok(false)
            }
        }
    }
}

/// The events of an engine's own stream.
pub(super) struct EngineEvents {
    events: BoxStream<'static, Result<StreamEvent>>,
    finished: bool,
    idle: Duration,
    time: Time,
}

impl EngineEvents {
    pub(super) fn new(
        events: BoxStream<'static, Result<StreamEvent>>,
        idle: Duration,
        time: Time,
    ) -> Self {
        EngineEvents {
            events,
            finished: false,
            idle,
            time,
        }
    }

    /// From now on, silence for so long is an error.
    pub(super) fn bound_silence(&mut self, idle: Duration) {
        self.idle = idle;
    }

    async fn more(&mut self, ready: &mut VecDeque<StreamEvent>) -> Result<bool> {
        let until = self.time.now().saturating_add(self.idle);
        match self.time.timeout_at(until, self.events.next()).await {
            Ok(Some(Err(e))) if self.finished && e.kind() == Kind::StreamInterrupted => Ok(false),
            Ok(Some(event)) => {
                let event = event?;
                self.finished |= is_finish(&event);
                ready.push_back(event);
                Ok(true)
            }
            Ok(None) => Ok(false),
            Err(_) if self.finished => Ok(false),
            Err(_) => Err(silent(self.idle)),
        }
    }
}

fn is_finish(event: &StreamEvent) -> bool {
    matches!(event, StreamEvent::Finish { .. })
}

fn silent(idle: Duration) -> Error {
    Error::new(
        Kind::StreamInterrupted,
        format!("the provider sent nothing for {idle:?} (stream_idle_timeout_ms)"),
    )
}

/// Cuts a body into frames, by the wire's own rule.
enum FrameParser {
    EventStream(EventStreamParser),
    Lines(LineParser),
}

impl FrameParser {
    fn new(framing: Framing, max_event_bytes: usize) -> Self {
        match framing {
            Framing::EventStream => {
                FrameParser::EventStream(EventStreamParser::new(max_event_bytes))
            }
            Framing::Lines => FrameParser::Lines(LineParser::new(max_event_bytes)),
        }
    }

    /// More bytes, or (`None`) the end of the body.
    fn feed(&mut self, chunk: Option<&[u8]>, out: &mut Vec<Frame>) -> Result<()> {
        match (self, chunk) {
            (FrameParser::EventStream(p), Some(chunk)) => p.push(chunk, out),
            (FrameParser::EventStream(p), None) => p.finish(out),
            (FrameParser::Lines(p), Some(chunk)) => p.push(chunk, out),
            (FrameParser::Lines(p), None) => p.finish(out),
        }
    }
}

/// The events of an HTTP body.
pub(super) struct HttpEvents {
    body: Option<ResponseBody>,
    parser: FrameParser,
    decoder: Box<dyn StreamDecoder>,
    frames: Vec<Frame>,
    /// The beginning of the body as long as no event has been found in it: what is said when there is none at all.
    unframed: Option<Vec<u8>>,
    /// Whether the answer has come to its end. What is still to come of the stream adds nothing to it but what it cost: a connection
    /// that breaks, or a server that says no more, takes nothing away.
    finished: bool,
    idle: Duration,
    time: Time,
}

impl HttpEvents {
    pub(super) fn new(
        body: ResponseBody,
        framing: Framing,
        decoder: Box<dyn StreamDecoder>,
        bounds: &EntryConfig,
        time: Time,
    ) -> Self {
        HttpEvents {
            body: Some(body),
            parser: FrameParser::new(framing, bounds.max_event_bytes),
            decoder,
            frames: Vec::new(),
            unframed: Some(Vec::new()),
            finished: false,
            idle: bounds.stream_idle_timeout,
            time,
        }
    }

    pub(super) async fn more(&mut self, ready: &mut VecDeque<StreamEvent>) -> Result<bool> {
        let Some(body) = &mut self.body else {
            return Ok(false);
        };
        // Armed only while the provider is waited for: a slow consumer is not the provider's silence.
        let until = self.time.now().saturating_add(self.idle);
        let (chunk, cut) = match self.time.timeout_at(until, body.chunk()).await {
            Ok(Ok(chunk)) => (chunk, false),
            // What came before it, and was not yet read as an event, still counts: it may be what the answer cost.
            Ok(Err(_)) | Err(_) if self.finished => (None, true),
            Ok(Err(broken)) => {
                return Err(Error::new(
                    Kind::StreamInterrupted,
                    format!("the stream broke: {}", broken.message()),
                )
                .with_source(broken));
            }
            Err(_) => return Err(silent(self.idle)),
        };
        let mut out = Vec::new();
        let parsed = self.parser.feed(chunk.as_deref(), &mut self.frames);
        if !self.frames.is_empty() {
            self.unframed = None;
        } else if let (Some(seen), Some(chunk)) = (&mut self.unframed, &chunk) {
            let room = ERROR_BODY_BYTES.saturating_sub(seen.len());
            seen.extend_from_slice(&chunk[..chunk.len().min(room)]);
        }
        let mut flow = Flow::Continue;
        let mut failed = None;
        for frame in self.frames.drain(..) {
            match self.decoder.push(frame, &mut out) {
                Ok(Flow::Continue) => {}
                Ok(Flow::Done) => {
                    flow = Flow::Done;
                    break;
                }
                Err(e) => {
                    failed = Some(e);
                    break;
                }
            }
        }
        if flow == Flow::Continue && failed.is_none() {
            failed = parsed.err();
        }
        let ended = flow == Flow::Done || chunk.is_none();
        if chunk.is_none() && flow == Flow::Continue && failed.is_none() {
            failed = self.decoder.end(&mut out).err();
        }
        self.finished |= out.iter().any(is_finish);
        ready.extend(out);
        if ended || failed.is_some() {
            self.body = None;
        }
        match failed {
            Some(e) if !cut => Err(e),
            _ => Ok(!ended),
        }
    }
}

/// Events decoded but not yet handed out, and where more come from.
pub(super) struct Events {
    pub(super) source: Option<Source>,
    pub(super) ready: VecDeque<StreamEvent>,
    pub(super) failed: Option<Error>,
}

impl Events {
    pub(super) fn of(source: Source) -> Self {
        Events {
            source: Some(source),
            ready: VecDeque::new(),
            failed: None,
        }
    }

    /// The body's beginning, when it held no event.
    pub(super) fn unframed(&mut self) -> Option<Vec<u8>> {
        match &mut self.source {
            Some(Source::Http(http)) => http.unframed.take(),
            _ => None,
        }
    }

    /// Reads until something a consumer can see is there. What failed before that is the attempt's failure (a local call's).
    pub(super) async fn first_item(&mut self) -> Result<()> {
        while let Some(source) = &mut self.source {
            let more = source.more(&mut self.ready).await;
            match more {
                Ok(true) => {}
                Ok(false) => self.source = None,
                Err(e) if self.ready.iter().any(StreamEvent::is_item) => {
                    // Text came in the same bytes as the failure: hand it out first.
                    self.source = None;
                    self.failed = Some(e);
                }
                Err(e) => return Err(e),
            }
            if self.ready.iter().any(StreamEvent::is_item) {
                break;
            }
        }
        Ok(())
    }

    pub(super) async fn next(&mut self) -> Option<Result<StreamEvent>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(Ok(event));
            }
            if let Some(e) = self.failed.take() {
                return Some(Err(e));
            }
            match self.source.as_mut()?.more(&mut self.ready).await {
                Ok(true) => {}
                Ok(false) => self.source = None,
                Err(e) => {
                    self.source = None;
                    self.failed = Some(e);
                }
            }
        }
    }
}
