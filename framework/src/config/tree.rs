//! JSON text to a tree, refusing what would silently lose a setting: an object with the same key twice.

use std::cell::RefCell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::error::{Error, Result};

/// A parsed document, and the order in which its sections' entries stand: a map of values need not keep it.
pub(super) struct Tree {
    pub(super) value: Value,
    /// Paths of two parts (`embedders.docs`), as they come.
    order: Vec<(String, String)>,
}

impl Tree {
    /// The names in a section, in the order they stand.
    pub(super) fn names(&self, section: &str) -> impl Iterator<Item = &str> {
        self.order
            .iter()
            .filter(move |(s, _)| s == section)
            .map(|(_, name)| name.as_str())
    }
}

/// Parses one JSON document.
pub(super) fn parse(text: &str) -> Result<Tree> {
    let seen = RefCell::new(Seen::default());
    let mut from = serde_json::Deserializer::from_str(text.trim_start_matches('\u{feff}'));
    let seed = Node {
        at: &[],
        seen: &seen,
    };
    let parsed = seed
        .deserialize(&mut from)
        .and_then(|value| from.end().map(|()| value));
    let seen = seen.into_inner();
    if let Some(path) = seen.twice {
        return Err(Error::config(path, "the key stands twice in one object"));
    }
    match parsed {
        Ok(value) => Ok(Tree {
            value,
            order: seen.order,
        }),
        Err(e) => Err(Error::config(
            seen.broken.as_deref().unwrap_or("configuration"),
            format!("not valid JSON: {e}"),
        )),
    }
}

/// What is noticed on the way.
#[derive(Default)]
struct Seen {
    /// The first key that stands twice.
    twice: Option<String>,
    /// The value at which the text stopped being JSON.
    broken: Option<String>,
    order: Vec<(String, String)>,
}

/// One step of a path.
#[derive(Clone)]
enum Step {
    Key(String),
    Index(usize),
}

fn path(steps: &[Step]) -> String {
    steps.iter().fold(String::new(), |path, step| match step {
        Step::Key(key) => super::fields::join(&path, key),
        Step::Index(at) => format!("{path}[{at}]"),
    })
}

struct Node<'a> {
    at: &'a [Step],
    seen: &'a RefCell<Seen>,
}

impl Node<'_> {
    fn below(&self, step: Step) -> Vec<Step> {
        let mut at = self.at.to_vec();
        at.push(step);
        at
    }

    fn broken(&self, at: &[Step]) {
        self.seen
            .borrow_mut()
            .broken
            .get_or_insert_with(|| path(at));
    }
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
        loop {
            let at = self.below(Step::Index(out.len()));
            let node = Node {
                at: &at,
                seen: self.seen,
            };
            match seq
                .next_element_seed(node)
                .inspect_err(|_| self.broken(&at))?
            {
                Some(value) => out.push(value),
                None => return Ok(Value::Array(out)),
            }
        }
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut out = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            if let [Step::Key(section)] = self.at {
                let entry = (section.clone(), key.clone());
                self.seen.borrow_mut().order.push(entry);
            }
            let at = self.below(Step::Key(key.clone()));
            let node = Node {
                at: &at,
                seen: self.seen,
            };
            let value = map
                .next_value_seed(node)
                .inspect_err(|_| self.broken(&at))?;
            if out.insert(key, value).is_some() {
                self.seen
                    .borrow_mut()
                    .twice
                    .get_or_insert_with(|| path(&at));
            }
        }
        Ok(Value::Object(out))
    }
}
