//! Texts to tokens, cut to the model's own maximum.

use std::panic::{AssertUnwindSafe, catch_unwind};

use antfly_framework::{Error, Kind, Result};
use tokenizers::utils::truncation::{
    TruncationDirection, TruncationParams, TruncationStrategy, truncate_encodings,
};
use tokenizers::{Encoding, PostProcessor as _, Tokenizer};

use super::super::folder::{Folder, TOKENIZER};

/// What becomes of an input that is too long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::in_process) enum Cut {
    /// Its end is left out, as the models' own libraries do.
    #[default]
    End,
    /// Its start is left out.
    Start,
    /// It is refused.
    Refuse,
}

/// One sequence, ready for a model.
#[derive(Clone, Debug, Default)]
pub(in crate::in_process) struct Tokens {
    pub(super) ids: Vec<u32>,
    /// 0, or 1 for the second text of a pair.
    pub(super) types: Vec<u32>,
    /// Which tokens the tokenizer put there itself.
    pub(super) special: Vec<bool>,
}

impl Tokens {
    pub(in crate::in_process) fn len(&self) -> usize {
        self.ids.len()
    }

    /// Whether a model can take them.
    pub(super) fn check(&self, vocabulary: usize, longest: usize) -> Result<()> {
        if let Some(id) = self.ids.iter().find(|id| **id as usize >= vocabulary) {
            return Err(Error::new(
                Kind::Config,
                format!(
                    "the tokenizer made token {id}, the model knows {vocabulary}: the folder's tokenizer.json is another model's"
                ),
            ));
        }
        if self.len() > longest {
            return Err(Error::new(
                Kind::InvalidRequest,
                format!("{} tokens; this model takes at most {longest}", self.len()),
            ));
        }
        Ok(())
    }
}

/// A folder's tokenizer.
#[derive(Debug)]
pub(super) struct Texts {
    tokenizer: Tokenizer,
    /// The most tokens of a sequence, the tokenizer's own among them.
    longest: usize,
    lower_case: bool,
}

impl Texts {
    pub(super) fn load(folder: &Folder<'_>, longest: usize, lower_case: bool) -> Result<Self> {
        // Parts that do not fit each other are panics there, the first time they meet.
        catch_unwind(AssertUnwindSafe(|| {
            Self::try_load(folder, longest, lower_case)
        }))
        .unwrap_or_else(|_| Err(folder.bad(TOKENIZER, "its parts do not fit each other")))
    }

    fn try_load(folder: &Folder<'_>, longest: usize, lower_case: bool) -> Result<Self> {
        let mut tokenizer = Tokenizer::from_bytes(folder.bytes(TOKENIZER)?)
            .map_err(|e| folder.bad(TOKENIZER, e))?;
        // The file may carry whatever its last user set; the model's own maximum counts.
        tokenizer.with_padding(None);
        tokenizer
            .with_truncation(None)
            .map_err(|e| folder.bad(TOKENIZER, e))?;
        let texts = Texts {
            tokenizer,
            longest,
            lower_case,
        };
        if texts.added(true) >= longest {
            return Err(folder.bad(
                TOKENIZER,
                format!("the model's maximum of {longest} tokens leaves no room for a text"),
            ));
        }
        // Alone and as a pair, a text meets all parts; whether there is a token for it does not matter.
        drop(texts.text("a", Cut::End));
        drop(texts.pair("a", "a"));
        Ok(texts)
    }

    /// One text.
    pub(super) fn text(&self, text: &str, cut: Cut) -> Result<Tokens> {
        let (one, _) = self.cut(self.encode(text)?, None, cut)?;
        self.finish(one, None)
    }

    /// Two texts as one sequence.
    pub(super) fn pair(&self, first: &str, second: &str) -> Result<Tokens> {
        let (first, second) = (self.encode(first)?, self.encode(second)?);
        let (first, second) = self.cut(first, Some(second), Cut::End)?;
        self.finish(first, second)
    }

    /// How many tokens the tokenizer adds.
    fn added(&self, pair: bool) -> usize {
        self.tokenizer
            .get_post_processor()
            .map_or(0, |p| p.added_tokens(pair))
    }

    fn encode(&self, text: &str) -> Result<Encoding> {
        let lower = self.lower_case.then(|| text.to_lowercase());
        let text = lower.as_deref().unwrap_or(text);
        self.tokenizer.encode_fast(text, false).map_err(failed)
    }

    fn cut(
        &self,
        first: Encoding,
        second: Option<Encoding>,
        cut: Cut,
    ) -> Result<(Encoding, Option<Encoding>)> {
        let length = first.len() + second.as_ref().map_or(0, Encoding::len);
        let room = self.longest.saturating_sub(self.added(second.is_some()));
        if length <= room {
            return Ok((first, second));
        }
        let direction = match cut {
            Cut::End => TruncationDirection::Right,
            Cut::Start => TruncationDirection::Left,
            Cut::Refuse => {
                return Err(Error::new(
                    Kind::InvalidRequest,
                    format!(
                        "{length} tokens; this model takes at most {room} of a text, and truncate is \"NONE\""
                    ),
                ));
            }
        };
        let params = TruncationParams {
            max_length: room,
            strategy: TruncationStrategy::LongestFirst,
            stride: 0,
            direction,
        };
        let (mut first, mut second) = truncate_encodings(first, second, &params).map_err(failed)?;
        // What was cut off comes along in pieces, and what ends a sequence would join each of one text with each of the other.
        for text in [Some(&mut first), second.as_mut()].into_iter().flatten() {
            drop(text.take_overflowing());
        }
        Ok((first, second))
    }

    fn finish(&self, first: Encoding, second: Option<Encoding>) -> Result<Tokens> {
        let whole = self
            .tokenizer
            .post_process(first, second, true)
            .map_err(failed)?;
        if whole.is_empty() {
            return Err(Error::new(
                Kind::InvalidRequest,
                "nothing is left of the text for this model",
            ));
        }
        Ok(Tokens {
            ids: whole.get_ids().to_vec(),
            types: whole.get_type_ids().to_vec(),
            special: (whole.get_special_tokens_mask().iter())
                .map(|m| *m != 0)
                .collect(),
        })
    }
}

fn failed(e: tokenizers::Error) -> Error {
    Error::new(
        Kind::InvalidRequest,
        format!("the text can't be made into tokens: {e}"),
    )
}

#[cfg(test)]
#[path = "tokens_tests.rs"]
mod tests;
