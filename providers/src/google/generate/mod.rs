//! `generateContent` and `streamGenerateContent`: [`body`] and [`message`] out; [`answer`] and [`stream`] back, over the one set of
//! types in [`chunk`].

pub(crate) mod answer;
pub(crate) mod body;
mod call_id;
mod chunk;
mod finish;
mod message;
pub(crate) mod stream;

pub(crate) use chunk::WireUsage;
