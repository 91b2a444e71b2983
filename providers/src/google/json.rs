//! Field types that take what servers really send: null for nothing, a number as text.

use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// A count of zero or more; what is none reads as absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Count(pub(crate) Option<u64>);

/// A text; what is none reads as absent, and so does an empty one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Word(pub(crate) Option<String>);

/// A list; null reads as empty.
#[derive(Debug)]
pub(crate) struct Items<T>(pub(crate) Vec<T>);

impl<T> Default for Items<T> {
    fn default() -> Self {
        Items(Vec::new())
    }
}

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        Ok(Count(match Value::deserialize(d)? {
            // 64-bit integers are strings in Google's JSON, and numbers of a `Struct` are floats.
            Value::String(text) => text.parse().ok(),
            Value::Number(number) => number.as_u64().or_else(|| whole(number.as_f64()?)),
            _ => None,
        }))
    }
}

fn whole(number: f64) -> Option<u64> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    (number.fract() == 0.0 && (0.0..EXACT).contains(&number)).then_some(number as u64)
}

impl<'de> Deserialize<'de> for Word {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        Ok(Word(match Value::deserialize(d)? {
            Value::String(text) if !text.is_empty() => Some(text),
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        }))
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Items<T> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        Ok(Items(Option::<Vec<T>>::deserialize(d)?.unwrap_or_default()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn counts_come_as_numbers_texts_and_floats() {
        for (sent, read) in [
            (json!(5), Some(5)),
            (json!("5"), Some(5)),
            (json!(5.0), Some(5)),
            (json!(5.5), None),
            (json!(-1), None),
            (json!(null), None),
            (json!({}), None),
        ] {
            assert_eq!(Count::deserialize(sent).unwrap().0, read);
        }
    }
}
