//! Tiles times activations, with AVX2.
//!
//! Activations are quantised to eight bits, 32 numbers to a scale, as every runtime of these formats does; products and their sums
//! within a block are exact integers.

use super::tiles::BLOCK;

/// Rows of activations in eight bits.
pub(super) struct Acts {
    /// Blocks of a row.
    pub(super) blocks: usize,
    /// A block: eight groups of four numbers, each group in one word.
    pub(super) quants: Vec<[i32; BLOCK / 4]>,
    /// A block's scale.
    pub(super) scales: Vec<f32>,
    /// A block's sum, scaled.
    pub(super) sums: Vec<f32>,
}

#[cfg(target_arch = "x86_64")]
pub(super) use x86::{Avx2, available};

/// Stands for the instructions that this processor does not have.
#[cfg(not(target_arch = "x86_64"))]
#[derive(Clone, Copy, Debug)]
pub(super) enum Avx2 {}

#[cfg(not(target_arch = "x86_64"))]
pub(super) fn available() -> Option<Avx2> {
    None
}

#[cfg(not(target_arch = "x86_64"))]
impl Avx2 {
    pub(super) fn quantise(self, _rows: &[f32], _columns: usize) -> Acts {
        match self {}
    }

    pub(super) fn multiply(
        self,
        _: &super::tiles::Tiles,
        _: &Acts,
        _: (usize, usize),
        _: usize,
        _: &mut [f32],
    ) {
        match self {}
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{__m256, __m256i};

    use pulp::x86::V3;

    use super::super::half::RESCALE;
    use super::super::tiles::{BLOCK, Halves, Minimum, Packing, ROWS, Tiles};
    use super::Acts;

    /// Proof that this processor has AVX2 and FMA.
    pub(in super::super) type Avx2 = V3Proof;

    #[derive(Clone, Copy, Debug)]
    pub(in super::super) struct V3Proof(V3);

    pub(in super::super) fn available() -> Option<Avx2> {
        V3::try_new().map(V3Proof)
    }

    /// Added and taken away again, this rounds to a whole number, ties to even.
    const ROUND: f32 = 12_582_912.0;

    impl V3Proof {
        /// Quantises rows of `columns` numbers.
        pub(in super::super) fn quantise(self, rows: &[f32], columns: usize) -> Acts {
            let count = rows.len() / BLOCK;
            let mut acts = Acts {
                blocks: columns / BLOCK,
                quants: vec![[0; BLOCK / 4]; count],
                scales: vec![0.0; count],
                sums: vec![0.0; count],
            };
            self.0.vectorize(
                #[inline(always)]
                || {
                    let outs = acts
                        .quants
                        .iter_mut()
                        .zip(&mut acts.scales)
                        .zip(&mut acts.sums);
                    for (block, ((quants, scale), sum)) in
                        rows.as_chunks::<BLOCK>().0.iter().zip(outs)
                    {
                        let largest = block.iter().fold(0.0f32, |m, x| m.max(x.abs()));
                        *scale = largest / 127.0;
                        let inverse = if largest > 0.0 { 127.0 / largest } else { 0.0 };
                        let mut bytes = [0u8; BLOCK];
                        let mut total = 0i32;
                        for (x, byte) in block.iter().zip(&mut bytes) {
                            let q = (x * inverse + ROUND)
                                .to_bits()
                                .wrapping_sub(ROUND.to_bits());
                            total = total.wrapping_add(q.cast_signed());
                            *byte = q.to_le_bytes()[0];
                        }
                        for (four, word) in bytes.as_chunks::<4>().0.iter().zip(quants) {
                            *word = i32::from_le_bytes(*four);
                        }
                        #[expect(clippy::cast_precision_loss, reason = "at most 32 * 127")]
                        {
                            *sum = *scale * total as f32;
                        }
                    }
                },
            );
            acts
        }

        /// Rows `first..first + n` of `acts` times the tiles from `tile` on. `out` is `n x width`; a row of it begins with `tile`'s
        /// first row.
        pub(in super::super) fn multiply(
            self,
            w: &Tiles,
            acts: &Acts,
            (first, n): (usize, usize),
            tile: usize,
            out: &mut [f32],
        ) {
            let v = self.0;
            let width = out.len() / n.max(1);
            v.vectorize(
                #[inline(always)]
                || {
                    // A tile stays in the first cache while every row passes it.
                    for at in (0..width).step_by(ROWS) {
                        let tile = tile + at / ROWS;
                        let mut row = 0;
                        while row < n {
                            let out = &mut out[row * width + at..];
                            row += match n - row {
                                1 => several::<1>(v, w, tile, acts, first + row, out, width),
                                2 => several::<2>(v, w, tile, acts, first + row, out, width),
                                3 => several::<3>(v, w, tile, acts, first + row, out, width),
                                _ => several::<4>(v, w, tile, acts, first + row, out, width),
                            };
                        }
                    }
                },
            );
        }
    }

    /// One tile times `M` rows; eight outputs each, fewer at the end of a row of `width`. Gives `M`.
    #[inline(always)]
    fn several<const M: usize>(
        v: V3,
        w: &Tiles,
        tile: usize,
        acts: &Acts,
        first: usize,
        out: &mut [f32],
        width: usize,
    ) -> usize {
        let per = w.vectors();
        let quants = &w.quants[tile * w.blocks * per..][..w.blocks * per];
        let sums: [[f32; ROWS]; M] = match w.packing {
            Packing::Nibbles => {
                columns(v, w, tile, acts, first, quants.as_chunks::<4>().0, nibbles)
            }
            Packing::Unsigned => {
                columns(v, w, tile, acts, first, quants.as_chunks::<8>().0, unsigned)
            }
            Packing::Signed => columns(v, w, tile, acts, first, quants.as_chunks::<8>().0, signed),
        };
        for (m, sums) in sums.iter().enumerate() {
            // The last tile may have fewer than eight rows.
            let here = ROWS.min(w.rows - tile * ROWS);
            out[m * width..][..here].copy_from_slice(&sums[..here]);
        }
        M
    }

    /// Sums over all blocks of a tile. `products` gives the whole-number sums of one block.
    #[inline(always)]
    fn columns<const M: usize, const V: usize>(
        v: V3,
        w: &Tiles,
        tile: usize,
        acts: &Acts,
        first: usize,
        quants: &[[[u8; 32]; V]],
        products: impl Fn(V3, &[[u8; 32]; V], [&[i32; 8]; M]) -> [__m256i; M],
    ) -> [[f32; ROWS]; M] {
        let scales = &w.scales[tile * w.blocks..][..w.blocks];
        let (minima, factor) = match &w.minimum {
            Minimum::Own(minima) => (Some(&minima[tile * w.blocks..][..w.blocks]), 0.0),
            Minimum::Scales(factor) => (None, *factor),
        };
        let starts: [usize; M] = std::array::from_fn(|m| (first + m) * acts.blocks);
        let mut totals = [v.avx._mm256_setzero_ps(); M];
        for (block, (quants, scale)) in quants.iter().zip(scales).enumerate() {
            let numbers = starts.map(|start| &acts.quants[start + block]);
            let sums = products(v, quants, numbers);
            let scale = halves(v, scale);
            let minimum = match minima {
                Some(minima) => halves(v, &minima[block]),
                None => v.avx._mm256_mul_ps(scale, v.avx._mm256_set1_ps(factor)),
            };
            for m in 0..M {
                let whole = v.avx._mm256_cvtepi32_ps(sums[m]);
                let by = v.avx._mm256_set1_ps(acts.scales[starts[m] + block]);
                let sum = v.avx._mm256_set1_ps(acts.sums[starts[m] + block]);
                totals[m] = v
                    .fma
                    ._mm256_fmadd_ps(whole, v.avx._mm256_mul_ps(scale, by), totals[m]);
                totals[m] = v.fma._mm256_fmadd_ps(minimum, sum, totals[m]);
            }
        }
        totals.map(pulp::cast)
    }

    #[inline(always)]
    fn pairs(v: V3, sums: __m256i) -> __m256i {
        v.avx2._mm256_madd_epi16(sums, v.avx._mm256_set1_epi16(1))
    }

    /// Eight products of at most 2 * 15 * 127 stay within 16 bits.
    #[inline(always)]
    fn nibbles<const M: usize>(
        v: V3,
        quants: &[[u8; 32]; 4],
        acts: [&[i32; 8]; M],
    ) -> [__m256i; M] {
        let low_half = v.avx._mm256_set1_epi8(15);
        let mut sums = [v.avx._mm256_setzero_si256(); M];
        for (i, both) in quants.iter().enumerate() {
            let both: __m256i = pulp::cast(*both);
            let low = v.avx2._mm256_and_si256(both, low_half);
            let high = v
                .avx2
                ._mm256_and_si256(v.avx2._mm256_srli_epi16::<4>(both), low_half);
            for m in 0..M {
                let first = v
                    .avx2
                    ._mm256_maddubs_epi16(low, v.avx._mm256_set1_epi32(acts[m][2 * i]));
                let second = v
                    .avx2
                    ._mm256_maddubs_epi16(high, v.avx._mm256_set1_epi32(acts[m][2 * i + 1]));
                sums[m] = v
                    .avx2
                    ._mm256_add_epi16(sums[m], v.avx2._mm256_add_epi16(first, second));
            }
        }
        sums.map(|sums| pairs(v, sums))
    }

    /// Four products of at most 2 * 31 * 127 stay within 16 bits.
    #[inline(always)]
    fn unsigned<const M: usize>(
        v: V3,
        quants: &[[u8; 32]; 8],
        acts: [&[i32; 8]; M],
    ) -> [__m256i; M] {
        let mut totals = [v.avx._mm256_setzero_si256(); M];
        for (half, quants) in quants.as_chunks::<4>().0.iter().enumerate() {
            let mut sums = [v.avx._mm256_setzero_si256(); M];
            for (i, numbers) in quants.iter().enumerate() {
                let numbers: __m256i = pulp::cast(*numbers);
                for m in 0..M {
                    let act = v.avx._mm256_set1_epi32(acts[m][half * 4 + i]);
                    sums[m] = v
                        .avx2
                        ._mm256_add_epi16(sums[m], v.avx2._mm256_maddubs_epi16(numbers, act));
                }
            }
            for m in 0..M {
                totals[m] = v.avx2._mm256_add_epi32(totals[m], pairs(v, sums[m]));
            }
        }
        totals
    }

    /// Signed times signed: the sign moves to the other side. One product of at most 2 * 128 * 127 stays within 16 bits.
    #[inline(always)]
    fn signed<const M: usize>(v: V3, quants: &[[u8; 32]; 8], acts: [&[i32; 8]; M]) -> [__m256i; M] {
        let mut totals = [v.avx._mm256_setzero_si256(); M];
        for (i, numbers) in quants.iter().enumerate() {
            let numbers: __m256i = pulp::cast(*numbers);
            let size = v.avx2._mm256_abs_epi8(numbers);
            for m in 0..M {
                let act = v
                    .avx2
                    ._mm256_sign_epi8(v.avx._mm256_set1_epi32(acts[m][i]), numbers);
                let products = v.avx2._mm256_maddubs_epi16(size, act);
                totals[m] = v.avx2._mm256_add_epi32(totals[m], pairs(v, products));
            }
        }
        totals
    }

    #[inline(always)]
    fn halves(v: V3, bits: &Halves) -> __m256 {
        let wide = v.avx2._mm256_cvtepu16_epi32(pulp::cast(*bits));
        let sign = v.avx2._mm256_slli_epi32::<16>(
            v.avx2
                ._mm256_and_si256(wide, v.avx._mm256_set1_epi32(0x8000)),
        );
        let rest = v.avx2._mm256_slli_epi32::<13>(
            v.avx2
                ._mm256_and_si256(wide, v.avx._mm256_set1_epi32(0x7fff)),
        );
        let size = v.avx._mm256_mul_ps(
            v.avx._mm256_castsi256_ps(rest),
            v.avx._mm256_set1_ps(RESCALE),
        );
        v.avx._mm256_or_ps(size, v.avx._mm256_castsi256_ps(sign))
    }
}
