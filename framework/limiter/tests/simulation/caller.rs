//! One caller: asks, retries as it should, and sometimes loses patience.

use std::rc::Rc;
use std::time::Duration;

use antfly_limiter::{Admission, Claim, Instant, Permit};

use crate::books::Wish;
use crate::dice::Dice;
use crate::provider::What;
use crate::world::{InFlight, Leased, Place, World};

const ATTEMPTS: u32 = 3;
const HOUR: u64 = 3_600_000_000_000;

pub struct Caller {
    pub id: usize,
    pub world: Rc<World>,
    pub dice: Dice,
}

impl Caller {
    /// Some come on the hour, as schedules do; others at any time.
    pub async fn live(mut self) {
        loop {
            let now = self.world.now();
            let hour = now.as_nanos() / HOUR + 1 + self.dice.roll(4);
            let crowd = Duration::from_secs(if self.dice.once_in(2) { 30 } else { 3600 });
            let at = Instant::from_nanos(hour * HOUR)
                .saturating_add(self.dice.between(Duration::ZERO, crowd));
            if at >= self.world.end {
                return;
            }
            self.world.time.sleep_until(at).await;
            let popular = self.world.popular();
            let scope = if self.dice.once_in(20) {
                popular + self.dice.roll(crate::world::RARE as u64) as usize
            } else {
                self.dice.roll(popular as u64) as usize
            };
            self.call(scope).await;
        }
    }

    /// One call, given up after a while by some.
    async fn call(&mut self, scope: usize) {
        let (world, now) = (self.world.clone(), self.world.now());
        let deadline = match self.dice.roll(4) {
            0 => Some(
                self.dice
                    .between(Duration::from_secs(1), Duration::from_secs(120)),
            ),
            1 => Some(
                self.dice
                    .between(Duration::from_secs(60), Duration::from_secs(3 * 3600)),
            ),
            _ => None,
        };
        let deadline = deadline.map(|wait| now.saturating_add(wait));
        if !self.dice.once_in(6) {
            return self.attempts(scope, deadline).await;
        }
        let patience = self.dice.long_tailed(Duration::from_secs(2), 7);
        let given_up = world
            .time
            .timeout_at(now.saturating_add(patience), self.attempts(scope, deadline))
            .await;
        if given_up.is_err() {
            world.note(scope, 7, |books, _, _| books.tally.cancelled += 1);
        }
    }

    async fn attempts(&mut self, scope: usize, deadline: Option<Instant>) {
        let world = self.world.clone();
        let Some(lease) = self.lease(scope).await else {
            return;
        };
        let cost = self.cost();
        let mut not_before = Instant::ZERO;
        for attempt in 0..ATTEMPTS {
            let Some(flight) = self.admit(scope, &lease, cost, deadline).await else {
                return;
            };
            assert!(world.now() >= not_before, "a retry before its time");
            assert!(
                deadline.is_none_or(|deadline| world.now() <= deadline),
                "a start after the deadline"
            );
            let answer = world.ask(scope, &mut self.dice);
            let arrives = world.now().saturating_add(answer.after);
            if deadline.is_some_and(|deadline| arrives > deadline) {
                world.time.sleep_until(deadline.unwrap_or(arrives)).await;
                return;
            }
            world.time.sleep_until(arrives).await;
            let now = world.now();
            match answer.what {
                What::Done => {
                    world.note(scope, 8, |books, now, _| books.succeeds(now));
                    return;
                }
                What::TooMany(Some(rest)) => {
                    not_before = now.saturating_add(rest);
                    // First the cooldown, then the permit.
                    world.note(scope, 9, |books, now, _| books.told(now, not_before));
                    lease.cool_until(not_before);
                }
                What::TooMany(None) => world.note(scope, 10, |books, _, _| {
                    books.tally.refused_without_hint += 1
                }),
                What::Unavailable(hint) => {
                    world.note(scope, 11, |books, _, _| books.tally.broken += 1);
                    not_before = now.saturating_add(hint.unwrap_or_default());
                }
                What::Broken => world.note(scope, 11, |books, _, _| books.tally.broken += 1),
            }
            drop(flight);
            let most = Duration::from_millis(500) * 2_u32.pow(attempt);
            let backed_off = now.saturating_add(self.dice.between(Duration::ZERO, most));
            not_before = not_before.max(backed_off);
            if deadline.is_some_and(|deadline| not_before > deadline) {
                return;
            }
            // Half of those who were told stand in line meanwhile, where the cooldown keeps them.
            let told = matches!(answer.what, What::TooMany(Some(_)));
            let stands_in_line = told && self.dice.once_in(2);
            let until = if stands_in_line {
                backed_off
            } else {
                not_before
            };
            world.time.sleep_until(until).await;
        }
    }

    /// A lease under what is configured; another try a little later while the old policy is in use.
    async fn lease(&mut self, scope: usize) -> Option<Leased> {
        for _ in 0..5 {
            match self.world.lease(scope) {
                Ok(lease) => return Some(lease),
                Err(conflict) => assert_ne!(conflict.active(), conflict.requested()),
            }
            let pause = self
                .dice
                .between(Duration::from_secs(5), Duration::from_secs(60));
            self.world.time.sleep(pause).await;
        }
        None
    }

    async fn admit(
        &mut self,
        scope: usize,
        lease: &Leased,
        cost: u64,
        deadline: Option<Instant>,
    ) -> Option<InFlight> {
        let wish = Wish {
            task: self.id,
            cost,
            deadline,
        };
        let place = Place::new(&self.world, scope, wish);
        let result = if self.dice.once_in(10) {
            self.in_two_steps(scope, &place, lease.admission(cost, deadline))
                .await
        } else {
            lease.admit(cost, deadline).await
        };
        match result {
            Ok(permit) => Some(place.started(permit)),
            Err(error) => {
                self.world.note(scope, 12, |books, now, _| {
                    books.refused(now, place.seq, &error)
                });
                None
            }
        }
    }

    /// Sees that its credential is stale when its turn comes, at times, and fetches another first.
    async fn in_two_steps(
        &mut self,
        scope: usize,
        place: &Place,
        mut admission: Admission,
    ) -> Result<Permit, antfly_limiter::AdmitError> {
        let mut fresh_until = Some(
            self.world
                .now()
                .saturating_add(self.dice.long_tailed(Duration::from_secs(1), 9)),
        );
        loop {
            admission.ready().await?;
            match admission.claim(fresh_until) {
                Claim::Granted(permit) => return Ok(permit),
                Claim::Refused(error) => return Err(error),
                Claim::NotYet => {}
                Claim::Stale => {
                    self.world.note(scope, 13, |books, now, excused| {
                        books.steps_aside(now, place.seq, excused)
                    });
                    let refresh = self.dice.long_tailed(Duration::from_millis(100), 5);
                    self.world.time.sleep(refresh).await;
                    fresh_until = None;
                    self.world
                        .note(scope, 14, |books, now, _| books.comes_back(now, place.seq));
                }
            }
        }
    }

    fn cost(&mut self) -> u64 {
        match self.dice.roll(100) {
            0 => 20_000 + self.dice.roll(45_000),
            1 => 20_000,
            2..=20 => 1000 + self.dice.roll(2000),
            _ => self.dice.roll(400),
        }
    }
}

/// Looks after the whole every hour.
pub async fn audit(world: Rc<World>) {
    while world.now() < world.end {
        let hour = Duration::from_nanos(HOUR);
        world.time.sleep(hour).await;
        world.audit();
    }
}
