//! The configuration as a JSON Schema, for editors and other tools.
//!
//! Which keys there are comes from the parser's own lists; what each may hold is said here, and tested against what the parser
//! takes, key by key.

use serde_json::{Map, Value, json};

use super::parse::{ADMISSION, COMMON, EMBED, GENERATE, RERANK, RETRY};
use super::policy::KEYS;

/// The schema of a document: of named entries, or of one entry alone.
///
/// It refuses what the parser refuses for one key on its own. Rules that join keys (`pacing` and `burst`, the flat limits beside
/// `rate_limit`), what a provider takes, and that 1.0 is no integer here, are the parser's alone.
pub fn schema() -> Value {
    let entries = |of: &str| {
        // The schema's name belongs to a document; an entry that is no document has none.
        let each = json!({"$ref": format!("#/$defs/{of}"), "properties": {"$schema": false}});
        json!({"type": ["object", "null"], "propertyNames": {"minLength": 1}, "additionalProperties": each})
    };
    sorted(json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "antfly-providers configuration",
        "description": "Named entries, or one entry alone. null is as if left out.",
        "type": "object",
        "if": {"required": ["provider"], "properties": {"provider": {"not": {"type": "null"}}}},
        "then": {"anyOf": [
            {"$ref": "#/$defs/embedder"}, {"$ref": "#/$defs/generator"}, {"$ref": "#/$defs/reranker"},
        ]},
        "else": {
            "properties": {
                "$schema": named(),
                "embedders": entries("embedder"),
                "generators": entries("generator"),
                "rerankers": entries("reranker"),
                "secrets": {
                    "type": ["object", "null"],
                    "properties": {"file": text("The secrets file, relative to the configuration's folder.")},
                    "additionalProperties": false,
                },
                "provider": {"type": "null"},
            },
            "additionalProperties": false,
        },
        "$defs": {
            "embedder": entry(&EMBED),
            "generator": entry(&GENERATE),
            "reranker": entry(&RERANK),
        },
    }))
}

/// Keys in one order, whether or not this build's maps keep that of insertion.
fn sorted(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.into_iter().collect();
            fields.sort_by(|a, b| a.0.cmp(&b.0));
            Value::Object(fields.into_iter().map(|(k, v)| (k, sorted(v))).collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(sorted).collect()),
        value => value,
    }
}

fn named() -> Value {
    json!({"type": ["string", "null"], "description": "This schema's path or URL, for editors; not read otherwise."})
}

/// An entry, alone as a document or under a name.
fn entry(own: &[&str]) -> Value {
    let mut entry = object(COMMON.iter().chain(own).copied(), "");
    entry["properties"]["$schema"] = named();
    entry["type"] = json!("object");
    entry["required"] = json!(["provider", "model"]);
    entry
}

fn object<'a>(keys: impl IntoIterator<Item = &'a str>, about: &str) -> Value {
    let properties: Map<String, Value> = keys
        .into_iter()
        .map(|key| (key.to_owned(), field(key)))
        .collect();
    let mut object = json!({
        "type": ["object", "null"], "properties": properties, "additionalProperties": false,
    });
    if !about.is_empty() {
        object["description"] = json!(about);
    }
    object
}

fn text(about: &str) -> Value {
    json!({"type": ["string", "null"], "pattern": "\\S", "description": about})
}

fn needed(about: &str) -> Value {
    json!({"type": "string", "pattern": "\\S", "description": about})
}

fn positive(about: &str) -> Value {
    json!({"type": ["integer", "null"], "minimum": 1, "maximum": u32::MAX, "description": about})
}

fn number(from: f64, to: f64, about: &str) -> Value {
    json!({"type": ["number", "null"], "minimum": from, "maximum": to, "description": about})
}

fn flag(about: &str) -> Value {
    json!({"type": ["boolean", "null"], "description": about})
}

fn choice(words: &[&str], about: &str) -> Value {
    let mut all: Vec<Value> = words.iter().map(|w| json!(w)).collect();
    all.push(Value::Null);
    json!({"enum": all, "description": about})
}

/// What a key may hold. The same name means the same wherever it stands.
fn field(key: &str) -> Value {
    match key {
        "provider" => needed("The plugin's name."),
        "model" => needed("The model id, passed through untouched."),
        "rate_limit" => object(
            KEYS,
            "The limits of the scope; a limit left out is unlimited.",
        ),
        "requests_per_minute" => positive("Attempts admitted a minute."),
        "burst" => positive("Attempts that may start at once; 1 when left out."),
        "tokens_per_minute" => {
            positive("Body bytes plus output cap a minute, reserved by each attempt.")
        }
        "max_concurrency" => positive("How many may be in flight at once."),
        "pacing" => choice(
            &["token_bucket", "completion"],
            "completion: one at a time, the next 60 s / requests_per_minute after the last has finished.",
        ),
        "max_queue" => positive("In-process runs that may wait; one more is refused at once."),
        "admission" => object(ADMISSION, "The admission of an in-process model."),
        "retry" => object(RETRY, "How failed attempts are tried again."),
        "max_attempts" => positive("Tries in all, redirect hops not counted; 3."),
        "initial_backoff_ms" => positive("The ceiling of the first wait, in milliseconds; 500."),
        "backoff_multiplier" => number(1.0, 1e6, "What the ceiling grows by; 2.0."),
        "max_backoff_ms" => positive("The ceiling's ceiling, in milliseconds; 30000."),
        "timeout_ms" => {
            positive("Deadline of a call when the caller gives none, in milliseconds; 600000.")
        }
        "stream_idle_timeout_ms" => {
            positive("Longest silence inside a stream, in milliseconds; 60000.")
        }
        "max_response_bytes" => positive("Bound of a plain body; 64 MiB."),
        "max_event_bytes" => positive("Bound of one unfinished stream event; 8 MiB."),
        "extra_body" => json!({
            "type": ["object", "null"],
            "description": "Fields merged into the request body; those the adapter owns are refused.",
        }),
        "headers" => json!({
            "type": ["object", "null"], "additionalProperties": {"type": ["string", "null"]},
            "description": "Extra request headers; credential and framing headers are refused.",
        }),
        "redirects" => choice(
            &["follow", "same_origin", "none"],
            "What happens to a 307 or 308.",
        ),
        "proxy" => text("A proxy URL, or none; else the usual proxy variables."),
        "ca_file" => text("PEM file of extra root certificates."),
        "url" | "api_url" => text("The endpoint; else the provider's."),
        "api_key" => text("The key, or ${secret:name}; else the provider's environment variable."),
        "project" => text("OpenAI's project: a part of the scope."),
        "organization" => text("OpenAI's organization: a header only."),
        "region" => text("AWS region: a part of the scope."),
        "profile" => text("AWS profile."),
        "project_id" => text("Google Cloud project: a part of the scope."),
        "location" => text("Google Cloud location: a part of the scope."),
        "credentials_path" => {
            text("Google credentials file; else application default credentials.")
        }
        "model_path" => text("Folder of local weights."),
        "encoding_format" => choice(&["float", "base64"], "How vectors travel."),
        "dimensions" | "dimension" => positive("Numbers a vector."),
        "input_type" => text("The older name of a task: search_query, search_document, ..."),
        "task_type" => text("The task: RETRIEVAL_QUERY, RETRIEVAL_DOCUMENT, ..."),
        "truncate" => json!({
            "anyOf": [{"type": ["boolean", "null"]}, {"type": "string", "pattern": "\\S"}],
            "description": "What becomes of an input that is too long.",
        }),
        "multimodal" => flag("Whether inputs may carry media."),
        "batch_size" => positive("Items an attempt; else the provider's limits."),
        "max_tokens" => positive("Output cap, in tokens."),
        "temperature" => number(0.0, 1e3, "Sampling temperature."),
        "top_p" => number(0.0, 1.0, "Nucleus sampling."),
        "top_k" => positive("Top-k sampling."),
        "frequency_penalty" => number(-1e3, 1e3, "Frequency penalty."),
        "presence_penalty" => number(-1e3, 1e3, "Presence penalty."),
        "stop" => json!({
            "anyOf": [
                {"type": "null"},
                {"type": "string", "minLength": 1},
                {"type": "array", "items": {"type": "string", "minLength": 1}},
            ],
            "description": "Stop sequences.",
        }),
        "seed" => json!({
            "type": ["integer", "null"], "minimum": i64::MIN, "maximum": i64::MAX, "description": "Seed.",
        }),
        "tools" => json!({
            "type": ["array", "null"],
            "items": {
                "type": "object",
                "anyOf": [{"required": ["name"]}, {"required": ["function"]}],
            },
            "description": "Tools the model may call: OpenAI's form, or its inner object alone.",
        }),
        "tool_choice" => json!({
            "anyOf": [
                {"enum": ["auto", "none", "required", "any", null]},
                {"type": "object", "anyOf": [{"required": ["name"]}, {"required": ["function"]}]},
            ],
            "description": "Which tools may be called.",
        }),
        "response_format" => json!({
            "type": ["object", "null"],
            "properties": {"type": {"enum": ["text", "json_object", "json_schema"]}},
            "required": ["type"],
            "description": "The form of the answer.",
        }),
        "top_n" => positive("At most this many results."),
        "field" => text("Of a document that is a JSON object: the field whose text is ranked."),
        "template" => text("How a document is rendered."),
        "scoring" => choice(
            &["cosine", "late_interaction"],
            "How an in-process model that embeds scores a document.",
        ),
        // A key of the parser's that is not described: found by a test, and open until then.
        _ => json!({}),
    }
}

#[cfg(test)]
pub(super) fn described(key: &str) -> bool {
    field(key) != json!({})
}
