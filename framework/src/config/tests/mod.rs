//! Tests of the configuration, by the rule they pin.

mod document;
mod entry;
mod environment;
mod fingerprints;
mod policies;
mod schema;
mod secrecy;

use serde_json::Value;

use super::EntryConfig;
use crate::error::Kind;
use crate::provider::Operation;

/// An embedder's entry at `embedders.docs` with these fields on top of provider and model.
fn embedder(fields: Value) -> crate::Result<EntryConfig> {
    entry(Operation::Embed, "embedders.docs", fields)
}

fn entry(operation: Operation, path: &str, fields: Value) -> crate::Result<EntryConfig> {
    let mut whole = serde_json::json!({"provider": "openai", "model": "m"});
    for (key, value) in fields.as_object().unwrap() {
        whole[key] = value.clone();
    }
    EntryConfig::from_json(operation, path, whole)
}

/// The message of what must be a configuration error.
#[track_caller]
fn refused<T>(result: crate::Result<T>) -> String {
    match result {
        Ok(_) => panic!("accepted"),
        Err(e) => {
            assert_eq!(e.kind(), Kind::Config, "{e}");
            e.message().to_owned()
        }
    }
}
