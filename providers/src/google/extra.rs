//! `extra_body`: what it may not hold, and where its parts go.
//!
//! Google's JSON takes both spellings of a field (`outputDimensionality`, `output_dimensionality`), so names are compared without
//! underscores and case.

use antfly_framework::config::EntryConfig;
use antfly_framework::{Error, Kind, Result};
use serde_json::{Map, Value};

/// What an `extra_body` meets on one wire.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    /// Fields of the body that the adapter writes or owns, with what to use instead.
    pub(crate) owned: &'static [(&'static str, &'static str)],
    /// The object whose fields are merged one by one, if the wire has one, and the fields in it that are the adapter's.
    pub(crate) nested: Option<(&'static str, &'static [(&'static str, &'static str)])>,
}

/// An `extra_body` taken apart: what stands beside the adapter's fields, and what goes into the nested object.
#[derive(Clone, Debug, Default)]
pub(crate) struct Parts {
    pub(crate) beside: Map<String, Value>,
    pub(crate) within: Map<String, Value>,
}

impl Rules {
    /// Takes an `extra_body` apart.
    ///
    /// # Errors
    /// The path of the field that may not be there, and why.
    pub(crate) fn split(&self, extra: &Map<String, Value>) -> Result<Parts, (String, String)> {
        let mut parts = Parts::default();
        for (name, value) in extra {
            if let Some(instead) = instead(self.owned, name) {
                return Err((name.clone(), belongs(instead)));
            }
            match (self.nested, value) {
                (Some((object, owned)), Value::Object(fields)) if same(object, name) => {
                    for (inner, value) in fields {
                        if let Some(instead) = instead(owned, inner) {
                            return Err((format!("{name}.{inner}"), belongs(instead)));
                        }
                        parts.within.insert(inner.clone(), value.clone());
                    }
                }
                (Some((object, _)), _) if same(object, name) => {
                    return Err((name.clone(), "an object is allowed here".to_owned()));
                }
                _ => {
                    parts.beside.insert(name.clone(), value.clone());
                }
            }
        }
        Ok(parts)
    }

    /// The entry's `extra_body`, taken apart when its handle is built.
    pub(crate) fn of_entry(&self, entry: &EntryConfig) -> Result<Parts> {
        self.split(&entry.extra_body).map_err(|(path, problem)| {
            Error::config(entry.field(&format!("extra_body.{path}")), problem)
        })
    }

    /// A request's `extra_body`, with the entry's already merged in.
    pub(crate) fn of_request(&self, extra: &Map<String, Value>) -> Result<Parts> {
        self.split(extra).map_err(|(path, problem)| {
            Error::new(
                Kind::InvalidRequest,
                format!("extra_body.{path}: {problem}"),
            )
        })
    }
}

fn belongs(instead: &str) -> String {
    format!("this field belongs to the adapter; use {instead}")
}

fn instead(owned: &'static [(&'static str, &'static str)], name: &str) -> Option<&'static str> {
    owned
        .iter()
        .find(|(field, _)| same(field, name))
        .map(|(_, instead)| *instead)
}

/// Whether two spellings name one field.
fn same(a: &str, b: &str) -> bool {
    let plain = |text: &str| text.replace('_', "").to_ascii_lowercase();
    plain(a) == plain(b)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const RULES: Rules = Rules {
        owned: &[("contents", "the request's messages")],
        nested: Some(("generationConfig", &[("maxOutputTokens", "`max_tokens`")])),
    };

    fn split(extra: Value) -> Result<Parts, (String, String)> {
        RULES.split(extra.as_object().unwrap())
    }

    #[test]
    fn fields_of_the_nested_object_are_merged_and_the_rest_stands_beside() {
        let parts = split(
            json!({"labels": {"a": "b"}, "generation_config": {"thinkingConfig": {"thinkingBudget": 0}}}),
        );
        let parts = parts.unwrap();
        assert_eq!(Value::Object(parts.beside), json!({"labels": {"a": "b"}}));
        assert_eq!(
            Value::Object(parts.within),
            json!({"thinkingConfig": {"thinkingBudget": 0}})
        );
    }

    #[test]
    fn a_field_of_the_adapters_is_named_in_either_spelling() {
        for (extra, path) in [
            (json!({"contents": []}), "contents"),
            (
                json!({"generationConfig": {"max_output_tokens": 9}}),
                "generationConfig.max_output_tokens",
            ),
            (json!({"generationConfig": 3}), "generationConfig"),
        ] {
            assert_eq!(split(extra).unwrap_err().0, path);
        }
    }
}
