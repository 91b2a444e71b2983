//! Streams of events, parsed from bytes as they arrive.
//!
//! [`EventStreamParser`] reads server-sent events (`text/event-stream`), [`LineParser`] reads one JSON value a line
//! (`application/x-ndjson`). Both work on bytes, so it does not matter where a chunk ends: in the middle of a character, or
//! between a CR and its LF. Text becomes a `String` only once a whole line is there.
//!
//! Both are bounded by the size of the part that is *unfinished*. A stream as a whole may be as long as it likes and takes no
//! more memory than its largest event.

use crate::error::{Error, Kind, Result};
use crate::provider::Frame;

/// An incremental parser of `text/event-stream`.
///
/// Lines end with CR, LF or CRLF and with nothing else, so U+2028 stays inside the text. Comments, unknown fields and `id` yield
/// nothing. An event whose data is empty is skipped. After an error the parser gives the same kind of error for ever.
#[derive(Debug)]
pub struct EventStreamParser {
    max_event_bytes: usize,
    /// The beginning of a line whose end has not come yet.
    partial: Vec<u8>,
    data: Vec<u8>,
    has_data: bool,
    event: Option<String>,
    /// The bytes of the complete lines of the unfinished event, comments left out.
    event_bytes: usize,
    /// The last chunk ended with CR: an LF at the start of the next one belongs to it.
    after_cr: bool,
    at_start: bool,
    broken: bool,
}

impl EventStreamParser {
    /// A parser that refuses an event of more than `max_event_bytes` (the bytes of its lines, without their ends).
    pub fn new(max_event_bytes: usize) -> Self {
        EventStreamParser {
            max_event_bytes,
            partial: Vec::new(),
            data: Vec::new(),
            has_data: false,
            event: None,
            event_bytes: 0,
            after_cr: false,
            at_start: true,
            broken: false,
        }
    }

    /// Reads one chunk and appends the events that it completes to `out`.
    ///
    /// On an error, the events before it are in `out` all the same.
    pub fn push(&mut self, chunk: &[u8], out: &mut Vec<Frame>) -> Result<()> {
        if self.broken {
            return Err(Error::new(
                Kind::InvalidResponse,
                "the event stream was broken before",
            ));
        }
        let result = self.read(chunk, out);
        self.broken = result.is_err();
        result
    }

    /// Ends the stream. What is complete but lacks its final blank line is handed out, so that a server that closes right
    /// after its last line loses nothing. A last line that was cut off inside its JSON is dropped: the caller then sees a
    /// stream that ended early, which is what happened.
    pub fn finish(&mut self, out: &mut Vec<Frame>) -> Result<()> {
        if self.broken {
            return Ok(());
        }
        let line = std::mem::take(&mut self.partial);
        let terminated = line.is_empty();
        let result = if terminated {
            self.dispatch(out)
        } else {
            self.line(&line, out).and_then(|()| {
                if is_whole(&self.data) {
                    self.dispatch(out)
                } else {
                    Ok(())
                }
            })
        };
        self.broken = true;
        result
    }

    fn read(&mut self, mut chunk: &[u8], out: &mut Vec<Frame>) -> Result<()> {
        if self.after_cr && !chunk.is_empty() {
            self.after_cr = false;
            chunk = chunk.strip_prefix(b"\n").unwrap_or(chunk);
        }
        while let Some(end) = memchr::memchr2(b'\n', b'\r', chunk) {
            let (line, rest) = chunk.split_at(end);
            if self.partial.is_empty() {
                self.line(line, out)?;
            } else {
                self.bound_with(line)?;
                self.partial.extend_from_slice(line);
                let mut whole = std::mem::take(&mut self.partial);
                self.line(&whole, out)?;
                whole.clear();
                self.partial = whole;
            }
            chunk = match rest {
                [b'\r'] => {
                    self.after_cr = true;
                    &[]
                }
                [b'\r', b'\n', rest @ ..] => rest,
                [_, rest @ ..] => rest,
                [] => &[],
            };
        }
        self.bound_with(chunk)?;
        self.partial.extend_from_slice(chunk);
        Ok(())
    }

    /// Bounds the unfinished line with `more` of it. A byte order mark is no part of it, however it is cut.
    fn bound_with(&self, more: &[u8]) -> Result<()> {
        let mut bytes = self.partial.len().saturating_add(more.len());
        let begins = self.partial.iter().chain(more).take(BOM.len());
        if self.at_start && begins.eq(BOM) {
            bytes -= BOM.len();
        }
        self.bound(bytes)
    }

    fn bound(&self, unfinished_line: usize) -> Result<()> {
        if self.event_bytes.saturating_add(unfinished_line) > self.max_event_bytes {
            return Err(too_large("event", self.max_event_bytes));
        }
        Ok(())
    }

    fn line(&mut self, mut line: &[u8], out: &mut Vec<Frame>) -> Result<()> {
        if std::mem::take(&mut self.at_start) {
            line = line.strip_prefix(BOM).unwrap_or(line);
        }
        if line.is_empty() {
            return self.dispatch(out);
        }
        self.bound(line.len())?;
        if line.starts_with(b":") {
            return Ok(());
        }
        self.event_bytes += line.len();
        let (field, value) = match line {
            [b'd', b'a', b't', b'a', b':', value @ ..] => (&b"data"[..], value),
            _ => match memchr::memchr(b':', line) {
                Some(colon) => (&line[..colon], &line[colon + 1..]),
                None => (line, &[][..]),
            },
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match field {
            b"data" => {
                if self.has_data {
                    self.data.push(b'\n');
                }
                self.has_data = true;
                self.data.extend_from_slice(value);
            }
            b"event" => self.event = Some(text(value.to_vec())?),
            _ => {}
        }
        Ok(())
    }

    fn dispatch(&mut self, out: &mut Vec<Frame>) -> Result<()> {
        let data = std::mem::take(&mut self.data);
        let event = self.event.take().filter(|event| !event.is_empty());
        self.has_data = false;
        self.event_bytes = 0;
        if data.iter().all(|byte| *byte == b'\n') {
            return Ok(());
        }
        let data = text(data)?;
        out.push(Frame { event, data });
        Ok(())
    }
}

/// An incremental parser of newline-delimited JSON: one frame a line. Blank lines are skipped; the CR of a CRLF is not part of the line.
#[derive(Debug)]
pub struct LineParser {
    max_line_bytes: usize,
    partial: Vec<u8>,
    at_start: bool,
    broken: bool,
}

impl LineParser {
    /// A parser that refuses a line of more than `max_line_bytes`.
    pub fn new(max_line_bytes: usize) -> Self {
        LineParser {
            max_line_bytes,
            partial: Vec::new(),
            at_start: true,
            broken: false,
        }
    }

    /// Reads one chunk and appends the lines that it completes to `out`; on an error the lines before it are there as well.
    pub fn push(&mut self, chunk: &[u8], out: &mut Vec<Frame>) -> Result<()> {
        if self.broken {
            return Err(Error::new(
                Kind::InvalidResponse,
                "the line stream was broken before",
            ));
        }
        let result = self.read(chunk, out);
        self.broken = result.is_err();
        result
    }

    /// Ends the stream. A last line without its newline is handed out if it is a whole JSON value; one that was cut off is
    /// dropped, as the stream then ended early.
    pub fn finish(&mut self, out: &mut Vec<Frame>) -> Result<()> {
        if std::mem::replace(&mut self.broken, true) {
            return Ok(());
        }
        let line = std::mem::take(&mut self.partial);
        if is_whole(line.strip_prefix(BOM).unwrap_or(&line)) {
            self.line(&line, out)?;
        }
        Ok(())
    }

    fn read(&mut self, mut chunk: &[u8], out: &mut Vec<Frame>) -> Result<()> {
        while let Some(end) = memchr::memchr(b'\n', chunk) {
            let (line, rest) = chunk.split_at(end);
            self.bound(line.len())?;
            if self.partial.is_empty() {
                self.line(line, out)?;
            } else {
                self.partial.extend_from_slice(line);
                let mut whole = std::mem::take(&mut self.partial);
                self.line(&whole, out)?;
                whole.clear();
                self.partial = whole;
            }
            chunk = rest.get(1..).unwrap_or_default();
        }
        self.bound(chunk.len())?;
        self.partial.extend_from_slice(chunk);
        Ok(())
    }

    fn bound(&self, more: usize) -> Result<()> {
        if self.partial.len().saturating_add(more) > self.max_line_bytes {
            return Err(too_large("line", self.max_line_bytes));
        }
        Ok(())
    }

    fn line(&mut self, mut line: &[u8], out: &mut Vec<Frame>) -> Result<()> {
        if std::mem::take(&mut self.at_start) {
            line = line.strip_prefix(BOM).unwrap_or(line);
        }
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if !line.iter().all(u8::is_ascii_whitespace) {
            let data = text(line.to_vec())?;
            out.push(Frame { event: None, data });
        }
        Ok(())
    }
}

const BOM: &[u8] = b"\xef\xbb\xbf";

/// Whether this is an end mark or one complete JSON object or array, and not the beginning of one.
fn is_whole(data: &[u8]) -> bool {
    let data = data.trim_ascii();
    match data.first() {
        Some(b'{' | b'[') => {
            data == b"[DONE]"
                || (std::str::from_utf8(data).is_ok()
                    && serde_json::from_slice::<serde::de::IgnoredAny>(data).is_ok())
        }
        _ => false,
    }
}

fn text(bytes: Vec<u8>) -> Result<String> {
    String::from_utf8(bytes)
        .map_err(|_| Error::new(Kind::InvalidResponse, "the stream holds invalid UTF-8"))
}

fn too_large(what: &str, max: usize) -> Error {
    Error::new(
        Kind::InvalidResponse,
        format!(
            "{what} too large: an unfinished {what} of the stream is larger than {max} bytes (max_event_bytes)"
        ),
    )
}

#[cfg(test)]
mod tests;
