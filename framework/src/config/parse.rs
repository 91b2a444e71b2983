//! JSON to an entry.

use std::time::Duration;

use serde_json::Value;

use super::entry::{
    Admission, EmbedOptions, EncodingFormat, EntryConfig, GenerateOptions, Legacy, ProxySetting,
    Redirects, RerankOptions, RetryConfig, Scoring,
};
use super::fields::{Fields, join, unknown};
use super::key::KeySetting;
use super::policy;
use crate::error::{Error, Result};
use crate::generate::{ResponseFormat, Tool, ToolChoice};
use crate::provider::{Accepts, Operation};

pub(super) const COMMON: [&str; 25] = [
    "provider",
    "model",
    "rate_limit",
    "retry",
    "timeout_ms",
    "extra_body",
    "ca_file",
    "proxy",
    "stream_idle_timeout_ms",
    "redirects",
    "headers",
    "max_response_bytes",
    "max_event_bytes",
    "admission",
    "url",
    "api_url",
    "api_key",
    "project",
    "organization",
    "region",
    "profile",
    "project_id",
    "location",
    "credentials_path",
    "model_path",
];
pub(super) const EMBED: [&str; 10] = [
    "encoding_format",
    "dimensions",
    "dimension",
    "input_type",
    "task_type",
    "truncate",
    "multimodal",
    "batch_size",
    "requests_per_minute",
    "burst",
];
pub(super) const GENERATE: [&str; 11] = [
    "max_tokens",
    "temperature",
    "top_p",
    "top_k",
    "frequency_penalty",
    "presence_penalty",
    "stop",
    "seed",
    "tools",
    "tool_choice",
    "response_format",
];
pub(super) const RERANK: [&str; 4] = ["top_n", "field", "template", "scoring"];

pub(super) const RETRY: [&str; 4] = [
    "max_attempts",
    "initial_backoff_ms",
    "backoff_multiplier",
    "max_backoff_ms",
];
pub(super) const ADMISSION: [&str; 2] = ["max_concurrency", "max_queue"];

fn own(operation: Operation) -> &'static [&'static str] {
    match operation {
        Operation::Embed => &EMBED,
        Operation::Generate => &GENERATE,
        Operation::Rerank => &RERANK,
    }
}

impl EntryConfig {
    /// Parses one entry. `path` is where it stands (`embedders.docs`; empty for a document that is itself an entry); its last
    /// part becomes the name.
    ///
    /// # Errors
    /// `config` naming the path, the value and what is allowed.
    pub fn from_json(operation: Operation, path: &str, value: Value) -> Result<Self> {
        let f = Fields::of(path, &value)?;
        // A limit that is wrong is said before anything else is looked at.
        let mut warnings = Vec::new();
        let rate_limit = match f.get("rate_limit") {
            Some(limits) => {
                let (policy, warning) = policy::parse(&join(path, "rate_limit"), limits)?;
                warnings.extend(warning);
                Some(policy)
            }
            None => None,
        };
        let embeds = operation == Operation::Embed;
        let legacy = Legacy {
            requests_per_minute: f
                .positive("requests_per_minute")
                .and_then(|n| only(&f, embeds, "requests_per_minute", n))?,
            burst: f
                .positive("burst")
                .and_then(|n| only(&f, embeds, "burst", n))?,
        };
        check_keys(&f, operation)?;
        let need = |key: &str, what: &str| {
            f.text(key)?
                .ok_or_else(|| Error::config(f_path(&f, key), format!("missing; {what} is needed")))
        };
        let mut e = EntryConfig::new(
            operation,
            need("provider", "a provider's name")?,
            need("model", "a model id")?,
        );
        path.clone_into(&mut e.path);
        e.name = path.split_once('.').map_or("", |(_, name)| name).to_owned();
        e.rate_limit = rate_limit;
        e.legacy = legacy;
        e.warnings = warnings;
        common(&f, &mut e)?;
        match operation {
            Operation::Embed => e.embed = embed(&f)?,
            Operation::Generate => e.generate = generate(&f)?,
            Operation::Rerank => e.rerank = rerank(&f)?,
        }
        e.validate()?;
        Ok(e)
    }
}

impl GenerateOptions {
    /// The names of these options in JSON.
    pub const NAMES: &'static [&'static str] = &GENERATE;

    /// Reads these options, and nothing else, out of an object that stands at `path` (empty: at the top).
    ///
    /// # Errors
    /// `config` naming the option, its value and what is allowed.
    pub fn from_json(path: &str, value: &Value) -> Result<Self> {
        let f = Fields::of(path, value)?;
        f.only(&GENERATE)?;
        generate(&f)
    }
}

fn f_path(f: &Fields<'_>, key: &str) -> String {
    join(f.path, key)
}

fn only<T>(f: &Fields<'_>, right: bool, key: &str, value: Option<T>) -> Result<Option<T>> {
    match value {
        Some(_) if !right => Err(Error::config(
            f_path(f, key),
            "the flat form is for embedders only; use rate_limit",
        )),
        value => Ok(value),
    }
}

fn check_keys(f: &Fields<'_>, operation: Operation) -> Result<()> {
    let own = own(operation);
    for key in f.keys() {
        if COMMON.contains(&key) || own.contains(&key) {
            continue;
        }
        let elsewhere = [Operation::Embed, Operation::Generate, Operation::Rerank]
            .into_iter()
            .find(|o| self::own(*o).contains(&key));
        if let Some(other) = elsewhere {
            return Err(Error::config(
                f_path(f, key),
                format!("this field belongs to entries that {other}; this one is for {operation}"),
            ));
        }
        let provider = f.get("provider").and_then(Value::as_str).unwrap_or("");
        let known: Vec<&str> = match Accepts::of(provider, operation) {
            Some(accepts) => accepts.iter().collect(),
            None => COMMON.iter().chain(own).copied().collect(),
        };
        return Err(unknown(f.path, key, &known));
    }
    Ok(())
}

fn alias(f: &Fields<'_>, name: &str, other: &str) -> Result<()> {
    match (f.get(name), f.get(other)) {
        (Some(_), Some(_)) => Err(Error::config(
            f_path(f, other),
            format!("this is another name of {name}, which is set too; give one"),
        )),
        _ => Ok(()),
    }
}

fn common(f: &Fields<'_>, e: &mut EntryConfig) -> Result<()> {
    if let Some(value) = f.get("retry") {
        e.retry = retry(&f_path(f, "retry"), value)?;
    }
    let millis =
        |key: &str| Ok::<_, Error>(f.positive(key)?.map(|n| Duration::from_millis(n.into())));
    if let Some(t) = millis("timeout_ms")? {
        e.timeout = t;
    }
    if let Some(t) = millis("stream_idle_timeout_ms")? {
        e.stream_idle_timeout = t;
    }
    if let Some(n) = f.positive("max_response_bytes")? {
        e.max_response_bytes = n as usize;
    }
    if let Some(n) = f.positive("max_event_bytes")? {
        e.max_event_bytes = n as usize;
    }
    if let Some(body) = f.object("extra_body")? {
        e.extra_body = body.clone();
    }
    e.ca_file = f.text("ca_file")?;
    e.proxy = match f.text("proxy")? {
        None => ProxySetting::Environment,
        Some(word) if word == "none" => ProxySetting::None,
        Some(url) => ProxySetting::Url(url),
    };
    e.redirects = f
        .choice(
            "redirects",
            &[
                ("follow", Redirects::Follow),
                ("same_origin", Redirects::SameOrigin),
                ("none", Redirects::None),
            ],
        )?
        .unwrap_or_default();
    e.headers = headers(f)?;
    if let Some(value) = f.get("admission") {
        let path = f_path(f, "admission");
        let a = Fields::of(&path, value)?;
        a.only(&ADMISSION)?;
        let default = Admission::default();
        e.admission = Some(Admission {
            max_concurrency: a
                .positive("max_concurrency")?
                .unwrap_or(default.max_concurrency),
            max_queue: a.positive("max_queue")?.unwrap_or(default.max_queue),
        });
    }
    alias(f, "url", "api_url")?;
    e.url = f.text("url")?.or(f.text("api_url")?);
    e.api_key = api_key(f)?;
    e.project = f.text("project")?;
    e.organization = f.text("organization")?;
    e.region = f.text("region")?;
    e.profile = f.text("profile")?;
    e.project_id = f.text("project_id")?;
    e.location = f.text("location")?;
    e.credentials_path = f.text("credentials_path")?;
    e.model_path = f.text("model_path")?;
    Ok(())
}

fn retry(path: &str, value: &Value) -> Result<RetryConfig> {
    let f = Fields::of(path, value)?;
    f.only(&RETRY)?;
    let default = RetryConfig::default();
    let millis = |key: &str, default: Duration| {
        Ok::<_, Error>(
            f.positive(key)?
                .map_or(default, |n| Duration::from_millis(n.into())),
        )
    };
    Ok(RetryConfig {
        max_attempts: f.positive("max_attempts")?.unwrap_or(default.max_attempts),
        initial_backoff: millis("initial_backoff_ms", default.initial_backoff)?,
        backoff_multiplier: f
            .number("backoff_multiplier", 1.0, 1e6)?
            .unwrap_or(default.backoff_multiplier),
        max_backoff: millis("max_backoff_ms", default.max_backoff)?,
    })
}

fn headers(f: &Fields<'_>) -> Result<Vec<(String, String)>> {
    let path = f_path(f, "headers");
    let mut out = Vec::new();
    for (name, value) in f.object("headers")?.into_iter().flatten() {
        match value {
            Value::Null => {}
            Value::String(text) => out.push((name.clone(), text.clone())),
            // What they are and may be is looked at with the rest of the entry; the value isn't shown.
            _ => return Err(Error::config(join(&path, name), "a text is allowed")),
        }
    }
    Ok(out)
}

fn api_key(f: &Fields<'_>) -> Result<Option<KeySetting>> {
    let Some(value) = f.get("api_key") else {
        return Ok(None);
    };
    let at = f_path(f, "api_key");
    match value.as_str() {
        Some(text) => KeySetting::parse(text, &at).map(Some),
        None => Err(Error::config(
            at,
            "a text is allowed: the key, or ${secret:name}",
        )),
    }
}

fn embed(f: &Fields<'_>) -> Result<EmbedOptions> {
    alias(f, "dimensions", "dimension")?;
    Ok(EmbedOptions {
        encoding_format: f.choice(
            "encoding_format",
            &[
                ("float", EncodingFormat::Float),
                ("base64", EncodingFormat::Base64),
            ],
        )?,
        dimensions: f.positive("dimensions")?.or(f.positive("dimension")?),
        input_type: f.text("input_type")?,
        task_type: f.text("task_type")?,
        truncate: match f.get("truncate") {
            // Antfly's own configuration writes a flag here.
            Some(Value::Bool(b)) => Some(if *b { "END" } else { "NONE" }.to_owned()),
            _ => f.text("truncate")?,
        },
        multimodal: f.flag("multimodal")?,
        batch_size: f.positive("batch_size")?,
    })
}

fn generate(f: &Fields<'_>) -> Result<GenerateOptions> {
    let at = |key: &str| f_path(f, key);
    let stop = match f.get("stop") {
        None => Vec::new(),
        Some(Value::String(s)) if !s.is_empty() => vec![s.clone()],
        Some(Value::Array(all))
            if all
                .iter()
                .all(|s| s.as_str().is_some_and(|s| !s.is_empty())) =>
        {
            all.iter()
                .filter_map(Value::as_str)
                .map(str::to_owned)
                .collect()
        }
        Some(other) => {
            return Err(f.bad(
                "stop",
                other,
                "a text or a list of texts, none of them empty,",
            ));
        }
    };
    let tools = match f.get("tools") {
        None => Vec::new(),
        Some(Value::Array(all)) => all
            .iter()
            .enumerate()
            .map(|(i, v)| {
                Tool::from_json(v).map_err(|e| Error::config(format!("{}[{i}]", at("tools")), e))
            })
            .collect::<Result<_>>()?,
        Some(other) => return Err(f.bad("tools", other, "a list")),
    };
    let tool_choice = f
        .get("tool_choice")
        .map(|v| ToolChoice::from_json(v).map_err(|e| Error::config(at("tool_choice"), e)))
        .transpose()?;
    let response_format = f
        .get("response_format")
        .map(|v| ResponseFormat::from_json(v).map_err(|e| Error::config(at("response_format"), e)))
        .transpose()?;
    Ok(GenerateOptions {
        max_tokens: f.positive("max_tokens")?,
        temperature: f.number("temperature", 0.0, 1e3)?,
        top_p: f.number("top_p", 0.0, 1.0)?,
        top_k: f.positive("top_k")?,
        frequency_penalty: f.number("frequency_penalty", -1e3, 1e3)?,
        presence_penalty: f.number("presence_penalty", -1e3, 1e3)?,
        stop,
        seed: f.integer("seed")?,
        tools,
        tool_choice,
        response_format,
    })
}

fn rerank(f: &Fields<'_>) -> Result<RerankOptions> {
    Ok(RerankOptions {
        top_n: f.positive("top_n")?,
        field: f.text("field")?,
        template: f.text("template")?,
        scoring: f.choice(
            "scoring",
            &[
                ("cosine", Scoring::Cosine),
                ("late_interaction", Scoring::LateInteraction),
            ],
        )?,
    })
}
