//! Field types that take what servers really send: null, a number for a word, a list for a text.
//!
//! All but one never fail on a value of another type: it reads as absent, as an extra field would. The exception is [`Text`],
//! what was said: a number there must not pass for silence.

use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// A text; a list of parts reads as the text of its parts, null as none. Anything else is an error.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Text(pub(super) String);

/// A word; a number reads as its digits.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Word(pub(super) Option<String>);

/// A count of zero or more; a whole float reads as the count it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Count(pub(super) Option<u64>);

/// JSON text; a value that is not a string reads as its own JSON.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct JsonText(pub(super) String);

/// A list; null reads as absent.
#[derive(Debug)]
pub(super) struct Items<T>(pub(super) Vec<T>);

impl<T> Default for Items<T> {
    fn default() -> Self {
        Items(Vec::new())
    }
}

impl Word {
    /// The word, unless there is none or it is empty.
    pub(super) fn get(self) -> Option<String> {
        self.0.filter(|word| !word.is_empty())
    }
}

/// The visitor methods that read as absent.
macro_rules! absent {
    ($($method:ident($ty:ty)),*) => {
        $(fn $method<E: serde::de::Error>(self, _: $ty) -> Result<Self::Value, E> {
            Ok(Self::Value::default())
        })*
    };
    (unit) => {
        fn visit_unit<E: serde::de::Error>(self) -> Result<Self::Value, E> {
            Ok(Self::Value::default())
        }
        fn visit_none<E: serde::de::Error>(self) -> Result<Self::Value, E> {
            Ok(Self::Value::default())
        }
    };
    (seq) => {
        fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
            while seq.next_element::<IgnoredAny>()?.is_some() {}
            Ok(Self::Value::default())
        }
    };
    (map) => {
        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
            Ok(Self::Value::default())
        }
    };
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct V;
        impl<'de> Visitor<'de> for V {
            type Value = Text;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text or a list of parts as what is said")
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Text, E> {
                Ok(Text(text.to_owned()))
            }
            fn visit_string<E: serde::de::Error>(self, text: String) -> Result<Text, E> {
                Ok(Text(text))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Text, A::Error> {
                let mut all = String::new();
                while let Some(part) = seq.next_element::<Part>()? {
                    all.push_str(&part.0);
                }
                Ok(Text(all))
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Text, A::Error> {
                PartVisitor.visit_map(map).map(|part| Text(part.0))
            }
            absent!(unit);
        }
        d.deserialize_any(V)
    }
}

/// One part of a list: a string, or an object of type `text` (or of no type).
#[derive(Default)]
struct Part(String);

impl<'de> Deserialize<'de> for Part {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        d.deserialize_any(PartVisitor)
    }
}

struct PartVisitor;

impl<'de> Visitor<'de> for PartVisitor {
    type Value = Part;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a part")
    }
    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Part, E> {
        Ok(Part(text.to_owned()))
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Part, A::Error> {
        let (mut kind, mut text) = (Word::default(), JsonTextOrNothing::default());
        while let Some(name) = map.next_key::<std::borrow::Cow<'de, str>>()? {
            match name.as_ref() {
                "type" => kind = map.next_value()?,
                "text" => text = map.next_value()?,
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        let is_text = kind
            .0
            .is_none_or(|kind| matches!(kind.as_str(), "text" | "output_text"));
        Ok(Part(if is_text { text.0 } else { String::new() }))
    }
    absent!(unit);
}

/// A string, or nothing.
#[derive(Default)]
struct JsonTextOrNothing(String);

impl<'de> Deserialize<'de> for JsonTextOrNothing {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        Ok(JsonTextOrNothing(
            Word::deserialize(d)?.0.unwrap_or_default(),
        ))
    }
}

impl<'de> Deserialize<'de> for Word {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct V;
        impl<'de> Visitor<'de> for V {
            type Value = Word;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a word")
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Word, E> {
                Ok(Word(Some(text.to_owned())))
            }
            fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<Word, E> {
                Ok(Word(Some(number.to_string())))
            }
            fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<Word, E> {
                Ok(Word(Some(number.to_string())))
            }
            absent!(visit_bool(bool), visit_f64(f64));
            absent!(unit);
            absent!(seq);
            absent!(map);
        }
        d.deserialize_any(V)
    }
}

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct V;
        impl<'de> Visitor<'de> for V {
            type Value = Count;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a count")
            }
            fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<Count, E> {
                Ok(Count(Some(number)))
            }
            fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<Count, E> {
                const EXACT: f64 = 9_007_199_254_740_992.0;
                let whole = number.fract() == 0.0 && (0.0..EXACT).contains(&number);
                Ok(Count(whole.then_some(number as u64)))
            }
            absent!(visit_bool(bool), visit_i64(i64), visit_str(&str));
            absent!(unit);
            absent!(seq);
            absent!(map);
        }
        d.deserialize_any(V)
    }
}

impl<'de> Deserialize<'de> for JsonText {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        Ok(JsonText(match serde_json::Value::deserialize(d)? {
            serde_json::Value::Null => String::new(),
            serde_json::Value::String(text) => text,
            other => other.to_string(),
        }))
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Items<T> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        Ok(Items(Option::<Vec<T>>::deserialize(d)?.unwrap_or_default()))
    }
}
