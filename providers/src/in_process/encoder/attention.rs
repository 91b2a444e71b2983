//! Self-attention over sequences that lie one after the other, without padding: each looks at itself only.

use antfly_framework::Result;
use candle_core::Tensor;

use super::kernels::{self, Row};
use super::{arithmetic, ops};

/// Rows of scores that are made at once: a long sequence needs memory for these and not for its square.
const BLOCK: usize = 256;

/// The form of one layer's attention.
#[derive(Clone, Copy, Debug)]
pub(super) struct Form<'a> {
    pub(super) heads: usize,
    /// Numbers a head.
    pub(super) dim: usize,
    /// How far a token sees in either direction; `None`: everywhere.
    pub(super) reach: Option<usize>,
    /// What is added to the scores by distance, if anything.
    pub(super) distance: Option<&'a DistanceBias>,
}

/// A number for each head and distance, added to a score before the softmax.
#[derive(Debug)]
pub(super) struct DistanceBias {
    /// `heads x (2 longest - 1)`: by the key's position less the query's, from the most negative on.
    pub(super) table: Vec<f32>,
    /// The longest sequence it is for.
    pub(super) longest: usize,
}

impl DistanceBias {
    /// One head's numbers for the query at `position`, keys from 0 on.
    fn row(&self, head: usize, position: usize) -> &[f32] {
        let width = 2 * self.longest - 1;
        let start = head * width + (self.longest - 1 - position);
        &self.table[start..(head + 1) * width]
    }
}

/// The attention's output, `tokens x (heads dim)`, of `qkv`: `tokens x (3 heads dim)`.
pub(super) fn attend(qkv: &Tensor, lengths: &[usize], form: Form<'_>) -> Result<Tensor> {
    let Form { heads, dim, .. } = form;
    let tokens: usize = lengths.iter().sum();
    let parts = qkv.reshape((tokens, 3, heads, dim)).map_err(arithmetic)?;
    let mut out = vec![0.0; tokens * heads * dim];
    let mut start = 0;
    for length in lengths {
        let rows = &mut out[start * heads * dim..(start + length) * heads * dim];
        one(&parts, start, *length, form, rows)?;
        start += length;
    }
    ops::matrix(out, heads * dim)
}

/// One sequence.
fn one(parts: &Tensor, start: usize, length: usize, form: Form<'_>, out: &mut [f32]) -> Result<()> {
    let part = |which: usize, from: usize, count: usize| {
        // Views all the way: `heads x count x dim`.
        parts
            .narrow(0, start + from, count)?
            .narrow(1, which, 1)?
            .squeeze(1)?
            .transpose(0, 1)
    };
    let (heads, dim) = (form.heads, form.dim);
    let scale = 1.0 / (dim as f32).sqrt();
    let mut from = 0;
    while from < length {
        let count = BLOCK.min(length - from);
        // The keys any of these rows sees.
        let (first, last) = match form.reach {
            None => (0, length),
            Some(reach) => (
                from.saturating_sub(reach),
                (from + count).saturating_add(reach).min(length),
            ),
        };
        let product = || {
            let q = part(0, from, count)?;
            let k = part(1, first, last - first)?;
            q.matmul(&k.t()?)
        };
        let scores = product().map_err(arithmetic)?;
        let keys = last - first;
        ops::change(&scores, |all| {
            for (number, row) in all.chunks_exact_mut(keys).enumerate() {
                let (head, position) = (number / count, from + number % count);
                let (low, high) = match form.reach {
                    None => (0, length),
                    Some(reach) => (
                        position.saturating_sub(reach),
                        position.saturating_add(reach + 1).min(length),
                    ),
                };
                let bias = form.distance.map(|d| &d.row(head, position)[first..]);
                kernels::softmax(
                    row,
                    Row {
                        scale,
                        bias,
                        from: low - first,
                        to: high - first,
                    },
                );
            }
        })?;
        let context = part(2, first, keys)
            .and_then(|v| scores.matmul(&v))
            .map_err(arithmetic)?;
        ops::read(&context, |all| {
            for (number, row) in all.chunks_exact(dim).enumerate() {
                let (head, position) = (number / count, from + number % count);
                let at = (position * heads + head) * dim;
                out[at..at + dim].copy_from_slice(row);
            }
        })?;
        from += count;
    }
    Ok(())
}
