//! The wire that `vertex` and `gemini` share: contents and their parts, generation whole and streamed, refusals, and what
//! `extra_body` may not hold. Nothing here knows an entry, a host or a key.

pub(crate) mod error;
pub(crate) mod extra;
pub(crate) mod generate;
pub(crate) mod json;
pub(crate) mod media;
pub(crate) mod task;
mod told;
pub(crate) mod vectors;

use antfly_framework::content::{MediaKind, MediaSupport};

/// What a Gemini model takes besides text.
pub(crate) const GEMINI_MEDIA: MediaSupport = MediaSupport::Kinds(&[
    MediaKind::Image,
    MediaKind::Audio,
    MediaKind::Video,
    MediaKind::File,
]);

/// The output cap where a token budget needs one and nobody gave it.
pub(crate) const DEFAULT_OUTPUT_CAP: u32 = 1024;

/// One path segment of a resource name. Google writes the `@` of a version as it is.
pub(crate) fn segment(name: &str) -> String {
    antfly_framework::http::encode_segment(name).replace("%40", "@")
}
