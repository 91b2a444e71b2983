//! How a check ends early, and the comparisons that end it.

use std::fmt::Debug;

use crate::error::{Error, Kind};

/// Why a check did not run to its end.
#[derive(Debug)]
pub(super) enum Stop {
    Skip(String),
    Fail { expected: String, seen: String },
}

pub(super) type Verdict<T = ()> = Result<T, Stop>;

pub(super) fn skip<T>(why: impl Into<String>) -> Verdict<T> {
    Err(Stop::Skip(why.into()))
}

pub(super) fn fail<T>(expected: impl Into<String>, seen: impl Into<String>) -> Verdict<T> {
    Err(Stop::Fail {
        expected: expected.into(),
        seen: seen.into(),
    })
}

/// The two are the same, or the check fails.
pub(super) fn same<T: PartialEq + Debug>(what: &str, expected: T, seen: T) -> Verdict {
    if expected == seen {
        return Ok(());
    }
    fail(
        format!("{what}: {}", short(&format!("{expected:?}"))),
        short(&format!("{seen:?}")),
    )
}

/// It holds, or the check fails.
pub(super) fn holds(what: &str, seen: bool) -> Verdict {
    if seen {
        Ok(())
    } else {
        fail(what, "it does not hold")
    }
}

/// The call worked, or the check fails.
pub(super) fn worked<T>(what: &str, result: Result<T, Error>) -> Verdict<T> {
    result.or_else(|e| fail(format!("{what}: an answer"), short(&e.to_string())))
}

/// The call failed with an error of this kind, or the check fails.
pub(super) fn refused<T>(what: &str, kind: Kind, result: Result<T, Error>) -> Verdict<Error> {
    match result {
        Err(e) if e.kind() == kind => Ok(e),
        Err(e) => fail(
            format!("{what}: an error of kind {kind}"),
            short(&format!("kind {}: {e}", e.kind())),
        ),
        Ok(_) => fail(format!("{what}: an error of kind {kind}"), "an answer"),
    }
}

/// At most a few lines of what was seen.
pub(super) fn short(text: &str) -> String {
    const MOST: usize = 600;
    if text.len() <= MOST {
        return text.to_owned();
    }
    format!("{}...", &text[..text.floor_char_boundary(MOST)])
}
