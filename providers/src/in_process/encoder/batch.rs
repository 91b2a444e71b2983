//! Many sequences in sub-batches: of like length, none too large, and a look at the flag before each.

use antfly_framework::Result;
use rayon::prelude::*;

use super::super::admission::CancelFlag;
use super::tokens::Tokens;

/// The most sequences of a sub-batch. Between two, a run learns that its caller has gone.
pub(in crate::in_process) const MOST: usize = 32;
/// The most tokens of one, but for a single sequence: what bounds the memory of a run.
const MOST_TOKENS: usize = 8192;
/// Fewer tokens than this are not worth a second thread's own products.
const WORTH_A_THREAD: usize = 48;

/// Runs `work` over all sequences and gives what it makes of each, in their order. A sub-batch is cut among the machine's threads;
/// `work` gets the sequences of one thread's share and answers as many results.
pub(super) fn in_batches<T: Send>(
    all: &[Tokens],
    most: usize,
    cancel: &CancelFlag,
    work: impl Fn(&[&Tokens]) -> Result<Vec<T>> + Sync,
) -> Result<Vec<T>> {
    // Longest first: what needs most memory comes while the rest of the machine's is free, and the shares come out even.
    let mut order: Vec<usize> = (0..all.len()).collect();
    order.sort_by_key(|i| std::cmp::Reverse(all[*i].len()));
    let mut out: Vec<Option<T>> = all.iter().map(|_| None).collect();
    let mut rest = order.as_slice();
    while !rest.is_empty() {
        cancel.check()?;
        let (batch, later) = rest.split_at(fitting(all, rest, most.clamp(1, MOST)));
        rest = later;
        let shares = shares(all, batch, rayon::current_num_threads());
        let done: Vec<Vec<T>> = shares
            .par_iter()
            .map(|share| {
                let tokens: Vec<&Tokens> = share.iter().map(|i| &all[*i]).collect();
                work(&tokens)
            })
            .collect::<Result<_>>()?;
        for (share, results) in shares.iter().zip(done) {
            for (index, result) in share.iter().zip(results) {
                out[*index] = Some(result);
            }
        }
    }
    Ok(out.into_iter().flatten().collect())
}

/// How many of the first make a sub-batch.
fn fitting(all: &[Tokens], order: &[usize], most: usize) -> usize {
    let mut tokens = 0;
    let fits = |i: &&usize| {
        tokens += all[**i].len();
        tokens <= MOST_TOKENS
    };
    order.iter().take(most).take_while(fits).count().max(1)
}

/// A sub-batch cut into at most `threads` shares with about as many tokens each.
fn shares(all: &[Tokens], batch: &[usize], threads: usize) -> Vec<Vec<usize>> {
    let tokens: usize = batch.iter().map(|i| all[*i].len()).sum();
    let count = (tokens / WORTH_A_THREAD)
        .clamp(1, threads.max(1))
        .min(batch.len());
    let mut shares = vec![(0, Vec::new()); count];
    for index in batch {
        // The one with the least so far; longest first makes that even.
        if let Some(share) = shares.iter_mut().min_by_key(|(tokens, _)| *tokens) {
            share.0 += all[*index].len();
            share.1.push(*index);
        }
    }
    shares.into_iter().map(|(_, share)| share).collect()
}

#[cfg(test)]
#[path = "batch_tests.rs"]
mod tests;
