//! Reads the fields of one JSON object, each once, with errors that name the path, the value and what is allowed.

use serde_json::{Map, Value};

use crate::error::{Error, Result};

/// `a.b`, or `b` at the top.
pub(super) fn join(path: &str, key: &str) -> String {
    if path.is_empty() {
        key.to_owned()
    } else {
        format!("{path}.{key}")
    }
}

/// The nearest of `known` to `word`, when it is near at all.
pub(crate) fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    known
        .into_iter()
        .map(|k| (strsim::damerau_levenshtein(word, k), k))
        .min()
        .filter(|(distance, k)| *distance <= (k.len().max(word.len()) / 2).max(2))
        .map(|(_, k)| k)
}

/// "unknown field; did you mean ...".
pub(super) fn unknown(path: &str, key: &str, known: &[&str]) -> Error {
    let hint = match nearest(key, known.iter().copied()) {
        Some(near) => format!("; did you mean {near:?}?"),
        None => String::new(),
    };
    Error::config(
        join(path, key),
        format!("unknown field{hint} (allowed: {})", known.join(", ")),
    )
}

/// Whether a value holds a text, which may be a key in the wrong place.
fn holds_text(value: &Value) -> bool {
    match value {
        Value::String(_) => true,
        Value::Array(items) => items.iter().any(holds_text),
        Value::Object(fields) => !fields.is_empty(),
        _ => false,
    }
}

/// A value as errors show it: short, and without the texts in a list or an object.
pub(super) fn shown(value: &Value) -> String {
    match value {
        Value::Array(_) if holds_text(value) => return "a list".to_owned(),
        Value::Object(_) if holds_text(value) => return "an object".to_owned(),
        _ => {}
    }
    let mut text = value.to_string();
    if text.len() > 60 {
        let cut = (0..=57)
            .rev()
            .find(|i| text.is_char_boundary(*i))
            .unwrap_or(0);
        text.truncate(cut);
        text.push_str("...");
    }
    text
}

/// What is wrong with a value where an object belongs. A text there may be a key: `"secrets": "sk-..."`.
fn no_object(value: &Value) -> String {
    match value {
        Value::String(_) => "a text is not allowed; an object is".to_owned(),
        other => format!("{} is not allowed; an object is", shown(other)),
    }
}

/// An object being read.
pub(super) struct Fields<'a> {
    pub(super) path: &'a str,
    map: &'a Map<String, Value>,
}

impl<'a> Fields<'a> {
    pub(super) fn of(path: &'a str, value: &'a Value) -> Result<Self> {
        match value {
            Value::Object(map) => Ok(Fields { path, map }),
            other => Err(Error::config(
                if path.is_empty() {
                    "configuration"
                } else {
                    path
                },
                no_object(other),
            )),
        }
    }

    pub(super) fn only(&self, known: &[&str]) -> Result<()> {
        match self.map.keys().find(|k| !known.contains(&k.as_str())) {
            Some(key) => Err(unknown(self.path, key, known)),
            None => Ok(()),
        }
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &'a str> {
        self.map.keys().map(String::as_str)
    }

    /// A field's value; `null` is as if omitted.
    pub(super) fn get(&self, key: &str) -> Option<&'a Value> {
        self.map.get(key).filter(|v| !v.is_null())
    }

    pub(super) fn bad(&self, key: &str, value: &Value, allowed: &str) -> Error {
        Error::config(
            join(self.path, key),
            format!("{} is not allowed; {allowed} is", shown(value)),
        )
    }

    fn read<T>(
        &self,
        key: &str,
        allowed: &str,
        f: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Result<Option<T>> {
        match self.get(key) {
            None => Ok(None),
            Some(value) => f(value)
                .map(Some)
                .ok_or_else(|| self.bad(key, value, allowed)),
        }
    }

    /// An integer from 1 to 4294967295.
    pub(super) fn positive(&self, key: &str) -> Result<Option<u32>> {
        self.read(key, "an integer from 1 to 4294967295", |v| {
            v.as_u64()
                .and_then(|n| u32::try_from(n).ok())
                .filter(|n| *n > 0)
        })
    }

    pub(super) fn integer(&self, key: &str) -> Result<Option<i64>> {
        self.read(key, "an integer", Value::as_i64)
    }

    /// A finite number in a range.
    pub(super) fn number(&self, key: &str, from: f64, to: f64) -> Result<Option<f64>> {
        self.read(key, &format!("a number from {from} to {to}"), |v| {
            v.as_f64().filter(|n| (from..=to).contains(n))
        })
    }

    pub(super) fn flag(&self, key: &str) -> Result<Option<bool>> {
        self.read(key, "true or false", Value::as_bool)
    }

    /// A text that is not blank.
    pub(super) fn text(&self, key: &str) -> Result<Option<String>> {
        self.read(key, "a text that is not blank", |v| {
            v.as_str()
                .filter(|s| !s.trim().is_empty())
                .map(str::to_owned)
        })
    }

    pub(super) fn object(&self, key: &str) -> Result<Option<&'a Map<String, Value>>> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Object(map)) => Ok(Some(map)),
            Some(other) => Err(Error::config(join(self.path, key), no_object(other))),
        }
    }

    pub(super) fn choice<T: Copy>(&self, key: &str, choices: &[(&str, T)]) -> Result<Option<T>> {
        let names: Vec<_> = choices.iter().map(|(n, _)| format!("{n:?}")).collect();
        self.read(key, &names.join(" or "), |v| {
            let word = v.as_str()?;
            choices.iter().find(|(n, _)| *n == word).map(|(_, t)| *t)
        })
    }
}
