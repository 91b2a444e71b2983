//! Metadata values.

use std::io::{Read, Seek};

use antfly_framework::Result;

use super::read::Reader;

/// More elements than any vocabulary has.
const MAX_ELEMENTS: u64 = 1 << 24;
/// A chat template or a token is far shorter.
const MAX_TEXT: u64 = 1 << 24;
/// Lists of lists are allowed by the format; no model nests deeper than this, and a chain of them must not eat the stack.
const MAX_DEPTH: usize = 4;

/// One value, its width forgotten.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Unsigned(u64),
    Signed(i64),
    Float(f64),
    Flag(bool),
    Text(String),
    Texts(Vec<String>),
    Integers(Vec<i64>),
    Floats(Vec<f32>),
    /// A list of something that no model here needs: read past.
    Skipped,
}

impl Value {
    /// The value as an error shows it: short, whatever the file holds.
    pub(super) fn describe(&self) -> String {
        match self {
            Value::Unsigned(n) => n.to_string(),
            Value::Signed(n) => n.to_string(),
            Value::Float(x) => x.to_string(),
            Value::Flag(b) => b.to_string(),
            Value::Text(text) => format!("{:?}", text.chars().take(40).collect::<String>()),
            Value::Texts(list) => format!("a list of {} texts", list.len()),
            Value::Integers(list) => format!("a list of {} whole numbers", list.len()),
            Value::Floats(list) => format!("a list of {} numbers", list.len()),
            Value::Skipped => "a list".to_owned(),
        }
    }

    pub(super) fn read<R: Read + Seek>(reader: &mut Reader<R>, key: &str) -> Result<Self> {
        let kind = reader.u32(key)?;
        if kind == LIST {
            list(reader, key, 0)
        } else {
            scalar(reader, key, kind)
        }
    }
}

const LIST: u32 = 9;
const TEXT: u32 = 8;

/// Bytes of a scalar on disk, at least.
fn size<R: Read + Seek>(reader: &Reader<R>, key: &str, kind: u32) -> Result<u64> {
    Ok(match kind {
        0 | 1 | 7 => 1,
        2 | 3 => 2,
        4..=6 => 4,
        TEXT | 10..=12 => 8,
        LIST => 12,
        other => {
            return Err(reader.error(
                key,
                format_args!("value type {other} is unknown; 0 to 12 are known"),
            ));
        }
    })
}

fn scalar<R: Read + Seek>(reader: &mut Reader<R>, key: &str, kind: u32) -> Result<Value> {
    Ok(match kind {
        0 => Value::Unsigned(u8::from_le_bytes(reader.array(key)?).into()),
        1 => Value::Signed(i8::from_le_bytes(reader.array(key)?).into()),
        2 => Value::Unsigned(u16::from_le_bytes(reader.array(key)?).into()),
        3 => Value::Signed(i16::from_le_bytes(reader.array(key)?).into()),
        4 => Value::Unsigned(reader.u32(key)?.into()),
        5 => Value::Signed(i32::from_le_bytes(reader.array(key)?).into()),
        6 => Value::Float(f32::from_le_bytes(reader.array(key)?).into()),
        7 => match reader.array::<1>(key)? {
            [0] => Value::Flag(false),
            [1] => Value::Flag(true),
            [other] => {
                let problem = format_args!("{other} is neither false (0) nor true (1)");
                return Err(reader.error(key, problem));
            }
        },
        TEXT => Value::Text(reader.text(key, MAX_TEXT)?),
        10 => Value::Unsigned(reader.u64(key)?),
        11 => Value::Signed(i64::from_le_bytes(reader.array(key)?)),
        12 => Value::Float(f64::from_le_bytes(reader.array(key)?)),
        other => {
            size(reader, key, other)?;
            Value::Skipped
        }
    })
}

fn list<R: Read + Seek>(reader: &mut Reader<R>, key: &str, depth: usize) -> Result<Value> {
    if depth >= MAX_DEPTH {
        return Err(reader.error(key, "lists are nested too deeply"));
    }
    let kind = reader.u32(key)?;
    let least = size(reader, key, kind)?;
    let n = reader.count(key, MAX_ELEMENTS)?;
    // What is collected below is at most a small multiple of this.
    reader.left(n.saturating_mul(least), key)?;
    match kind {
        TEXT => {
            let texts = (0..n).map(|_| reader.text(key, MAX_TEXT));
            Ok(Value::Texts(texts.collect::<Result<_>>()?))
        }
        LIST => {
            for _ in 0..n {
                list(reader, key, depth + 1)?;
            }
            Ok(Value::Skipped)
        }
        6 | 12 => {
            let mut floats = Vec::new();
            for _ in 0..n {
                if let Value::Float(x) = scalar(reader, key, kind)? {
                    #[expect(
                        clippy::cast_possible_truncation,
                        reason = "scores, in single precision by nature"
                    )]
                    floats.push(x as f32);
                }
            }
            Ok(Value::Floats(floats))
        }
        7 => {
            for _ in 0..n {
                scalar(reader, key, kind)?;
            }
            Ok(Value::Skipped)
        }
        _ => {
            let mut integers = Vec::new();
            for _ in 0..n {
                match scalar(reader, key, kind)? {
                    Value::Unsigned(v) => integers.push(i64::try_from(v).unwrap_or(i64::MAX)),
                    Value::Signed(v) => integers.push(v),
                    _ => {}
                }
            }
            Ok(Value::Integers(integers))
        }
    }
}
