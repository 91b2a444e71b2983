//! What a scope may do.

use std::fmt;
use std::num::NonZeroU32;

use crate::error::PolicyError;

/// How requests are spaced.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub enum Pacing {
    /// Requests per minute limit admissions; bursts and overlap are allowed.
    #[default]
    TokenBucket,
    /// One attempt at a time; after it finishes the scope waits `ceil(60 s / requests_per_minute)`.
    Completion,
}

/// The limits of a scope: always valid and normalised, so that equal behaviour compares equal.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Policy {
    requests_per_minute: Option<NonZeroU32>,
    burst: NonZeroU32,
    max_concurrency: Option<NonZeroU32>,
    tokens_per_minute: Option<NonZeroU32>,
    pacing: Pacing,
}

impl Policy {
    /// No limit at all; cooldowns still hold.
    pub const UNLIMITED: Self = Self {
        requests_per_minute: None,
        burst: NonZeroU32::MIN,
        max_concurrency: None,
        tokens_per_minute: None,
        pacing: Pacing::TokenBucket,
    };

    /// Starts from no limit.
    pub fn builder() -> PolicyBuilder {
        PolicyBuilder::default()
    }

    /// Admissions a minute.
    #[must_use]
    pub fn requests_per_minute(&self) -> Option<u32> {
        self.requests_per_minute.map(NonZeroU32::get)
    }

    /// Admissions that may be made at once after a rest; 1 unless set.
    #[must_use]
    pub fn burst(&self) -> u32 {
        self.burst.get()
    }

    /// Permits that may be held at the same time.
    #[must_use]
    pub fn max_concurrency(&self) -> Option<u32> {
        self.max_concurrency.map(NonZeroU32::get)
    }

    /// Cost that may be admitted a minute. The bucket starts full, so the first minute can carry twice this.
    #[must_use]
    pub fn tokens_per_minute(&self) -> Option<u32> {
        self.tokens_per_minute.map(NonZeroU32::get)
    }

    /// How requests are spaced.
    #[must_use]
    pub fn pacing(&self) -> Pacing {
        self.pacing
    }

    /// Whether it sets no limit.
    #[must_use]
    pub fn is_unlimited(&self) -> bool {
        *self == Self::UNLIMITED
    }
}

impl Default for Policy {
    fn default() -> Self {
        Self::UNLIMITED
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_unlimited() {
            return f.write_str("unlimited");
        }
        let burst = (self.burst.get() > 1).then(|| self.burst.get());
        let mut separator = "";
        for (name, value) in [
            ("requests_per_minute", self.requests_per_minute()),
            ("burst", burst),
            ("max_concurrency", self.max_concurrency()),
            ("tokens_per_minute", self.tokens_per_minute()),
        ] {
            if let Some(value) = value {
                write!(f, "{separator}{name} {value}")?;
                separator = ", ";
            }
        }
        if self.pacing == Pacing::Completion {
            write!(f, "{separator}pacing completion")?;
        }
        Ok(())
    }
}

/// Collects limits; [`build`](Self::build) checks them.
#[derive(Clone, Copy, Debug, Default)]
#[must_use]
pub struct PolicyBuilder {
    requests_per_minute: Option<u32>,
    burst: Option<u32>,
    max_concurrency: Option<u32>,
    tokens_per_minute: Option<u32>,
    pacing: Pacing,
}

impl PolicyBuilder {
    /// Admissions a minute.
    pub fn requests_per_minute(mut self, limit: u32) -> Self {
        self.requests_per_minute = Some(limit);
        self
    }

    /// Admissions that may be made at once after a rest. Without requests per minute it has no effect.
    pub fn burst(mut self, limit: u32) -> Self {
        self.burst = Some(limit);
        self
    }

    /// Permits that may be held at the same time.
    pub fn max_concurrency(mut self, limit: u32) -> Self {
        self.max_concurrency = Some(limit);
        self
    }

    /// Cost that may be admitted a minute.
    pub fn tokens_per_minute(mut self, limit: u32) -> Self {
        self.tokens_per_minute = Some(limit);
        self
    }

    /// How requests are spaced.
    pub fn pacing(mut self, pacing: Pacing) -> Self {
        self.pacing = pacing;
        self
    }

    /// The policy, normalised.
    ///
    /// # Errors
    ///
    /// [`PolicyError`] if a limit is zero, or if completion pacing lacks requests per minute or has a burst above 1.
    pub fn build(self) -> Result<Policy, PolicyError> {
        let requests_per_minute = positive("requests_per_minute", self.requests_per_minute)?;
        let burst = positive("burst", self.burst)?.unwrap_or(NonZeroU32::MIN);
        let max_concurrency = positive("max_concurrency", self.max_concurrency)?;
        let tokens_per_minute = positive("tokens_per_minute", self.tokens_per_minute)?;
        if self.pacing == Pacing::Completion {
            if requests_per_minute.is_none() {
                return Err(PolicyError::CompletionWithoutRate);
            }
            if burst > NonZeroU32::MIN {
                return Err(PolicyError::CompletionWithBurst { burst: burst.get() });
            }
        }
        let burst = if requests_per_minute.is_some() {
            burst
        } else {
            NonZeroU32::MIN
        };
        Ok(Policy {
            requests_per_minute,
            burst,
            max_concurrency,
            tokens_per_minute,
            pacing: self.pacing,
        })
    }
}

fn positive(field: &'static str, value: Option<u32>) -> Result<Option<NonZeroU32>, PolicyError> {
    value
        .map(|value| NonZeroU32::new(value).ok_or(PolicyError::Zero { field }))
        .transpose()
}
