//! Tokens' bytes to text that can be handed out: whole characters only, and nothing that may yet become a stop sequence.
//!
//! What comes out depends on the bytes alone, not on how they were cut into tokens.

/// What has been said and not yet handed out.
#[derive(Debug)]
pub(super) struct Text {
    stops: Vec<String>,
    /// Bytes of a character that is not whole.
    bytes: Vec<u8>,
    /// Whole characters that may be the beginning of a stop sequence.
    held: String,
    stopped: bool,
}

impl Text {
    /// Empty stop sequences are the caller's to refuse.
    pub(super) fn new(stops: Vec<String>) -> Self {
        Text {
            stops,
            bytes: Vec::new(),
            held: String::new(),
            stopped: false,
        }
    }

    /// Whether a stop sequence was met: nothing comes out after it.
    pub(super) fn stopped(&self) -> bool {
        self.stopped
    }

    /// Takes a token's bytes and gives what can be handed out.
    pub(super) fn push(&mut self, bytes: &[u8]) -> String {
        self.bytes.extend_from_slice(bytes);
        let mut out = String::new();
        let taken = std::mem::take(&mut self.bytes);
        let mut chunks = taken.utf8_chunks().peekable();
        while let Some(chunk) = chunks.next() {
            chunk.valid().chars().for_each(|c| self.take(c, &mut out));
            let invalid = chunk.invalid();
            if chunks.peek().is_none() && unfinished(invalid) {
                self.bytes = invalid.to_vec();
            } else if !invalid.is_empty() {
                self.take(char::REPLACEMENT_CHARACTER, &mut out);
            }
        }
        out
    }

    /// The end: what was held back and turned out to be no stop sequence. Bytes of a character that never became whole are no text.
    pub(super) fn finish(&mut self) -> String {
        self.bytes.clear();
        std::mem::take(&mut self.held)
    }

    fn take(&mut self, c: char, out: &mut String) {
        if self.stopped {
            return;
        }
        self.held.push(c);
        // Several may end here: the longest began first.
        let ended = self
            .stops
            .iter()
            .filter(|s| self.held.ends_with(s.as_str()));
        if let Some(len) = ended.map(String::len).max() {
            self.held.truncate(self.held.len() - len);
            out.push_str(&std::mem::take(&mut self.held));
            self.stopped = true;
            return;
        }
        let free = self.held.len() - self.longest_beginning();
        out.extend(self.held.drain(..free));
    }

    /// The bytes at the end of what is held that begin some stop sequence.
    fn longest_beginning(&self) -> usize {
        let begins = |at: usize| {
            let end = &self.held[at..];
            self.stops.iter().any(|stop| stop.starts_with(end))
        };
        let starts = self.held.char_indices().map(|(at, _)| at);
        starts
            .clone()
            .find(|at| begins(*at))
            .map_or(0, |at| self.held.len() - at)
    }
}

/// Whether bytes that are no character may become one.
fn unfinished(bytes: &[u8]) -> bool {
    !bytes.is_empty() && std::str::from_utf8(bytes).is_err_and(|e| e.error_len().is_none())
}

#[cfg(test)]
#[path = "text_tests.rs"]
mod tests;
