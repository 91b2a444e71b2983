//! Makes inputs of seeds: bytes changed, cut out, doubled and spliced, words of the format put in.

/// A small generator (xorshift64*): the same numbers everywhere for the same seed.
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Self {
        Rng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `bound`; 0 when that is 0.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.next() >> 16) as usize % bound.max(1)
    }
}

/// The longest input that is made.
const MOST: usize = 4096;
/// Bytes that parsers care about.
const SHARP: &[u8] = b"\r\n\":,{}[]\\ \t0-9.eE+\0\xff\xef\xbb\xbf\xc3\xed\xf0_/=ums";

/// One input: a seed (or nothing) with a few changes.
pub(crate) fn input(rng: &mut Rng, seeds: &[Vec<u8>], words: &[&str]) -> Vec<u8> {
    let mut data = match rng.below(16) {
        0 => Vec::new(),
        1 => (0..rng.below(64)).map(|_| rng.next() as u8).collect(),
        _ => seeds
            .get(rng.below(seeds.len()))
            .cloned()
            .unwrap_or_default(),
    };
    for _ in 0..1 + rng.below(6) {
        change(rng, &mut data, seeds, words);
    }
    data.truncate(MOST);
    data
}

fn change(rng: &mut Rng, data: &mut Vec<u8>, seeds: &[Vec<u8>], words: &[&str]) {
    let at = rng.below(data.len() + 1);
    let end = (at + rng.below(1 + data.len().saturating_sub(at).min(64))).min(data.len());
    match rng.below(9) {
        0 => {
            if let Some(byte) = data.get_mut(at) {
                *byte ^= 1 << rng.below(8);
            }
        }
        1 => {
            if let Some(byte) = data.get_mut(at) {
                *byte = SHARP[rng.below(SHARP.len())];
            }
        }
        2 => drop(data.drain(at..end)),
        3 => data.truncate(at),
        4 => {
            let piece = data[at..end].to_vec();
            insert(data, at, &piece);
        }
        5 => {
            let many = 1 + rng.below(48);
            insert(data, at, &vec![SHARP[rng.below(SHARP.len())]; many]);
        }
        6 if !seeds.is_empty() => {
            let other = &seeds[rng.below(seeds.len())];
            let from = rng.below(other.len() + 1);
            let to = (from + rng.below(128)).min(other.len());
            insert(data, at, &other[from..to]);
        }
        _ if !words.is_empty() => {
            let word = words[rng.below(words.len())].as_bytes();
            if rng.below(2) == 0 {
                data.drain(at..end);
            }
            insert(data, at, word);
        }
        _ => data.push(rng.next() as u8),
    }
}

fn insert(data: &mut Vec<u8>, at: usize, piece: &[u8]) {
    data.splice(at..at, piece.iter().copied());
}
