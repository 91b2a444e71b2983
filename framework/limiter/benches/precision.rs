//! How close to its rate a limiter keeps a line of waiters, and how far above it in its worst window: this one, governor
//! and leaky-bucket in one run, each with a burst of 1.
//!
//! Run with `cargo bench -p antfly-limiter --bench precision`; `BENCH_QUICK=1` leaves the slow rates out. Nothing is
//! asserted, since a busy machine may stall anything.
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout)]
#![allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)]

mod common;

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use antfly_limiter::{Lease, Limiter, ManualClock, Policy, ScopeKey, Time};
use tokio::runtime::Runtime;

const WAITING: usize = 50;

/// Requests a minute, and for how long to watch.
const RATES: [(u32, Duration); 7] = [
    (1, Duration::from_secs(61)),
    (10, Duration::from_secs(61)),
    (60, Duration::from_secs(30)),
    (600, Duration::from_secs(20)),
    (6_000, Duration::from_secs(10)),
    (60_000, Duration::from_secs(10)),
    (300_000, Duration::from_secs(10)),
];

fn main() {
    // `cargo test` runs benches without this argument.
    if !std::env::args().any(|arg| arg == "--bench") {
        return;
    }
    println!(
        "precision of a burst of 1, {WAITING} waiting: {}",
        common::machine()
    );
    println!(
        "share of the rate reached | most in any window above 1 + rate x time, in requests | CPU an admission"
    );
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let runtime = &runtime;
    for (rate, watch) in RATES {
        let watch = if common::quick() {
            watch.min(Duration::from_secs(2))
        } else {
            watch
        };
        if Duration::from_secs(60) / rate >= watch {
            println!("{rate:>7}/min  too slow for a quick look");
            continue;
        }
        // Slow ones do not disturb each other.
        let all = [Kind::Antfly, Kind::Governor, Kind::LeakyBucket];
        let results: Vec<Seen> = if rate <= 600 {
            std::thread::scope(|scope| {
                let threads =
                    all.map(|kind| scope.spawn(move || measure(runtime, kind, rate, watch)));
                threads
                    .into_iter()
                    .map(|thread| thread.join().unwrap())
                    .collect()
            })
        } else {
            all.into_iter()
                .map(|kind| measure(runtime, kind, rate, watch))
                .collect()
        };
        let texts: Vec<String> = all
            .iter()
            .zip(&results)
            .map(|(kind, seen)| seen.text(*kind, rate))
            .collect();
        println!("{rate:>7}/min  {}", texts.join("   "));
    }
    println!("this one on a clock that moves only when told, 10,000 slots:");
    for (rate, _) in RATES {
        println!("{rate:>7}/min  {} ns from the exact time", drift(rate));
    }
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Antfly,
    Governor,
    LeakyBucket,
}

struct Seen {
    /// When each was admitted, as the one that was let go saw it; from the start, in order.
    times: Vec<Duration>,
    cpu: Duration,
}

impl Seen {
    fn text(&self, kind: Kind, rate: u32) -> String {
        let per_sec = f64::from(rate) / 60.0;
        let (first, last) = (self.times[0], self.times[self.times.len() - 1]);
        let share = (self.times.len() - 1) as f64 / ((last - first).as_secs_f64() * per_sec);
        // The most that any window ending at each has had above the rate.
        let (mut level, mut at, mut worst) = (0.0_f64, first, 0.0_f64);
        for &time in &self.times {
            level = (level - (time - at).as_secs_f64() * per_sec).max(0.0) + 1.0;
            at = time;
            worst = worst.max(level - 1.0);
        }
        let cpu = if rate > 600 {
            format!(
                " {:5.1} us",
                self.cpu.as_micros() as f64 / self.times.len() as f64
            )
        } else {
            String::new()
        };
        format!("{kind:?} {:6.2} % {worst:5.2}{cpu}", 100.0 * share)
    }
}

/// As many waiters as there are all the time, for a while.
fn measure(runtime: &Runtime, kind: Kind, rate: u32, watch: Duration) -> Seen {
    match kind {
        Kind::Antfly => {
            let lease = lease(Time::thread(), rate);
            watched(runtime, watch, move || {
                let lease = lease.clone();
                async move { lease.admit(0, None).await.unwrap().finish() }
            })
        }
        Kind::Governor => {
            let quota = governor::Quota::with_period(Duration::from_secs(60) / rate).unwrap();
            let governor = Arc::new(governor::RateLimiter::direct(quota));
            watched(runtime, watch, move || {
                let governor = governor.clone();
                async move { governor.until_ready().await }
            })
        }
        Kind::LeakyBucket => {
            // It counts in whole milliseconds, so above 1,000 a second it cannot have a burst of 1.
            let interval = (Duration::from_secs(60) / rate).max(Duration::from_millis(1));
            let refill = (interval.as_secs_f64() * f64::from(rate) / 60.0).round() as usize;
            let bucket = leaky_bucket::RateLimiter::builder()
                .max(refill)
                .initial(refill)
                .refill(refill)
                .interval(interval)
                .build();
            let bucket = Arc::new(bucket);
            watched(runtime, watch, move || {
                let bucket = bucket.clone();
                async move { bucket.acquire_one().await }
            })
        }
    }
}

fn watched<F: Future<Output = ()> + Send + 'static>(
    runtime: &Runtime,
    watch: Duration,
    admit: impl Fn() -> F + Clone + Send + Sync + 'static,
) -> Seen {
    let (start, cpu) = (Instant::now(), common::cpu_time());
    runtime.block_on(async {
        let tasks: Vec<_> = (0..WAITING)
            .map(|_| {
                let admit = admit.clone();
                tokio::spawn(async move {
                    let mut times = Vec::new();
                    loop {
                        match tokio::time::timeout_at((start + watch).into(), admit()).await {
                            Ok(()) => times.push(start.elapsed()),
                            Err(_) => return times,
                        }
                    }
                })
            })
            .collect();
        let mut times = Vec::new();
        for task in tasks {
            times.extend(task.await.unwrap());
        }
        times.sort();
        Seen {
            times,
            cpu: common::cpu_time().saturating_sub(cpu),
        }
    })
}

fn lease(time: Time, rate: u32) -> Lease {
    let policy = Policy::builder().requests_per_minute(rate).build().unwrap();
    Limiter::new(time)
        .lease(&ScopeKey::new([("bench", "precision")]), policy)
        .unwrap()
}

/// How far the last of 10,000 slots is from where arithmetic has it.
fn drift(rate: u32) -> u128 {
    let (time, clock) = Time::manual();
    let lease = lease(time, rate);
    lease.try_admit(0).unwrap().finish();
    let start = clock.now();
    let count = 10_000_u64;
    // One behind, so that there is a line all the time.
    let mut head = Box::pin(lease.admit(0, None));
    assert!(!ready(&mut head));
    for _ in 0..count {
        let mut next = Box::pin(lease.admit(0, None));
        assert!(!ready(&mut next));
        while !ready(&mut head) {
            to_next_alarm(&clock);
        }
        head = next;
    }
    let took = u128::from(clock.now().as_nanos() - start.as_nanos());
    took.abs_diff((u128::from(count) * 60_000_000_000).div_ceil(rate.into()))
}

fn ready<F: Future>(future: &mut Pin<Box<F>>) -> bool {
    pin!(future)
        .poll(&mut Context::from_waker(Waker::noop()))
        .is_ready()
}

fn to_next_alarm(clock: &ManualClock) {
    clock.set(clock.next_alarm().unwrap());
}
