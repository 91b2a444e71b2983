//! JSON text to a tree, refusing what would silently lose a setting: an object with the same key twice.

use std::cell::RefCell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::error::{Error, Result};

/// Parses one JSON document.
pub(super) fn parse(text: &str) -> Result<Value> {
    let twice = RefCell::new(None);
    let mut from = serde_json::Deserializer::from_str(text.trim_start_matches('\u{feff}'));
    let seed = Node {
        path: String::new(),
        twice: &twice,
    };
    let parsed = seed
        .deserialize(&mut from)
        .and_then(|value| from.end().map(|()| value));
    match (parsed, twice.into_inner()) {
        (_, Some(path)) => Err(Error::config(path, "the key stands twice in one object")),
        (Ok(value), None) => Ok(value),
        (Err(e), None) => Err(Error::config(
            "configuration",
            format!("not valid JSON: {e}"),
        )),
    }
}

struct Node<'a> {
    path: String,
    twice: &'a RefCell<Option<String>>,
}

impl<'de> DeserializeSeed<'de> for Node<'_> {
    type Value = Value;
    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Value, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }
    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }
    fn visit_bool<E>(self, v: bool) -> Result<Value, E> {
        Ok(Value::Bool(v))
    }
    fn visit_i64<E>(self, v: i64) -> Result<Value, E> {
        Ok(Value::Number(v.into()))
    }
    fn visit_u64<E>(self, v: u64) -> Result<Value, E> {
        Ok(Value::Number(v.into()))
    }
    fn visit_f64<E>(self, v: f64) -> Result<Value, E> {
        Ok(Number::from_f64(v).map_or(Value::Null, Value::Number))
    }
    fn visit_str<E>(self, v: &str) -> Result<Value, E> {
        Ok(Value::String(v.to_owned()))
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut out = Vec::new();
        while let Some(v) = seq.next_element_seed(Node {
            path: format!("{}[{}]", self.path, out.len()),
            twice: self.twice,
        })? {
            out.push(v);
        }
        Ok(Value::Array(out))
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut out = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            let path = super::fields::join(&self.path, &key);
            let value = map.next_value_seed(Node {
                path: path.clone(),
                twice: self.twice,
            })?;
            if out.insert(key, value).is_some() {
                self.twice.borrow_mut().get_or_insert(path);
            }
        }
        Ok(Value::Object(out))
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_key_that_stands_twice_is_an_error_with_its_path() {
        let e = super::parse(r#"{"a": {"rate_limit": {}, "rate_limit": {}}}"#).unwrap_err();
        assert!(e.message().starts_with("a.rate_limit: "), "{e}");
        assert!(super::parse("{} x").is_err());
        assert!(super::parse("").is_err());
    }
}
