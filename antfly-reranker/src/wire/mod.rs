//! The wire: the two request bodies in `request`, the answer in `answer`.

mod answer;
mod request;

pub(crate) use answer::decode;
pub(crate) use request::{Multimodal, OWNED, Texts};
