//! Translation: requests to bytes, answers and frames to values. Pure.

use bytes::Bytes;

use super::prepared::{Head, Prepared};
use crate::embed::{EmbedInput, EmbedPart, Embeddings};
use crate::error::{Error, Result};
use crate::generate::{GenerateRequest, Generation, StreamEvent};
use crate::rerank::{Ranking, RerankRequest};

/// Translation, the same for HTTP and SDK routes.
pub trait Codec: Send + Sync {
    /// The embed translation, if this adapter embeds.
    fn embed(&self) -> Option<&dyn EmbedCodec> {
        None
    }
    /// The generate translation, if this adapter generates.
    fn generate(&self) -> Option<&dyn GenerateCodec> {
        None
    }
    /// The rerank translation, if this adapter reranks.
    fn rerank(&self) -> Option<&dyn RerankCodec> {
        None
    }
    /// Turns an answer that is not a success into an error: kind, code, message, whether the credential expired, and a hint
    /// found in the *body* as `retry_after` (the framework reads the headers itself).
    fn classify(&self, head: &Head, body: &[u8]) -> Error;
    /// The provider's id of a request, from the head of its answer.
    fn request_id(&self, head: &Head) -> Option<String> {
        ["x-request-id", "request-id", "x-amzn-requestid"]
            .iter()
            .find_map(|name| head.header(name))
            .map(str::to_owned)
    }
}

/// How many inputs one attempt may carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchLimits {
    /// Items.
    pub max_items: usize,
    /// Bytes of input text, summed.
    pub max_bytes: usize,
}

/// Embedding, as translation. `n x dim` vectors in input order.
pub trait EmbedCodec: Send + Sync {
    /// The provider's documented limits of one request.
    fn limits(&self) -> BatchLimits;
    /// Whether `next` may ride in the same request as `first`, the part's first input: some wires carry texts or images, not both.
    fn together(&self, first: &EmbedInput, next: &EmbedInput) -> bool {
        let _ = (first, next);
        true
    }
    /// Request to bytes. A part whose body is larger than the provider takes is an error of kind `request_too_large`: the framework
    /// then halves it, down to the one input that is too large by itself.
    fn prepare(&self, part: &EmbedPart<'_>) -> Result<Prepared>;
    /// Answer to vectors, by index, one for each input of the part. The framework checks dimensions and finiteness again.
    fn decode(&self, head: &Head, body: Bytes, part: &EmbedPart<'_>) -> Result<Embeddings>;
}

/// How a streamed answer is framed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// `text/event-stream`.
    EventStream,
    /// One JSON object a line.
    Lines,
}

/// Generation, as translation.
pub trait GenerateCodec: Send + Sync {
    /// Request to bytes. `request` has the entry's defaults merged in, and `max_tokens` set where a cap must go on the wire.
    /// The result's `output_cap` is what was put on the wire (0 when none was).
    fn prepare(&self, request: &GenerateRequest, stream: bool) -> Result<Prepared>;
    /// A plain answer.
    fn decode(&self, head: &Head, body: Bytes, request: &GenerateRequest) -> Result<Generation>;
    /// The framing of a streamed answer.
    fn framing(&self) -> Framing {
        Framing::EventStream
    }
    /// A decoder for one streamed answer.
    fn stream_decoder(&self, head: &Head, request: &GenerateRequest) -> Box<dyn StreamDecoder>;
}

/// One frame of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The event's name, where the wire has one.
    pub event: Option<String>,
    /// Its data: UTF-8 text, never empty.
    pub data: String,
}

/// Whether a stream goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// More may come.
    Continue,
    /// The wire's end mark was seen: nothing after it counts.
    Done,
}

/// Decodes the frames of one stream. Empty and role-only chunks push nothing.
///
/// Push [`StreamEvent::Finish`] when nothing can follow but what the answer cost: from then on a connection that breaks, or goes silent, is the
/// stream's end and no error. Where only the body's end says so, push it in `end`.
pub trait StreamDecoder: Send {
    /// One frame. An error inside a 200 is returned as the error it is.
    fn push(&mut self, frame: Frame, out: &mut Vec<StreamEvent>) -> Result<Flow>;
    /// The body ended without the end mark: `Ok` if a finish reason was seen, else `stream_interrupted`.
    fn end(&mut self, out: &mut Vec<StreamEvent>) -> Result<()>;
}

/// Reranking, as translation.
pub trait RerankCodec: Send + Sync {
    /// The most documents one request may carry.
    fn max_documents(&self) -> usize;
    /// Request to bytes.
    fn prepare(&self, request: &RerankRequest) -> Result<Prepared>;
    /// Answer to scores by input index, in any order. The framework checks indices, counts and finiteness.
    fn decode(&self, head: &Head, body: Bytes, request: &RerankRequest) -> Result<Ranking>;
}
