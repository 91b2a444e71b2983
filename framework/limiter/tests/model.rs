//! The limiter against a naive model, and against its promises, on sequences nobody thought of.
#![allow(missing_docs)]

mod common;

use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use antfly_limiter::{AdmitError, Driver, Instant, Lease, Limiter, Pacing, Permit, Policy, Time};
use common::*;
use proptest::prelude::*;

const UNIT: i128 = 60_000_000_000;

#[derive(Clone, Debug)]
enum Op {
    Arrive {
        cost: u64,
        patience: Option<u64>,
    },
    Try {
        cost: u64,
    },
    Cancel(usize),
    Finish(usize),
    Cool(u64),
    Clear,
    Advance(u64),
    /// Only in the careless world: polls one, woken or not.
    Poll(usize),
    /// Only in the careless world: time passes and no alarm rings yet.
    Slip(u64),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        6 => (0..120_u64, proptest::option::of(0..3_000_000_000_u64)).prop_map(|(cost, patience)| Op::Arrive { cost, patience }),
        2 => (0..120_u64).prop_map(|cost| Op::Try { cost }),
        2 => any::<usize>().prop_map(Op::Cancel),
        5 => any::<usize>().prop_map(Op::Finish),
        1 => (0..2_000_000_000_u64).prop_map(Op::Cool),
        1 => Just(Op::Clear),
        4 => (0..1_500_000_000_u64).prop_map(Op::Advance),
        2 => (0..12_000_000_u64).prop_map(Op::Advance),
        4 => any::<usize>().prop_map(Op::Poll),
        3 => (0..12_000_000_u64).prop_map(Op::Slip),
    ];
    proptest::collection::vec(op, 1..120)
}

fn policies() -> impl Strategy<Value = Policy> {
    use proptest::option::of;
    (
        of(30..100_000_u32),
        1..5_u32,
        of(1..4_u32),
        of(100..100_000_u32),
        any::<bool>(),
    )
        .prop_map(|(rpm, burst, concurrency, tpm, completion)| {
            let mut builder = Policy::builder();
            if let Some(rpm) = rpm {
                builder = builder.requests_per_minute(rpm);
                builder = if completion {
                    builder.pacing(Pacing::Completion)
                } else {
                    builder.burst(burst)
                };
            }
            if let Some(limit) = concurrency {
                builder = builder.max_concurrency(limit);
            }
            if let Some(limit) = tpm {
                builder = builder.tokens_per_minute(limit);
            }
            builder.build().expect("a valid policy")
        })
}

/// The same limits without those that wait for a finish.
fn time_alone(policy: Policy) -> Policy {
    let mut builder = Policy::builder().burst(policy.burst());
    if let Some(limit) = policy.requests_per_minute() {
        builder = builder.requests_per_minute(limit);
    }
    if let Some(limit) = policy.tokens_per_minute() {
        builder = builder.tokens_per_minute(limit);
    }
    builder.build().expect("a valid policy")
}

/// Everything recomputed from the list of what happened.
struct Model {
    policy: Policy,
    /// When, at what cost, and whether from the line.
    grants: Vec<(i128, i128, bool)>,
    active: i128,
    cooldown: i128,
    completion: i128,
    /// The start of the restart after a cooldown, and the size and number used of its current step.
    restart: Option<(i128, i128, i128)>,
}

impl Model {
    fn new(policy: Policy) -> Self {
        Self {
            policy,
            grants: Vec::new(),
            active: 0,
            cooldown: 0,
            completion: 0,
            restart: None,
        }
    }

    fn debt(&self, now: i128, rate: u32, weight: impl Fn(i128) -> i128) -> i128 {
        let (mut debt, mut at) = (0, 0);
        for &(time, cost, queued) in &self.grants {
            debt -= (time - at) * i128::from(rate);
            // In line, the part of a nanosecond between a slot being due and going is not lost.
            let slots =
                queued && weight(1) == weight(0) && self.policy.pacing() == Pacing::TokenBucket;
            if !slots || debt <= -i128::from(rate) {
                debt = debt.max(0);
            }
            debt += weight(cost) * UNIT;
            at = time;
        }
        (debt - (now - at) * i128::from(rate)).max(0)
    }

    /// When its own cost allows it, whoever else is there.
    fn own_time(&self, now: i128, cost: i128) -> i128 {
        let mut time = self.cooldown.max(self.completion).max(now);
        let late = |debt: i128, capacity: i128, rate: u32| {
            (debt - capacity).max(0).div_euclid(i128::from(rate))
                + i128::from((debt - capacity).max(0).rem_euclid(i128::from(rate)) > 0)
        };
        if let Some(rate) = self.policy.requests_per_minute() {
            let debt = self.debt(now, rate, |_| 1) + UNIT;
            time = time.max(now + late(debt, i128::from(self.policy.burst()) * UNIT, rate));
        }
        if let Some(rate) = self.policy.tokens_per_minute() {
            let debt = self.debt(now, rate, |cost| cost) + cost * UNIT;
            time = time.max(now + late(debt, i128::from(rate) * UNIT, rate));
        }
        time
    }

    fn concurrency(&self) -> i128 {
        match self.policy.pacing() {
            Pacing::Completion => 1,
            _ => self.policy.max_concurrency().map_or(i128::MAX, i128::from),
        }
    }

    fn can_go(&self, now: i128, cost: i128) -> bool {
        let restart = self.restart.is_none_or(|(start, size, used)| {
            // A step that nobody has used yet begins as soon as it is due.
            now >= start && (used < size || now >= start + 100_000_000)
        });
        self.active < self.concurrency() && self.own_time(now, cost) <= now && restart
    }

    fn grant(&mut self, now: i128, cost: i128, queued: bool) {
        self.grants.push((now, cost, queued));
        self.active += 1;
        if let Some((start, size, used)) = &mut self.restart {
            if now >= *start + 100_000_000 {
                (*start, *size, *used) = (now, *size * 2, 0);
            }
            *used += 1;
        }
    }

    fn finish(&mut self, now: i128) {
        self.active -= 1;
        if self.policy.pacing() == Pacing::Completion {
            let rate = i128::from(
                self.policy
                    .requests_per_minute()
                    .expect("completion has a rate"),
            );
            self.completion = self.completion.max(now + (UNIT + rate - 1) / rate);
        }
    }

    fn cool(&mut self, now: i128, until: i128) {
        if until > now && until > self.cooldown {
            self.cooldown = until;
            self.restart = self.policy.is_unlimited().then_some((until, 1, 0));
        }
    }

    fn clear(&mut self, now: i128) {
        if self.cooldown > now {
            self.cooldown = 0;
            self.restart = self.policy.is_unlimited().then_some((now, 1, 0));
        }
    }
}

struct InLine {
    waiter: Waiter,
    cost: i128,
    deadline: i128,
}

/// Everyone polls as soon as they are woken.
struct Prompt {
    world: World,
    lease: Lease,
    model: Model,
    line: Vec<InLine>,
    held: Vec<Permit>,
}

impl Prompt {
    fn now(&self) -> i128 {
        i128::from(self.world.clock.now().as_nanos())
    }

    /// Polls the woken, in any order, until nobody is woken; then nobody may be left who could go.
    fn run(&mut self, backwards: bool) {
        let now = self.now();
        loop {
            let woken: Vec<usize> = (0..self.line.len())
                .filter(|&i| self.line[i].waiter.woken())
                .collect();
            let Some(&index) = (if backwards {
                woken.last()
            } else {
                woken.first()
            }) else {
                break;
            };
            match self.line[index].waiter.poll() {
                Poll::Pending => {}
                Poll::Ready(Ok(permit)) => {
                    let gone = self.line.remove(index);
                    assert_eq!(index, 0, "in the order of the line");
                    assert!(self.model.can_go(now, gone.cost), "granted too early");
                    self.model.grant(now, gone.cost, true);
                    self.held.push(permit);
                }
                Poll::Ready(Err(error)) => {
                    let gone = self.line.remove(index);
                    self.check_refusal(&error, gone.cost, gone.deadline, false);
                }
            }
        }
        for waiter in &self.line {
            assert!(waiter.deadline > now, "left waiting at its deadline");
            assert!(
                self.model.own_time(now, waiter.cost) <= waiter.deadline,
                "left waiting without hope"
            );
        }
        match self.line.first() {
            Some(head) => assert!(
                !self.model.can_go(now, head.cost),
                "the head could go and was not woken"
            ),
            None if now >= self.model.cooldown => self.model.restart = None,
            None => {}
        }
    }

    fn check_refusal(&self, error: &AdmitError, cost: i128, deadline: i128, new: bool) {
        let now = self.now();
        match error {
            AdmitError::ExceedsBudget { budget, .. } => assert!(new && cost > i128::from(*budget)),
            AdmitError::Deadline { .. } => {
                assert!(
                    deadline <= now || self.model.own_time(now, cost) > deadline,
                    "refused while it could fit"
                );
            }
            other => panic!("{other:?}"),
        }
    }

    fn step(&mut self, op: &Op, backwards: bool) {
        let now = self.now();
        match *op {
            Op::Arrive { cost, patience } => {
                let deadline = patience.map(|wait| Instant::from_nanos(now as u64 + wait));
                let mut waiter = Task::new(self.lease.admit(cost, deadline));
                let (cost, deadline) = (
                    i128::from(cost),
                    deadline.map_or(i128::MAX, |at| i128::from(at.as_nanos())),
                );
                match waiter.poll() {
                    Poll::Pending => self.line.push(InLine {
                        waiter,
                        cost,
                        deadline,
                    }),
                    Poll::Ready(Ok(permit)) => {
                        assert!(self.line.is_empty() && self.model.can_go(now, cost));
                        self.model.grant(now, cost, false);
                        self.held.push(permit);
                    }
                    Poll::Ready(Err(error)) => self.check_refusal(&error, cost, deadline, true),
                }
            }
            Op::Try { cost } => {
                let over = self
                    .lease
                    .policy()
                    .tokens_per_minute()
                    .is_some_and(|limit| cost > u64::from(limit));
                let could =
                    !over && self.line.is_empty() && self.model.can_go(now, i128::from(cost));
                let got = self.lease.try_admit(cost);
                assert_eq!(got.is_ok(), could);
                if let Ok(permit) = got {
                    self.model.grant(now, i128::from(cost), false);
                    self.held.push(permit);
                }
            }
            Op::Cancel(n) if !self.line.is_empty() => drop(self.line.remove(n % self.line.len())),
            Op::Finish(n) if !self.held.is_empty() => {
                drop(self.held.swap_remove(n % self.held.len()));
                self.model.finish(now);
            }
            Op::Cool(by) => {
                self.lease.cool_for(Duration::from_nanos(by));
                self.model.cool(now, now + i128::from(by));
            }
            Op::Clear => {
                self.lease.clear_cooldown();
                self.model.clear(now);
            }
            Op::Advance(by) => {
                let target = now + i128::from(by);
                loop {
                    let next = self
                        .world
                        .clock
                        .next_alarm()
                        .map(|at| i128::from(at.as_nanos()));
                    let next = next.unwrap_or(i128::MAX).min(target);
                    if let Some(head) = self.line.first() {
                        let before = next - 1;
                        assert!(
                            before < self.now() || !self.model.can_go(before, head.cost),
                            "woken too late"
                        );
                    }
                    self.world.clock.set(Instant::from_nanos(next as u64));
                    self.run(backwards);
                    if next == target {
                        break;
                    }
                }
            }
            _ => {}
        }
        self.run(backwards);
        let snapshot = self.lease.snapshot();
        assert_eq!(
            (i128::from(snapshot.active), snapshot.queued),
            (self.model.active, self.line.len())
        );
        let now = self.now();
        if let Some(rate) = self.model.policy.tokens_per_minute() {
            let debt = self.model.debt(now, rate, |cost| cost) as f64 / UNIT as f64;
            assert_eq!(snapshot.token_debt, debt);
            assert!(debt <= f64::from(rate));
        }
        if let Some(rate) = self.model.policy.requests_per_minute() {
            assert_eq!(
                snapshot.request_debt,
                self.model.debt(now, rate, |_| 1) as f64 / UNIT as f64
            );
        }
    }
}

/// Nobody is prompt: tasks are polled when the sequence says so, and the clock jumps over its alarms.
struct Careless {
    clock: Arc<Jumping>,
    lease: Lease,
    line: Vec<(u64, u64, Waiter)>,
    held: Vec<Permit>,
    grants: Vec<(i128, i128)>,
    cooldown: Instant,
    completion: Instant,
}

impl Careless {
    fn granted(&mut self, permit: Permit) {
        let now = Driver::now(&*self.clock);
        assert!(now >= self.cooldown, "nothing before the cooldown ends");
        assert!(
            now >= self.completion,
            "nothing before the completion delay ends"
        );
        self.grants
            .push((i128::from(now.as_nanos()), i128::from(permit.cost())));
        self.held.push(permit);
        let policy = self.lease.policy();
        let limit = match policy.pacing() {
            Pacing::Completion => 1,
            _ => policy.max_concurrency().unwrap_or(u32::MAX) as usize,
        };
        assert!(self.held.len() <= limit);
    }

    fn poll(&mut self, index: usize) {
        match self.line[index].2.poll() {
            Poll::Pending => {}
            Poll::Ready(result) => {
                self.line.remove(index);
                if let Ok(permit) = result {
                    self.granted(permit);
                }
            }
        }
    }

    fn step(&mut self, op: &Op) {
        let now = Driver::now(&*self.clock);
        match *op {
            Op::Arrive { cost, patience } => {
                let deadline = patience.map(|wait| now.saturating_add(Duration::from_nanos(wait)));
                let mut waiter = Task::new(self.lease.admit(cost, deadline));
                match waiter.poll() {
                    Poll::Pending => self.line.push((cost, patience.unwrap_or(u64::MAX), waiter)),
                    Poll::Ready(Ok(permit)) => self.granted(permit),
                    Poll::Ready(Err(_)) => {}
                }
            }
            Op::Try { cost } => {
                if let Ok(permit) = self.lease.try_admit(cost) {
                    self.granted(permit);
                }
            }
            Op::Cancel(n) if !self.line.is_empty() => drop(self.line.remove(n % self.line.len())),
            Op::Finish(n) if !self.held.is_empty() => {
                drop(self.held.swap_remove(n % self.held.len()));
                if let (Pacing::Completion, Some(rate)) = (
                    self.lease.policy().pacing(),
                    self.lease.policy().requests_per_minute(),
                ) {
                    let delay = 60_000_000_000_u64.div_ceil(u64::from(rate));
                    self.completion = self
                        .completion
                        .max(now.saturating_add(Duration::from_nanos(delay)));
                }
            }
            Op::Cool(by) => {
                self.lease.cool_for(Duration::from_nanos(by));
                self.cooldown = self
                    .cooldown
                    .max(now.saturating_add(Duration::from_nanos(by)));
            }
            Op::Clear => {
                self.lease.clear_cooldown();
                self.cooldown = Instant::ZERO;
            }
            Op::Advance(by) => self.clock.jump(Duration::from_nanos(by)),
            Op::Poll(n) if !self.line.is_empty() => self.poll(n % self.line.len()),
            Op::Slip(by) => self.clock.set(now.saturating_add(Duration::from_nanos(by))),
            _ => {}
        }
        self.check_windows();
    }

    /// In any window at most what the policy allows.
    fn check_windows(&self) {
        let policy = self.lease.policy();
        let Some(&(end, _)) = self.grants.last() else {
            return;
        };
        let (mut requests, mut tokens) = (0, 0);
        for &(start, cost) in self.grants.iter().rev() {
            requests += 1;
            tokens += cost;
            let window = end - start;
            if let Some(rate) = policy.requests_per_minute() {
                let allowed =
                    i128::from(policy.burst()) * UNIT + i128::from(rate) * (window + 5_000_000);
                assert!(
                    requests * UNIT <= allowed,
                    "{requests} requests in {window} ns"
                );
            }
            if let Some(rate) = policy.tokens_per_minute() {
                assert!(
                    tokens * UNIT <= i128::from(rate) * (UNIT + window),
                    "{tokens} tokens in {window} ns"
                );
            }
        }
    }

    /// Once everyone comes when woken, everyone gets through.
    fn drain(&mut self) {
        for _ in 0..10_000 {
            for index in (0..self.line.len()).rev() {
                if self.line[index].2.woken() {
                    self.poll(index);
                }
            }
            while !self.held.is_empty() {
                self.step(&Op::Finish(0));
            }
            if self.line.is_empty() {
                break;
            }
            self.clock.jump(ms(40));
        }
        assert!(self.line.is_empty(), "{} wait for ever", self.line.len());
        let snapshot = self.lease.snapshot();
        assert_eq!((snapshot.active, snapshot.queued), (0, 0));
        assert_eq!(snapshot.counters.admitted as usize, self.grants.len());
        assert_eq!(self.clock.armed(), 0);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn prompt_tasks_are_admitted_exactly_as_a_naive_model_says(
        policy in policies(), ops in ops(), backwards in any::<bool>()
    ) {
        let world = world();
        let lease = world.limiter.lease(&key("a"), policy).unwrap();
        let mut run = Prompt { world, lease, model: Model::new(policy), line: Vec::new(), held: Vec::new() };
        for op in &ops {
            run.step(op, backwards);
        }
    }

    #[test]
    fn an_estimate_comes_true_if_nothing_changes(
        policy in policies(), costs in proptest::collection::vec(0..100_u64, 1..30), cool in 0..2_000_000_000_u64
    ) {
        let policy = time_alone(policy);
        let world = world();
        let lease = world.limiter.lease(&key("a"), policy).unwrap();
        lease.cool_for(Duration::from_nanos(cool));
        let mut line: Vec<(Instant, Waiter)> = Vec::new();
        for &cost in &costs {
            let estimate = lease.estimated_wait(cost).expect("time alone decides");
            let mut waiter = Task::new(lease.admit(cost, None));
            match waiter.poll() {
                Poll::Ready(permit) => {
                    prop_assert_eq!(estimate, Duration::ZERO);
                    drop(permit);
                }
                Poll::Pending => line.push((world.clock.now().saturating_add(estimate), waiter)),
            }
        }
        while !line.is_empty() {
            world.clock.set(world.clock.next_alarm().expect("someone waits"));
            let now = world.clock.now();
            while let Some(index) = line.iter().position(|(_, waiter)| waiter.woken()) {
                let (estimate, waiter) = &mut line[index];
                if let Poll::Ready(permit) = waiter.poll() {
                    if policy.requests_per_minute().is_some() && policy.tokens_per_minute().is_some() {
                        prop_assert!(*estimate <= now);
                    } else {
                        prop_assert_eq!(*estimate, now);
                    }
                    drop(permit);
                    line.remove(index);
                }
            }
        }
    }

    #[test]
    fn careless_tasks_break_no_promise_and_wedge_nothing(policy in policies(), ops in ops()) {
        let clock = Arc::new(Jumping::default());
        clock.set(Instant::from_nanos(1_000_000_000_000));
        let lease = Limiter::new(Time::new(clock.clone())).lease(&key("a"), policy).unwrap();
        let mut run = Careless {
            clock, lease, line: Vec::new(), held: Vec::new(), grants: Vec::new(),
            cooldown: Instant::ZERO, completion: Instant::ZERO,
        };
        for op in &ops {
            run.step(op);
        }
        run.drain();
    }
}
