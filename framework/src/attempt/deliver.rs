//! What is done with a successful head: read a whole answer, or open a stream that carries the permit.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use futures::stream::BoxStream;

use super::events::{EngineEvents, Events, HttpEvents, Source};
use super::{Call, Held, Loaded, Outcome, with_hint};
use crate::client::Bound;
use crate::error::{Error, Kind, Result};
use crate::generate::{GenerateRequest, GenerateStream, Generation, StreamEvent, ToolCallDelta};
use crate::handle::Handle;
use crate::http::{ResponseBody, read_bounded, unexpected_body};
use crate::provider::{GenerateCodec, Head, Route};

/// An answer whose head says success.
pub(crate) enum Incoming {
    Http(Head, ResponseBody),
    Bytes(Head, Bytes),
    Events(Head, BoxStream<'static, Result<StreamEvent>>),
}

/// Turns a success into the call's answer. An error is the attempt's failure.
pub(crate) trait Deliver {
    type Output;
    async fn deliver(
        &self,
        call: &Call,
        incoming: Incoming,
        held: &Arc<Held>,
        loaded: &Loaded,
    ) -> Result<Self::Output>;
}

/// A plain answer, decoded when its body is complete.
pub(crate) struct Plain<F>(pub(crate) F);

impl<T, F: Fn(&Head, Bytes) -> Result<T>> Deliver for Plain<F> {
    type Output = T;

    async fn deliver(
        &self,
        call: &Call,
        incoming: Incoming,
        held: &Arc<Held>,
        _loaded: &Loaded,
    ) -> Result<T> {
        let (head, body) = whole(call, incoming).await?;
        let answer = (self.0)(&head, body).map_err(|e| in_band(e, &head))?;
        held.set_outcome(Outcome::Ok);
        Ok(answer)
    }
}

async fn whole(call: &Call, incoming: Incoming) -> Result<(Head, Bytes)> {
    match incoming {
        Incoming::Http(head, body) => {
            let bytes = read(call, &head, body).await?;
            Ok((head, bytes))
        }
        Incoming::Bytes(head, body) => Ok((head, body)),
        Incoming::Events(..) => Err(Error::new(
            Kind::InvalidResponse,
            "the engine answered a plain call with a stream",
        )),
    }
}

async fn read(call: &Call, head: &Head, body: ResponseBody) -> Result<Bytes> {
    read_bounded(body, call.handle.entry.max_response_bytes)
        .await
        // The answer had begun: sending it again could run it twice.
        .map_err(|e| e.with_status(head.status).with_retryable(false))
}

/// A proxy's page in place of an answer.
fn page(head: &Head, body: &[u8]) -> Error {
    let status = http::StatusCode::from_u16(head.status).unwrap_or(http::StatusCode::OK);
    unexpected_body(
        status,
        &head.headers,
        body,
        "the answer is a page and not a stream",
    )
}

/// An error found inside a success keeps the status of the exchange and the hint of its head.
fn in_band(error: Error, head: &Head) -> Error {
    let error = match error.status() {
        Some(_) => error,
        None => error.with_status(head.status),
    };
    with_hint(error, head)
}

/// A streamed answer: delivered once its first item is there, so that an early failure is still the attempt's.
pub(crate) struct Streamed<'a> {
    pub(crate) request: &'a GenerateRequest,
    /// The caller's own bound, which also covers what comes after the first item.
    pub(crate) bound: Option<Bound>,
}

impl Deliver for Streamed<'_> {
    type Output = GenerateStream;

    async fn deliver(
        &self,
        call: &Call,
        incoming: Incoming,
        held: &Arc<Held>,
        loaded: &Loaded,
    ) -> Result<GenerateStream> {
        let handle = &call.handle;
        let provider = Arc::clone(&handle.provider);
        let codec = match provider.route() {
            Route::Http(http) => http.generate(),
            Route::Engine(engine) => engine.generate(),
            Route::Local(_) => None,
        }
        .ok_or_else(|| Error::new(Kind::Unsupported, "this provider does not generate"))?;
        let (head, source) = match incoming {
            Incoming::Http(head, body) if head.content_type() == "application/json" => {
                let bytes = read(call, &head, body).await?;
                let source = self.replay(codec, &head, bytes)?;
                (head, source)
            }
            Incoming::Http(head, body) => {
                let source = Source::Http(Box::new(HttpEvents::new(
                    body,
                    codec.framing(),
                    codec.stream_decoder(&head, self.request),
                    &handle.entry,
                    handle.time.clone(),
                )));
                (head, source)
            }
            Incoming::Bytes(head, body) => {
                let source = self.replay(codec, &head, body)?;
                (head, source)
            }
            Incoming::Events(head, events) => (
                head,
                Source::Engine(EngineEvents::new(
                    events,
                    handle.entry.stream_idle_timeout,
                    handle.time.clone(),
                )),
            ),
        };
        let request_id = match provider.route() {
            Route::Http(http) => http.request_id(&head),
            Route::Engine(engine) => engine.request_id(&head),
            Route::Local(_) => None,
        };
        let mut events = Events::of(source);
        if let Err(e) = events.first_item().await {
            match events
                .unframed()
                .map(|b| (b.trim_ascii_start().first().copied(), b))
            {
                // A page where a stream was promised.
                Some((Some(b'<'), body)) => return Err(page(&head, &body)),
                // One JSON answer (an error, mostly) under a stream's content type, or under none.
                Some((Some(b'{'), body)) if e.kind() == Kind::StreamInterrupted => {
                    events = Events::of(self.replay(codec, &head, Bytes::from(body))?);
                    events.first_item().await?;
                }
                _ => return Err(in_band(e, &head)),
            }
        }
        let call = Call::new(
            Arc::clone(&call.handle),
            self.bound.unwrap_or(Bound::NONE),
            call.cancel.clone(),
        )
        .having_sent(held.number());
        let carried = Carried {
            events,
            call,
            loaded: loaded.clone(),
            head,
            held: Arc::clone(held),
        };
        Ok(GenerateStream::new(carried.into_stream(), request_id))
    }
}

impl Streamed<'_> {
    /// A server that answered a streamed request in one piece: its answer, as events.
    fn replay(&self, codec: &dyn GenerateCodec, head: &Head, body: Bytes) -> Result<Source> {
        let whole = codec
            .decode(head, body, self.request)
            .map_err(|e| in_band(e, head))?;
        Ok(Source::Whole(events_of(whole)))
    }
}

fn events_of(whole: Generation) -> VecDeque<StreamEvent> {
    let mut out = VecDeque::new();
    if whole.id.is_some() || whole.model.is_some() {
        out.push_back(StreamEvent::Meta {
            id: whole.id,
            model: whole.model,
        });
    }
    out.extend(
        whole
            .reasoning
            .filter(|t| !t.is_empty())
            .map(StreamEvent::Reasoning),
    );
    if !whole.text.is_empty() {
        out.push_back(StreamEvent::Text(whole.text));
    }
    out.extend(whole.tool_calls.into_iter().enumerate().map(|(index, c)| {
        StreamEvent::ToolCall(ToolCallDelta {
            index,
            id: Some(c.id),
            name: Some(c.name),
            arguments: c.arguments,
        })
    }));
    out.extend(whole.usage.map(StreamEvent::Usage));
    if let Some(reason) = whole.finish_reason {
        let raw = whole
            .raw_finish_reason
            .unwrap_or_else(|| reason.as_str().to_owned());
        out.push_back(StreamEvent::Finish { reason, raw });
    }
    out
}

/// A stream and what it carries. Fields are dropped in order: the connection first, the permit last.
struct Carried {
    events: Events,
    call: Call,
    loaded: Loaded,
    head: Head,
    held: Arc<Held>,
}

impl Carried {
    fn into_stream(self) -> BoxStream<'static, Result<StreamEvent>> {
        self.held.set_outcome(Outcome::Ok);
        futures::stream::unfold(self, |mut carried| async move {
            let next = carried.step().await?;
            Some((next, carried))
        })
        .boxed()
    }

    async fn step(&mut self) -> Option<Result<StreamEvent>> {
        if let Some(event) = self.events.ready.pop_front() {
            return Some(Ok(event));
        }
        let events = &mut self.events;
        let next = self
            .call
            .within(pin!(async { Ok(events.next().await) }))
            .await;
        match next {
            Ok(None) => None,
            Ok(Some(Ok(event))) => Some(Ok(event)),
            Ok(Some(Err(error))) => {
                let error = in_band(error, &self.head);
                self.call.heed_error(&error);
                let error = self.call.handle.scrub(error, &self.loaded.credential);
                Some(Err(self.fail(error)))
            }
            Err(error) => Some(Err(self.fail(error))),
        }
    }

    fn fail(&mut self, error: Error) -> Error {
        self.held.set_outcome(Outcome::Error);
        self.events.source = None;
        // Some of the answer has been handed out: sending it again would say it twice.
        self.call.name(error.with_retryable(false))
    }
}

/// Reads a local stream up to its first item, which the call's deadline covers: until then a model may wait its turn or read a long
/// prompt, and its silence is none. An error is the call's failure.
pub(crate) async fn open_local_stream(
    events: BoxStream<'static, Result<StreamEvent>>,
    handle: &Handle,
) -> Result<LocalEvents> {
    let events = EngineEvents::new(events, Duration::MAX, handle.time.clone());
    let mut events = Events::of(Source::Engine(events));
    events.first_item().await?;
    if let Some(Source::Engine(engine)) = &mut events.source {
        engine.bound_silence(handle.entry.stream_idle_timeout);
    }
    Ok(LocalEvents(events))
}

/// A local stream that has begun.
pub(crate) struct LocalEvents(Events);

/// The rest of a local stream, as of any other: under the caller's own deadline, its cancellation and the entry's idle timeout. Its
/// permit is the model's own.
pub(crate) fn guard_local_stream(events: LocalEvents, call: Call) -> GenerateStream {
    let stream = futures::stream::unfold((events.0, call), |(mut events, call)| async move {
        // An item that is there is there, whatever the time.
        while let Some(event) = events.ready.pop_front() {
            if event != StreamEvent::SIGN_OF_LIFE {
                return Some((Ok(event), (events, call)));
            }
        }
        let next = call
            .within(pin!(async {
                loop {
                    match events.next().await {
                        Some(Ok(event)) if event == StreamEvent::SIGN_OF_LIFE => {}
                        next => return Ok(next),
                    }
                }
            }))
            .await;
        match next {
            Ok(None) => None,
            Ok(Some(Ok(event))) => Some((Ok(event), (events, call))),
            // Some of the answer has been handed out: asked for again it would be said twice.
            Ok(Some(Err(e))) | Err(e) => {
                Some((Err(call.name(e.with_retryable(false))), (events, call)))
            }
        }
    })
    .boxed();
    GenerateStream::new(stream, None)
}
