//! ConverseStream's events, and what ends it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use antfly_framework::generate::{FinishReason, StreamEvent, ToolCallDelta, Usage};
use antfly_framework::http::causes;
use antfly_framework::{Error, Kind, Result};
use aws_sdk_bedrockruntime::error::SdkError;
use aws_sdk_bedrockruntime::types::error::ConverseStreamOutputError;
use aws_sdk_bedrockruntime::types::{
    ContentBlockDelta, ContentBlockStart, ConverseStreamOutput, ReasoningContentBlockDelta,
    TokenUsage,
};
use aws_smithy_types::event_stream::{Message, RawMessage};
use futures::stream::BoxStream;
use futures::{FutureExt as _, StreamExt as _};
use tracing::instrument::WithSubscriber as _;
use tracing::subscriber::NoSubscriber;

use super::super::error;
use super::super::pass::{Seen, lock};

type Receiver = aws_sdk_bedrockruntime::primitives::event_stream::EventReceiver<
    ConverseStreamOutput,
    ConverseStreamOutputError,
>;
type Broken = SdkError<ConverseStreamOutputError, RawMessage>;

/// The SDK's events as the framework's. Dropping it closes the connection and ends the attempt.
pub(in crate::bedrock) fn events(
    receiver: Receiver,
    seen: Arc<Mutex<Seen>>,
) -> BoxStream<'static, Result<StreamEvent>> {
    let reader = Reader {
        receiver,
        seen,
        decoder: Decoder::default(),
        ready: VecDeque::new(),
        ended: false,
    };
    futures::stream::unfold(reader, |mut reader| async move {
        // The SDK logs events whole: it is not heard here either.
        let next = reader.next().with_subscriber(NoSubscriber::new()).await?;
        Some((next, reader))
    })
    .boxed()
}

/// The SDK's stand-in for a required word that is missing.
const NOTHING_SENT: &str = "no value was set";

struct Reader {
    receiver: Receiver,
    seen: Arc<Mutex<Seen>>,
    decoder: Decoder,
    ready: VecDeque<StreamEvent>,
    ended: bool,
}

impl Reader {
    async fn next(&mut self) -> Option<Result<StreamEvent>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(Ok(event));
            }
            if self.ended {
                return None;
            }
            match self.receiver.recv().await {
                Ok(Some(event)) => {
                    self.decoder.push(event, &mut self.ready);
                    if self.decoder.finished && self.decoder.counted {
                        // Nothing follows it. The body's end is most likely here too: seen, the connection can be used again.
                        let _ = self.receiver.recv().now_or_never();
                        self.ended = true;
                    }
                }
                Ok(None) => {
                    self.ended = true;
                    if !self.decoder.finished {
                        return Some(Err(interrupted("the stream ended before its message did")));
                    }
                }
                Err(broken) => {
                    self.ended = true;
                    let told = lock(&self.seen).failure.take();
                    match failure(&broken, told) {
                        // The message had ended: what broke afterwards, or can't be read, takes nothing away from it.
                        _ if self.decoder.finished && !is_exception(&broken) => {
                            return None;
                        }
                        e => return Some(Err(e)),
                    }
                }
            }
        }
    }
}

fn interrupted(what: impl Into<String>) -> Error {
    Error::new(Kind::StreamInterrupted, what)
}

/// What broke a stream: an exception the service sent, what the pass saw, or a frame that can't be read.
fn failure(broken: &Broken, told: Option<Error>) -> Error {
    if let Some(message) = sent(broken) {
        let header = |name| header(message, name);
        match header(":message-type") {
            Some("exception") => {
                return error::exception(header(":exception-type"), message.payload(), None);
            }
            Some("error") => {
                return error::exception(
                    header(":error-code"),
                    message.payload(),
                    header(":error-message"),
                );
            }
            _ => {
                return Error::new(
                    Kind::InvalidResponse,
                    format!("an event can't be read: {}", causes(broken)),
                );
            }
        }
    }
    told.unwrap_or_else(|| interrupted(format!("the stream broke: {}", causes(broken))))
}

/// Whether the service itself ended the stream.
fn is_exception(broken: &Broken) -> bool {
    let kind = sent(broken).and_then(|message| header(message, ":message-type"));
    matches!(kind, Some("exception" | "error"))
}

/// The whole message that something is wrong with.
fn sent(broken: &Broken) -> Option<&Message> {
    match broken {
        SdkError::ServiceError(context) => decoded(context.raw()),
        SdkError::ResponseError(context) => decoded(context.raw()),
        _ => None,
    }
}

fn header<'a>(message: &'a Message, name: &str) -> Option<&'a str> {
    let mut headers = message.headers().iter();
    let header = headers.find(|header| header.name().as_str() == name)?;
    Some(header.value().as_string().ok()?.as_str())
}

fn decoded(raw: &RawMessage) -> Option<&Message> {
    match raw {
        RawMessage::Decoded(message) => Some(message),
        _ => None,
    }
}

/// From the service's events to the framework's.
#[derive(Debug, Default)]
struct Decoder {
    /// The content blocks that are tool calls, in the order they began.
    tools: Vec<i32>,
    /// Whether the message has ended.
    finished: bool,
    /// Whether the metadata has come. It follows the message's end, and nothing follows it.
    counted: bool,
}

impl Decoder {
    fn push(&mut self, event: ConverseStreamOutput, out: &mut VecDeque<StreamEvent>) {
        match event {
            ConverseStreamOutput::ContentBlockStart(start) => {
                if let Some(ContentBlockStart::ToolUse(tool)) = start.start {
                    out.push_back(StreamEvent::ToolCall(ToolCallDelta {
                        index: self.tool(start.content_block_index),
                        id: Some(tool.tool_use_id),
                        name: Some(tool.name),
                        arguments: String::new(),
                    }));
                }
            }
            ConverseStreamOutput::ContentBlockDelta(delta) => match delta.delta {
                Some(ContentBlockDelta::Text(text)) if !text.is_empty() => {
                    out.push_back(StreamEvent::Text(text))
                }
                Some(ContentBlockDelta::ToolUse(tool)) if !tool.input.is_empty() => {
                    out.push_back(StreamEvent::ToolCall(ToolCallDelta {
                        index: self.tool(delta.content_block_index),
                        arguments: tool.input,
                        ..ToolCallDelta::default()
                    }));
                }
                Some(ContentBlockDelta::ReasoningContent(ReasoningContentBlockDelta::Text(
                    text,
                ))) if !text.is_empty() => {
                    out.push_back(StreamEvent::Reasoning(text));
                }
                _ => {}
            },
            ConverseStreamOutput::MessageStop(stop) => {
                let raw = stop.stop_reason.as_str().to_owned();
                self.finished = true;
                // What the SDK puts where nothing was sent is no word of the provider's.
                if raw != NOTHING_SENT {
                    out.push_back(StreamEvent::Finish {
                        reason: FinishReason::from_word(&raw),
                        raw,
                    });
                }
            }
            ConverseStreamOutput::Metadata(metadata) => {
                self.counted = true;
                out.extend(
                    metadata
                        .usage
                        .as_ref()
                        .map(|u| StreamEvent::Usage(usage(u))),
                );
            }
            _ => {}
        }
    }

    /// The place of a block among the tool calls: blocks are counted together with texts.
    fn tool(&mut self, block: i32) -> usize {
        match self.tools.iter().position(|known| *known == block) {
            Some(at) => at,
            None => {
                self.tools.push(block);
                self.tools.len() - 1
            }
        }
    }
}

fn usage(usage: &TokenUsage) -> Usage {
    let count = |n: i32| u64::try_from(n).ok();
    Usage {
        input_tokens: count(usage.input_tokens),
        output_tokens: count(usage.output_tokens),
        total_tokens: count(usage.total_tokens),
        cached_input_tokens: usage.cache_read_input_tokens.and_then(count),
        reasoning_tokens: None,
    }
}
