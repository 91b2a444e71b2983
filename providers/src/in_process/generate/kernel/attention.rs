//! Attention over the keys and values of all positions so far.
//!
//! Keys lie in tiles of eight positions (a number of eight positions side by side), values position by position: both products then
//! run along what lies contiguous. Query heads that share a key head are taken together, so a key is read once for all of them.

use pulp::Arch;

use super::ops::exp;
use super::pool;

/// Positions of a key tile.
const TILE: usize = 8;
/// Numbers of a value that are summed at a time: few enough for registers.
const STRIP: usize = 16;
/// Positions that one thread takes at a time when many are asked for.
const POSITIONS: usize = 4;

/// Keys and values of one key head in one layer.
#[derive(Debug, Default)]
pub(in super::super) struct HeadCache {
    /// `tiles x head x 8`.
    keys: Vec<f32>,
    /// `positions x head`.
    values: Vec<f32>,
    positions: usize,
}

impl HeadCache {
    /// The next position's key and value.
    pub(in super::super) fn push(&mut self, key: &[f32], value: &[f32]) {
        let lane = self.positions % TILE;
        if lane == 0 {
            self.keys.resize(self.keys.len() + key.len() * TILE, 0.0);
        }
        let tile = self.keys.len() - key.len() * TILE;
        for (at, key) in self.keys[tile..]
            .iter_mut()
            .skip(lane)
            .step_by(TILE)
            .zip(key)
        {
            *at = *key;
        }
        self.values.extend_from_slice(value);
        self.positions += 1;
    }
}

/// The shape of a layer's heads.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Heads {
    /// Query heads of a key head.
    pub(in super::super) group: usize,
    /// Numbers of a head.
    pub(in super::super) size: usize,
    /// Key heads.
    pub(in super::super) keys: usize,
}

/// Rows of queries (`n x width`, of which the first numbers are the query heads) to rows of attended values
/// (`n x heads * size`). The last row is the latest position in `cache`; earlier rows do not see later positions.
pub(in super::super) fn attend(
    queries: &[f32],
    n: usize,
    heads: Heads,
    cache: &[HeadCache],
) -> Vec<f32> {
    let width = queries.len() / n.max(1);
    let part = heads.group * heads.size;
    let outputs = heads.keys * part;
    let past = cache.first().map_or(0, |c| c.positions) - n;
    let mut out = vec![0.0; n * outputs];
    if n == 1 {
        pool::pieces(&mut out, part, |head, out| {
            one_head(
                &queries[head * part..][..part],
                &cache[head],
                past + 1,
                heads.size,
                out,
            );
        });
        return out;
    }
    pool::pieces(&mut out, POSITIONS * outputs, |index, out| {
        for (i, out) in out.chunks_exact_mut(outputs).enumerate() {
            let row = index * POSITIONS + i;
            let queries = &queries[row * width..][..outputs];
            for (head, cache) in cache.iter().enumerate() {
                let here = head * part..(head + 1) * part;
                one_head(
                    &queries[here.clone()],
                    cache,
                    past + row + 1,
                    heads.size,
                    &mut out[here],
                );
            }
        }
    });
    out
}

/// The query heads of one key head, for one position that sees the first `seen`.
fn one_head(queries: &[f32], cache: &HeadCache, seen: usize, size: usize, out: &mut [f32]) {
    let mut scores = vec![0.0; 4 * seen.next_multiple_of(TILE)];
    Arch::new().dispatch(
        #[inline(always)]
        || {
            let mut start = 0;
            while start < queries.len() {
                let (q, out) = (&queries[start..], &mut out[start..]);
                start += size
                    * match q.len() / size {
                        1 => several::<1>(q, cache, seen, size, &mut scores, out),
                        2 => several::<2>(q, cache, seen, size, &mut scores, out),
                        3 => several::<3>(q, cache, seen, size, &mut scores, out),
                        _ => several::<4>(q, cache, seen, size, &mut scores, out),
                    };
            }
        },
    );
}

/// `M` query heads at once. Gives `M`.
#[inline(always)]
fn several<const M: usize>(
    queries: &[f32],
    cache: &HeadCache,
    seen: usize,
    size: usize,
    scores: &mut [f32],
    out: &mut [f32],
) -> usize {
    let stride = seen.next_multiple_of(TILE);
    let queries: [&[f32]; M] = std::array::from_fn(|m| &queries[m * size..][..size]);
    #[expect(clippy::cast_precision_loss, reason = "a head is small")]
    let scale = 1.0 / (size as f32).sqrt();
    for (tile, keys) in cache
        .keys
        .chunks_exact(size * TILE)
        .take(stride / TILE)
        .enumerate()
    {
        let mut sums = [[0.0f32; TILE]; M];
        for (d, keys) in keys.as_chunks::<TILE>().0.iter().enumerate() {
            for m in 0..M {
                let q = queries[m][d];
                for i in 0..TILE {
                    sums[m][i] += q * keys[i];
                }
            }
        }
        for (m, sums) in sums.iter().enumerate() {
            let to = &mut scores[m * stride + tile * TILE..][..TILE];
            for (to, sum) in to.iter_mut().zip(sums) {
                *to = sum * scale;
            }
        }
    }
    for m in 0..M {
        softmax(&mut scores[m * stride..][..seen]);
    }
    let mut strip = 0;
    while strip + STRIP <= size {
        let mut sums = [[0.0f32; STRIP]; M];
        for (p, value) in cache.values.chunks_exact(size).take(seen).enumerate() {
            let value = &value[strip..strip + STRIP];
            for m in 0..M {
                let weight = scores[m * stride + p];
                for i in 0..STRIP {
                    sums[m][i] += weight * value[i];
                }
            }
        }
        for (m, sums) in sums.iter().enumerate() {
            out[m * size + strip..][..STRIP].copy_from_slice(sums);
        }
        strip += STRIP;
    }
    for d in strip..size {
        for m in 0..M {
            let weights = &scores[m * stride..][..seen];
            let values = cache.values.iter().skip(d).step_by(size);
            out[m * size + d] = weights.iter().zip(values).map(|(w, v)| w * v).sum();
        }
    }
    M
}

#[inline(always)]
fn softmax(scores: &mut [f32]) {
    let largest = scores.iter().fold(f32::NEG_INFINITY, |m, s| m.max(*s));
    let (eights, rest) = scores.as_chunks_mut::<8>();
    let mut sums = [0.0f32; 8];
    for eight in eights {
        for i in 0..8 {
            eight[i] = exp(eight[i] - largest);
            sums[i] += eight[i];
        }
    }
    let mut total: f32 = sums.iter().sum();
    for score in rest {
        *score = exp(*score - largest);
        total += *score;
    }
    let inverse = 1.0 / total;
    for score in scores {
        *score *= inverse;
    }
}
