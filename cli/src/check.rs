//! `check` and `providers`: what a configuration comes to, and what it can name. Nothing is sent.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use antfly_framework::client::Checked;
use antfly_framework::{Error, Operation, Pacing, Policy};
use serde::{Serialize, Serializer};

use crate::args::Stream;
use crate::config::{self, Loaded};
use crate::run::{Exit, Fatal, write_lines};

pub(crate) fn providers() -> Result<Exit, Fatal> {
    #[derive(Serialize)]
    struct Row {
        provider: &'static str,
        operations: Vec<&'static str>,
    }
    let client = config::client_builder()?.build()?;
    let mut rows = BTreeMap::<&'static str, Vec<&'static str>>::new();
    for (name, operation, _) in client.registry().iter() {
        rows.entry(name).or_default().push(operation.as_str());
    }
    write_lines(rows.into_iter().map(|(provider, operations)| Row {
        provider,
        operations,
    }))
}

pub(crate) fn check(source: &Stream) -> Result<Exit, Fatal> {
    let loaded = Loaded::read(source)?;
    loaded.refuse_bare()?;
    let client = loaded.client_builder(Operation::Embed)?.build()?;
    let (mut good, mut problems) = (Vec::new(), Vec::new());
    for entry in loaded.all()? {
        match entry {
            Ok(entry) => match client.check(&entry) {
                Ok(checked) => good.push(checked),
                Err(error) => problems.push(named(&entry.path, &error)),
            },
            Err(error) => problems.push(error.to_string()),
        }
    }
    problems.extend(conflicts(&good));
    let exit = write_lines(good.iter().map(Row::of))?;
    match problems.is_empty() {
        true => Ok(exit),
        false => Err(Fatal(problems)),
    }
}

/// An error of an entry, which says whose it is: what is wrong with a model's folder names the folder alone.
fn named(path: &str, error: &Error) -> String {
    let text = error.to_string();
    let kind = error.kind();
    match text.strip_prefix(&format!("{kind}: ")) {
        Some(rest) if !rest.contains(path) => format!("{kind}: {path}: {rest}"),
        _ => text,
    }
}

/// Entries that share a scope and don't agree on its policy, by name.
pub(crate) fn conflicts(entries: &[Checked]) -> Vec<String> {
    let mut scopes = HashMap::<_, &Checked>::new();
    let mut problems = Vec::new();
    for entry in entries {
        let first = *scopes.entry(&entry.key).or_insert(entry);
        if first.policy != entry.policy {
            problems.push(format!(
                "policy_conflict: {} and {} have one scope and different policies ({}; {}): {}",
                first.entry, entry.entry, first.policy, entry.policy, entry.key
            ));
        }
    }
    problems
}

#[derive(Serialize)]
struct Row<'a> {
    entry: &'a str,
    provider: &'a str,
    operation: &'static str,
    scope: Scope<'a>,
    policy: Option<Limits>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fingerprint: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    model_path: Option<Cow<'a, str>>,
}

impl<'a> Row<'a> {
    fn of(checked: &'a Checked) -> Self {
        Row {
            entry: &checked.entry,
            provider: &checked.provider,
            operation: checked.operation.as_str(),
            scope: Scope(&checked.scope),
            policy: (!checked.policy.is_unlimited()).then(|| Limits::of(&checked.policy)),
            fingerprint: checked.fingerprint.as_deref(),
            model_path: checked.model_path.as_deref().map(Path::to_string_lossy),
        }
    }
}

/// The scope's fields as one object, in their order.
struct Scope<'a>(&'a [(&'static str, String)]);

impl Serialize for Scope<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

#[derive(Serialize)]
struct Limits {
    #[serde(skip_serializing_if = "Option::is_none")]
    requests_per_minute: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    burst: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_concurrency: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tokens_per_minute: Option<u32>,
    pacing: &'static str,
}

impl Limits {
    fn of(policy: &Policy) -> Self {
        let requests_per_minute = policy.requests_per_minute();
        Limits {
            requests_per_minute,
            // Without requests per minute a burst means nothing.
            burst: requests_per_minute.map(|_| policy.burst()),
            max_concurrency: policy.max_concurrency(),
            tokens_per_minute: policy.tokens_per_minute(),
            pacing: match policy.pacing() {
                Pacing::Completion => "completion",
                _ => "token_bucket",
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_shows_what_it_limits() {
        let policy = Policy::builder().requests_per_minute(120).build().unwrap();
        assert_eq!(
            serde_json::to_string(&Limits::of(&policy)).unwrap(),
            r#"{"requests_per_minute":120,"burst":1,"pacing":"token_bucket"}"#
        );
        let policy = Policy::builder()
            .max_concurrency(4)
            .burst(9)
            .build()
            .unwrap();
        assert_eq!(
            serde_json::to_string(&Limits::of(&policy)).unwrap(),
            r#"{"max_concurrency":4,"pacing":"token_bucket"}"#
        );
    }
}
