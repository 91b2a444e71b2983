//! Whole runs on the real clock: rate reached, order kept, processor time spent, memory held.
//!
//! Run with `cargo bench -p antfly-limiter --bench rate`. The figures are printed; nothing is asserted, since a busy
//! machine may stall anything. `BENCH_QUICK=1` is a quick look.
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout)]
#![allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)]

mod common;

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Waker};
use std::time::Duration;

use antfly_limiter::{Admit, Instant, Lease, Limiter, Policy, ScopeKey, Time};

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
    let granted: Vec<Instant> = runtime.block_on(async {
        let tasks: Vec<_> = line
            .into_iter()
            .map(|admit| tokio::spawn(async move { admit.await.unwrap().admitted_at() }))
            .collect();
        let mut granted = Vec::new();
        for task in tasks {
            granted.push(task.await.unwrap());
        }
        granted
    });
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
