//! Whole runs on the real clock: rate reached, order kept, processor time spent, memory held.
//!
//! Run with `cargo bench -p antfly-limiter --bench rate`. The figures are printed; nothing is asserted, since a busy
//! machine may stall anything. `BENCH_QUICK=1` is a quick look.
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout)]
#![allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)]

mod common;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Waker};
use std::time::Duration;

use antfly_limiter::{Admit, Lease, Limiter, Policy, ScopeKey, Time};
use tokio::runtime::Runtime;
use tokio::sync::Notify;

fn main() {
    // `cargo test` runs benches without this argument.
    if !std::env::args().any(|arg| arg == "--bench") {
        return;
    }
    println!("{}", common::machine());
    let count = if common::quick() { 2_000 } else { 10_000 };
    for workers in [1, 2] {
        run(workers, count, 50);
        run(workers, count, 1);
        floor(workers, count);
    }
    if common::quick() {
        return;
    }
    waiters_memory();
    scopes_memory();
}

fn lease(policy: Policy) -> Lease {
    Limiter::new(Time::thread())
        .lease(&ScopeKey::new([("bench", "rate")]), policy)
        .unwrap()
}

fn in_line(lease: &Lease, count: usize) -> Vec<Pin<Box<Admit>>> {
    (0..count)
        .map(|_| {
            let mut admit = Box::pin(lease.admit(0, None));
            assert!(
                admit
                    .as_mut()
                    .poll(&mut Context::from_waker(Waker::noop()))
                    .is_pending()
            );
            admit
        })
        .collect()
}

fn run(workers: usize, count: usize, burst: u32) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(workers)
        .build()
        .unwrap();
    let policy = Policy::builder()
        .requests_per_minute(300_000)
        .burst(burst)
        .build()
        .unwrap();
    let lease = lease(policy);
    lease.cool_for(Duration::from_millis(200));
    let line = in_line(&lease, count);
    let cpu = common::cpu_time();
    let work = line
        .into_iter()
        .map(|admit| async move { admit.await.unwrap().admitted_at() });
    let granted = each_at_once(&runtime, work);
    let cpu = common::cpu_time().saturating_sub(cpu);
    let inversions = granted.windows(2).filter(|pair| pair[1] < pair[0]).count();
    let (first, last) = (
        *granted.iter().min().unwrap(),
        *granted.iter().max().unwrap(),
    );
    let took = last.saturating_duration_since(first);
    let ideal = (count - burst as usize) as f64 / 5000.0;
    let allowed = |n: usize, window: Duration| {
        n as f64 <= f64::from(burst) + 5000.0 * (window.as_secs_f64() + 0.005) + 1e-6
    };
    let mut sorted = granted;
    sorted.sort();
    let kept = (0..count).all(|end| {
        (0..=end).rev().take(200).all(|start| {
            allowed(
                end - start + 1,
                sorted[end].saturating_duration_since(sorted[start]),
            )
        })
    });
    println!(
        "{count} waiters, 5,000/s, burst {burst}, {workers} workers: {:.2} % of the rate, {inversions} inversions, {:.1} us CPU a waiter, window rule kept: {kept}",
        100.0 * ideal / took.as_secs_f64(),
        cpu.as_micros() as f64 / count as f64,
    );
}

/// The least that waking so many tasks can cost: a thread of its own gives a semaphore as many permits every 2 ms as
/// 5,000 a second make.
fn floor(workers: usize, count: usize) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(workers)
        .build()
        .unwrap();
    let semaphore = Arc::new(tokio::sync::Semaphore::new(0));
    let line: Vec<_> = (0..count)
        .map(|_| {
            let mut acquire = Box::pin(semaphore.clone().acquire_owned());
            let mut noop = Context::from_waker(Waker::noop());
            assert!(acquire.as_mut().poll(&mut noop).is_pending());
            acquire
        })
        .collect();
    let cpu = common::cpu_time();
    let feeding = std::thread::spawn(move || {
        let start = std::time::Instant::now() + Duration::from_millis(200);
        for round in 0..count.div_ceil(10) as u32 {
            let due = start + Duration::from_millis(2) * round;
            std::thread::sleep(due.saturating_duration_since(std::time::Instant::now()));
            semaphore.add_permits(10);
        }
        common::cpu_time()
    });
    let work = line
        .into_iter()
        .map(|acquire| async move { acquire.await.unwrap().forget() });
    each_at_once(&runtime, work);
    let cpu = feeding.join().unwrap().saturating_sub(cpu);
    println!(
        "{count} waiters of a tokio semaphore fed 10 permits every 2 ms, {workers} workers: {:.1} us CPU a waiter",
        cpu.as_micros() as f64 / count as f64,
    );
}

/// Spawns them all; what each came to, in their order. Only the last to end wakes the one that waits for them.
fn each_at_once<T: Send + 'static>(
    runtime: &Runtime,
    work: impl Iterator<Item = impl Future<Output = T> + Send + 'static>,
) -> Vec<T> {
    let (left, ended) = (Arc::new(AtomicUsize::new(1)), Arc::new(Notify::new()));
    let end = |left: &AtomicUsize, ended: &Notify| {
        if left.fetch_sub(1, Ordering::AcqRel) == 1 {
            ended.notify_one();
        }
    };
    let tasks: Vec<_> = work
        .map(|work| {
            left.fetch_add(1, Ordering::Relaxed);
            let (left, ended) = (left.clone(), ended.clone());
            runtime.spawn(async move {
                let result = work.await;
                end(&left, &ended);
                result
            })
        })
        .collect();
    end(&left, &ended);
    runtime.block_on(async {
        ended.notified().await;
        let mut results = Vec::new();
        for task in tasks {
            results.push(task.await.unwrap());
        }
        results
    })
}

fn waiters_memory() {
    let lease = lease(
        Policy::builder()
            .max_concurrency(1)
            .tokens_per_minute(1_000_000)
            .build()
            .unwrap(),
    );
    let _permit = lease.try_admit(0).unwrap();
    for (name, patience) in [
        ("no deadline", None),
        ("a deadline and a cost", Some(Duration::from_secs(3600))),
    ] {
        let deadline = patience.map(|wait| lease.time().now().saturating_add(wait));
        let mut line: Vec<Admit> = (0..100_000)
            .map(|_| lease.admit(u64::from(patience.is_some()), deadline))
            .collect();
        let before = resident();
        for admit in &mut line {
            assert!(
                Pin::new(admit)
                    .poll(&mut Context::from_waker(Waker::noop()))
                    .is_pending()
            );
        }
        println!(
            "a waiter's own heap, {name}: {} bytes",
            (resident() - before) / 100_000
        );
    }
}

fn scopes_memory() {
    let limiter = Limiter::new(Time::thread());
    let policy = Policy::builder()
        .requests_per_minute(1)
        .tokens_per_minute(1000)
        .build()
        .unwrap();
    let fields = |n: usize| {
        let model = format!("text-embedding-{n:07}");
        ScopeKey::new([
            ("provider", "openai"),
            ("endpoint", "https://api.openai.com/v1"),
            ("model", &model),
        ])
    };
    let before = resident();
    for n in 0..1_000_000 {
        limiter
            .lease(&fields(n), policy)
            .unwrap()
            .try_admit(10)
            .unwrap()
            .finish();
    }
    println!(
        "a drained scope in debt: {} bytes, {} scopes",
        (resident() - before) / 1_000_000,
        limiter.scope_count()
    );
    let before = resident();
    let limiter = Limiter::new(Time::thread());
    let leases: Vec<_> = (0..1_000_000)
        .map(|n| limiter.lease(&fields(n), policy).unwrap())
        .collect();
    println!(
        "a scope with a lease: {} bytes, the lease included",
        (resident() - before) / 1_000_000
    );
    drop(leases);
}

fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm
        .split(' ')
        .nth(1)
        .and_then(|pages| pages.parse::<usize>().ok())
        .unwrap_or(0)
        * 4096
}
