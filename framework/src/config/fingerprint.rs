//! What shapes an embedder's vectors, as a stable hash: stored vectors are good as long as it stays the same.

use std::fmt::Write as _;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::entry::EntryConfig;

/// SHA-256, in hex, over provider, model, endpoint, dimensions, input or task type, truncation, multimodal and `extra_body`.
/// Limits, retries, timeouts, batch sizes, encodings, headers and credentials never change it.
pub fn fingerprint(entry: &EntryConfig, endpoint: &str) -> String {
    let o = &entry.embed;
    // serde_json's map sorts its keys, so the text is canonical whatever the order in the file.
    let shape: Value = json!({
        "version": 1,
        "provider": entry.provider,
        "model": entry.model,
        "endpoint": endpoint,
        "dimensions": o.dimensions,
        "input_type": o.input_type,
        "task_type": o.task_type,
        "truncate": o.truncate,
        "multimodal": o.multimodal.unwrap_or(false),
        "extra_body": sorted(&Value::Object(entry.extra_body.clone())),
    });
    let digest = Sha256::digest(sorted(&shape).to_string());
    digest
        .iter()
        .fold(String::with_capacity(64), |mut hex, byte| {
            let _ = write!(hex, "{byte:02x}");
            hex
        })
}

/// The same value with every object's keys sorted, whatever map another crate makes serde_json use.
fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let mut keys: Vec<_> = map.iter().collect();
            keys.sort_by_key(|(k, _)| *k);
            Value::Object(
                keys.into_iter()
                    .map(|(k, v)| (k.clone(), sorted(v)))
                    .collect(),
            )
        }
        Value::Array(all) => Value::Array(all.iter().map(sorted).collect()),
        other => other.clone(),
    }
}
