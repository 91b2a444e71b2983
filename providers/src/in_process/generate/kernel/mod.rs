//! Arithmetic: quantised matrices times rows of activations, and what lies between them.
//!
//! candle's own quantised products choose their instructions when the program runs, but only for some of GGUF's formats: the plain
//! 32-number ones with a minimum or a fifth bit (`Q4_1`, `Q5_0`, `Q5_1`) have scalar code. So the 32-number formats are repacked here
//! into tiles of eight rows and multiplied with AVX2 where the processor has it, found out at run time as well; everything else,
//! and every other processor, goes through candle. `linear` decides; `tiles` is the layout, `dot` the inner loop.

mod attention;
mod dot;
mod half;
mod linear;
mod ops;
mod pool;
mod tiles;

#[cfg(test)]
mod tests;

pub(super) use attention::{HeadCache, Heads, attend};
pub(super) use linear::Linear;
pub(super) use ops::{Rope, add, gated, rms_norm};
