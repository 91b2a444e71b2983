//! The input: lines read ahead only a little, taken apart one by one.
//!
//! Line numbers count every line, from 0. Blank lines at the end of the input are no items; a blank line that has something
//! behind it is a malformed one.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::fmt;
use std::io::{self, BufRead as _, BufReader, Read};

use antfly_framework::content::Part;
use antfly_framework::{Error, Kind};
use serde::de::{DeserializeOwned, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use tokio::sync::mpsc;

/// Bytes of lines that are handed over together, at most (a longer line goes alone).
const CHUNK: usize = 64 * 1024;

/// One line of the input, without its end.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Line {
    /// From 0.
    pub(crate) number: u64,
    pub(crate) bytes: Vec<u8>,
    /// How many bytes of the input end with this line.
    pub(crate) end: u64,
}

/// The lines of an input, read on a thread of its own that is never more than a few chunks ahead.
pub(crate) struct Lines {
    chunks: mpsc::Receiver<io::Result<Vec<Line>>>,
    ready: VecDeque<Line>,
}

impl Lines {
    pub(crate) fn read(input: impl Read + Send + 'static) -> Self {
        let (send, chunks) = mpsc::channel(1);
        let reader = move || {
            if let Err(error) = read_all(input, |chunk| send.blocking_send(Ok(chunk)).is_ok()) {
                let _ = send.blocking_send(Err(error));
            }
        };
        std::thread::spawn(reader);
        Lines {
            chunks,
            ready: VecDeque::new(),
        }
    }

    /// The next line. A call that is dropped loses nothing.
    pub(crate) async fn next(&mut self) -> Option<io::Result<Line>> {
        loop {
            if let Some(line) = self.ready.pop_front() {
                return Some(Ok(line));
            }
            match self.chunks.recv().await? {
                Ok(chunk) => self.ready = chunk.into(),
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

/// Reads until the end, or until `hand_over` says that nobody listens. What is there is handed over before a read may block.
fn read_all(input: impl Read, mut hand_over: impl FnMut(Vec<Line>) -> bool) -> io::Result<()> {
    let mut input = BufReader::with_capacity(CHUNK, input);
    let mut chunk = Vec::new();
    let (mut size, mut number, mut end, mut blanks) = (0, 0, 0, 0);
    loop {
        let mut bytes = Vec::new();
        let read = input.read_until(b'\n', &mut bytes)?;
        if read == 0 {
            break;
        }
        end += read as u64;
        if number == 0 && bytes.starts_with(b"\xef\xbb\xbf") {
            bytes.drain(..3);
        }
        while bytes.last().is_some_and(u8::is_ascii_whitespace) {
            bytes.pop();
        }
        if bytes.is_empty() {
            blanks += 1;
        } else {
            let blank = |number| Line {
                number,
                end,
                ..Line::default()
            };
            chunk.extend((number - blanks..number).map(blank));
            blanks = 0;
            size += bytes.len();
            chunk.push(Line { number, bytes, end });
        }
        number += 1;
        // A line that has only begun must not hold back those before it.
        let ready = || size >= CHUNK || !input.buffer().contains(&b'\n');
        if !chunk.is_empty() && ready() {
            size = 0;
            if !hand_over(std::mem::take(&mut chunk)) {
                return Ok(());
            }
        }
    }
    if !chunk.is_empty() {
        hand_over(chunk);
    }
    Ok(())
}

/// What names an item in the output: its own `id`, written back as it came, or its line's number.
#[derive(Clone, Debug)]
pub(crate) enum Id {
    Line(u64),
    Given(Box<RawValue>),
}

impl Serialize for Id {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Id::Line(number) => serializer.serialize_u64(*number),
            Id::Given(raw) => raw.serialize(serializer),
        }
    }
}

/// What a line holds.
#[derive(Debug)]
pub(crate) enum Item<'a> {
    Text(String),
    Object(Fields<'a>),
}

/// Before what the parser says of a line.
const NOT_JSON: &str = "the line is not JSON";

/// Takes a line apart. Its id is known even when the rest is bad.
pub(crate) fn parse(line: &Line) -> (Id, Result<Item<'_>, Error>) {
    let number = Id::Line(line.number);
    let Ok(text) = std::str::from_utf8(&line.bytes) else {
        return (number, Err(invalid("the line is not UTF-8")));
    };
    let item = match text.trim_start().as_bytes().first() {
        None => Err(invalid("the line is blank")),
        Some(b'"') => read(text, NOT_JSON).map(Item::Text),
        Some(b'{') => match serde_json::from_str::<Fields<'_>>(text) {
            Ok(fields) => match fields.get("id") {
                Some(id) => return (Id::Given(id.to_owned()), fields.once().map(Item::Object)),
                None => fields.once().map(Item::Object),
            },
            Err(error) => Err(malformed(NOT_JSON, &error)),
        },
        Some(_) => match serde_json::from_str::<&RawValue>(text) {
            Ok(_) => Err(invalid(
                "the line is neither a JSON object nor a JSON string",
            )),
            Err(error) => Err(malformed(NOT_JSON, &error)),
        },
    };
    (number, item)
}

/// An object's fields, their values not yet looked at.
#[derive(Debug)]
pub(crate) struct Fields<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'a> Fields<'a> {
    pub(crate) fn get(&self, name: &str) -> Option<&'a RawValue> {
        self.0
            .iter()
            .find(|(n, _)| n == name)
            .map(|(_, value)| *value)
    }

    /// The value of a field, `None` where it is left out or `null`.
    pub(crate) fn read<T: DeserializeOwned>(
        &self,
        at: &str,
        name: &str,
    ) -> Result<Option<T>, Error> {
        match self.get(name) {
            None => Ok(None),
            Some(raw) if raw.get() == "null" => Ok(None),
            Some(raw) => read(raw.get(), &join(at, name)).map(Some),
        }
    }

    /// An object's fields, out of one of them.
    pub(crate) fn of(raw: &'a RawValue, at: &str) -> Result<Self, Error> {
        serde_json::from_str::<Fields<'a>>(raw.get())
            .map_err(|error| malformed(at, &error))?
            .once()
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| name.as_ref())
    }

    /// Refuses a field that none of `known` names.
    pub(crate) fn only(&self, at: &str, known: &[&str]) -> Result<(), Error> {
        match self.names().find(|name| !known.contains(name)) {
            None => Ok(()),
            Some(name) => Err(invalid(format!(
                "{}: unknown field; {}",
                join(at, name),
                nearest(name, known)
            ))),
        }
    }

    /// Refuses a field that is there twice.
    fn once(self) -> Result<Self, Error> {
        for (at, name) in self.names().enumerate() {
            if self.names().take(at).any(|earlier| earlier == name) {
                return Err(invalid(format!("{name}: the field is there twice")));
            }
        }
        Ok(self)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Fields<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object;
        impl<'de> Visitor<'de> for Object {
            type Value = Vec<(Cow<'de, str>, &'de RawValue)>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut fields = Vec::new();
                while let Some(name) = map.next_key::<String>()? {
                    fields.push((Cow::Owned(name), map.next_value()?));
                }
                Ok(fields)
            }
        }
        deserializer.deserialize_map(Object).map(Fields)
    }
}

/// Text and media of an `embed` or `rerank` line, in that order, at least one of them.
///
/// Other fields are the user's own and ignored, unless one looks like a misspelling: content must not get lost to a typo.
pub(crate) fn content(fields: &Fields<'_>) -> Result<Vec<Part>, Error> {
    const KNOWN: [&str; 3] = ["id", "text", "image"];
    let likely = fields.names().find_map(|name| {
        let near =
            |known: &str| strsim::osa_distance(name, known) == 1 || name == format!("{known}_url");
        KNOWN[1..]
            .iter()
            .find(|known| near(known))
            .map(|known| (name, known))
    });
    if let Some((name, known)) = likely {
        return Err(invalid(format!(
            "{name}: unknown field; did you mean {known:?}?"
        )));
    }
    let mut parts = Vec::new();
    if let Some(text) = fields.read::<String>("", "text")? {
        if text.is_empty() {
            return Err(invalid("text: it is empty"));
        }
        parts.push(Part::text(text));
    }
    if let Some(url) = fields.read::<String>("", "image")? {
        if !url.contains(':') {
            return Err(invalid("image: it is not a URL (data:, https:)"));
        }
        parts.push(Part::image_url(url));
    }
    if parts.is_empty() {
        return Err(invalid("the item has neither text nor image"));
    }
    Ok(parts)
}

/// Reads one JSON value; `at` says where, if it is not what it should be.
pub(crate) fn read<T: DeserializeOwned>(json: &str, at: &str) -> Result<T, Error> {
    serde_json::from_str(json).map_err(|error| malformed(at, &error))
}

/// A path into the line: `messages[0].content`.
pub(crate) fn join(at: &str, name: &str) -> String {
    if at.is_empty() {
        name.to_owned()
    } else {
        format!("{at}.{name}")
    }
}

/// The known name that is likeliest meant.
pub(crate) fn nearest(name: &str, known: &[&str]) -> String {
    match antfly_framework::config::nearest(name, known.iter().copied()) {
        Some(near) => format!("did you mean {near:?}?"),
        None => format!("known are {}", known.join(", ")),
    }
}

pub(crate) fn invalid(message: impl Into<String>) -> Error {
    Error::new(Kind::InvalidRequest, message)
}

fn malformed(at: &str, error: &serde_json::Error) -> Error {
    let text = error.to_string();
    // Everything is one line, so that only the column says something.
    let text = match text.rsplit_once(" at line 1 column ") {
        Some((what, column)) if error.is_syntax() || error.is_eof() => {
            format!("{what} at column {column}")
        }
        Some((what, _)) => what.to_owned(),
        None => text,
    };
    invalid(format!("{at}: {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(number: u64, text: &str) -> Line {
        Line {
            number,
            bytes: text.into(),
            end: 0,
        }
    }

    fn lines(input: &[u8]) -> Vec<(u64, String)> {
        let mut all = Vec::new();
        read_all(input, |chunk| {
            all.extend(
                chunk
                    .into_iter()
                    .map(|l| (l.number, String::from_utf8(l.bytes).unwrap())),
            );
            true
        })
        .unwrap();
        all
    }

    fn id(text: &str) -> String {
        serde_json::to_string(&parse(&line(7, text)).0).unwrap()
    }

    fn message(text: &str) -> String {
        let line = line(0, text);
        let (_, item) = parse(&line);
        let bad = item.and_then(|item| match item {
            Item::Object(fields) => content(&fields),
            Item::Text(text) => Ok(vec![Part::text(text)]),
        });
        bad.expect_err(text).message().to_owned()
    }

    #[test]
    fn every_line_is_counted_and_only_trailing_blanks_are_dropped() {
        let got = lines(b"\xef\xbb\xbfa\r\n\n  \nb\nc\n\n \n");
        let want = [(0, "a"), (1, ""), (2, ""), (3, "b"), (4, "c")];
        assert_eq!(got, want.map(|(n, t)| (n, t.to_owned())));
        assert_eq!(lines(b""), []);
        assert_eq!(lines(b"\n\n"), []);
        assert_eq!(lines(b"last"), [(0, "last".to_owned())]);
    }

    #[test]
    fn reading_stops_when_nobody_listens() {
        let mut handed = 0;
        read_all(
            io::repeat(b'\n').take(10).chain(io::repeat(b'x').take(5)),
            |_| {
                handed += 1;
                false
            },
        )
        .unwrap();
        assert_eq!(handed, 1);
    }

    #[test]
    fn ids_come_back_as_they_were_written() {
        assert_eq!(id(r#"{"id": "a", "text": "x"}"#), r#""a""#);
        assert_eq!(
            id(r#"{"id": {"b": 1, "a": 2}, "text": 5}"#),
            r#"{"b": 1, "a": 2}"#
        );
        assert_eq!(
            id(r#"{"id": 123456789012345678901234567890}"#),
            "123456789012345678901234567890"
        );
        assert_eq!(id(r#"{"id": null, "text": "x"}"#), "null");
        assert_eq!(id(r#"{"text": "x"}"#), "7");
        assert_eq!(id(r#""bare""#), "7");
        assert_eq!(id(r#"{"id": "a", "#), "7");
    }

    #[test]
    fn bad_lines_say_what_is_wrong() {
        assert_eq!(message(r#"{"id": "a", "text": ""}"#), "text: it is empty");
        assert_eq!(
            message(r#"{"id": "a"}"#),
            "the item has neither text nor image"
        );
        assert_eq!(
            message(r#"{"txt": "a"}"#),
            "txt: unknown field; did you mean \"text\"?"
        );
        assert_eq!(
            message(r#"{"text": "a", "image_url": "b"}"#),
            "image_url: unknown field; did you mean \"image\"?"
        );
        assert_eq!(
            message(r#"{"text": "a", "text": "b"}"#),
            "text: the field is there twice"
        );
        assert_eq!(
            message("[1]"),
            "the line is neither a JSON object nor a JSON string"
        );
        assert_eq!(message(""), "the line is blank");
        assert!(message(r#"{"text": 5}"#).starts_with("text: invalid type"));
        assert!(message(r#"{"text": "#).starts_with("the line is not JSON: EOF"));
        assert!(message("nonsense").starts_with("the line is not JSON: expected"));
    }

    #[test]
    fn the_users_own_fields_are_ignored() {
        let line = line(0, r#"{"text": "a", "title": "b", "lang": "de"}"#);
        let Ok(Item::Object(fields)) = parse(&line).1 else {
            panic!("bad")
        };
        assert_eq!(content(&fields).unwrap(), [Part::text("a")]);
    }

    #[tokio::test]
    async fn a_chunk_is_handed_over_before_the_next_read_can_block() {
        let (reader, mut writer) = io::pipe().unwrap();
        let mut lines = Lines::read(reader);
        io::Write::write_all(&mut writer, b"\"one\"\n").unwrap();
        assert_eq!(lines.next().await.unwrap().unwrap().bytes, b"\"one\"");
        io::Write::write_all(&mut writer, b"\"two\"\n\n").unwrap();
        assert_eq!(lines.next().await.unwrap().unwrap().number, 1);
        io::Write::write_all(&mut writer, b"\"three\"\n\"fo").unwrap();
        assert_eq!(
            lines.next().await.unwrap().unwrap().bytes,
            b"",
            "a blank one"
        );
        assert_eq!(lines.next().await.unwrap().unwrap().bytes, b"\"three\"");
        io::Write::write_all(&mut writer, b"ur\"\n").unwrap();
        assert_eq!(lines.next().await.unwrap().unwrap().bytes, b"\"four\"");
        drop(writer);
        assert!(lines.next().await.is_none());
    }
}
