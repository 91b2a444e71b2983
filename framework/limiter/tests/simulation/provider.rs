//! What is at the other end: limits of its own, answers after a while, refusals with and without a hint, outages.

use std::time::Duration;

use antfly_limiter::Instant;

use crate::dice::Dice;

/// The other end of one scope.
pub struct Provider {
    /// Requests a minute and how many at once; `None` takes all.
    limit: Option<(u64, u64)>,
    /// In 1/60e9 of a request, as of an instant.
    debt: u128,
    at: Instant,
    /// In order.
    outages: Vec<Outage>,
}

#[derive(Clone, Copy)]
pub struct Outage {
    pub from: Instant,
    pub to: Instant,
    kind: Kind,
}

#[derive(Clone, Copy)]
enum Kind {
    /// No connection, at once.
    Refuses,
    /// No answer until the caller gives up.
    Hangs,
    /// 503, at times with a hint.
    Unavailable,
    /// 429 with the rest of the outage as the hint.
    QuotaUsedUp,
}

/// What comes back, and after how long.
pub struct Answer {
    pub after: Duration,
    pub what: What,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum What {
    Done,
    /// 429: told to wait so long from when the answer is there.
    TooMany(Option<Duration>),
    /// 503: this one alone is told.
    Unavailable(Option<Duration>),
    /// No answer.
    Broken,
}

const UNIT: u128 = 60_000_000_000;
const HOUR: u64 = 3_600_000_000_000;

impl Provider {
    pub fn new(limit: Option<(u64, u64)>, dice: &mut Dice, from: Instant, to: Instant) -> Self {
        let mut outages: Vec<Outage> = Vec::new();
        let mut at = from.as_nanos();
        loop {
            let begin = at + 2 * HOUR + dice.roll(14 * HOUR);
            let end = begin + HOUR / 2 + dice.roll(3 * HOUR);
            if end + 3 * HOUR > to.as_nanos() {
                break;
            }
            let kind = match dice.roll(5) {
                0 => Kind::Refuses,
                1 => Kind::Hangs,
                2 => Kind::Unavailable,
                _ => Kind::QuotaUsedUp,
            };
            let (from, to) = (Instant::from_nanos(begin), Instant::from_nanos(end));
            outages.push(Outage { from, to, kind });
            at = end;
        }
        Self {
            limit,
            debt: 0,
            at: from,
            outages,
        }
    }

    pub fn outages(&self) -> &[Outage] {
        &self.outages
    }

    /// One request arrives.
    pub fn ask(&mut self, now: Instant, dice: &mut Dice) -> Answer {
        let quickly = dice.between(Duration::from_millis(5), Duration::from_millis(50));
        let slowly = dice.long_tailed(Duration::from_millis(300), 7);
        let out = self.outages.iter().find(|it| it.from <= now && now < it.to);
        if let Some(out) = out {
            let rest = out.to.saturating_duration_since(now);
            let (after, what) = match out.kind {
                Kind::Refuses => (quickly, What::Broken),
                Kind::Hangs => (Duration::from_secs(60), What::Broken),
                Kind::Unavailable => {
                    let hint = dice
                        .once_in(2)
                        .then(|| Duration::from_secs(1 + dice.roll(30)));
                    (quickly, What::Unavailable(hint))
                }
                Kind::QuotaUsedUp => (quickly, What::TooMany(Some(rest))),
            };
            return Answer { after, what };
        }
        if dice.once_in(300) {
            return Answer {
                after: slowly,
                what: What::Broken,
            };
        }
        let Some((rate, burst)) = self.limit else {
            return Answer {
                after: slowly,
                what: What::Done,
            };
        };
        let passed = u128::from(now.as_nanos().saturating_sub(self.at.as_nanos()));
        self.debt = self.debt.saturating_sub(passed * u128::from(rate));
        self.at = now;
        let over = (self.debt + UNIT).saturating_sub(UNIT * u128::from(burst));
        if over > 0 {
            // In whole seconds, rounded up, as many say it; a third say nothing.
            let secs = over.div_ceil(u128::from(rate) * 1_000_000_000) as u64;
            let hint = (!dice.once_in(3)).then(|| Duration::from_secs(secs));
            return Answer {
                after: quickly,
                what: What::TooMany(hint),
            };
        }
        self.debt += UNIT;
        Answer {
            after: slowly,
            what: What::Done,
        }
    }
}
