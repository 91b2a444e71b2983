//! How long a retry waits: exponential backoff with full jitter, saturating.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::config::RetryConfig;

/// A source of jitter: seeded for tests, from the operating system's randomness otherwise.
#[derive(Debug)]
pub(crate) struct Jitter(AtomicU64);

impl Jitter {
    pub(crate) fn seeded(seed: u64) -> Self {
        Jitter(AtomicU64::new(seed))
    }

    pub(crate) fn random() -> Self {
        Self::seeded(RandomState::new().build_hasher().finish())
    }

    /// A number in `[0, 1)`. SplitMix64 over a shared counter: any number of threads, no lock.
    fn unit(&self) -> f64 {
        let mut z = self.0.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// The ceiling of the wait after `failures` failed tries (from 1).
pub(crate) fn ceiling(retry: &RetryConfig, failures: u32) -> Duration {
    let factor = retry
        .backoff_multiplier
        .max(1.0)
        .powi(i32::try_from(failures.saturating_sub(1)).unwrap_or(i32::MAX));
    let wait = retry.initial_backoff.as_secs_f64() * factor;
    if wait.is_finite() && wait < retry.max_backoff.as_secs_f64() {
        Duration::from_secs_f64(wait)
    } else {
        retry.max_backoff
    }
}

/// Full jitter, never zero: an evenly drawn share of the ceiling, at least a millisecond where the ceiling allows one.
pub(crate) fn wait(retry: &RetryConfig, failures: u32, jitter: &Jitter) -> Duration {
    let ceiling = ceiling(retry, failures);
    ceiling
        .mul_f64(jitter.unit())
        .max(Duration::from_millis(1).min(ceiling))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn retry() -> RetryConfig {
        RetryConfig::default()
    }

    #[test]
    fn k16_the_ceiling_doubles_and_saturates_at_any_attempt_number() {
        assert_eq!(ceiling(&retry(), 1), Duration::from_millis(500));
        assert_eq!(ceiling(&retry(), 2), Duration::from_secs(1));
        assert_eq!(ceiling(&retry(), 7), Duration::from_secs(30));
        assert_eq!(ceiling(&retry(), u32::MAX), Duration::from_secs(30));
    }

    #[test]
    fn f02_jitter_is_full_and_never_zero() {
        let jitter = Jitter::seeded(7);
        let waits: Vec<_> = (0..2000).map(|_| wait(&retry(), 1, &jitter)).collect();
        assert!(waits.iter().all(|w| *w >= Duration::from_millis(1)));
        assert!(waits.iter().all(|w| *w <= Duration::from_millis(500)));
        assert!(waits.iter().any(|w| *w < Duration::from_millis(50)));
        assert!(waits.iter().any(|w| *w > Duration::from_millis(450)));
    }
}
