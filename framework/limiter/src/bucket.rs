//! Exact arithmetic of one limit a minute.
//!
//! A bucket holds *debt*, not a level: what was spent and is not yet repaid, in units of 1/60e9 of a request or token. A
//! limit of `r` a minute repays exactly `r` units a nanosecond, so nothing is ever rounded, the debt means the same
//! under any policy, and a bucket that owes nothing can be forgotten.

use crate::time::Instant;

/// Units in one request or token.
pub(crate) const UNIT: u128 = 60_000_000_000;

/// Debt as of an instant, repaid at a rate in units a nanosecond (which is the limit a minute).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Bucket {
    debt: u128,
    at: Instant,
    rate: u32,
}

impl Bucket {
    /// Changes the rate from `now` on; the debt stays.
    pub(crate) fn set_rate(&mut self, now: Instant, rate: u32) {
        self.settle(now);
        self.rate = rate;
    }

    /// The instant up to which repayment is counted.
    pub(crate) fn at(&self) -> Instant {
        self.at
    }

    /// The debt at `now`, in units. An instant before the last one counted repays nothing.
    pub(crate) fn debt(&self, now: Instant) -> u128 {
        let elapsed = now.as_nanos().saturating_sub(self.at.as_nanos());
        self.debt
            .saturating_sub(u128::from(elapsed) * u128::from(self.rate))
    }

    /// Adds `units` of debt as of `now`.
    pub(crate) fn charge(&mut self, now: Instant, units: u128) {
        self.settle(now);
        self.debt = self.debt.saturating_add(units);
    }

    /// Adds `units` of debt as of the first instant, not before `from`, at which they fit under `capacity`. What is
    /// repaid between that instant and the next whole nanosecond is not lost.
    pub(crate) fn charge_when_due(&mut self, from: Instant, units: u128, capacity: u128) {
        let over = self
            .debt(from)
            .saturating_add(units)
            .saturating_sub(capacity);
        if over == 0 {
            self.charge(from, units);
            return;
        }
        let due = self.after(from.max(self.at), over);
        let early = over.next_multiple_of(u128::from(self.rate.max(1))) - over;
        self.at = due;
        self.debt = capacity.saturating_sub(early);
    }

    /// The first instant, not before `from`, at which `units` more fit under `capacity`.
    pub(crate) fn due(&self, from: Instant, units: u128, capacity: u128) -> Instant {
        let over = self
            .debt(from)
            .saturating_add(units)
            .saturating_sub(capacity);
        if over == 0 {
            from
        } else {
            self.after(from.max(self.at), over)
        }
    }

    /// The first instant at which nothing is owed.
    pub(crate) fn clear_at(&self) -> Instant {
        if self.debt == 0 {
            Instant::ZERO
        } else {
            self.after(self.at, self.debt)
        }
    }

    fn settle(&mut self, now: Instant) {
        self.debt = self.debt(now);
        self.at = self.at.max(now);
    }

    /// When `units` more than now have been repaid, counted from `from`.
    fn after(&self, from: Instant, units: u128) -> Instant {
        if self.rate == 0 {
            return Instant::MAX;
        }
        let nanos = units.div_ceil(u128::from(self.rate));
        Instant::from_nanos(
            from.as_nanos()
                .saturating_add(u64::try_from(nanos).unwrap_or(u64::MAX)),
        )
    }
}
