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

    use pulp::NullaryFnOnce;
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
            self.0.vectorize(Quantise {
                rows,
                acts: &mut acts,
            });
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
            self.0.vectorize(Product {
                v: self.0,
                w,
                acts,
                rows: (first, n),
                tile,
                out,
            });
        }
    }

    /// The work of [`V3Proof::multiply`]. A value with a method that is always inlined, and no closure: a closure is called through a
    /// shim that is compiled without AVX2, and no instruction can be inlined into that.
    struct Product<'a> {
        v: V3,
        w: &'a Tiles,
        acts: &'a Acts,
        rows: (usize, usize),
        tile: usize,
        out: &'a mut [f32],
    }

    impl NullaryFnOnce for Product<'_> {
        type Output = ();

        #[inline(always)]
        fn call(self) {
            let Product { v, w, acts, .. } = self;
            let (first, n) = self.rows;
            let width = self.out.len() / n.max(1);
            // A tile stays in the first cache while every row passes it.
            for at in (0..width).step_by(ROWS) {
                let tile = self.tile + at / ROWS;
                let mut row = 0;
                while row < n {
                    let out = &mut self.out[row * width + at..];
                    row += match n - row {
                        1 => several::<1>(v, w, tile, acts, first + row, out, width),
                        2 => several::<2>(v, w, tile, acts, first + row, out, width),
                        3 => several::<3>(v, w, tile, acts, first + row, out, width),
                        _ => several::<4>(v, w, tile, acts, first + row, out, width),
                    };
                }
            }
        }
    }

    /// The work of [`V3Proof::quantise`].
    struct Quantise<'a> {
        rows: &'a [f32],
        acts: &'a mut Acts,
    }

    impl NullaryFnOnce for Quantise<'_> {
        type Output = ();

        #[inline(always)]
        fn call(self) {
            let outs = self
                .acts
                .quants
                .iter_mut()
                .zip(&mut self.acts.scales)
                .zip(&mut self.acts.sums);
            for (block, ((quants, scale), sum)) in self.rows.as_chunks::<BLOCK>().0.iter().zip(outs)
            {
                let mut largest = 0.0f32;
                for x in block {
                    largest = largest.max(x.abs());
                }
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
                columns::<M, 4, Nibbles>(v, w, tile, acts, first, quants.as_chunks().0)
            }
            Packing::Unsigned => {
                columns::<M, 8, Unsigned>(v, w, tile, acts, first, quants.as_chunks().0)
            }
            Packing::Signed => {
                columns::<M, 8, Signed>(v, w, tile, acts, first, quants.as_chunks().0)
            }
        };
        for (m, sums) in sums.iter().enumerate() {
            // The last tile may have fewer than eight rows.
            let here = ROWS.min(w.rows - tile * ROWS);
            out[m * width..][..here].copy_from_slice(&sums[..here]);
        }
        M
    }

    /// The whole-number sums of one block of `V` vectors. A trait, because a function handed over by name is called through a shim too.
    trait Products<const V: usize> {
        fn of<const M: usize>(v: V3, quants: &[[u8; 32]; V], acts: [&[i32; 8]; M]) -> [__m256i; M];
    }

    struct Nibbles;
    struct Unsigned;
    struct Signed;

    /// Sums over all blocks of a tile.
    #[inline(always)]
    fn columns<const M: usize, const V: usize, P: Products<V>>(
        v: V3,
        w: &Tiles,
        tile: usize,
        acts: &Acts,
        first: usize,
        quants: &[[[u8; 32]; V]],
    ) -> [[f32; ROWS]; M] {
        let scales = &w.scales[tile * w.blocks..][..w.blocks];
        let (minima, factor) = match &w.minimum {
            Minimum::Own(minima) => (Some(&minima[tile * w.blocks..][..w.blocks]), 0.0),
            Minimum::Scales(factor) => (None, *factor),
        };
        let mut starts = [0; M];
        for (m, start) in starts.iter_mut().enumerate() {
            *start = (first + m) * acts.blocks;
        }
        let mut totals = [v.avx._mm256_setzero_ps(); M];
        for (block, (quants, scale)) in quants.iter().zip(scales).enumerate() {
            let mut numbers = [&acts.quants[starts[0] + block]; M];
            for (number, start) in numbers.iter_mut().zip(starts) {
                *number = &acts.quants[start + block];
            }
            let sums = P::of(v, quants, numbers);
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
        let mut sums = [[0.0; ROWS]; M];
        for (sum, total) in sums.iter_mut().zip(totals) {
            *sum = pulp::cast(total);
        }
        sums
    }

    #[inline(always)]
    fn pairs(v: V3, sums: __m256i) -> __m256i {
        v.avx2._mm256_madd_epi16(sums, v.avx._mm256_set1_epi16(1))
    }

    /// Eight products of at most 2 * 15 * 127 stay within 16 bits.
    impl Products<4> for Nibbles {
        #[inline(always)]
        fn of<const M: usize>(v: V3, quants: &[[u8; 32]; 4], acts: [&[i32; 8]; M]) -> [__m256i; M] {
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
            for sum in &mut sums {
                *sum = pairs(v, *sum);
            }
            sums
        }
    }

    /// Four products of at most 2 * 31 * 127 stay within 16 bits.
    impl Products<8> for Unsigned {
        #[inline(always)]
        fn of<const M: usize>(v: V3, quants: &[[u8; 32]; 8], acts: [&[i32; 8]; M]) -> [__m256i; M] {
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
    }

    /// Signed times signed: the sign moves to the other side. One product of at most 2 * 128 * 127 stays within 16 bits.
    impl Products<8> for Signed {
        #[inline(always)]
        fn of<const M: usize>(v: V3, quants: &[[u8; 32]; 8], acts: [&[i32; 8]; M]) -> [__m256i; M] {
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
