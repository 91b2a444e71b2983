//! OpenAI's wire, which many servers speak: request bodies, answers, streams, refusals. Nothing here knows an entry or a key;
//! the adapters that speak it (`openai`, `antfly`) do.
//!
//! Embeddings: [`embed`] out, [`vectors`] back. Chat completions: [`chat`] and [`message`] out; [`answer`] and [`stream`] back,
//! over the one set of types in [`chunk`]. Refusals: [`error`], over what [`told`] reads out of a body.

pub(crate) mod answer;
mod calls;
pub(crate) mod chat;
mod chunk;
mod cursor;
pub(crate) mod embed;
pub(crate) mod error;
mod floats;
mod lenient;
pub(crate) mod message;
pub(crate) mod stream;
mod told;
mod usage;
pub(crate) mod vectors;

use antfly_framework::{EntryConfig, Error, Kind, Result};
use serde_json::{Map, Value};

/// Fields that an adapter writes, each with what to use instead.
pub(crate) type Owned = [(&'static str, &'static str)];

/// Refuses an entry whose `extra_body` holds a field of the adapter's.
pub(crate) fn refuse_owned(entry: &EntryConfig, names: &Owned) -> Result<()> {
    match owned(&entry.extra_body, names) {
        Some((name, problem)) => Err(Error::config(
            entry.field(&format!("extra_body.{name}")),
            problem,
        )),
        None => Ok(()),
    }
}

/// The same for a request's own `extra_body`.
pub(crate) fn refuse_owned_in_request(extra: &Map<String, Value>, names: &Owned) -> Result<()> {
    match owned(extra, names) {
        Some((name, problem)) => Err(Error::new(
            Kind::InvalidRequest,
            format!("extra_body.{name}: {problem}"),
        )),
        None => Ok(()),
    }
}

fn owned(extra: &Map<String, Value>, names: &Owned) -> Option<(&'static str, String)> {
    let (name, instead) = names.iter().find(|(name, _)| extra.contains_key(*name))?;
    Some((
        name,
        format!("this field belongs to the adapter; use {instead}"),
    ))
}
