//! Byte-level merges: text is cut into words, a word's bytes are merged pair by pair in the order the vocabulary learnt.

use std::io::{Read, Seek};

use antfly_framework::{Error, Kind, Result};
use tokenizers::Model as _;
use tokenizers::models::bpe::{BPE, Vocab};
use tokenizers::utils::SysRegex;

use super::super::calls;
use super::super::gguf::Gguf;
use super::{Nature, TOKENS, bytes, splits};

pub(super) struct Merges {
    model: BPE,
    patterns: Vec<SysRegex>,
    letters: Vec<char>,
    whole_words: bool,
}

const PRE: &str = "tokenizer.ggml.pre";
const MERGES: &str = "tokenizer.ggml.merges";

impl Merges {
    pub(super) fn load<R: Read + Seek>(
        file: &Gguf<R>,
        tokens: &[String],
        natures: &[Nature],
    ) -> Result<Self> {
        let pre = file.needed(PRE, file.text(PRE)?)?;
        let Some(splits) = splits::of(pre) else {
            let known = splits::KNOWN;
            return Err(file.error(PRE, format_args!("{pre:?} is not supported; {known} are")));
        };
        let patterns = splits.patterns.iter().map(|p| SysRegex::new(p));
        let patterns = patterns
            .collect::<Result<_, _>>()
            .map_err(|e| file.error(PRE, e))?;
        // A control token is never made of letters.
        let vocabulary: Vocab = (0..)
            .zip(tokens.iter().zip(natures))
            .filter(|(_, (_, nature))| **nature != Nature::Control)
            .map(|(id, (token, _))| (token.clone(), id))
            .collect();
        let letters = bytes::letters();
        // Some vocabularies lack a few control characters: those say nothing to them.
        for byte in b' '..=b'~' {
            let letter = letters[usize::from(byte)];
            if !vocabulary.contains_key(&*letter.encode_utf8(&mut [0; 4])) {
                return Err(file.error(
                    TOKENS,
                    format_args!("there is no token for byte {byte:#04x}"),
                ));
            }
        }
        let merges = file.needed(MERGES, file.texts(MERGES)?)?;
        let pair = |(rank, merge): (usize, &String)| match merge.split_once(' ') {
            Some((a, b)) => Ok((a.to_owned(), b.to_owned())),
            None => Err(file.error(MERGES, format_args!("entry {rank} is no pair"))),
        };
        let merges = merges.iter().enumerate().map(pair).collect::<Result<_>>()?;
        let model = BPE::builder()
            .vocab_and_merges(vocabulary, merges)
            .ignore_merges(splits.whole_words)
            .build()
            .map_err(|e| file.error(MERGES, e))?;
        Ok(Merges {
            model,
            patterns,
            letters: letters.to_vec(),
            whole_words: splits.whole_words,
        })
    }

    pub(super) fn adds_begin(&self) -> bool {
        self.whole_words
    }

    pub(super) fn encode(&self, text: &str, ids: &mut Vec<u32>) -> Result<()> {
        let mut words = vec![text];
        for pattern in &self.patterns {
            words = words
                .into_iter()
                .flat_map(|word| split(pattern, word))
                .collect();
        }
        for word in words {
            let letters: String = word.bytes().map(|b| self.letters[usize::from(b)]).collect();
            let tokens = self.model.tokenize(&letters).map_err(|e| {
                Error::new(
                    Kind::InvalidRequest,
                    format!("messages: the tokenizer failed: {e}"),
                )
            })?;
            ids.extend(tokens.iter().map(|token| token.id));
        }
        Ok(())
    }
}

/// The matches of a pattern and what lies between them.
fn split<'a>(pattern: &SysRegex, text: &'a str) -> Vec<&'a str> {
    let mut words = Vec::new();
    let mut done = 0;
    for (start, end) in pattern.find_iter(text) {
        words.extend([&text[done..start], &text[start..end]]);
        done = end;
    }
    words.push(&text[done..]);
    words.retain(|word| !word.is_empty());
    words
}

/// The bytes a token says.
pub(super) fn said(token: &str, nature: Nature) -> Vec<u8> {
    match nature {
        Nature::Control if !calls::spoken(token) => Vec::new(),
        Nature::Control | Nature::Fixed => token.as_bytes().to_vec(),
        Nature::Normal | Nature::Byte => {
            let letters = token.chars().map(|c| bytes::byte(c).ok_or(()));
            let said = letters.collect::<Result<Vec<u8>, ()>>();
            said.unwrap_or_else(|()| token.as_bytes().to_vec())
        }
    }
}

impl std::fmt::Debug for Merges {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Merges")
            .field("patterns", &self.patterns.len())
            .finish_non_exhaustive()
    }
}
