//! Everything that can be refused.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use crate::key::ScopeKey;
use crate::policy::Policy;

/// A policy that cannot be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum PolicyError {
    /// A limit of zero.
    Zero {
        /// The limit's name.
        field: &'static str,
    },
    /// Completion pacing without requests per minute.
    CompletionWithoutRate,
    /// Completion pacing with a burst above 1.
    CompletionWithBurst {
        /// The burst asked for.
        burst: u32,
    },
}

impl PolicyError {
    /// The name of the limit that is wrong.
    #[must_use]
    pub fn field(&self) -> &'static str {
        match self {
            Self::Zero { field } => field,
            Self::CompletionWithoutRate => "requests_per_minute",
            Self::CompletionWithBurst { .. } => "burst",
        }
    }
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Zero { field } => {
                write!(f, "{field} is 0, expected an integer from 1 to 4294967295")
            }
            Self::CompletionWithoutRate => {
                f.write_str("pacing completion needs requests_per_minute")
            }
            Self::CompletionWithBurst { burst } => {
                write!(f, "pacing completion needs burst 1, not {burst}")
            }
        }
    }
}

impl Error for PolicyError {}

/// A lease was refused: the scope is in use under another policy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PolicyConflict {
    pub(crate) scope: ScopeKey,
    pub(crate) active: Policy,
    pub(crate) requested: Policy,
}

impl PolicyConflict {
    /// The scope.
    #[must_use]
    pub fn scope(&self) -> &ScopeKey {
        &self.scope
    }

    /// The policy in force.
    #[must_use]
    pub fn active(&self) -> Policy {
        self.active
    }

    /// The policy that was refused.
    #[must_use]
    pub fn requested(&self) -> Policy {
        self.requested
    }
}

impl fmt::Display for PolicyConflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            scope,
            active,
            requested,
        } = self;
        write!(
            f,
            "the scope {scope} is active with policy ({active}), so ({requested}) is refused"
        )
    }
}

impl Error for PolicyConflict {}

/// Why a deadline cannot be met.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum DeadlineCause {
    /// The deadline passed while waiting in line.
    Passed,
    /// The scope's cooldown ends after the deadline.
    Cooldown,
    /// The scope's completion delay ends after the deadline.
    CompletionDelay,
    /// The tokens already spent leave no room for this cost before the deadline.
    Tokens,
    /// The requests already spent leave no room before the deadline.
    Requests,
}

/// Why admission was refused. Nothing was reserved.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum AdmitError {
    /// The cost is above the whole token budget and could never pass.
    ExceedsBudget {
        /// The cost asked for, in tokens.
        cost: u64,
        /// The tokens a minute of the policy.
        budget: u64,
    },
    /// The deadline passed, or it is certain that it cannot be met.
    Deadline {
        /// The rest of the cooldown, if a cooldown is why.
        retry_after: Option<Duration>,
        /// What reaches past the deadline.
        cause: DeadlineCause,
    },
}

impl fmt::Display for AdmitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ExceedsBudget { cost, budget } => exceeds(f, *cost, *budget),
            Self::Deadline { retry_after, cause } => {
                let why = match cause {
                    DeadlineCause::Passed => "the deadline passed while waiting for admission",
                    DeadlineCause::Cooldown => "the cooldown of the scope ends after the deadline",
                    DeadlineCause::CompletionDelay => {
                        "the completion delay of the scope ends after the deadline"
                    }
                    DeadlineCause::Tokens => "the token budget leaves no room before the deadline",
                    DeadlineCause::Requests => {
                        "the request rate leaves no room before the deadline"
                    }
                };
                f.write_str(why)?;
                match retry_after {
                    Some(after) => write!(f, ", retry after {after:?}"),
                    None => Ok(()),
                }
            }
        }
    }
}

impl Error for AdmitError {}

fn exceeds(f: &mut fmt::Formatter<'_>, cost: u64, budget: u64) -> fmt::Result {
    write!(
        f,
        "a cost of {cost} tokens is above the budget of {budget} tokens per minute"
    )
}

/// Why an admission could not be had at once. Nothing was reserved.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum TryAdmitError {
    /// The cost is above the whole token budget and could never pass.
    ExceedsBudget {
        /// The cost asked for, in tokens.
        cost: u64,
        /// The tokens a minute of the policy.
        budget: u64,
    },
    /// It would have to wait, for a limit or for others in line.
    WouldWait {
        /// How long, if those ahead stay and none but them come; `None` if it depends on when permits finish.
        estimated_wait: Option<Duration>,
    },
}

impl TryAdmitError {
    /// The estimated wait, if it can be known.
    #[must_use]
    pub fn estimated_wait(&self) -> Option<Duration> {
        match self {
            Self::WouldWait { estimated_wait } => *estimated_wait,
            Self::ExceedsBudget { .. } => None,
        }
    }
}

impl fmt::Display for TryAdmitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ExceedsBudget { cost, budget } => exceeds(f, *cost, *budget),
            Self::WouldWait {
                estimated_wait: Some(wait),
            } => write!(f, "admission would wait about {wait:?}"),
            Self::WouldWait {
                estimated_wait: None,
            } => f.write_str("admission would wait for others to finish"),
        }
    }
}

impl Error for TryAdmitError {}
