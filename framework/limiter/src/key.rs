//! The name of a scope.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

/// The identity of a scope: named fields in order. Cloning is cheap.
///
/// The text is readable (`provider=openai model=small`) and injective: different fields never give the same text,
/// whatever separators their names and values contain.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ScopeKey(Arc<str>);

impl ScopeKey {
    /// A key of these fields. Their order matters.
    #[must_use]
    pub fn new(fields: impl IntoIterator<Item = (impl AsRef<str>, impl AsRef<str>)>) -> Self {
        let mut text = String::new();
        for (index, (name, value)) in fields.into_iter().enumerate() {
            if index > 0 {
                text.push(' ');
            }
            escape(name.as_ref(), true, &mut text);
            text.push('=');
            escape(value.as_ref(), false, &mut text);
        }
        Self(text.into())
    }

    /// The fields, name and value, as they were given.
    pub fn fields(&self) -> impl Iterator<Item = (Cow<'_, str>, Cow<'_, str>)> {
        // Spaces inside fields are escaped, so a bare one separates.
        let fields = if self.0.is_empty() {
            None
        } else {
            Some(self.0.split(' '))
        };
        fields.into_iter().flatten().map(|field| {
            let (name, value) = field.split_once('=').unwrap_or((field, ""));
            (unescape(name), unescape(value))
        })
    }

    /// The whole key as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn escape(part: &str, name: bool, out: &mut String) {
    for c in part.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            ' ' => out.push_str("\\s"),
            '=' if name => out.push_str("\\e"),
            c if c.is_control() => out.extend(c.escape_unicode()),
            c => out.push(c),
        }
    }
}

fn unescape(part: &str) -> Cow<'_, str> {
    if !part.contains('\\') {
        return Cow::Borrowed(part);
    }
    let mut out = String::with_capacity(part.len());
    let mut chars = part.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        match chars.next() {
            Some('s') => out.push(' '),
            Some('e') => out.push('='),
            Some('u') => {
                let digits: String = chars.by_ref().skip(1).take_while(|&c| c != '}').collect();
                out.extend(
                    u32::from_str_radix(&digits, 16)
                        .ok()
                        .and_then(char::from_u32),
                );
            }
            Some(c) => out.push(c),
            None => {}
        }
    }
    Cow::Owned(out)
}

impl fmt::Display for ScopeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for ScopeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ScopeKey({})", self.0)
    }
}
