//! The 32-number formats, repacked: eight rows side by side, so that one instruction serves eight outputs.
//!
//! A block is 32 numbers of one row with one scale. A *tile* is the same block of eight rows. Its numbers are stored by groups of
//! four: four numbers of row 0, four of row 1, ... of row 7 make one 32-byte vector. A product with four activations, repeated eight
//! times, then gives eight sums, one a row, and nothing has to be added across a vector.
//!
//! Every format is brought to `scale * q + minimum` without loss: `Q4_0` and `Q5_0` have a minimum of -8 and -16 scales.

use candle_core::quantized::GgmlDType;

use super::half;

/// Rows of a tile.
pub(super) const ROWS: usize = 8;
/// Numbers of a block.
pub(super) const BLOCK: usize = 32;
/// Vectors of four-number groups in a block.
const GROUPS: usize = BLOCK / 4;

/// How a tile's numbers are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Packing {
    /// Two a byte, 0 to 15: group 2v in the low halves, 2v + 1 in the high ones.
    Nibbles,
    /// One a byte, 0 to 31.
    Unsigned,
    /// One a byte, -128 to 127.
    Signed,
}

/// Eight numbers of half precision, as bits: a scale or minimum for each row of a tile.
pub(super) type Halves = [u16; ROWS];

/// The minimum of each block.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Minimum {
    /// Its own, in the file.
    Own(Vec<Halves>),
    /// So many scales.
    Scales(f32),
}

/// A matrix of `rows x columns`, in tiles; the last tile's missing rows are zero.
#[derive(Clone, Debug)]
pub(super) struct Tiles {
    pub(super) packing: Packing,
    pub(super) rows: usize,
    /// Blocks of a row.
    pub(super) blocks: usize,
    /// Vectors of tile 0's blocks in order, then tile 1's, ...; [`Tiles::vectors`] a block.
    pub(super) quants: Vec<[u8; 32]>,
    /// In the same order, one a block.
    pub(super) scales: Vec<Halves>,
    pub(super) minimum: Minimum,
}

/// The layout of a format's block in a file: scale, then perhaps a minimum, fifth bits, and the numbers.
struct Layout {
    packing: Packing,
    bytes: usize,
    own_minimum: bool,
    fifth_bits: bool,
    offset: f32,
}

fn layout(format: GgmlDType) -> Option<Layout> {
    let (packing, bytes, own_minimum, fifth_bits, offset) = match format {
        GgmlDType::Q4_0 => (Packing::Nibbles, 18, false, false, -8.0),
        GgmlDType::Q4_1 => (Packing::Nibbles, 20, true, false, 0.0),
        GgmlDType::Q5_0 => (Packing::Unsigned, 22, false, true, -16.0),
        GgmlDType::Q5_1 => (Packing::Unsigned, 24, true, true, 0.0),
        GgmlDType::Q8_0 => (Packing::Signed, 34, false, false, 0.0),
        _ => return None,
    };
    Some(Layout {
        packing,
        bytes,
        own_minimum,
        fifth_bits,
        offset,
    })
}

/// One block of a file, taken apart.
struct Block {
    scale: u16,
    minimum: u16,
    /// As bytes; signed ones keep their bits.
    numbers: [u8; BLOCK],
}

impl Layout {
    fn block(&self, bytes: &[u8]) -> Block {
        let half = |at: usize| match bytes.get(at..at + 2) {
            Some(&[a, b]) => u16::from_le_bytes([a, b]),
            _ => 0,
        };
        let mut at = 2;
        let minimum = if self.own_minimum {
            at += 2;
            half(2)
        } else {
            0
        };
        let mut fifth = 0u32;
        if self.fifth_bits {
            fifth = u32::from(half(at)) | u32::from(half(at + 2)) << 16;
            at += 4;
        }
        let rest = bytes.get(at..).unwrap_or_default();
        let mut numbers = [0; BLOCK];
        if self.packing == Packing::Signed {
            for (to, from) in numbers.iter_mut().zip(rest) {
                *to = *from;
            }
        } else {
            let (low, high) = numbers.split_at_mut(BLOCK / 2);
            for (i, byte) in rest.iter().take(BLOCK / 2).enumerate() {
                let bit = |n: usize| if fifth >> n & 1 == 1 { 16 } else { 0 };
                low[i] = byte & 15 | bit(i);
                high[i] = byte >> 4 | bit(i + BLOCK / 2);
            }
        }
        Block {
            scale: half(0),
            minimum,
            numbers,
        }
    }
}

impl Tiles {
    /// Repacks `rows x columns` numbers of a 32-number format; `None` for any other.
    pub(super) fn pack(
        format: GgmlDType,
        rows: usize,
        columns: usize,
        bytes: &[u8],
    ) -> Option<Self> {
        let layout = layout(format)?;
        let blocks = columns / BLOCK;
        let count = rows.div_ceil(ROWS) * blocks;
        let vectors = vectors(layout.packing);
        let mut quants = vec![[0u8; 32]; count * vectors];
        let mut scales = vec![[0u16; ROWS]; count];
        let mut minima = vec![[0u16; ROWS]; if layout.own_minimum { count } else { 0 }];
        for (index, bytes) in bytes.chunks_exact(layout.bytes).enumerate() {
            let (row, column) = (index / blocks, index % blocks);
            let lane = row % ROWS;
            let tile = row / ROWS * blocks + column;
            let block = layout.block(bytes);
            scales[tile][lane] = block.scale;
            if let Some(minima) = minima.get_mut(tile) {
                minima[lane] = block.minimum;
            }
            let to = &mut quants[tile * vectors..][..vectors];
            for (group, four) in block.numbers.chunks_exact(4).enumerate() {
                for (i, number) in four.iter().enumerate() {
                    let at = lane * 4 + i;
                    match layout.packing {
                        Packing::Nibbles => to[group / 2][at] |= number << (group % 2 * 4),
                        Packing::Unsigned | Packing::Signed => to[group][at] = *number,
                    }
                }
            }
        }
        Some(Tiles {
            packing: layout.packing,
            rows,
            blocks,
            quants,
            scales,
            minimum: if layout.own_minimum {
                Minimum::Own(minima)
            } else {
                Minimum::Scales(layout.offset)
            },
        })
    }

    /// Puts `other`'s rows below these, where both have one form and these fill their tiles.
    pub(super) fn append(&mut self, other: Tiles) -> Result<(), Tiles> {
        let fits = self.packing == other.packing
            && self.blocks == other.blocks
            && self.rows.is_multiple_of(ROWS);
        match (&mut self.minimum, &other.minimum) {
            (Minimum::Own(mine), Minimum::Own(theirs)) if fits => mine.extend_from_slice(theirs),
            (Minimum::Scales(mine), Minimum::Scales(theirs)) if fits && *mine == *theirs => {}
            _ => return Err(other),
        }
        self.rows += other.rows;
        self.quants.extend_from_slice(&other.quants);
        self.scales.extend_from_slice(&other.scales);
        Ok(())
    }

    /// Vectors of one block of a tile.
    pub(super) fn vectors(&self) -> usize {
        vectors(self.packing)
    }

    /// Writes row `row` in full precision.
    pub(super) fn row(&self, row: usize, out: &mut [f32]) {
        let lane = row % ROWS;
        for (column, out) in out.chunks_exact_mut(BLOCK).enumerate() {
            let tile = row / ROWS * self.blocks + column;
            let scale = half::to_f32(self.scales[tile][lane]);
            let minimum = match &self.minimum {
                Minimum::Own(minima) => half::to_f32(minima[tile][lane]),
                Minimum::Scales(n) => n * scale,
            };
            let from = &self.quants[tile * self.vectors()..][..self.vectors()];
            for (group, four) in out.chunks_exact_mut(4).enumerate() {
                for (i, out) in four.iter_mut().enumerate() {
                    let at = lane * 4 + i;
                    let q = match self.packing {
                        Packing::Nibbles => f32::from(from[group / 2][at] >> (group % 2 * 4) & 15),
                        Packing::Unsigned => f32::from(from[group][at]),
                        Packing::Signed => f32::from(from[group][at].cast_signed()),
                    };
                    *out = scale * q + minimum;
                }
            }
        }
    }
}

const fn vectors(packing: Packing) -> usize {
    match packing {
        Packing::Nibbles => GROUPS / 2,
        Packing::Unsigned | Packing::Signed => GROUPS,
    }
}
