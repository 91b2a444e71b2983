//! A streamed generation: events as they arrive, and the permit that lives until the consumer is done.

use std::pin::Pin;
use std::task::{Context, Poll};

use futures::Stream;
use futures::stream::BoxStream;

use super::answer::{FinishReason, Generation, Usage};
use super::request::ToolCall;
use crate::error::{Error, Kind, Result};

/// One event of a stream.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum StreamEvent {
    /// Text, never empty.
    Text(String),
    /// Reasoning text, never empty.
    Reasoning(String),
    /// A piece of a tool call.
    ToolCall(ToolCallDelta),
    /// What the provider counted so far.
    Usage(Usage),
    /// Ids from the answer.
    Meta {
        /// The id inside the answer.
        id: Option<String>,
        /// The model, as it names itself.
        model: Option<String>,
    },
    /// Why it ended, with the provider's own word.
    Finish {
        /// Normalised.
        reason: FinishReason,
        /// As sent.
        raw: String,
    },
}

impl StreamEvent {
    /// An event that says nothing: as a comment is in an event stream, it shows that a model in this process works, and its caller is
    /// not told of it.
    pub const SIGN_OF_LIFE: StreamEvent = StreamEvent::Meta {
        id: None,
        model: None,
    };

    /// Whether this is something a consumer sees as progress (text, reasoning, a tool call or the end).
    pub fn is_item(&self) -> bool {
        !matches!(self, StreamEvent::Usage(_) | StreamEvent::Meta { .. })
    }
}

/// A piece of a tool call. Pieces with the same `index` belong together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolCallDelta {
    /// Which call, 0-based.
    pub index: usize,
    /// The call's id, in its first piece.
    pub id: Option<String>,
    /// The tool, in its first piece.
    pub name: Option<String>,
    /// More of the arguments' JSON text.
    pub arguments: String,
}

/// Puts events together into a [`Generation`]. Nothing is handed out as complete before the stream has ended well.
#[derive(Debug, Default)]
pub struct Accumulator {
    generation: Generation,
    calls: Vec<(usize, ToolCall)>,
}

impl Accumulator {
    /// Adds one event.
    pub fn push(&mut self, event: &StreamEvent) {
        let g = &mut self.generation;
        match event {
            StreamEvent::Text(text) => g.text.push_str(text),
            StreamEvent::Reasoning(text) => {
                g.reasoning.get_or_insert_default().push_str(text);
            }
            StreamEvent::ToolCall(delta) => {
                let at = match self.calls.iter().position(|(i, _)| *i == delta.index) {
                    Some(at) => at,
                    None => {
                        let empty = ToolCall {
                            id: String::new(),
                            name: String::new(),
                            arguments: String::new(),
                        };
                        self.calls.push((delta.index, empty));
                        self.calls.len() - 1
                    }
                };
                let call = &mut self.calls[at].1;
                if let Some(id) = &delta.id {
                    call.id.clone_from(id);
                }
                if let Some(name) = &delta.name {
                    call.name.clone_from(name);
                }
                call.arguments.push_str(&delta.arguments);
            }
            StreamEvent::Usage(usage) => g.usage = Some(*usage),
            StreamEvent::Meta { id, model } => {
                if id.is_some() {
                    g.id.clone_from(id);
                }
                if model.is_some() {
                    g.model.clone_from(model);
                }
            }
            StreamEvent::Finish { reason, raw } => {
                g.finish_reason = Some(reason.clone());
                g.raw_finish_reason = Some(raw.clone());
            }
        }
    }

    /// The whole answer, once the stream has ended without an error.
    pub fn finish(mut self) -> Generation {
        self.calls.sort_by_key(|(index, _)| *index);
        self.generation.tool_calls = self.calls.into_iter().map(|(_, call)| call).collect();
        self.generation
    }
}

/// A stream of [`StreamEvent`]s.
///
/// Holds its attempt's permit until it has been polled to the end (`None`) or is dropped. After an error nothing more comes.
pub struct GenerateStream {
    events: Option<BoxStream<'static, Result<StreamEvent>>>,
    request_id: Option<String>,
}

impl GenerateStream {
    pub(crate) fn new(
        events: BoxStream<'static, Result<StreamEvent>>,
        request_id: Option<String>,
    ) -> Self {
        GenerateStream {
            events: Some(events),
            request_id,
        }
    }

    /// The provider's id of the request.
    pub fn request_id(&self) -> Option<&str> {
        self.request_id.as_deref()
    }

    /// The next event.
    pub async fn next(&mut self) -> Option<Result<StreamEvent>> {
        std::future::poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }

    /// Reads to the end and gives the whole answer.
    pub async fn collect_generation(mut self) -> Result<Generation> {
        let mut all = Accumulator::default();
        while let Some(event) = self.next().await {
            all.push(&event?);
        }
        let mut generation = all.finish();
        generation.request_id = self.request_id.clone();
        Ok(generation)
    }

    /// Writes the text to `sink` as it arrives, each delta followed by a flush, and gives the whole answer. The permit is
    /// held until the last write and flush are done or the sink fails: it goes with the stream's end, which is polled after.
    pub async fn write_to<W>(mut self, sink: &mut W) -> Result<Generation>
    where
        W: tokio::io::AsyncWrite + Unpin + ?Sized,
    {
        use tokio::io::AsyncWriteExt as _;
        let mut all = Accumulator::default();
        while let Some(event) = self.next().await {
            let event = event?;
            if let StreamEvent::Text(text) = &event {
                let written = async {
                    sink.write_all(text.as_bytes()).await?;
                    sink.flush().await
                };
                written.await.map_err(|e| {
                    Error::new(Kind::StreamInterrupted, format!("the sink failed: {e}"))
                        .with_source(e)
                })?;
            }
            all.push(&event);
        }
        let mut generation = all.finish();
        generation.request_id = self.request_id.clone();
        Ok(generation)
    }
}

impl Stream for GenerateStream {
    type Item = Result<StreamEvent>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Some(events) = &mut self.events else {
            return Poll::Ready(None);
        };
        let next = std::task::ready!(events.as_mut().poll_next(cx));
        if !matches!(next, Some(Ok(_))) {
            self.events = None;
        }
        Poll::Ready(next)
    }
}

impl std::fmt::Debug for GenerateStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GenerateStream")
            .field("request_id", &self.request_id)
            .field("ended", &self.events.is_none())
            .finish()
    }
}
