//! A model's tokenizer, from its own file: text to token ids, ids to bytes.
//!
//! Control tokens (the ends of turns and their like) are found only where the caller says that the text is the template's; the same
//! letters in a user's text stay letters. [`control::Guard`] keeps the two apart.

mod bytes;
mod control;
mod merges;
mod scores;
mod splits;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::io::{Read, Seek};

use antfly_framework::Result;

pub(super) use control::Guard;

use self::control::Literals;
use super::gguf::Gguf;

/// What a token is, as the file says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Nature {
    Normal,
    /// Never text: the ends of turns, the beginning of a text, what is unknown or unused.
    Control,
    /// Text that is always this one token.
    Fixed,
    /// One byte.
    Byte,
}

/// Names of tokens that end an answer, where the file marks them as control tokens.
const ENDS: [&str; 12] = [
    "<|im_end|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|end|>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<|return|>",
    "<|call|>",
    "<end_of_turn>",
    "<EOT>",
    "</s>",
    "<\u{ff5c}end\u{2581}of\u{2581}sentence\u{ff5c}>",
];

/// Text to ids and ids to bytes.
#[derive(Debug)]
pub(super) struct Tokenizer {
    kind: Kind,
    /// What each token says, one after the other; `spans` says where each ends.
    said: Vec<u8>,
    spans: Vec<usize>,
    longest: usize,
    literals: Literals,
    begin: Option<u32>,
    end: Option<u32>,
    ends: BTreeSet<u32>,
    adds_begin: bool,
}

#[derive(Debug)]
enum Kind {
    Merges(Box<merges::Merges>),
    Scores(scores::Scores),
}

impl Tokenizer {
    /// Reads the tokenizer of a file.
    ///
    /// # Errors
    /// `config` naming the file and the key: a kind that is not supported (the error names those that are), missing lists.
    pub(super) fn load<R: Read + Seek>(file: &Gguf<R>) -> Result<Self> {
        const MODEL: &str = "tokenizer.ggml.model";
        let model = file.needed(MODEL, file.text(MODEL)?)?;
        let tokens = tokens(file)?;
        let natures = natures(file, tokens.len())?;
        let (kind, said): (_, Vec<Vec<u8>>) = match model {
            "gpt2" => {
                let kind = merges::Merges::load(file, tokens, &natures)?;
                let each = tokens.iter().zip(&natures);
                (
                    Kind::Merges(Box::new(kind)),
                    each.map(|(t, n)| merges::said(t, *n)).collect(),
                )
            }
            "llama" => {
                let kind = scores::Scores::load(file, tokens, &natures)?;
                let each = tokens.iter().zip(&natures);
                (
                    Kind::Scores(kind),
                    each.map(|(t, n)| scores::said(t, *n)).collect(),
                )
            }
            other => {
                let problem = format_args!(
                    "{other:?} is not supported; \"gpt2\" (byte-level merges) and \"llama\" (SentencePiece) are"
                );
                return Err(file.error(MODEL, problem));
            }
        };
        let id = |key: &str| special(file, key, tokens.len());
        let begin = id("tokenizer.ggml.bos_token_id")?;
        let end = id("tokenizer.ggml.eos_token_id")?;
        let mut ends: BTreeSet<u32> = end.into_iter().collect();
        ends.extend(id("tokenizer.ggml.eot_token_id")?);
        ends.extend(id("tokenizer.ggml.eom_token_id")?);
        for (index, (token, nature)) in (0..).zip(tokens.iter().zip(&natures)) {
            if *nature == Nature::Control && ENDS.contains(&token.as_str()) {
                ends.insert(index);
            }
        }
        let adds_begin = match file.flag("tokenizer.ggml.add_bos_token")? {
            Some(adds) => adds,
            None => kind.adds_begin(),
        };
        Ok(Tokenizer {
            spans: said
                .iter()
                .scan(0, |end, token| {
                    *end += token.len();
                    Some(*end)
                })
                .collect(),
            longest: said.iter().map(Vec::len).max().unwrap_or(1).max(1),
            said: said.concat(),
            literals: Literals::new(tokens, &natures),
            kind,
            begin,
            end,
            ends,
            adds_begin,
        })
    }

    /// How many tokens there are.
    pub(super) fn vocabulary(&self) -> usize {
        self.spans.len()
    }

    /// The bytes of the token that says most.
    pub(super) fn longest(&self) -> usize {
        self.longest
    }

    /// What a token says; nothing for a control token.
    pub(super) fn said(&self, token: u32) -> &[u8] {
        let at = token as usize;
        let start = at.checked_sub(1).and_then(|before| self.spans.get(before));
        let end = self.spans.get(at).copied().unwrap_or(0);
        self.said
            .get(start.copied().unwrap_or(0)..end)
            .unwrap_or_default()
    }

    /// Whether a token ends an answer.
    pub(super) fn ends(&self, token: u32) -> bool {
        self.ends.contains(&token)
    }

    /// The text of the token that begins a text, and of the one that ends it, as a template may use them.
    pub(super) fn edges(&self) -> (&str, &str) {
        let text = |id: Option<u32>| id.map_or("", |id| self.literals.text(id));
        (text(self.begin), text(self.end))
    }

    /// Something that keeps control tokens out of texts that are not the template's.
    pub(super) fn guard<'a>(&'a self, texts: impl IntoIterator<Item = &'a str>) -> Guard<'a> {
        Guard::new(&self.literals, texts)
    }

    /// Ids of a text in which control tokens count, except where `guard` stands between their letters. Begins with the token that
    /// begins a text where the model wants it and the text does not have it.
    pub(super) fn encode(&self, text: &str, guard: &Guard<'_>) -> Result<Vec<u32>> {
        let mut ids = Vec::new();
        let mut after_control = true;
        for piece in self.literals.split(text) {
            match piece {
                control::Piece::Token(id) => {
                    ids.push(id);
                    after_control = self.said(id).is_empty();
                }
                control::Piece::Text(text) => {
                    let text = guard.release(text);
                    match &self.kind {
                        Kind::Merges(merges) => merges.encode(&text, &mut ids)?,
                        Kind::Scores(scores) => scores.encode(&text, after_control, &mut ids),
                    }
                    after_control = false;
                }
            }
        }
        match self.begin {
            Some(begin) if self.adds_begin && ids.first() != Some(&begin) => ids.insert(0, begin),
            _ => {}
        }
        Ok(ids)
    }
}

impl Kind {
    /// Whether a text begins with its own token where the file does not say.
    fn adds_begin(&self) -> bool {
        match self {
            Kind::Merges(merges) => merges.adds_begin(),
            Kind::Scores(_) => true,
        }
    }
}

const TOKENS: &str = "tokenizer.ggml.tokens";

fn tokens<R: Read + Seek>(file: &Gguf<R>) -> Result<&[String]> {
    let tokens = file.needed(TOKENS, file.texts(TOKENS)?)?;
    if tokens.is_empty() || u32::try_from(tokens.len()).is_err() {
        return Err(file.error(
            TOKENS,
            format_args!("{} tokens are no vocabulary", tokens.len()),
        ));
    }
    Ok(tokens)
}

fn natures<R: Read + Seek>(file: &Gguf<R>, count: usize) -> Result<Vec<Nature>> {
    const TYPES: &str = "tokenizer.ggml.token_type";
    let Some(types) = file.integers(TYPES)? else {
        return Ok(vec![Nature::Normal; count]);
    };
    if types.len() != count {
        let problem = format_args!("has {} entries for {count} tokens", types.len());
        return Err(file.error(TYPES, problem));
    }
    let nature = |n: &i64| match n {
        2 | 3 | 5 => Nature::Control,
        4 => Nature::Fixed,
        6 => Nature::Byte,
        _ => Nature::Normal,
    };
    Ok(types.iter().map(nature).collect())
}

/// The id of a special token, if the file names one.
fn special<R: Read + Seek>(file: &Gguf<R>, key: &str, count: usize) -> Result<Option<u32>> {
    match file.unsigned(key)? {
        None => Ok(None),
        Some(id) if id < count as u64 => Ok(u32::try_from(id).ok()),
        Some(id) => Err(file.error(key, format_args!("{id} is no token; there are {count}"))),
    }
}
