//! Minutes of traffic on a small executor, kept whole and looked at afterwards.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use crate::common::{key, policy};
use crate::dice::Dice;
use antfly_limiter::{Instant, Lease, Limiter, ManualClock, Pacing, Policy, Time};

fn micros(dice: &mut Dice, up_to: u64) -> Duration {
    Duration::from_micros(dice.roll(up_to) + 1)
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum What {
    Started { cost: u64 },
    Finished,
    Refused,
    Cancelled,
    Told { until: Instant },
}

type Trace = Arc<Mutex<Vec<(Instant, u32, What)>>>;

/// One client: calls again and again, is sometimes told to wait, sometimes loses patience.
async fn client(id: u32, lease: Lease, mut dice: Dice, trace: Trace) {
    let time = lease.time().clone();
    let note = |what| {
        trace
            .lock()
            .expect("not poisoned")
            .push((time.now(), id, what))
    };
    for _ in 0..30 {
        time.sleep(micros(&mut dice, 200_000)).await;
        let cost = dice.roll(40);
        let deadline =
            (dice.roll(3) == 0).then(|| time.now().saturating_add(micros(&mut dice, 2_000_000)));
        let admit = lease.admit(cost, deadline);
        let permit = if dice.roll(5) == 0 {
            let patience = time.now().saturating_add(micros(&mut dice, 300_000));
            match time.timeout_at(patience, admit).await {
                Ok(result) => result,
                Err(_) => {
                    note(What::Cancelled);
                    continue;
                }
            }
        } else {
            admit.await
        };
        let Ok(permit) = permit else {
            note(What::Refused);
            continue;
        };
        note(What::Started { cost });
        time.sleep(micros(&mut dice, 150_000)).await;
        if dice.roll(40) == 0 {
            let until = time.now().saturating_add(micros(&mut dice, 1_500_000));
            lease.cool_until(until);
            note(What::Told { until });
        }
        note(What::Finished);
        drop(permit);
    }
}

struct Ready(Mutex<Vec<usize>>);

struct TaskWaker(usize, Arc<Ready>);

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        let mut ready = self.1.0.lock().expect("not poisoned");
        if !ready.contains(&self.0) {
            ready.push(self.0);
        }
    }
}

/// Polls the woken in an order the dice choose, and moves the clock when nobody is. Some are left lying for a while.
fn simulate(
    clock: &ManualClock,
    mut dice: Dice,
    mut tasks: Vec<Option<Pin<Box<dyn Future<Output = ()>>>>>,
) -> usize {
    let ready = Arc::new(Ready(Mutex::new((0..tasks.len()).collect())));
    let mut steps = 0;
    while tasks.iter().any(Option::is_some) {
        steps += 1;
        let next = {
            let mut woken = ready.0.lock().expect("not poisoned");
            if woken.is_empty() || dice.roll(50) == 0 {
                None
            } else {
                let index = dice.roll(woken.len() as u64) as usize;
                Some(woken.swap_remove(index))
            }
        };
        if let Some(index) = next {
            let waker = Waker::from(Arc::new(TaskWaker(index, ready.clone())));
            let done = tasks[index].as_mut().is_some_and(|task| {
                task.as_mut().poll(&mut Context::from_waker(&waker)) == Poll::Ready(())
            });
            if done {
                tasks[index] = None;
            }
        } else if let Some(at) = clock.next_alarm() {
            // At times a little late, as timers are.
            let late = if dice.roll(10) == 0 {
                micros(&mut dice, 9_000)
            } else {
                Duration::ZERO
            };
            clock.set(at.max(clock.now()).saturating_add(late));
        } else {
            let idle = ready.0.lock().expect("not poisoned").is_empty();
            assert!(!idle, "all wait and nothing will ever happen");
        }
    }
    steps
}

fn run(seed: u64, policy: Policy) -> Vec<(Instant, u32, What)> {
    let mut dice = Dice(seed);
    let (time, clock) = Time::manual();
    clock.advance(Duration::from_secs(1));
    let limiter = Limiter::new(time);
    let lease = limiter
        .lease(&key("simulated"), policy)
        .expect("no conflict");
    let trace = Trace::default();
    let tasks = (0..12)
        .map(|id| {
            let dice = Dice(dice.roll(u64::MAX));
            let task: Pin<Box<dyn Future<Output = ()>>> =
                Box::pin(client(id, lease.clone(), dice, trace.clone()));
            Some(task)
        })
        .collect();
    simulate(&clock, dice, tasks);
    let snapshot = lease.snapshot();
    assert_eq!((snapshot.active, snapshot.queued), (0, 0));
    drop(lease);
    clock.advance(Duration::from_secs(100_000));
    assert_eq!((limiter.scope_count(), clock.armed()), (0, 0));
    let trace = trace.lock().expect("not poisoned");
    trace.clone()
}

/// What must hold of any run.
fn check(policy: Policy, trace: &[(Instant, u32, What)]) {
    let (mut active, mut cooldown, mut earliest) = (0_u64, Instant::ZERO, Instant::ZERO);
    let limit = match policy.pacing() {
        Pacing::Completion => 1,
        _ => policy.max_concurrency().map_or(u64::MAX, u64::from),
    };
    let mut starts: Vec<(u64, u64)> = Vec::new();
    for &(at, id, what) in trace {
        match what {
            What::Started { cost } => {
                active += 1;
                assert!(active <= limit, "client {id} at {at:?}");
                assert!(at >= cooldown, "client {id} at {at:?}, told {cooldown:?}");
                assert!(
                    at >= earliest,
                    "client {id} at {at:?}, paced to {earliest:?}"
                );
                starts.push((at.as_nanos(), cost));
            }
            What::Finished => {
                active -= 1;
                if let (Pacing::Completion, Some(rate)) =
                    (policy.pacing(), policy.requests_per_minute())
                {
                    let delay = 60_000_000_000_u64.div_ceil(u64::from(rate));
                    earliest = at.saturating_add(Duration::from_nanos(delay));
                }
            }
            What::Told { until } => cooldown = cooldown.max(until),
            What::Refused | What::Cancelled => {}
        }
    }
    for (first, &(from, _)) in starts.iter().enumerate() {
        let mut tokens = 0;
        for (count, &(to, cost)) in (1_u128..).zip(&starts[first..]) {
            tokens += u128::from(cost);
            let window = u128::from(to - from);
            if let Some(rate) = policy.requests_per_minute().map(u128::from) {
                let allowed =
                    u128::from(policy.burst()) * 60_000_000_000 + rate * (window + 5_000_000);
                assert!(count * 60_000_000_000 <= allowed, "{count} in {window} ns");
            }
            if let Some(rate) = policy.tokens_per_minute().map(u128::from) {
                assert!(
                    tokens * 60_000_000_000 <= rate * (60_000_000_000 + window),
                    "{tokens} tokens in {window} ns"
                );
            }
        }
    }
}

#[test]
fn simulated_traffic_keeps_every_promise_and_replays_from_its_seed() {
    let policies = [
        Policy::UNLIMITED,
        policy(|p| p.max_concurrency(2)),
        policy(|p| p.requests_per_minute(1200).burst(3)),
        policy(|p| {
            p.requests_per_minute(60_000)
                .max_concurrency(3)
                .tokens_per_minute(20_000)
        }),
        policy(|p| p.requests_per_minute(3000).pacing(Pacing::Completion)),
    ];
    for seed in 0..20 {
        for policy in policies {
            let trace = run(seed, policy);
            let started = trace
                .iter()
                .filter(|entry| matches!(entry.2, What::Started { .. }))
                .count();
            assert!(
                started > 100,
                "{started} of 360 calls, seed {seed}, {policy}"
            );
            check(policy, &trace);
            if seed == 0 {
                assert_eq!(trace, run(seed, policy), "the same seed, another run");
            }
        }
    }
}
