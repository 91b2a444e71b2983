//! SentencePiece vocabularies: of all neighbouring pieces whose join is a token, the best scored join is made first.

use std::collections::{BinaryHeap, HashMap};
use std::io::{Read, Seek};

use antfly_framework::Result;

use super::super::calls;
use super::super::gguf::Gguf;
use super::Nature;

/// What a blank is written as.
const BLANK: char = '\u{2581}';
const SCORES: &str = "tokenizer.ggml.scores";

#[derive(Debug)]
pub(super) struct Scores {
    /// Tokens that may be made of letters, with their scores.
    tokens: HashMap<String, (u32, f32)>,
    /// The tokens of single bytes.
    bytes: Vec<Option<u32>>,
    unknown: Option<u32>,
    adds_blank: bool,
}

/// A piece of text between its neighbours; a joined one is empty.
#[derive(Clone, Copy)]
struct Piece {
    start: usize,
    len: usize,
    before: Option<usize>,
    after: Option<usize>,
}

/// A possible join. The largest is made first: the best score, then the leftmost.
#[derive(PartialEq)]
struct Join {
    score: f32,
    left: usize,
    right: usize,
    /// Its length when it was found: another means that one side has changed since.
    len: usize,
}

impl Eq for Join {}

impl Ord for Join {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        let left = other.left.cmp(&self.left);
        self.score.total_cmp(&other.score).then(left)
    }
}

impl PartialOrd for Join {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Scores {
    pub(super) fn load<R: Read + Seek>(
        file: &Gguf<R>,
        tokens: &[String],
        natures: &[Nature],
    ) -> Result<Self> {
        let scores = file.needed(SCORES, file.floats(SCORES)?)?;
        if scores.len() != tokens.len() {
            let problem = format_args!("has {} entries for {} tokens", scores.len(), tokens.len());
            return Err(file.error(SCORES, problem));
        }
        let mut all = Scores {
            tokens: HashMap::new(),
            bytes: vec![None; 256],
            unknown: super::special(file, "tokenizer.ggml.unknown_token_id", tokens.len())?,
            adds_blank: file
                .flag("tokenizer.ggml.add_space_prefix")?
                .unwrap_or(true),
        };
        for ((id, token), (score, nature)) in (0..).zip(tokens).zip(scores.iter().zip(natures)) {
            match nature {
                Nature::Normal | Nature::Fixed => {
                    all.tokens.insert(token.clone(), (id, *score));
                }
                Nature::Byte => {
                    let slot = byte_of(token).and_then(|b| all.bytes.get_mut(usize::from(b)));
                    if let Some(slot) = slot {
                        *slot = Some(id);
                    }
                }
                Nature::Control => {}
            }
        }
        Ok(all)
    }

    /// `first`: the text begins a text or follows a control token, where these models put a blank.
    pub(super) fn encode(&self, text: &str, first: bool, ids: &mut Vec<u32>) {
        let blank = if first && self.adds_blank { " " } else { "" };
        let text: String = [blank, text]
            .concat()
            .replace(' ', BLANK.encode_utf8(&mut [0; 4]));
        let mut pieces: Vec<Piece> = Vec::new();
        for (start, letter) in text.char_indices() {
            let at = pieces.len();
            pieces.push(Piece {
                start,
                len: letter.len_utf8(),
                before: at.checked_sub(1),
                after: Some(at + 1),
            });
        }
        if let Some(last) = pieces.last_mut() {
            last.after = None;
        }
        let mut joins = BinaryHeap::new();
        for right in 1..pieces.len() {
            joins.extend(self.join(&text, &pieces, right - 1, right));
        }
        while let Some(join) = joins.pop() {
            let (left, right) = (pieces[join.left], pieces[join.right]);
            if left.len == 0 || right.len == 0 || left.len + right.len != join.len {
                continue;
            }
            pieces[join.left].len = join.len;
            pieces[join.left].after = right.after;
            pieces[join.right].len = 0;
            if let Some(after) = right.after {
                pieces[after].before = Some(join.left);
                joins.extend(self.join(&text, &pieces, join.left, after));
            }
            if let Some(before) = left.before {
                joins.extend(self.join(&text, &pieces, before, join.left));
            }
        }
        for piece in pieces.iter().filter(|piece| piece.len > 0) {
            let piece = &text[piece.start..piece.start + piece.len];
            match self.tokens.get(piece) {
                Some((id, _)) => ids.push(*id),
                None => ids.extend(piece.bytes().filter_map(|b| self.byte(b))),
            }
        }
    }

    fn join(&self, text: &str, pieces: &[Piece], left: usize, right: usize) -> Option<Join> {
        let len = pieces[left].len + pieces[right].len;
        let start = pieces[left].start;
        let (_, score) = self.tokens.get(&text[start..start + len])?;
        Some(Join {
            score: *score,
            left,
            right,
            len,
        })
    }

    fn byte(&self, byte: u8) -> Option<u32> {
        self.bytes[usize::from(byte)].or(self.unknown)
    }
}

/// The byte of a token written `<0x0A>`.
fn byte_of(token: &str) -> Option<u8> {
    let hex = token.strip_prefix("<0x")?.strip_suffix('>')?;
    u8::from_str_radix(hex, 16).ok()
}

/// The bytes a token says.
pub(super) fn said(token: &str, nature: Nature) -> Vec<u8> {
    match nature {
        Nature::Control if !calls::spoken(token) => Vec::new(),
        Nature::Control | Nature::Fixed => token.as_bytes().to_vec(),
        Nature::Byte => byte_of(token).into_iter().collect(),
        Nature::Normal => token.replace(BLANK, " ").into_bytes(),
    }
}
