//! `rate_limit`, the flat legacy form and the environment's defaults, all to one [`Policy`].

use antfly_limiter::{Pacing, Policy};
use serde_json::Value;

use super::entry::{EntryConfig, Legacy};
use super::env::Env;
use super::fields::{Fields, join, shown};
use crate::error::{Error, Result};
use crate::provider::Operation;

pub(super) const KEYS: [&str; 5] = [
    "requests_per_minute",
    "burst",
    "max_concurrency",
    "tokens_per_minute",
    "pacing",
];

/// A `rate_limit` object. `burst` without `requests_per_minute` is accepted and normalised away, with a warning.
pub(super) fn parse(path: &str, value: &Value) -> Result<(Policy, Option<String>)> {
    let fields = Fields::of(path, value)?;
    fields.only(&KEYS)?;
    let rpm = fields.positive("requests_per_minute")?;
    let burst = fields.positive("burst")?;
    let concurrency = fields.positive("max_concurrency")?;
    let tokens = fields.positive("tokens_per_minute")?;
    let pacing = fields
        .choice(
            "pacing",
            &[
                ("token_bucket", Pacing::TokenBucket),
                ("completion", Pacing::Completion),
            ],
        )?
        .unwrap_or(Pacing::TokenBucket);
    if pacing == Pacing::Completion {
        if rpm.is_none() {
            return Err(Error::config(
                join(path, "pacing"),
                "\"completion\" needs requests_per_minute",
            ));
        }
        if burst.is_some_and(|b| b != 1) {
            return Err(Error::config(
                join(path, "burst"),
                format!(
                    "{} is not allowed; completion pacing needs burst 1",
                    burst.unwrap_or(1)
                ),
            ));
        }
    }
    let warning = (rpm.is_none() && burst.is_some()).then(|| {
        format!(
            "{}: burst has no effect without requests_per_minute",
            join(path, "burst")
        )
    });
    let mut builder = Policy::builder().pacing(pacing);
    if let Some(n) = rpm {
        builder = builder.requests_per_minute(n);
    }
    if let Some(n) = burst {
        builder = builder.burst(n);
    }
    if let Some(n) = concurrency {
        builder = builder.max_concurrency(n);
    }
    if let Some(n) = tokens {
        builder = builder.tokens_per_minute(n);
    }
    let policy = builder.build().map_err(|e| Error::config(path, e))?;
    Ok((policy, warning))
}

/// The policy an entry comes to, with warnings: its `rate_limit` if there is one (even `{}`), else its flat keys and, for
/// outbound embedders, the environment's defaults. `prefix` is the plugin's (`OPENAI`).
///
/// # Errors
/// `config` naming the variable when an environment default is malformed.
pub fn effective_policy(
    entry: &EntryConfig,
    env: &Env,
    prefix: Option<&str>,
) -> Result<(Policy, Vec<String>)> {
    let mut warnings: Vec<String> = entry.warnings.clone();
    if let Some(policy) = entry.rate_limit {
        return Ok((policy, warnings));
    }
    if entry.operation != Operation::Embed {
        return Ok((Policy::UNLIMITED, warnings));
    }
    let Legacy {
        requests_per_minute,
        burst,
    } = entry.legacy;
    let (rpm, burst) = match (requests_per_minute, burst) {
        // A flat rate alone ignores the environment's burst.
        (Some(rpm), burst) => (Some(rpm), burst),
        (None, burst) => {
            let rpm = default(env, prefix, "REQUESTS_PER_MINUTE")?;
            let own = match burst {
                Some(burst) => Some(burst),
                None => default(env, prefix, "BURST")?,
            };
            (rpm, own)
        }
    };
    let Some(rpm) = rpm else {
        if burst.is_some() && entry.legacy.burst.is_some() {
            warnings.push(format!(
                "{}: burst has no effect without requests_per_minute",
                join(&entry.path, "burst")
            ));
        }
        return Ok((Policy::UNLIMITED, warnings));
    };
    let burst = burst.unwrap_or(1);
    let pacing = if burst == 1 {
        Pacing::Completion
    } else {
        Pacing::TokenBucket
    };
    let policy = Policy::builder()
        .requests_per_minute(rpm)
        .burst(burst)
        .pacing(pacing)
        .build()
        .map_err(|e| Error::config(&entry.path, e))?;
    Ok((policy, warnings))
}

/// `ANTFLY_<PREFIX>_EMBED_<NAME>`, else `ANTFLY_EMBED_<NAME>`.
fn default(env: &Env, prefix: Option<&str>, name: &str) -> Result<Option<u32>> {
    let own = prefix.map(|p| format!("ANTFLY_{p}_EMBED_{name}"));
    for variable in own.into_iter().chain([format!("ANTFLY_EMBED_{name}")]) {
        if let Some(text) = env.get(&variable)? {
            let digits = text.trim();
            return Some(digits)
                .filter(|d| d.bytes().all(|b| b.is_ascii_digit()))
                .and_then(|d| d.parse::<u32>().ok())
                .filter(|n| *n > 0)
                .map(Some)
                .ok_or_else(|| {
                    Error::config(
                        variable,
                        format!(
                            "{} is not allowed; an integer from 1 to 4294967295 is",
                            shown(&Value::String(text))
                        ),
                    )
                });
        }
    }
    Ok(None)
}
