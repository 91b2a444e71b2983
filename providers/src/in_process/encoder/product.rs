//! Matrix products whose right side was laid out once.
//!
//! A model multiplies the same weights over and over, often by a few dozen rows only. What a general product does anew each time
//! (laying both sides out for its kernel, asking how many threads there are) costs it more than half of such a call. Here the right
//! side lies in [`Panels`] from the start, the left is read where it is, and every number of the result is one chain of
//! multiply-adds over the depth: the same whatever rows come with it and however the work is cut.

use pulp::{Arch, Simd, WithSimd};
use rayon::prelude::*;

use super::kernels::{Activation, bend};

/// Rows that pass all panels of a strip before the next ones do: they stay in the second cache.
const BLOCK: usize = 96;
/// Fewer multiply-adds than this are not worth a second thread.
const WORTH_A_THREAD: usize = 1 << 18;
/// Strips a thread: when one thread is late, another takes a part of its work.
const STRIPS: usize = 2;
/// No machine's panels are wider.
const WIDEST: usize = 64;

/// A matrix, `depth x columns`, in panels of as many columns as two vectors of this machine hold. In a panel each row's numbers lie
/// together, rows one after the other; the last panel is filled up with zeros.
#[derive(Debug)]
pub(super) struct Panels {
    depth: usize,
    columns: usize,
    width: usize,
    numbers: Vec<f32>,
}

impl Panels {
    /// The matrix with these columns, `depth` numbers each.
    pub(super) fn of_columns<'a>(
        depth: usize,
        columns: impl ExactSizeIterator<Item = &'a [f32]>,
    ) -> Self {
        Self::of_columns_by(Arch::new().dispatch(Width), depth, columns)
    }

    /// The same in panels of `width` columns.
    fn of_columns_by<'a>(
        width: usize,
        depth: usize,
        columns: impl ExactSizeIterator<Item = &'a [f32]>,
    ) -> Self {
        let mut panels = Self::empty(width, depth, columns.len());
        for (column, numbers) in columns.enumerate() {
            let (panel, at) = (column / width, column % width);
            let panel = &mut panels.numbers[panel * depth * width..(panel + 1) * depth * width];
            for (row, number) in panel.chunks_exact_mut(width).zip(numbers) {
                row[at] = *number;
            }
        }
        panels
    }

    /// The matrix with these rows, `columns` numbers each.
    pub(super) fn of_rows<'a>(
        columns: usize,
        rows: impl ExactSizeIterator<Item = &'a [f32]>,
    ) -> Self {
        let (depth, width) = (rows.len(), Arch::new().dispatch(Width));
        let mut panels = Self::empty(width, depth, columns);
        for (row, numbers) in rows.enumerate() {
            for (panel, part) in numbers.chunks(width).enumerate() {
                let at = (panel * depth + row) * width;
                panels.numbers[at..at + part.len()].copy_from_slice(part);
            }
        }
        panels
    }

    fn empty(width: usize, depth: usize, columns: usize) -> Self {
        Panels {
            depth,
            columns,
            width,
            numbers: vec![0.0; columns.div_ceil(width) * width * depth],
        }
    }

    /// `rows x columns` of `left` times the whole matrix, with `bias` (one number a column) added and bent, on all threads of the
    /// machine.
    pub(super) fn multiply(
        &self,
        left: Left<'_>,
        bias: Option<&[f32]>,
        activation: Activation,
    ) -> Vec<f32> {
        let count = left.rows();
        let mut out = vec![0.0; count * self.columns];
        let threads = match count * self.columns * self.depth < WORTH_A_THREAD {
            true => 1,
            false => rayon::current_num_threads(),
        };
        over_strips(
            &mut out,
            self.columns,
            self.width,
            threads,
            |first, strip| {
                let columns = strip.first().map_or(0, |row| row.len());
                Arch::new().dispatch(Strip {
                    left,
                    depth: self.depth,
                    panels: &self.numbers[first * self.depth..],
                    bias: bias.map(|bias| &bias[first..first + columns]),
                    activation,
                    out: strip,
                });
            },
        );
        out
    }

    /// The same without bias, on this thread, into rows of at least `columns` numbers.
    pub(super) fn multiply_into(&self, left: Left<'_>, out: &mut [&mut [f32]]) {
        Arch::new().dispatch(Strip {
            left,
            depth: self.depth,
            panels: &self.numbers,
            bias: None,
            activation: Activation::Identity,
            out,
        });
    }
}

/// Rows from the left: the first `depth` numbers from each multiple of `stride` on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Left<'a> {
    pub(super) numbers: &'a [f32],
    pub(super) stride: usize,
    pub(super) depth: usize,
}

impl Left<'_> {
    fn rows(self) -> usize {
        match self.numbers.len().checked_sub(self.depth) {
            Some(rest) if self.depth > 0 => rest / self.stride + 1,
            _ => 0,
        }
    }
}

/// Does `work` on each of the [`strips`], given its first column; a single one on this thread.
pub(super) fn over_strips(
    out: &mut [f32],
    columns: usize,
    unit: usize,
    threads: usize,
    work: impl Fn(usize, &mut [&mut [f32]]) + Sync,
) {
    let mut strips = strips(out, columns, unit, threads);
    match strips.as_mut_slice() {
        [(first, strip)] => work(*first, strip),
        all => all
            .par_iter_mut()
            .for_each(|(first, strip)| work(*first, strip)),
    }
}

/// Rows of `columns` numbers cut lengthwise, for at most `threads` threads, at multiples of `unit`: each strip with its first column
/// and its part of every row.
fn strips(
    out: &mut [f32],
    columns: usize,
    unit: usize,
    threads: usize,
) -> Vec<(usize, Vec<&mut [f32]>)> {
    let units = columns.div_ceil(unit.max(1));
    let wanted = match threads {
        0 | 1 => 1,
        n => n * STRIPS,
    };
    let width = units.div_ceil(wanted.max(1)) * unit;
    if width == 0 {
        return Vec::new();
    }
    let rows = out.len() / columns;
    let mut strips: Vec<_> = (0..columns)
        .step_by(width)
        .map(|first| (first, Vec::with_capacity(rows)))
        .collect();
    for row in out.chunks_exact_mut(columns) {
        for ((_, strip), part) in strips.iter_mut().zip(row.chunks_mut(width)) {
            strip.push(part);
        }
    }
    strips
}

/// How many columns a panel has.
struct Width;

impl WithSimd for Width {
    type Output = usize;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> usize {
        (2 * S::F32_LANES).min(WIDEST)
    }
}

/// The product of rows with a few panels.
struct Strip<'a, 'b> {
    left: Left<'a>,
    depth: usize,
    panels: &'a [f32],
    bias: Option<&'a [f32]>,
    activation: Activation,
    out: &'a mut [&'b mut [f32]],
}

impl WithSimd for Strip<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let width = 2 * S::F32_LANES;
        let columns = self.out.first().map_or(0, |row| row.len());
        for (block, out) in self.out.chunks_mut(BLOCK).enumerate() {
            for (at, panel) in (0..columns)
                .step_by(width)
                .zip(self.panels.chunks_exact((self.depth * width).max(1)))
            {
                let panel = S::as_simd_f32s(panel).0.as_chunks::<2>().0;
                // Even shares: a tile of one row costs nearly what one of six does.
                let most = if S::REGISTER_COUNT >= 32 { 12 } else { 6 };
                let tiles = out.len().div_ceil(most);
                let (share, more) = (out.len() / tiles.max(1), out.len() % tiles.max(1));
                let mut from = 0;
                for tile in 0..tiles {
                    let count = share + usize::from(tile < more);
                    let (left, first) = (self.left, block * BLOCK + from);
                    let out = &mut out[from..from + count];
                    match count {
                        1 => rows::<S, 1>(simd, left, first, panel, out, at),
                        2 => rows::<S, 2>(simd, left, first, panel, out, at),
                        3 => rows::<S, 3>(simd, left, first, panel, out, at),
                        4 => rows::<S, 4>(simd, left, first, panel, out, at),
                        5 => rows::<S, 5>(simd, left, first, panel, out, at),
                        6 => rows::<S, 6>(simd, left, first, panel, out, at),
                        7 => rows::<S, 7>(simd, left, first, panel, out, at),
                        8 => rows::<S, 8>(simd, left, first, panel, out, at),
                        9 => rows::<S, 9>(simd, left, first, panel, out, at),
                        10 => rows::<S, 10>(simd, left, first, panel, out, at),
                        11 => rows::<S, 11>(simd, left, first, panel, out, at),
                        _ => rows::<S, 12>(simd, left, first, panel, out, at),
                    }
                    from += count;
                }
            }
            for row in out {
                if let Some(bias) = self.bias {
                    for (v, b) in row.iter_mut().zip(bias) {
                        *v += b;
                    }
                }
                bend(row, self.activation);
            }
        }
    }
}

/// `M` rows from `first` on times one panel, whose columns begin at `at` in `out`.
#[inline(always)]
fn rows<S: Simd, const M: usize>(
    simd: S,
    left: Left<'_>,
    first: usize,
    panel: &[[S::f32s; 2]],
    out: &mut [&mut [f32]],
    at: usize,
) {
    let mut rows = [&left.numbers[..0]; M];
    for (m, row) in rows.iter_mut().enumerate() {
        *row = &left.numbers[(first + m) * left.stride..][..panel.len()];
    }
    let mut sums = [[simd.splat_f32s(0.0); 2]; M];
    for (k, [low, high]) in panel.iter().enumerate() {
        for m in 0..M {
            let by = simd.splat_f32s(rows[m][k]);
            sums[m][0] = simd.mul_add_e_f32s(by, *low, sums[m][0]);
            sums[m][1] = simd.mul_add_e_f32s(by, *high, sums[m][1]);
        }
    }
    for (row, sums) in out.iter_mut().zip(sums) {
        let row = &mut row[at..];
        let mut whole = [0.0; WIDEST];
        let numbers = S::as_mut_simd_f32s(&mut whole).0;
        numbers[..2].copy_from_slice(&sums);
        let here = row.len().min(2 * S::F32_LANES);
        row[..here].copy_from_slice(&whole[..here]);
    }
}

#[cfg(test)]
#[path = "product_tests.rs"]
mod tests;
