//! The wire: request bodies, answers, streams. Nothing here knows an entry or a key.
//!
//! Embeddings: [`embed`] out, [`vectors`] back. Chat completions: [`chat`] and [`message`] out; [`answer`] and [`stream`] back,
//! over the one set of types in [`chunk`].

pub(super) mod answer;
mod calls;
pub(super) mod chat;
mod chunk;
mod cursor;
pub(super) mod embed;
mod floats;
mod lenient;
mod message;
pub(super) mod stream;
mod usage;
pub(super) mod vectors;

#[cfg(test)]
mod tests;
