use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use antfly_framework::{Error, Kind};

use super::*;

fn sequence(length: usize) -> Tokens {
    Tokens {
        ids: vec![7; length],
        types: vec![0; length],
        special: vec![false; length],
    }
}

fn sequences(lengths: impl IntoIterator<Item = usize>) -> Vec<Tokens> {
    lengths.into_iter().map(sequence).collect()
}

fn free() -> CancelFlag {
    CancelFlag::default()
}

#[test]
fn results_come_in_the_order_of_the_sequences() {
    let all = sequences((0..100).map(|n| 1 + (n * 37) % 50));
    let lengths = in_batches(&all, MOST, &free(), |share| {
        Ok(share.iter().map(|t| t.len()).collect())
    });
    let expected: Vec<usize> = all.iter().map(Tokens::len).collect();
    assert_eq!(lengths.unwrap(), expected);
    let none = in_batches(&[], MOST, &free(), |_| Ok(vec![()]));
    assert!(none.unwrap().is_empty());
}

#[test]
fn a_sub_batch_is_bounded_in_sequences_and_in_tokens() {
    let order: Vec<usize> = (0..100).collect();
    let short = sequences(std::iter::repeat_n(3, 100));
    assert_eq!(fitting(&short, &order, MOST), 32);
    assert_eq!(fitting(&short, &order, 5), 5);
    assert_eq!(fitting(&short, &order[..7], MOST), 7);
    let long = sequences(std::iter::repeat_n(3000, 100));
    assert_eq!(fitting(&long, &order, MOST), 2);
    let endless = sequences(std::iter::repeat_n(20_000, 100));
    assert_eq!(fitting(&endless, &order, MOST), 1, "one always goes");
}

#[test]
fn shares_carry_about_as_much_each() {
    let all = sequences([90, 80, 40, 30, 20, 10]);
    let order: Vec<usize> = (0..6).collect();
    let shares = shares(&all, &order, 2);
    let tokens: Vec<usize> = shares
        .iter()
        .map(|s| s.iter().map(|i| all[*i].len()).sum())
        .collect();
    assert_eq!(tokens, [140, 130]);
    assert_eq!(super::shares(&all, &order[..1], 8).len(), 1);
    assert_eq!(
        super::shares(&sequences([4, 4]), &order[..2], 8).len(),
        1,
        "too little to cut"
    );
}

#[test]
fn a_cancelled_run_stops_before_the_next_sub_batch() {
    let all = sequences(std::iter::repeat_n(2, 32 * 10));
    let cancel = free();
    let seen = AtomicUsize::new(0);
    let result = in_batches(&all, MOST, &cancel, |share| {
        // The caller goes away in the middle of the third.
        if seen.fetch_add(share.len(), Ordering::Relaxed) + share.len() >= 3 * 32 {
            cancel.cancel();
        }
        Ok(share.iter().map(|_| ()).collect())
    });
    assert_eq!(result.unwrap_err().kind(), Kind::Cancelled);
    assert_eq!(seen.load(Ordering::Relaxed), 3 * 32);
}

#[test]
fn an_error_ends_the_run() {
    let all = sequences(std::iter::repeat_n(2, 32 * 10));
    let shares = Mutex::new(0);
    let result: Result<Vec<()>> = in_batches(&all, MOST, &free(), |_| {
        *shares.lock().unwrap() += 1;
        Err(Error::new(Kind::Server, "no"))
    });
    assert_eq!(result.unwrap_err().kind(), Kind::Server);
    assert!(*shares.lock().unwrap() <= 2, "of the first sub-batch only");
}
