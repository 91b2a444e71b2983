//! What an entry may hold, whoever made it; and how it is shown without secrets.

use std::fmt;

use super::entry::{EmbedOptions, EntryConfig, GenerateOptions, Legacy, RerankOptions};
use super::fields::join;
use crate::error::{Error, Result};
use crate::http::{is_credential_header, is_framing_header};
use crate::provider::Operation;

const POSITIVE: &str = "0 is not allowed; an integer from 1 to 4294967295 is";

impl EntryConfig {
    /// Checks what parsing would have refused, for entries made in Rust.
    ///
    /// # Errors
    /// `config` naming the field and what is allowed.
    pub fn validate(&self) -> Result<()> {
        let bad = |key: &str, what: &str| Err(Error::config(self.field(key), what));
        let legacy = [
            ("requests_per_minute", self.legacy.requests_per_minute),
            ("burst", self.legacy.burst),
        ];
        for (key, value) in legacy {
            if value == Some(0) {
                return bad(key, POSITIVE);
            }
            if value.is_some() && self.rate_limit.is_some() {
                return bad(key, "the flat limits can't stand beside rate_limit");
            }
        }
        if self.provider.trim().is_empty() {
            return bad("provider", "a provider's name is needed");
        }
        if self.model.trim().is_empty() {
            return bad("model", "a model id is needed");
        }
        self.check_operation()?;
        let counts = [
            ("dimensions", self.embed.dimensions),
            ("batch_size", self.embed.batch_size),
            ("max_tokens", self.generate.max_tokens),
            ("top_k", self.generate.top_k),
            ("top_n", self.rerank.top_n),
            ("retry.max_attempts", Some(self.retry.max_attempts)),
            (
                "admission.max_concurrency",
                self.admission.map(|a| a.max_concurrency),
            ),
        ];
        for (key, value) in counts {
            if value == Some(0) {
                return bad(key, POSITIVE);
            }
        }
        let numbers = [
            ("temperature", self.generate.temperature),
            ("top_p", self.generate.top_p),
            ("frequency_penalty", self.generate.frequency_penalty),
            ("presence_penalty", self.generate.presence_penalty),
        ];
        for (key, value) in numbers {
            if value.is_some_and(|n| !n.is_finite()) {
                return bad(key, "a finite number is allowed");
            }
        }
        if !self.retry.backoff_multiplier.is_finite() || self.retry.backoff_multiplier < 1.0 {
            return bad("retry.backoff_multiplier", "a number from 1 is allowed");
        }
        for (key, time) in [
            ("timeout_ms", self.timeout),
            ("stream_idle_timeout_ms", self.stream_idle_timeout),
        ] {
            if time.is_zero() {
                return bad(key, POSITIVE);
            }
        }
        for (key, bytes) in [
            ("max_response_bytes", self.max_response_bytes),
            ("max_event_bytes", self.max_event_bytes),
        ] {
            if bytes == 0 {
                return bad(key, POSITIVE);
            }
        }
        let path = self.field("headers");
        for (at, (name, value)) in self.headers.iter().enumerate() {
            check_header(&path, name, value)?;
            let earlier = self.headers.iter().take(at);
            if let Some((twin, _)) = earlier
                .into_iter()
                .find(|(earlier, _)| earlier.eq_ignore_ascii_case(name))
            {
                return Err(Error::config(
                    join(&path, name),
                    format!("the header is there twice, also as {twin:?}; give one"),
                ));
            }
        }
        Ok(())
    }

    /// Options of another operation would be lost in silence.
    fn check_operation(&self) -> Result<()> {
        let set = [
            (
                Operation::Embed,
                "embed",
                self.embed != EmbedOptions::default(),
            ),
            (
                Operation::Embed,
                "requests_per_minute",
                self.legacy != Legacy::default(),
            ),
            (
                Operation::Generate,
                "generate",
                self.generate != GenerateOptions::default(),
            ),
            (
                Operation::Rerank,
                "rerank",
                self.rerank != RerankOptions::default(),
            ),
        ];
        match set
            .into_iter()
            .find(|(o, _, set)| *set && *o != self.operation)
        {
            Some((other, key, _)) => Err(Error::config(
                self.field(key),
                format!(
                    "these options belong to entries that {other}; this one is for {}",
                    self.operation
                ),
            )),
            None => Ok(()),
        }
    }

    /// Refuses fields that belong to other providers: an adapter names those of these that it has: `url`, `api_key`, `project`,
    /// `organization`, `region`, `profile`, `project_id`, `location`, `credentials_path`, `model_path`, `admission`, `scoring`.
    ///
    /// # Errors
    /// `config` naming the field.
    pub fn refuse_fields_not_in(&self, has: &[&str]) -> Result<()> {
        let set = [
            ("url", self.url.is_some()),
            ("api_key", self.api_key.is_some()),
            ("project", self.project.is_some()),
            ("organization", self.organization.is_some()),
            ("region", self.region.is_some()),
            ("profile", self.profile.is_some()),
            ("project_id", self.project_id.is_some()),
            ("location", self.location.is_some()),
            ("credentials_path", self.credentials_path.is_some()),
            ("model_path", self.model_path.is_some()),
            ("admission", self.admission.is_some()),
            ("scoring", self.rerank.scoring.is_some()),
        ];
        for (key, is_set) in set {
            if is_set && !has.contains(&key) {
                let has = match has {
                    [] => "none of its kind".to_owned(),
                    has => has.join(", "),
                };
                return Err(Error::config(
                    self.field(key),
                    format!(
                        "provider {:?} has no such field (it has: {has})",
                        self.provider
                    ),
                ));
            }
        }
        Ok(())
    }
}

/// Refuses headers that carry credentials or frame the message: the adapter and the transport own those.
fn check_header(path: &str, name: &str, value: &str) -> Result<()> {
    let at = join(path, name);
    let header = http::HeaderName::from_bytes(name.as_bytes())
        .map_err(|_| Error::config(&at, "not a valid header name"))?;
    if is_credential_header(&header) {
        return Err(Error::config(
            at,
            "credential headers can't be set here; use api_key",
        ));
    }
    if is_framing_header(&header) {
        return Err(Error::config(at, "this header belongs to the transport"));
    }
    http::HeaderValue::from_str(value)
        .map_err(|_| Error::config(at, "the value holds a character that no header can carry"))?;
    Ok(())
}

/// A URL with whatever stands before an `@`, and any query, left out.
fn shown_url(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let rest = rest.split(['?', '#']).next().unwrap_or("");
    match rest.rsplit_once('@') {
        Some((_, host)) => format!("{scheme}://..@{host}"),
        None if scheme.is_empty() => rest.to_owned(),
        None => format!("{scheme}://{rest}"),
    }
}

impl fmt::Debug for EntryConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let headers: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        let extra_body: Vec<&String> = self.extra_body.keys().collect();
        f.debug_struct("EntryConfig")
            .field("operation", &self.operation)
            .field("path", &self.path)
            .field("provider", &self.provider)
            .field("model", &self.model)
            .field("url", &self.url.as_deref().map(shown_url))
            .field("api_key", &self.api_key)
            .field("rate_limit", &self.rate_limit)
            .field("legacy", &self.legacy)
            .field("retry", &self.retry)
            .field("timeout", &self.timeout)
            .field("redirects", &self.redirects)
            .field("proxy", &self.proxy)
            .field("headers", &headers)
            .field("extra_body", &extra_body)
            .field("embed", &self.embed)
            .field("generate", &self.generate)
            .field("rerank", &self.rerank)
            .field("region", &self.region)
            .field("location", &self.location)
            .finish_non_exhaustive()
    }
}
