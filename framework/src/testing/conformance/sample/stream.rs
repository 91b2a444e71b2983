//! The sample's stream: `{"text"}`, `{"finish"}`, `{"error"}`, then `[DONE]`.

use serde_json::Value;

use super::{Fault, bad};
use crate::error::{Error, Kind, Result};
use crate::generate::{FinishReason, StreamEvent};
use crate::provider::{Flow, Frame, StreamDecoder};

pub(super) struct Decoder {
    fault: Option<Fault>,
    finished: bool,
    texts: usize,
}

impl Decoder {
    pub(super) fn new(fault: Option<Fault>) -> Self {
        Decoder {
            fault,
            finished: false,
            texts: 0,
        }
    }
}

impl StreamDecoder for Decoder {
    fn push(&mut self, frame: Frame, out: &mut Vec<StreamEvent>) -> Result<Flow> {
        if frame.data == "[DONE]" {
            return Ok(Flow::Done);
        }
        let value: Value = serde_json::from_str(&frame.data).map_err(bad)?;
        if let Some(error) = value.get("error")
            && self.fault != Some(Fault::SwallowsStreamError)
        {
            let kind = match error["code"].as_str() {
                Some("slow_down") => Kind::RateLimited,
                Some("full") => Kind::Overloaded,
                _ => Kind::Server,
            };
            let message = error["message"].as_str().unwrap_or("it did not say why");
            return Err(Error::new(kind, message));
        }
        if let Some(text) = value["text"].as_str().filter(|t| !t.is_empty()) {
            self.texts += 1;
            let lost = self.fault == Some(Fault::LosesDelta) && self.texts == 2;
            if !lost {
                out.push(StreamEvent::Text(text.to_owned()));
            }
        }
        if let Some(word) = value["finish"].as_str() {
            self.finished = true;
            out.push(StreamEvent::Finish {
                reason: FinishReason::from_word(word),
                raw: word.to_owned(),
            });
        }
        Ok(Flow::Continue)
    }

    fn end(&mut self, _: &mut Vec<StreamEvent>) -> Result<()> {
        if self.finished || self.fault == Some(Fault::StreamEndIsSuccess) {
            return Ok(());
        }
        let message = "the stream ended without a finish reason";
        Err(Error::new(Kind::StreamInterrupted, message))
    }
}
