//! The arithmetic between matrix products, row by row over plain slices.
//!
//! Each function dispatches once to the widest vectors of the machine; inside are plain loops over lanes that the compiler turns
//! into vectors. The order of a sum is fixed and does not depend on how wide those are.

use pulp::{Arch, NullaryFnOnce};

/// A function whose body is compiled for the widest vectors of the machine. The body stands in a method that is always inlined and
/// not in a closure: a closure is called through a shim that is compiled without those vectors.
macro_rules! vectors {
    ($(#[$doc:meta])* $vis:vis fn $name:ident($($arg:ident: $kind:ty),* $(,)?) -> $out:ty $body:block) => {
        $(#[$doc])*
        $vis fn $name<'a>($($arg: $kind),*) -> $out {
            struct Work<'a> { $($arg: $kind),* }
            impl<'a> NullaryFnOnce for Work<'a> {
                type Output = $out;

                #[inline(always)]
                fn call(self) -> $out {
                    let Work { $($arg),* } = self;
                    $body
                }
            }
            Arch::new().dispatch(Work { $($arg),* })
        }
    };
}

/// How many partial sums a reduction keeps.
pub(super) const LANES: usize = 16;

/// What a feed-forward layer bends its values with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Activation {
    /// `x * phi(x)` with the normal distribution's own `phi`.
    Gelu,
    /// The same with the usual approximation of `phi` through `tanh`.
    GeluTanh,
    Relu,
    Silu,
    Tanh,
    Sigmoid,
    Identity,
}

impl Activation {
    /// By the name a model's configuration gives it.
    pub(super) fn of(name: &str) -> Option<Self> {
        Some(match name {
            "gelu" => Activation::Gelu,
            "gelu_new" | "gelu_fast" | "gelu_pytorch_tanh" => Activation::GeluTanh,
            "relu" => Activation::Relu,
            "silu" | "swish" => Activation::Silu,
            "tanh" => Activation::Tanh,
            "sigmoid" => Activation::Sigmoid,
            "linear" | "identity" => Activation::Identity,
            _ => return None,
        })
    }
}

vectors! {
    /// Bends values in place.
    #[cfg(test)]
    pub(super) fn apply(values: &'a mut [f32], activation: Activation) -> () {
        bend(values, activation);
    }
}

/// The same inside another function's vectors.
#[inline(always)]
pub(super) fn bend(values: &mut [f32], activation: Activation) {
    match activation {
        Activation::Gelu => values.iter_mut().for_each(|x| *x = gelu(*x)),
        Activation::GeluTanh => values.iter_mut().for_each(|x| *x = gelu_tanh(*x)),
        Activation::Relu => values.iter_mut().for_each(|x| *x = x.max(0.0)),
        Activation::Silu => values.iter_mut().for_each(|x| *x *= sigmoid(*x)),
        Activation::Tanh => values.iter_mut().for_each(|x| *x = tanh(*x)),
        Activation::Sigmoid => values.iter_mut().for_each(|x| *x = sigmoid(*x)),
        Activation::Identity => {}
    }
}

/// `phi(x) - 1/2` as `x * p(x^2) / q(x^2)`, fitted on |x| <= 5.6 to within 1e-8; beyond, it is 1/2 to single precision.
#[inline(always)]
fn gelu(x: f32) -> f32 {
    const P: [f32; 6] = [
        0.398_942_22,
        3.437_611_3e-2,
        4.707_26e-3,
        1.738_507_5e-4,
        6.356_526e-6,
        2.214_528_4e-8,
    ];
    const Q: [f32; 6] = [
        1.0,
        0.252_833_85,
        2.894_009e-2,
        1.912_978_5e-3,
        7.510_189e-5,
        1.180_210_7e-6,
    ];
    let c = x.clamp(-5.6, 5.6);
    let t = c * c;
    let p = ((((P[5] * t + P[4]) * t + P[3]) * t + P[2]) * t + P[1]) * t + P[0];
    let q = ((((Q[5] * t + Q[4]) * t + Q[3]) * t + Q[2]) * t + Q[1]) * t + Q[0];
    x * (0.5 + c * p / q)
}

#[inline(always)]
fn gelu_tanh(x: f32) -> f32 {
    const ROOT_2_OVER_PI: f32 = 0.797_884_6;
    0.5 * x * (1.0 + tanh(ROOT_2_OVER_PI * (x + 0.044_715 * x * x * x)))
}

#[inline(always)]
fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}

#[inline(always)]
fn tanh(x: f32) -> f32 {
    // Near zero the difference would lose its digits.
    let small = x * (1.0 - x * x * (1.0 / 3.0 - x * x * (2.0 / 15.0)));
    let large = 1.0 - 2.0 / (exp(2.0 * x) + 1.0);
    if x.abs() < 0.1 { small } else { large }
}

/// `e^x`: a power of two from the exponent's bits, the rest by a polynomial good to 1e-8. Below -87 it is that of -87, which is
/// nothing beside a row's largest term, 1.
#[inline(always)]
fn exp(x: f32) -> f32 {
    const LOG2_E: f32 = std::f32::consts::LOG2_E;
    const LN2_HIGH: f32 = 0.693_359_4;
    const LN2_LOW: f32 = -2.121_944_4e-4;
    /// Adding it to a small number rounds that to an integer, which stands in the lowest bits.
    const ROUND: f32 = 12_582_912.0;
    let x = x.clamp(-87.0, 88.0);
    let shifted = x * LOG2_E + ROUND;
    let n = shifted - ROUND;
    let r = x - n * LN2_HIGH - n * LN2_LOW;
    let p = 1.394_460_1e-3;
    let p = p * r + 8.371_912e-3;
    let p = p * r + 4.166_628e-2;
    let p = p * r + 0.166_664_56;
    let p = p * r + 0.5;
    let p = p * r + 1.0;
    let p = p * r + 1.0;
    let scale = f32::from_bits((n as i32 + 127).cast_unsigned() << 23);
    p * scale
}

/// `bend(a) * b` for rows of `2 n` numbers that hold `a` and then `b`.
pub(super) fn gated(rows: &[f32], n: usize, activation: Activation) -> Vec<f32> {
    let mut out = Vec::with_capacity(rows.len() / 2);
    for row in rows.chunks_exact((2 * n).max(1)) {
        out.extend_from_slice(&row[..n]);
    }
    gate(&mut out, rows, n, activation);
    out
}

vectors! {
    fn gate(out: &'a mut [f32], rows: &'a [f32], n: usize, activation: Activation) -> () {
        bend(out, activation);
        let rows = rows.chunks_exact((2 * n).max(1));
        for (row, out) in rows.zip(out.chunks_exact_mut(n.max(1))) {
            for (v, gate) in out.iter_mut().zip(&row[n..]) {
                *v *= gate;
            }
        }
    }
}

vectors! {
    /// Adds `more` to `rows`, in place.
    pub(super) fn add(rows: &'a mut [f32], more: &'a [f32]) -> () {
        for (v, m) in rows.iter_mut().zip(more) {
            *v += m;
        }
    }
}

vectors! {
    /// Layer normalisation of each row, in place.
    pub(super) fn normalize(rows: &'a mut [f32], weight: &'a [f32], bias: Option<&'a [f32]>, epsilon: f32) -> () {
        let n = weight.len();
        for row in rows.chunks_exact_mut(n.max(1)) {
            let mean = sum(row, |x| x) / n as f32;
            let variance = sum(row, |x| (x - mean) * (x - mean)) / n as f32;
            let scale = 1.0 / (variance + epsilon).sqrt();
            for (v, w) in row.iter_mut().zip(weight) {
                *v = (*v - mean) * scale * w;
            }
            if let Some(bias) = bias {
                for (v, b) in row.iter_mut().zip(bias) {
                    *v += b;
                }
            }
        }
    }
}

/// What is added to a row of scores before its softmax.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row<'a> {
    /// What the scores are multiplied by first.
    pub(super) scale: f32,
    /// Added to the scores, one number for each.
    pub(super) bias: Option<&'a [f32]>,
    /// Only these columns count; the others become 0.
    pub(super) from: usize,
    pub(super) to: usize,
}

vectors! {
    /// The softmax of one row of scores, in place. Rows of a multiple of 16 are faster.
    pub(super) fn softmax(row: &'a mut [f32], how: Row<'a>) -> () {
        let to = how.to.min(row.len());
        let from = how.from.min(to);
        for v in row.iter_mut() {
            *v *= how.scale;
        }
        if let Some(bias) = how.bias {
            for (v, b) in row.iter_mut().zip(bias) {
                *v += b;
            }
        }
        row[..from].fill(f32::MIN);
        row[to..].fill(f32::MIN);
        let most = largest(row);
        for v in row.iter_mut() {
            *v = exp(*v - most);
        }
        row[..from].fill(0.0);
        row[to..].fill(0.0);
        // A row that sees nothing stays at zero.
        let share = 1.0 / sum(row, |x| x).max(f32::MIN_POSITIVE);
        for v in row.iter_mut() {
            *v *= share;
        }
    }
}

vectors! {
    /// Scales a vector to length 1; one of zeros stays.
    pub(in crate::in_process) fn to_unit(vector: &'a mut [f32]) -> () {
        // As the reference does: the length is at least 1e-12.
        let length = sum(vector, |x| x * x).sqrt().max(1e-12);
        let scale = 1.0 / length;
        for v in vector.iter_mut() {
            *v *= scale;
        }
    }
}

vectors! {
    /// The scalar product.
    pub(in crate::in_process) fn dot(a: &'a [f32], b: &'a [f32]) -> f32 {
        let mut sums = [0.0_f32; LANES];
        let (a_whole, a_rest) = a.as_chunks::<LANES>();
        let (b_whole, b_rest) = b.as_chunks::<LANES>();
        for (a, b) in a_whole.iter().zip(b_whole) {
            for ((s, a), b) in sums.iter_mut().zip(a).zip(b) {
                *s += a * b;
            }
        }
        let rest: f32 = a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum();
        sums.iter().sum::<f32>() + rest
    }
}

vectors! {
    /// Adds `row * factor` to `total`.
    pub(super) fn accumulate(total: &'a mut [f32], row: &'a [f32], factor: f32) -> () {
        for (t, v) in total.iter_mut().zip(row) {
            *t += v * factor;
        }
    }
}

#[inline(always)]
fn sum(row: &[f32], f: impl Fn(f32) -> f32) -> f32 {
    let mut sums = [0.0_f32; LANES];
    let (whole, rest) = row.as_chunks::<LANES>();
    for chunk in whole {
        for (s, v) in sums.iter_mut().zip(chunk) {
            *s += f(*v);
        }
    }
    sums.iter().sum::<f32>() + rest.iter().map(|v| f(*v)).sum::<f32>()
}

#[inline(always)]
fn largest(row: &[f32]) -> f32 {
    let mut most = [f32::NEG_INFINITY; LANES];
    let (whole, rest) = row.as_chunks::<LANES>();
    for chunk in whole {
        for (m, v) in most.iter_mut().zip(chunk) {
            *m = if *v > *m { *v } else { *m };
        }
    }
    let pick = |m: f32, v: &f32| if *v > m { *v } else { m };
    let most = most.iter().fold(f32::NEG_INFINITY, pick);
    rest.iter().fold(most, pick)
}

#[cfg(test)]
#[path = "kernels_tests.rs"]
mod tests;
