//! A walk over one JSON text, for an answer whose bulk is numbers.
//!
//! Only punctuation is read here; every value but those numbers is read by serde_json, in place.

use std::borrow::Cow;

use serde::Deserialize;

use super::floats;

/// Where the walk stands.
pub(super) struct Cursor<'de> {
    bytes: &'de [u8],
    at: usize,
}

/// A string, borrowed where it holds no escapes.
#[derive(Deserialize)]
pub(super) struct Str<'a>(#[serde(borrow)] pub(super) Cow<'a, str>);

/// What is wrong with the text, and where.
pub(super) type Parsed<T> = Result<T, String>;

impl<'de> Cursor<'de> {
    pub(super) fn new(bytes: &'de [u8]) -> Self {
        Cursor { bytes, at: 0 }
    }

    fn rest(&self) -> &'de [u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }

    /// The next byte that is no white space, which stays.
    pub(super) fn peek(&mut self) -> Option<u8> {
        let rest = self.rest();
        let blank = |b: &u8| matches!(b, b' ' | b'\n' | b'\r' | b'\t');
        self.at += rest.iter().take_while(|b| blank(b)).count();
        self.rest().first().copied()
    }

    fn eat(&mut self, wanted: u8) -> bool {
        let is = self.peek() == Some(wanted);
        self.at += usize::from(is);
        is
    }

    fn expect(&mut self, wanted: u8) -> Parsed<()> {
        if self.eat(wanted) {
            return Ok(());
        }
        Err(self.problem(format_args!("expected `{}`", char::from(wanted))))
    }

    pub(super) fn problem(&self, what: impl std::fmt::Display) -> String {
        format!("{what} at byte {}", self.at)
    }

    /// The value here, whatever it is.
    pub(super) fn value<T: Deserialize<'de>>(&mut self) -> Parsed<T> {
        let mut values = serde_json::Deserializer::from_slice(self.rest()).into_iter::<T>();
        match values.next() {
            Some(Ok(value)) => {
                self.at += values.byte_offset();
                Ok(value)
            }
            Some(Err(e)) => Err(self.problem(format_args!("{e}, in the value"))),
            None => Err(self.problem("expected a value")),
        }
    }

    /// The members of the object here: `member` reads the value of each name.
    pub(super) fn object(
        &mut self,
        mut member: impl FnMut(&mut Self, &str) -> Parsed<()>,
    ) -> Parsed<()> {
        self.expect(b'{')?;
        if self.eat(b'}') {
            return Ok(());
        }
        loop {
            let name: Str<'_> = self.value()?;
            self.expect(b':')?;
            member(self, &name.0)?;
            if self.eat(b'}') {
                return Ok(());
            }
            self.expect(b',')?;
        }
    }

    /// The elements of the list here.
    pub(super) fn list(&mut self, mut element: impl FnMut(&mut Self) -> Parsed<()>) -> Parsed<()> {
        self.expect(b'[')?;
        if self.eat(b']') {
            return Ok(());
        }
        loop {
            element(self)?;
            if self.eat(b']') {
                return Ok(());
            }
            self.expect(b',')?;
        }
    }

    /// The list of numbers here, appended to `out`.
    pub(super) fn numbers(&mut self, out: &mut Vec<f32>) -> Parsed<()> {
        self.expect(b'[')?;
        if self.eat(b']') {
            return Ok(());
        }
        let bytes = self.bytes;
        let mut at = self.at;
        loop {
            if bytes.get(at).is_some_and(|b| *b <= b' ') {
                self.at = at;
                self.peek();
                at = self.at;
            }
            let Some((number, length)) = bytes.get(at..).and_then(floats::number) else {
                self.at = at;
                return Err(self.problem("expected a number"));
            };
            at += length;
            out.push(number);
            // A comma nearly always: whatever else it is goes the long way.
            if bytes.get(at) == Some(&b',') {
                at += 1;
                continue;
            }
            self.at = at;
            if self.eat(b']') {
                return Ok(());
            }
            self.expect(b',')?;
            at = self.at;
        }
    }

    /// Nothing but white space may be left.
    pub(super) fn end(&mut self) -> Parsed<()> {
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(self.problem("expected the end")),
        }
    }
}
