//! Where every choice comes from.

use std::time::Duration;

/// A small generator (splitmix64); good enough to stir.
#[derive(Clone)]
pub struct Dice(pub u64);

impl Dice {
    /// A number below `sides`.
    pub fn roll(&mut self, sides: u64) -> u64 {
        self.next() % sides
    }

    /// Once in `times`.
    pub fn once_in(&mut self, times: u64) -> bool {
        self.roll(times) == 0
    }

    /// From `low` to below `high`, to the nanosecond.
    pub fn between(&mut self, low: Duration, high: Duration) -> Duration {
        let span = u64::try_from((high - low).as_nanos()).expect("less than centuries");
        low + Duration::from_nanos(self.roll(span.max(1)))
    }

    /// Mostly about `usual`, half as often twice that, a quarter as often four times that ...
    pub fn long_tailed(&mut self, usual: Duration, doublings: u32) -> Duration {
        let most = usual * (1 << self.next().trailing_zeros().min(doublings));
        self.between(most / 2, most)
    }

    /// Another generator, of which the rest of this one knows nothing.
    pub fn split(&mut self) -> Self {
        Self(self.next())
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}
