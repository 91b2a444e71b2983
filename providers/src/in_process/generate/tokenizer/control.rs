//! Control tokens in text: found in the template's, kept out of everybody else's.

use std::borrow::Cow;
use std::collections::HashMap;

use super::Nature;

/// Tokens that are found by their letters: control tokens and fixed ones.
#[derive(Debug)]
pub(super) struct Literals {
    /// By first byte, the longest first.
    by_first: HashMap<u8, Vec<(String, u32)>>,
    texts: HashMap<u32, String>,
    /// Those among them that a user's text must not contain.
    control: std::collections::HashSet<u32>,
}

/// A part of a text.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece<'a> {
    Token(u32),
    Text(&'a str),
}

impl Literals {
    pub(super) fn new(tokens: &[String], natures: &[Nature]) -> Self {
        let mut literals = Literals {
            by_first: HashMap::new(),
            texts: HashMap::new(),
            control: std::collections::HashSet::new(),
        };
        for (id, (token, nature)) in (0..).zip(tokens.iter().zip(natures)) {
            if *nature == Nature::Control {
                literals.control.insert(id);
            } else if *nature != Nature::Fixed {
                continue;
            }
            literals.texts.insert(id, token.clone());
            if let Some(first) = token.bytes().next() {
                let same = literals.by_first.entry(first).or_default();
                same.push((token.clone(), id));
            }
        }
        for same in literals.by_first.values_mut() {
            same.sort_by(|a, b| b.0.len().cmp(&a.0.len()).then(a.0.cmp(&b.0)));
        }
        literals
    }

    pub(super) fn text(&self, id: u32) -> &str {
        self.texts.get(&id).map_or("", String::as_str)
    }

    /// The longest token at the start of `text`.
    fn at(&self, text: &str) -> Option<(&str, u32)> {
        let same = self.by_first.get(text.as_bytes().first()?)?;
        let found = same
            .iter()
            .find(|(token, _)| text.starts_with(token.as_str()));
        found.map(|(token, id)| (token.as_str(), *id))
    }

    fn control_at(&self, text: &str) -> bool {
        let Some(first) = text.as_bytes().first() else {
            return false;
        };
        let same = self.by_first.get(first).into_iter().flatten();
        same.filter(|(_, id)| self.control.contains(id))
            .any(|(token, _)| text.starts_with(token.as_str()))
    }

    /// Tokens and the text between them, in order.
    pub(super) fn split<'a>(&self, text: &'a str) -> Vec<Piece<'a>> {
        let mut pieces = Vec::new();
        let (mut done, mut at) = (0, 0);
        while at < text.len() {
            match self.at(&text[at..]) {
                Some((token, id)) => {
                    if done < at {
                        pieces.push(Piece::Text(&text[done..at]));
                    }
                    pieces.push(Piece::Token(id));
                    at += token.len();
                    done = at;
                }
                None => at += text[at..].chars().next().map_or(1, char::len_utf8),
            }
        }
        if done < text.len() {
            pieces.push(Piece::Text(&text[done..]));
        }
        pieces
    }
}

/// Marks the control tokens that a caller's texts happen to spell, so that they stay letters when a template is put around them:
/// a character that none of the texts contains goes between their first letter and the rest, and is taken out again afterwards.
#[derive(Debug)]
pub(in super::super) struct Guard<'a> {
    literals: &'a Literals,
    mark: char,
}

impl<'a> Guard<'a> {
    pub(super) fn new<'t>(
        literals: &'a Literals,
        texts: impl IntoIterator<Item = &'t str>,
    ) -> Self {
        let taken: std::collections::HashSet<char> = texts
            .into_iter()
            .flat_map(str::chars)
            .filter(|c| *c >= FIRST_MARK)
            .collect();
        let mark = (FIRST_MARK..=char::MAX).find(|c| !taken.contains(c));
        Guard {
            literals,
            mark: mark.unwrap_or(char::MAX),
        }
    }

    /// A caller's text, for a template.
    pub(in super::super) fn protect<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let mut marked = String::new();
        let mut done = 0;
        for (at, letter) in text.char_indices() {
            if self.literals.control_at(&text[at..]) {
                let end = at + letter.len_utf8();
                marked.push_str(&text[done..end]);
                marked.push(self.mark);
                done = end;
            }
        }
        if done == 0 {
            return Cow::Borrowed(text);
        }
        marked.push_str(&text[done..]);
        Cow::Owned(marked)
    }

    /// The text as the caller wrote it.
    pub(super) fn release<'t>(&self, text: &'t str) -> Cow<'t, str> {
        if text.contains(self.mark) {
            Cow::Owned(text.chars().filter(|c| *c != self.mark).collect())
        } else {
            Cow::Borrowed(text)
        }
    }
}

/// Where the search for a mark begins: the last plane, for private use; more characters than any text uses.
const FIRST_MARK: char = '\u{100000}';
