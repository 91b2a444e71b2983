//! Self-attention over sequences that lie one after the other, without padding: each looks at itself only.

use super::kernels::{self, Row};
use super::ops::Rows;
use super::product::{self, Left, Panels};

/// Rows of scores that are made at once: a long sequence needs memory for these and not for its square.
const BLOCK: usize = 256;
/// With fewer tokens a second thread is not worth its waking.
const WORTH_A_THREAD: usize = 24;

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
pub(super) fn attend(qkv: &Rows, lengths: &[usize], form: Form<'_>) -> Rows {
    let all = form.heads * form.dim;
    let tokens: usize = lengths.iter().sum();
    let mut out = vec![0.0; tokens * all];
    let threads = match tokens < WORTH_A_THREAD {
        true => 1,
        false => rayon::current_num_threads(),
    };
    // Each thread takes some of the heads.
    product::over_strips(&mut out, all, form.dim, threads, |first, strip| {
        let mut rest = strip;
        let mut start = 0;
        for length in lengths {
            let (rows, later) = rest.split_at_mut(*length);
            rest = later;
            let sequence = Sequence {
                numbers: &qkv.numbers[start * 3 * all..(start + length) * 3 * all],
                length: *length,
                form,
            };
            sequence.attend(first / form.dim, rows);
            start += length;
        }
    });
    Rows {
        numbers: out,
        dim: all,
    }
}

/// One sequence's queries, keys and values: `length x (3 heads dim)`.
struct Sequence<'a> {
    numbers: &'a [f32],
    length: usize,
    form: Form<'a>,
}

impl Sequence<'_> {
    /// The output of as many heads, from `first` on, as the rows of `out` have place for.
    fn attend(&self, first: usize, out: &mut [&mut [f32]]) {
        let dim = self.form.dim;
        let heads = out.first().map_or(0, |row| row.len()) / dim.max(1);
        for head in 0..heads {
            let mut from = 0;
            for rows in out.chunks_mut(BLOCK) {
                let mut part: Vec<&mut [f32]> = rows
                    .iter_mut()
                    .map(|row| &mut row[head * dim..(head + 1) * dim])
                    .collect();
                self.block(first + head, from, &mut part);
                from += part.len();
            }
        }
    }

    /// One head's output for the queries from `from` on.
    fn block(&self, head: usize, from: usize, out: &mut [&mut [f32]]) {
        let (dim, length, count) = (self.form.dim, self.length, out.len());
        let all = self.form.heads * dim;
        // The keys any of these rows sees.
        let (first, last) = match self.form.reach {
            None => (0, length),
            Some(reach) => (
                from.saturating_sub(reach),
                (from + count).saturating_add(reach).min(length),
            ),
        };
        let tokens = |from: usize, to: usize| {
            self.numbers[from * 3 * all..to * 3 * all].chunks_exact(3 * all)
        };
        let part = |which: usize| which * all + head * dim..which * all + (head + 1) * dim;
        let keys = Panels::of_columns(dim, tokens(first, last).map(|token| &token[part(1)]));
        let values = Panels::of_rows(dim, tokens(first, last).map(|token| &token[part(2)]));
        let queries = Left {
            numbers: &self.numbers[from * 3 * all + head * dim..(from + count) * 3 * all],
            stride: 3 * all,
            depth: dim,
        };
        let width = (last - first).next_multiple_of(kernels::LANES);
        let mut scores = vec![0.0; count * width];
        let mut rows: Vec<&mut [f32]> = scores.chunks_exact_mut(width).collect();
        keys.multiply_into(queries, &mut rows);
        for (number, row) in rows.iter_mut().enumerate() {
            let position = from + number;
            let (low, high) = match self.form.reach {
                None => (0, length),
                Some(reach) => (
                    position.saturating_sub(reach),
                    position.saturating_add(reach + 1).min(length),
                ),
            };
            let bias = self.form.distance.map(|d| &d.row(head, position)[first..]);
            let how = Row {
                scale: 1.0 / (dim as f32).sqrt(),
                bias,
                from: low - first,
                to: high - first,
            };
            kernels::softmax(row, how);
        }
        let scores = Left {
            numbers: &scores,
            stride: width,
            depth: last - first,
        };
        values.multiply_into(scores, out);
    }
}

#[cfg(test)]
#[path = "attention_tests.rs"]
mod tests;
