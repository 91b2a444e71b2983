//! A streamed chat answer, chunk by chunk.

use antfly_framework::generate::{FinishReason, StreamEvent};
use antfly_framework::provider::{Flow, Frame, Head, StreamDecoder};
use antfly_framework::{Error, Kind, Result};
use serde_json::Value;

use super::answer::{failed, refused, unspoken};
use super::calls::Calls;
use super::chunk::{Choice, Chunk, Turn};
use super::error::{in_band, unreadable};
use super::usage::WireUsage;
use crate::refusal::is_error;

/// The state of one stream.
#[derive(Debug)]
pub(crate) struct Decoder {
    head: Head,
    calls: Calls,
    refusal: String,
    /// Whether ids have been handed out.
    named: bool,
    /// Whether a choice was seen at all.
    answered: bool,
    finished: bool,
}

impl Decoder {
    pub(crate) fn new(head: &Head) -> Self {
        Decoder {
            head: head.clone(),
            calls: Calls::default(),
            refusal: String::new(),
            named: false,
            answered: false,
            finished: false,
        }
    }

    fn chunk(&mut self, chunk: Chunk, data: &str, out: &mut Vec<StreamEvent>) -> Result<()> {
        if is_error(&chunk.error) {
            return Err(in_band(&self.head, &chunk.error));
        }
        let says_error = |word: &Option<String>| word.as_deref() == Some("error");
        if says_error(&chunk.object.0) || says_error(&chunk.r#type.0) {
            return Err(unspoken(&self.head, data.as_bytes()));
        }
        if !self.named {
            let (id, model) = (chunk.id.get(), chunk.model.get());
            if id.is_some() || model.is_some() {
                self.named = true;
                out.push(StreamEvent::Meta { id, model });
            }
        }
        // More than one answer is never asked for; a second one must not be mixed into the first.
        let first = |choice: &Choice| choice.index.0.unwrap_or(0) == 0;
        for choice in chunk.choices.0.into_iter().filter(first) {
            self.choice(choice, out)?;
        }
        if let Some(usage) = chunk.usage.and_then(WireUsage::into_usage) {
            out.push(StreamEvent::Usage(usage));
        }
        Ok(())
    }

    fn choice(&mut self, choice: Choice, out: &mut Vec<StreamEvent>) -> Result<()> {
        self.answered = true;
        if is_error(&choice.error) {
            return Err(in_band(&self.head, &choice.error));
        }
        if let Some(turn) = choice.delta.or(choice.message) {
            self.turn(turn, out);
        }
        let Some(raw) = choice.finish_reason.get() else {
            return Ok(());
        };
        if raw == "error" {
            return Err(failed());
        }
        if !self.finished {
            self.finished = true;
            self.not_refused()?;
            out.push(StreamEvent::Finish {
                reason: FinishReason::from_word(&raw),
                raw,
            });
        }
        Ok(())
    }

    fn turn(&mut self, mut turn: Turn, out: &mut Vec<StreamEvent>) {
        out.extend(turn.take_reasoning().map(StreamEvent::Reasoning));
        let calls = turn.take_calls();
        if !turn.content.0.is_empty() {
            out.push(StreamEvent::Text(turn.content.0));
        }
        self.calls.push(calls, out);
        if let Some(piece) = turn.refusal.get() {
            self.refusal.push_str(&piece);
        }
    }

    fn not_refused(&mut self) -> Result<()> {
        match self.refusal.as_str() {
            "" => Ok(()),
            refusal => Err(refused(refusal)),
        }
    }

    /// What an `event: error` frame tells.
    fn told(&self, data: &str) -> Error {
        match serde_json::from_str::<Value>(data) {
            Ok(value) => in_band(&self.head, &value),
            Err(_) => in_band(&self.head, &Value::from(data)),
        }
    }
}

impl StreamDecoder for Decoder {
    fn push(&mut self, frame: Frame, out: &mut Vec<StreamEvent>) -> Result<Flow> {
        let data = frame.data.trim();
        if data == "[DONE]" {
            self.not_refused()?;
            if !self.answered {
                return Err(Error::new(
                    Kind::InvalidResponse,
                    "the stream ended and held no choices",
                ));
            }
            return Ok(Flow::Done);
        }
        match frame.event.as_deref() {
            Some("error") => return Err(self.told(data)),
            Some("ping") => return Ok(Flow::Continue),
            _ if data.is_empty() => return Ok(Flow::Continue),
            _ => {}
        }
        let chunk = Chunk::parse(data.as_bytes())
            .map_err(|problem| unreadable(&self.head, data.as_bytes(), problem))?;
        self.chunk(chunk, data, out)?;
        Ok(Flow::Continue)
    }

    fn end(&mut self, _out: &mut Vec<StreamEvent>) -> Result<()> {
        if self.finished {
            return Ok(());
        }
        self.not_refused()?;
        Err(Error::new(
            Kind::StreamInterrupted,
            "the stream ended early: no finish reason and no [DONE]",
        ))
    }
}

#[cfg(test)]
#[path = "stream_tests.rs"]
mod tests;
