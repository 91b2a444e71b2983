//! Configuration: one JSON document of named entries, parsed once into valid types.
//!
//! [`Document`] is the whole, [`EntryConfig`] one entry (also made in Rust), [`Env`] the environment. `policy` makes a
//! [`Policy`](antfly_limiter::Policy) of `rate_limit`, the flat legacy keys and the environment; [`fingerprint()`] says what
//! shapes an embedder's vectors. `fields` reads JSON objects, `tree` the text.

mod document;
mod entry;
mod env;
mod fields;
mod fingerprint;
mod key;
mod parse;
mod policy;
mod schema;
mod tree;
mod validate;

pub use document::Document;
pub use entry::{
    Admission, EmbedOptions, EncodingFormat, EntryConfig, GenerateOptions, Legacy, ProxySetting,
    Redirects, RerankOptions, RetryConfig, Scoring,
};
pub use env::Env;
pub use fingerprint::fingerprint;
pub use key::KeySetting;
pub use policy::effective_policy;
pub use schema::schema;

/// The nearest of `known` to `word`, when it is near at all: for "did you mean".
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    fields::nearest(word, known)
}

#[cfg(test)]
mod tests;
