//! A rate, seen from outside.

use antfly_limiter::Instant;

/// In one request or token: what a limit of 1 a minute pays for in a nanosecond is 1.
pub const UNIT: u128 = 60_000_000_000;

/// What a rate has let through and time has not paid for. If this never exceeds a bound, no window of any length does:
/// it is the most that any window ending now has had above the rate.
#[derive(Clone, Copy, Default)]
pub struct Level {
    owed: u128,
    at: Instant,
    /// A minute.
    pub rate: u32,
}

impl Level {
    pub fn now(&self, now: Instant) -> u128 {
        let passed = u128::from(now.as_nanos() - self.at.as_nanos());
        self.owed.saturating_sub(passed * u128::from(self.rate))
    }

    pub fn set_rate(&mut self, now: Instant, rate: u32) {
        *self = Self {
            owed: self.now(now),
            at: now,
            rate,
        };
    }

    pub fn rise(&mut self, now: Instant, units: u128) -> u128 {
        *self = Self {
            owed: self.now(now) + units,
            at: now,
            rate: self.rate,
        };
        self.owed
    }

    /// When so many units more fit under `capacity`, at the latest.
    pub fn due(&self, now: Instant, units: u128, capacity: u128) -> u128 {
        let over = (self.now(now) + units).saturating_sub(capacity);
        u128::from(now.as_nanos()) + over.div_ceil(u128::from(self.rate.max(1)))
    }
}
