//! The methods of Python's strings and dictionaries that chat templates call.

use minijinja::value::{ValueKind, from_args};
use minijinja::{Error, ErrorKind, State, Value};

/// Calls `method` of `value`, where it is one of those.
pub(super) fn call(
    state: &State,
    value: &Value,
    method: &str,
    args: &[Value],
) -> Result<Value, Error> {
    match value.kind() {
        ValueKind::String => text(value, method, args),
        ValueKind::Map => map(state, value, method, args),
        _ => Err(unknown(method)),
    }
}

fn unknown(method: &str) -> Error {
    Error::new(
        ErrorKind::UnknownMethod,
        format!("{method} is not supported"),
    )
}

fn text(value: &Value, method: &str, args: &[Value]) -> Result<Value, Error> {
    let text = value.as_str().unwrap_or_default();
    let among = |set: Option<&str>| {
        let set = set.map(str::to_owned);
        move |c: char| {
            set.as_ref()
                .map_or(c.is_whitespace(), |set| set.contains(c))
        }
    };
    Ok(match method {
        "strip" | "lstrip" | "rstrip" => {
            let (set,): (Option<&str>,) = from_args(args)?;
            let mut rest = text;
            if method != "rstrip" {
                rest = rest.trim_start_matches(among(set));
            }
            if method != "lstrip" {
                rest = rest.trim_end_matches(among(set));
            }
            Value::from(rest)
        }
        "startswith" => {
            let (start,): (&str,) = from_args(args)?;
            Value::from(text.starts_with(start))
        }
        "endswith" => {
            let (end,): (&str,) = from_args(args)?;
            Value::from(text.ends_with(end))
        }
        "replace" => {
            let (from, to): (&str, &str) = from_args(args)?;
            Value::from(text.replace(from, to))
        }
        "split" => {
            let (by, most): (Option<&str>, Option<usize>) = from_args(args)?;
            let limit = most.map_or(usize::MAX, |most| most.saturating_add(1));
            match by {
                Some("") => return Err(Error::new(ErrorKind::InvalidOperation, "empty separator")),
                Some(by) => text.splitn(limit, by).collect(),
                None => text.split_whitespace().collect(),
            }
        }
        "upper" => Value::from(text.to_uppercase()),
        "lower" => Value::from(text.to_lowercase()),
        "title" => {
            let mut begins = true;
            let letter = |c: char| {
                let first = std::mem::replace(&mut begins, !c.is_alphabetic());
                if first {
                    c.to_uppercase().collect::<String>()
                } else {
                    c.to_lowercase().collect()
                }
            };
            Value::from(text.chars().map(letter).collect::<String>())
        }
        _ => return Err(unknown(method)),
    })
}

fn map(state: &State, value: &Value, method: &str, args: &[Value]) -> Result<Value, Error> {
    match method {
        "items" => {
            let () = from_args(args)?;
            state.apply_filter("items", std::slice::from_ref(value))
        }
        "keys" => {
            let () = from_args(args)?;
            Ok(value.try_iter()?.collect())
        }
        "values" => {
            let () = from_args(args)?;
            let keys = value.try_iter()?;
            keys.map(|key| value.get_item(&key)).collect()
        }
        "get" => {
            let (key, default): (Value, Option<Value>) = from_args(args)?;
            let found = value.get_item(&key)?;
            let absent = || default.unwrap_or_else(|| Value::from(()));
            Ok(if found.is_undefined() {
                absent()
            } else {
                found
            })
        }
        _ => Err(unknown(method)),
    }
}
