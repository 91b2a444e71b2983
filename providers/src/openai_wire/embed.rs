//! What an embeddings request holds: texts.

use std::borrow::Cow;

use antfly_framework::content::Part;
use antfly_framework::embed::EmbedInput;
use antfly_framework::{Error, Kind, Result};

/// The texts of the inputs; text in several parts is joined by newlines.
pub(crate) fn texts(inputs: &[EmbedInput]) -> Result<Vec<Cow<'_, str>>> {
    inputs
        .iter()
        .enumerate()
        .map(|(item, input)| text(input).ok_or_else(|| not_text(item)))
        .collect()
}

fn text(input: &EmbedInput) -> Option<Cow<'_, str>> {
    match input {
        EmbedInput::Text(text) => Some(text.into()),
        EmbedInput::Parts(parts) => {
            let texts: Vec<&str> = parts.iter().map(Part::as_text).collect::<Option<_>>()?;
            Some(texts.join("\n").into())
        }
        _ => None,
    }
}

fn not_text(item: usize) -> Error {
    Error::new(Kind::MediaNotAllowed, "this provider embeds text only").with_item(item)
}
