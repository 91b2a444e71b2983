//! One way to ask, whatever the operation; and texts whose right answers are known.

use crate::client::{CallOptions, Embedder, Generator, Reranker};
use crate::content::Part;
use crate::embed::{EmbedInput, EmbedRequest, Embeddings};
use crate::error::Error;
use crate::generate::{GenerateRequest, Generation, Message};
use crate::rerank::{Document, Ranking, RerankRequest};

/// How a call is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Embed,
    Generate,
    Stream,
    Rerank,
}

/// What is asked.
#[derive(Clone, Debug, Default)]
pub(super) struct Ask {
    pub(super) texts: Vec<String>,
    /// Output cap of a generate request.
    pub(super) cap: Option<u32>,
    /// A media part beside the first text.
    pub(super) media: Option<Part>,
    pub(super) options: CallOptions,
}

impl Ask {
    /// `count` texts. A generator is asked with the first alone.
    pub(super) fn of(count: usize) -> Self {
        Ask {
            texts: texts(count),
            ..Ask::default()
        }
    }

    pub(super) fn with(mut self, options: CallOptions) -> Self {
        self.options = options;
        self
    }

    pub(super) fn cap(mut self, cap: u32) -> Self {
        self.cap = Some(cap);
        self
    }

    pub(super) fn media(mut self, media: Part) -> Self {
        self.media = Some(media);
        self
    }

    fn first(&self) -> String {
        self.texts.first().cloned().unwrap_or_default()
    }

    fn parts(&self) -> Option<Vec<Part>> {
        let media = self.media.clone()?;
        Some(vec![Part::text(self.first()), media])
    }

    pub(super) fn generate_request(&self) -> GenerateRequest {
        let mut message = Message::user(self.first());
        if let Some(parts) = self.parts() {
            message.content = parts;
        }
        let mut request = GenerateRequest::messages([message]);
        request.max_tokens = self.cap;
        request
    }

    pub(super) fn embed_request(&self) -> EmbedRequest {
        let mut request = EmbedRequest::texts(self.texts.clone());
        if let (Some(parts), Some(first)) = (self.parts(), request.inputs.first_mut()) {
            *first = EmbedInput::Parts(parts);
        }
        request
    }

    pub(super) fn rerank_request(&self) -> RerankRequest {
        let mut request = RerankRequest::new(QUERY, self.texts.clone());
        if let (Some(parts), Some(first)) = (self.parts(), request.documents.first_mut()) {
            *first = Document::Parts(parts);
        }
        request
    }
}

/// What came back.
#[derive(Debug)]
pub(super) enum Told {
    Vectors(Embeddings),
    Text(Box<Generation>),
    Scores(Ranking),
}

/// A handle of whatever operation.
#[derive(Clone, Debug)]
pub(super) enum Asker {
    Embed(Embedder),
    Generate(Generator),
    Rerank(Reranker),
}

impl Asker {
    pub(super) async fn ask(&self, way: Way, ask: Ask) -> Result<Told, Error> {
        match self {
            Asker::Embed(e) => e
                .embed_with(ask.embed_request(), ask.options)
                .await
                .map(Told::Vectors),
            Asker::Generate(g) if way == Way::Stream => {
                let stream = g.stream_with(ask.generate_request(), ask.options).await?;
                let whole = stream.collect_generation().await?;
                Ok(Told::Text(Box::new(whole)))
            }
            Asker::Generate(g) => g
                .generate_with(ask.generate_request(), ask.options)
                .await
                .map(|whole| Told::Text(Box::new(whole))),
            Asker::Rerank(r) => r
                .rerank_with(ask.rerank_request(), ask.options)
                .await
                .map(Told::Scores),
        }
    }

    pub(super) fn lease(&self) -> &antfly_limiter::Lease {
        match self {
            Asker::Embed(e) => e.lease(),
            Asker::Generate(g) => g.lease(),
            Asker::Rerank(r) => r.lease(),
        }
    }

    pub(super) fn snapshot(&self) -> antfly_limiter::ScopeSnapshot {
        self.lease().snapshot()
    }

    pub(super) fn generator(&self) -> Option<&Generator> {
        match self {
            Asker::Generate(g) => Some(g),
            _ => None,
        }
    }

    pub(super) fn embedder(&self) -> Option<&Embedder> {
        match self {
            Asker::Embed(e) => Some(e),
            _ => None,
        }
    }
}

/// What rerankers are asked.
pub(super) const QUERY: &str = "which-text-is-it";

/// What generators say, with characters of one to four bytes and some that JSON escapes.
pub(super) const SAID: [&str; 3] = ["Gr\u{fc}\u{df}e, ", "\"\u{2603}\"\\\n", "\u{1f980} end"];

pub(super) fn said() -> String {
    SAID.concat()
}

/// Different texts, the first ones with characters that an encoder could stumble over.
pub(super) fn texts(count: usize) -> Vec<String> {
    (0..count)
        .map(|i| match i {
            0 => "first \"text\" \u{e9}\\\u{1f980}".to_owned(),
            i => format!("text {i}"),
        })
        .collect()
}

/// Numbers of the vector of a text.
pub(super) const DIM: usize = 4;

/// The right vector of a text: exact in 16 bits, and another for every other text.
pub(super) fn vector_of(text: &str) -> Vec<f32> {
    let h = hash(text);
    (0..DIM)
        .map(|i| (f32::from((h >> (8 * i)) as u8) + 1.0) / 256.0)
        .collect()
}

/// The right score of a text.
pub(super) fn score_of(text: &str) -> f64 {
    f64::from((hash(text) & 0xffff) as u16) / 65536.0
}

fn hash(text: &str) -> u64 {
    // FNV-1a, then mixed so that short texts fill all bytes.
    let h = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |h, b| {
        (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3)
    });
    (h ^ (h >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 16
}
