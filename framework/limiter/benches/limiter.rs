//! What admission costs, next to a semaphore and a rate limiter that each do a part of it.
//!
//! Run with `cargo bench -p antfly-limiter`. Times are for one operation; compare within one run. `BENCH_QUICK=1` is a
//! quick look.
#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use std::collections::VecDeque;
use std::future::Future;
use std::num::NonZeroU32;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use antfly_limiter::{Lease, Limiter, Policy, ScopeKey, Time};
use divan::Bencher;
use tokio::sync::Semaphore;

fn main() {
    let divan = divan::Divan::from_args();
    if common::quick() {
        divan.sample_count(3).main();
    } else {
        divan.main();
    }
}

const WAITING: [usize; 3] = [100, 10_000, 100_000];

fn lease(policy: Policy) -> Lease {
    Limiter::new(Time::thread())
        .lease(&ScopeKey::new([("bench", "a")]), policy)
        .unwrap()
}

fn every_limit() -> Policy {
    Policy::builder()
        .requests_per_minute(u32::MAX)
        .burst(u32::MAX)
        .max_concurrency(1000)
        .tokens_per_minute(u32::MAX)
        .build()
        .unwrap()
}

fn poll<F: Future + ?Sized>(future: Pin<&mut F>) -> Option<F::Output> {
    match future.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}

mod admit_and_release {
    use super::*;

    #[divan::bench(sample_size = 1000)]
    fn unlimited(bencher: Bencher) {
        let lease = lease(Policy::UNLIMITED);
        bencher.bench_local(|| poll(std::pin::pin!(lease.admit(0, None))).unwrap().unwrap());
    }

    #[divan::bench(sample_size = 1000)]
    fn every_limit(bencher: Bencher) {
        let lease = lease(super::every_limit());
        bencher.bench_local(|| drop(poll(std::pin::pin!(lease.admit(1, None))).unwrap().unwrap()));
    }

    #[divan::bench(sample_size = 1000)]
    fn every_limit_try_admit(bencher: Bencher) {
        let lease = lease(super::every_limit());
        bencher.bench_local(|| drop(lease.try_admit(1).unwrap()));
    }

    #[divan::bench(sample_size = 1000)]
    fn tokio_semaphore(bencher: Bencher) {
        let semaphore = Arc::new(Semaphore::new(1000));
        bencher.bench_local(|| {
            let acquired = poll(std::pin::pin!(semaphore.clone().acquire_owned()));
            drop(acquired.unwrap().unwrap());
        });
    }

    #[divan::bench(sample_size = 1000)]
    fn governor_check(bencher: Bencher) {
        let quota = governor::Quota::per_second(NonZeroU32::MAX).allow_burst(NonZeroU32::MAX);
        let governor = governor::RateLimiter::direct(quota);
        bencher.bench_local(|| governor.check().is_ok());
    }

    #[divan::bench(sample_size = 1000)]
    fn leaky_bucket(bencher: Bencher) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap();
        let _inside = runtime.enter();
        let bucket = leaky_bucket::RateLimiter::builder()
            .max(usize::MAX / 2)
            .initial(usize::MAX / 2)
            .interval(Duration::from_secs(3600))
            .build();
        bencher.bench_local(|| poll(std::pin::pin!(bucket.acquire_one())).unwrap());
    }

    fn a_million_leases() -> Vec<Lease> {
        let limiter = Limiter::new(Time::thread());
        (0..1_000_000)
            .map(|n| {
                limiter
                    .lease(
                        &ScopeKey::new([("model", n.to_string())]),
                        super::every_limit(),
                    )
                    .unwrap()
            })
            .collect()
    }

    /// The same one, while a million are in use.
    #[divan::bench(sample_size = 1000)]
    fn one_of_a_million_scopes(bencher: Bencher) {
        let leases = a_million_leases();
        let lease = &leases[500_000];
        bencher.bench_local(|| drop(poll(std::pin::pin!(lease.admit(1, None))).unwrap().unwrap()));
    }

    /// Another one each time: what this costs more is memory that no cache holds.
    #[divan::bench(sample_count = 10, sample_size = 100_000)]
    fn each_of_a_million_scopes(bencher: Bencher) {
        let leases = a_million_leases();
        let mut at = 0;
        bencher.bench_local(|| {
            at = (at + STRIDE) % leases.len();
            drop(
                poll(std::pin::pin!(leases[at].admit(1, None)))
                    .unwrap()
                    .unwrap(),
            );
        });
    }

    #[divan::bench(sample_count = 10, sample_size = 100_000)]
    fn each_of_a_million_tokio_semaphores(bencher: Bencher) {
        let semaphores: Vec<_> = (0..1_000_000)
            .map(|_| Arc::new(Semaphore::new(1000)))
            .collect();
        let mut at = 0;
        bencher.bench_local(|| {
            at = (at + STRIDE) % semaphores.len();
            drop(
                poll(std::pin::pin!(semaphores[at].clone().acquire_owned()))
                    .unwrap()
                    .unwrap(),
            );
        });
    }

    /// Coprime to a million, so that all are visited and no neighbours follow each other.
    const STRIDE: usize = 611_953;
}

/// One joins at the tail, a permit is given back, the head is granted.
mod enqueue_and_grant {
    use super::*;

    fn cycle<F: Future>(bencher: Bencher, waiting: usize, first: F::Output, join: impl Fn() -> F) {
        let enqueue = |line: &mut VecDeque<Pin<Box<F>>>| {
            let mut waiter = Box::pin(join());
            assert!(poll(waiter.as_mut()).is_none());
            line.push_back(waiter);
        };
        let (mut line, mut held) = (VecDeque::new(), Some(first));
        (0..waiting).for_each(|_| enqueue(&mut line));
        bencher.bench_local(|| {
            enqueue(&mut line);
            let mut head = line.pop_front().unwrap();
            drop(held.take());
            held = poll(head.as_mut());
            // On a busy machine this thread may be kept from running until the invitation has lapsed and the next in
            // line has another; nobody polls that one here, so it would lapse as well, and so on for ever.
            while held.is_none() {
                if let Some(at) = (0..line.len()).find(|&at| {
                    held = poll(line[at].as_mut());
                    held.is_some()
                }) {
                    line.remove(at);
                    line.push_front(head);
                    break;
                }
                held = poll(head.as_mut());
            }
        });
    }

    #[divan::bench(args = WAITING, sample_size = 1000)]
    fn antfly(bencher: Bencher, waiting: usize) {
        let lease = lease(Policy::builder().max_concurrency(1).build().unwrap());
        cycle(bencher, waiting, Ok(lease.try_admit(0).unwrap()), || {
            lease.admit(0, None)
        });
    }

    #[divan::bench(args = WAITING, sample_size = 1000)]
    fn antfly_with_tokens_and_deadlines(bencher: Bencher, waiting: usize) {
        let policy = Policy::builder()
            .max_concurrency(1)
            .tokens_per_minute(u32::MAX)
            .build()
            .unwrap();
        let lease = lease(policy);
        cycle(bencher, waiting, Ok(lease.try_admit(0).unwrap()), || {
            lease.admit(
                1,
                Some(lease.time().now().saturating_add(Duration::from_secs(3600))),
            )
        });
    }

    /// Deadlines and costs of all kinds, so that most who come find their place by comparing.
    #[divan::bench(args = WAITING, sample_size = 1000)]
    fn antfly_with_mixed_tokens_and_deadlines(bencher: Bencher, waiting: usize) {
        let policy = Policy::builder()
            .max_concurrency(1)
            .tokens_per_minute(u32::MAX)
            .build()
            .unwrap();
        let lease = lease(policy);
        let next = std::cell::Cell::new(0_u64);
        cycle(bencher, waiting, Ok(lease.try_admit(0).unwrap()), || {
            next.set(next.get() + 1);
            let stir = next.get().wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
            let patience = Duration::from_secs(3600 + stir % 3600);
            let deadline = lease.time().now().saturating_add(patience);
            lease.admit(stir % 1000, Some(deadline))
        });
    }

    #[divan::bench(args = WAITING, sample_size = 1000)]
    fn tokio_semaphore(bencher: Bencher, waiting: usize) {
        let semaphore = Arc::new(Semaphore::new(1));
        let first = poll(std::pin::pin!(semaphore.clone().acquire_owned())).unwrap();
        cycle(bencher, waiting, first, || {
            semaphore.clone().acquire_owned()
        });
    }
}
