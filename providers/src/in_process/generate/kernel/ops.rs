//! What lies between the matrices: norms, rotations, gates. Rows are independent and shared out over the threads.

use pulp::Arch;

use super::pool;

/// Numbers that one thread takes at a time.
const PIECE: usize = 16 * 1024;

/// Pieces of whole rows, of about [`PIECE`] numbers.
fn by_rows(out: &mut [f32], width: usize, work: impl Fn(usize, &mut [f32]) + Sync) {
    let rows = (PIECE / width.max(1)).max(1);
    pool::pieces(out, rows * width, |index, out| {
        for (i, out) in out.chunks_exact_mut(width).enumerate() {
            work(index * rows + i, out);
        }
    });
}

/// Root-mean-square normalisation of each row of `x`, scaled by `weight`.
pub(in super::super) fn rms_norm(x: &[f32], weight: &[f32], epsilon: f32) -> Vec<f32> {
    let width = weight.len();
    let mut out = vec![0.0; x.len()];
    by_rows(&mut out, width, |row, out| {
        let x = &x[row * width..][..width];
        Arch::new().dispatch(
            #[inline(always)]
            || {
                #[expect(clippy::cast_precision_loss, reason = "a width is small")]
                let mean = dot(x, x) / width as f32;
                let scale = 1.0 / (mean + epsilon).sqrt();
                for ((out, x), weight) in out.iter_mut().zip(x).zip(weight) {
                    *out = x * scale * weight;
                }
            },
        );
    });
    out
}

/// Adds `y` to `x`.
pub(in super::super) fn add(x: &mut [f32], y: &[f32]) {
    Arch::new().dispatch(
        #[inline(always)]
        || {
            for (x, y) in x.iter_mut().zip(y) {
                *x += y;
            }
        },
    );
}

/// Rows of `gate | up` to rows of `silu(gate) * up`, `width` numbers each.
pub(in super::super) fn gated(both: &[f32], width: usize) -> Vec<f32> {
    let mut out = vec![0.0; both.len() / 2];
    by_rows(&mut out, width, |row, out| {
        let (gate, up) = both[row * 2 * width..][..2 * width].split_at(width);
        Arch::new().dispatch(
            #[inline(always)]
            || {
                for ((out, gate), up) in out.iter_mut().zip(gate).zip(up) {
                    *out = gate / (1.0 + exp(-gate)) * up;
                }
            },
        );
    });
    out
}

/// The sum of products, in eight running sums so that it can be vectorised.
#[inline(always)]
pub(super) fn dot(a: &[f32], b: &[f32]) -> f32 {
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<8>(), b.as_chunks::<8>());
    let mut sums = [0.0f32; 8];
    for (a, b) in a.iter().zip(b) {
        for i in 0..8 {
            sums[i] += a[i] * b[i];
        }
    }
    let rest: f32 = a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum();
    sums.iter().sum::<f32>() + rest
}

/// `e^x` to about single precision, without a branch so that it can be vectorised.
#[inline(always)]
pub(super) fn exp(x: f32) -> f32 {
    /// Added and taken away again, this rounds to a whole number.
    const ROUND: f32 = 12_582_912.0;
    let x = x.clamp(-87.0, 88.0);
    let shifted = x * std::f32::consts::LOG2_E + ROUND;
    let n = shifted - ROUND;
    // ln 2 in two parts: the first has so few digits that n times it is exact.
    let r = (x - n * 0.693_359_4) - n * -2.121_944_4e-4;
    let p = 1.0 / 5040.0;
    let p = p * r + 1.0 / 720.0;
    let p = p * r + 1.0 / 120.0;
    let p = p * r + 1.0 / 24.0;
    let p = p * r + 1.0 / 6.0;
    let p = p * r + 0.5;
    let p = p * r + 1.0;
    let p = p * r + 1.0;
    let power = shifted
        .to_bits()
        .wrapping_sub(ROUND.to_bits())
        .wrapping_add(127)
        << 23;
    p * f32::from_bits(power)
}

/// Rotary position embedding: pairs of neighbouring numbers turn by an angle that grows with the position.
#[derive(Debug)]
pub(in super::super) struct Rope {
    /// Turns a position, one a pair.
    frequencies: Vec<f64>,
}

impl Rope {
    /// `pairs` of a head's numbers turn; what comes after them does not. `factors` (one a pair, or none) slow pairs down, `scale`
    /// all of them.
    pub(in super::super) fn new(pairs: usize, base: f64, scale: f64, factors: &[f32]) -> Self {
        let frequency = |i: usize| {
            #[expect(clippy::cast_precision_loss, reason = "a head is small")]
            let exponent = i as f64 / pairs as f64;
            base.powf(-exponent) * scale / factors.get(i).map_or(1.0, |f| f64::from(*f))
        };
        Rope {
            frequencies: (0..pairs).map(frequency).collect(),
        }
    }

    /// Sine and cosine of `n` positions from `first` on: `n x pairs`.
    pub(in super::super) fn angles(&self, first: usize, n: usize) -> Vec<(f32, f32)> {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_precision_loss,
            reason = "angles, in single precision"
        )]
        let turn = |position: usize, frequency: &f64| {
            let (sin, cos) = (position as f64 * frequency).sin_cos();
            (sin as f32, cos as f32)
        };
        (first..first + n)
            .flat_map(|p| self.frequencies.iter().map(move |f| turn(p, f)))
            .collect()
    }

    /// Turns one row of heads of `head` numbers in place, by that position's angles.
    pub(in super::super) fn turn(row: &mut [f32], head: usize, angles: &[(f32, f32)]) {
        for head in row.chunks_exact_mut(head) {
            for ([a, b], (sin, cos)) in head.as_chunks_mut::<2>().0.iter_mut().zip(angles) {
                (*a, *b) = (*a * cos - *b * sin, *a * sin + *b * cos);
            }
        }
    }
}
