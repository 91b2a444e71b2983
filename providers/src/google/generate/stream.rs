//! A streamed answer, chunk by chunk. The wire has no end mark: the body ends after the chunk with the finish reason.

use antfly_framework::generate::{FinishReason, StreamEvent, ToolCallDelta, Usage};
use antfly_framework::provider::{Flow, Frame, Head, StreamDecoder};
use antfly_framework::{Error, Kind, Result};

use super::chunk::{Candidate, Chunk, Part, WireUsage};
use super::{answer, finish};
use crate::google::error::{in_band, unreadable};
use crate::refusal::is_error;

/// The state of one stream.
#[derive(Debug)]
pub(crate) struct Decoder {
    head: Head,
    /// The answer's own id.
    id: Option<String>,
    /// Whether ids have been handed out.
    named: bool,
    /// Whether a chunk was seen at all.
    began: bool,
    /// Whether text has been handed out.
    spoke: bool,
    calls: usize,
    usage: Option<Usage>,
    /// The last finish reason seen. Some models say `STOP` in every chunk: only the end of the body makes it the answer's.
    finish: Option<String>,
}

impl Decoder {
    pub(crate) fn new(head: &Head) -> Self {
        Decoder {
            head: head.clone(),
            id: None,
            named: false,
            began: false,
            spoke: false,
            calls: 0,
            usage: None,
            finish: None,
        }
    }

    fn chunk(&mut self, chunk: Chunk, out: &mut Vec<StreamEvent>) -> Result<()> {
        if is_error(&chunk.error) {
            return Err(in_band(&self.head, &chunk.error));
        }
        self.began = true;
        let (id, model) = (chunk.response_id.0, chunk.model_version.0);
        if !self.named && (id.is_some() || model.is_some()) {
            self.named = true;
            self.id.clone_from(&id);
            out.push(StreamEvent::Meta { id, model });
        }
        if let Some(usage) = chunk.usage_metadata.and_then(WireUsage::into_usage) {
            self.usage = Some(usage);
            out.push(StreamEvent::Usage(usage));
        }
        let candidate = answer::first(chunk.candidates.0);
        match (candidate, chunk.prompt_feedback) {
            (candidate, Some(feedback)) if answer::is_block(candidate.as_ref(), &feedback) => {
                Err(self.name(finish::prompt_blocked(feedback, self.usage)))
            }
            (Some(candidate), _) => self.candidate(candidate, out),
            // It only counts.
            (None, _) => Ok(()),
        }
    }

    fn candidate(&mut self, candidate: Candidate, out: &mut Vec<StreamEvent>) -> Result<()> {
        for part in candidate.content.map(|c| c.parts.0).unwrap_or_default() {
            self.part(part, out);
        }
        let Some(raw) = candidate.finish_reason.0 else {
            return Ok(());
        };
        let reason = finish::reason(&raw, self.calls > 0);
        if reason == FinishReason::ContentFilter && !self.spoke && self.calls == 0 {
            let said = candidate.finish_message.0;
            let ratings = &candidate.safety_ratings;
            let error = finish::answer_blocked(&raw, said, ratings, self.usage);
            return Err(self.name(error));
        }
        self.finish = Some(raw);
        Ok(())
    }

    /// One part. Every call of a chunk is whole, and each is a call of its own.
    fn part(&mut self, part: Part, out: &mut Vec<StreamEvent>) {
        if let Some(call) = part.function_call {
            let index = self.calls;
            self.calls += 1;
            let signature = part.thought_signature.0;
            let call = answer::tool_call(call, signature.as_deref(), self.id.as_deref(), index);
            out.push(StreamEvent::ToolCall(ToolCallDelta {
                index,
                id: Some(call.id),
                name: Some(call.name),
                arguments: call.arguments,
            }));
        }
        match part.text.filter(|text| !text.is_empty()) {
            Some(text) if part.thought == Some(true) => out.push(StreamEvent::Reasoning(text)),
            Some(text) => {
                self.spoke = true;
                out.push(StreamEvent::Text(text));
            }
            None => {}
        }
    }

    fn name(&self, error: Error) -> Error {
        match &self.id {
            Some(id) => error.with_request_id(id.clone()),
            None => error,
        }
    }
}

impl StreamDecoder for Decoder {
    fn push(&mut self, frame: Frame, out: &mut Vec<StreamEvent>) -> Result<Flow> {
        let data = frame.data.trim();
        if data.is_empty() {
            return Ok(Flow::Continue);
        }
        if data == "[DONE]" {
            // Not Google's; gateways in front of it end every stream so.
            return self.end(out).map(|()| Flow::Done);
        }
        let chunk = Chunk::parse(data.as_bytes())
            .map_err(|problem| unreadable(&self.head, data.as_bytes(), problem))?;
        self.chunk(chunk, out)?;
        Ok(Flow::Continue)
    }

    fn end(&mut self, out: &mut Vec<StreamEvent>) -> Result<()> {
        if let Some(raw) = self.finish.take() {
            let reason = finish::reason(&raw, self.calls > 0);
            out.push(StreamEvent::Finish { reason, raw });
            return Ok(());
        }
        Err(self.name(if self.began {
            Error::new(
                Kind::StreamInterrupted,
                "the stream ended early: no finish reason came",
            )
        } else {
            Error::new(
                Kind::StreamInterrupted,
                "the stream ended before its first chunk",
            )
        }))
    }
}
