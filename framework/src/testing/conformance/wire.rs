//! How an adapter's server speaks, as its author writes it down.

use std::time::Duration;

use bytes::Bytes;
use serde_json::json;

use super::subject::KEY;
use crate::error::Kind;
use crate::testing::{Received, Reply};

/// One vector of a good answer.
#[derive(Clone, Debug)]
pub struct Row<'a> {
    /// Which input of the request it belongs to, 0-based.
    pub index: usize,
    /// Its numbers.
    pub vector: &'a [f32],
}

/// One score of a good answer.
#[derive(Clone, Copy, Debug)]
pub struct Score {
    /// Which document of the request it belongs to, 0-based.
    pub index: usize,
    /// The score.
    pub score: f64,
}

/// The wire of one adapter and operation. Write what it has; what is left out is skipped, with that reason in the report.
pub trait Wire: Send + Sync + 'static {
    /// The texts a request carries, in its order: an embed request's inputs, a rerank request's documents.
    fn texts(&self, request: &Received) -> Vec<String> {
        let _ = request;
        Vec::new()
    }

    /// A good answer to an embed request, with the rows in the order given.
    fn embeddings(&self, rows: &[Row<'_>]) -> Option<Reply> {
        let _ = rows;
        None
    }

    /// A good answer to a rerank request, with the scores in the order given.
    fn ranking(&self, scores: &[Score]) -> Option<Reply> {
        let _ = scores;
        None
    }

    /// Whether rows and scores carry the index of their input on this wire. Then they may come in any order.
    fn indexed(&self) -> bool {
        true
    }

    /// A good answer to a plain generate request: this text, and a finish reason that means "stop".
    fn generation(&self, text: &str) -> Option<Reply> {
        let _ = text;
        None
    }

    /// A good answer to a streamed generate request: one delta a text.
    fn stream(&self, texts: &[&str]) -> Option<Stream> {
        let _ = texts;
        None
    }

    /// The output cap that a generate request carries, in tokens.
    fn output_cap(&self, request: &Received) -> Option<u64> {
        let _ = request;
        None
    }

    /// A refusal with this status whose body says `message` the way this provider does.
    fn error(&self, status: u16, message: &str) -> Reply {
        Reply::json(status, json!({"error": {"message": message}}))
    }

    /// What a status means when a body says nothing more specific. Change it only where the provider's own documentation does.
    fn kind_of(&self, status: u16) -> Kind {
        Kind::of_status(status)
    }

    /// The provider's own refusals and their kinds: codes in bodies, hints in bodies, errors inside a 200.
    fn refusals(&self) -> Vec<Refusal> {
        Vec::new()
    }

    /// A refusal that calls the credential expired, where the provider has one.
    fn expired(&self) -> Option<Reply> {
        None
    }

    /// Frames of a stream that tell of an error inside a 200, each with its kind.
    fn stream_errors(&self) -> Vec<(Bytes, Kind)> {
        Vec::new()
    }

    /// The answer to a request that is not the model's (a token endpoint, say); it is not counted among the attempts.
    fn auxiliary(&self, request: &Received) -> Option<Reply> {
        let _ = request;
        None
    }

    /// Whether the credential went with the request. By default: whether [`KEY`] is in a header.
    fn authorized(&self, request: &Received) -> bool {
        request
            .headers
            .values()
            .any(|v| String::from_utf8_lossy(v.as_bytes()).contains(KEY))
    }

    /// The header that carries the provider's id of a request, if it sends one.
    fn request_id_header(&self) -> Option<&'static str> {
        None
    }
}

/// A streamed answer in its pieces, each a frame as it goes on the wire.
#[derive(Clone, Debug)]
pub struct Stream {
    pub(super) content_type: &'static str,
    pub(super) opening: Vec<Bytes>,
    pub(super) deltas: Vec<Bytes>,
    pub(super) finish: Vec<Bytes>,
    pub(super) end: Vec<Bytes>,
}

impl Stream {
    /// A stream of any content type (`text/event-stream` is also sent in all forms that event streams have, and
    /// `application/x-ndjson` in those of lines): the frames with text, one a text; those that tell the finish reason; those that mark the
    /// end (none, where the wire has no mark).
    pub fn new<B: Into<Bytes>>(
        content_type: &'static str,
        deltas: impl IntoIterator<Item = B>,
        finish: impl IntoIterator<Item = B>,
        end: impl IntoIterator<Item = B>,
    ) -> Self {
        let all = |frames: Vec<B>| frames.into_iter().map(Into::into).collect();
        Stream {
            content_type,
            opening: Vec::new(),
            deltas: all(deltas.into_iter().collect()),
            finish: all(finish.into_iter().collect()),
            end: all(end.into_iter().collect()),
        }
    }

    /// A `text/event-stream`; each item is the data of one event.
    pub fn sse<T: AsRef<str>>(
        deltas: impl IntoIterator<Item = T>,
        finish: impl IntoIterator<Item = T>,
        end: impl IntoIterator<Item = T>,
    ) -> Self {
        fn event<T: AsRef<str>>(data: T) -> Bytes {
            Bytes::from(format!("data: {}\n\n", data.as_ref()))
        }
        Stream::new(
            "text/event-stream",
            deltas.into_iter().map(event).collect::<Vec<_>>(),
            finish.into_iter().map(event).collect::<Vec<_>>(),
            end.into_iter().map(event).collect::<Vec<_>>(),
        )
    }

    /// Frames before the first text (a role, a message start).
    #[must_use]
    pub fn opening<B: Into<Bytes>>(mut self, frames: impl IntoIterator<Item = B>) -> Self {
        self.opening = frames.into_iter().map(Into::into).collect();
        self
    }

    /// Everything, in order.
    pub(super) fn whole(&self) -> Vec<Bytes> {
        [&self.opening, &self.deltas, &self.finish, &self.end]
            .into_iter()
            .flatten()
            .cloned()
            .collect()
    }

    /// A reply of these frames, each in a chunk of its own.
    pub(super) fn reply(&self, frames: impl IntoIterator<Item = Bytes>) -> Reply {
        frames
            .into_iter()
            .fold(Reply::stream(200, self.content_type), Reply::chunk)
    }
}

/// One refusal of the provider's and what it means.
#[derive(Clone, Debug)]
pub struct Refusal {
    pub(super) name: String,
    pub(super) reply: Reply,
    pub(super) kind: Kind,
    pub(super) retried: Option<bool>,
    pub(super) wait: Option<Duration>,
    pub(super) code: Option<String>,
}

impl Refusal {
    /// This reply is an error of this kind. `name` is for the report.
    pub fn new(name: impl Into<String>, reply: Reply, kind: Kind) -> Self {
        Refusal {
            name: name.into(),
            reply,
            kind,
            retried: None,
            wait: None,
            code: None,
        }
    }

    /// Whether the call tries again.
    #[must_use]
    pub fn retried(mut self, retried: bool) -> Self {
        self.retried = Some(retried);
        self
    }

    /// The body asks to wait this long (15 seconds at most), which must become the scope's cooldown.
    #[must_use]
    pub fn waits(mut self, wait: Duration) -> Self {
        self.wait = Some(wait);
        self
    }

    /// The provider's code, as the error must carry it.
    #[must_use]
    pub fn code(mut self, code: impl Into<String>) -> Self {
        self.code = Some(code.into());
        self
    }
}
