//! How an entry becomes an adapter: endpoint, key, model; and what such an entry can't say.

use std::sync::Arc;

use antfly_framework::config::{EntryConfig, GenerateOptions};
use antfly_framework::content::MediaSupport;
use antfly_framework::http::Endpoint;
use antfly_framework::provider::{
    Accepts, Declared, Identity, Operation, Provider, Setup, TokenCost,
};
use antfly_framework::secret::{CredentialSource, ResolvedSecret, Secrets};
use antfly_framework::{Error, Result};

use super::{Gemini, wire};
use crate::google::generate::body;
use crate::google::{DEFAULT_OUTPUT_CAP, GEMINI_MEDIA, task};

/// The Gemini API.
const DEFAULT_URL: &str = "https://generativelanguage.googleapis.com";
/// What an endpoint without a path gets.
const DEFAULT_PATH: &str = "/v1beta";
const KEY_VARIABLE: &str = "GEMINI_API_KEY";

antfly_framework::inventory::submit!(Accepts {
    provider: super::PLUGIN.name,
    operation: Operation::Embed,
    keys: &[
        Accepts::OUTBOUND,
        &["api_key"],
        Accepts::EMBEDDER,
        &["input_type", "task_type", "multimodal"]
    ],
});

antfly_framework::inventory::submit!(Accepts {
    provider: super::PLUGIN.name,
    operation: Operation::Generate,
    keys: &[Accepts::OUTBOUND, &["api_key"], GenerateOptions::NAMES],
});

/// The adapter of an entry. Opens nothing.
pub(super) fn resolve(setup: &Setup<'_>) -> Result<Arc<dyn Provider>> {
    Ok(Arc::new(adapter(setup.entry, setup.secrets)?))
}

pub(super) fn adapter(entry: &EntryConfig, secrets: &Secrets) -> Result<Gemini> {
    entry.refuse_fields_not_in(&["url", "api_key"])?;
    let endpoint = endpoint(entry)?;
    let model = model(entry)?;
    let (media, task, extra_body) = match entry.operation {
        Operation::Embed => {
            check_embed(entry)?;
            let extra = wire::RULES.of_entry(entry)?.beside;
            (embed_media(entry, &model)?, task::of(entry)?, extra)
        }
        _ => {
            body::RULES.of_entry(entry)?;
            (GEMINI_MEDIA, None, entry.extra_body.clone())
        }
    };
    let key = key(entry, secrets, endpoint == default_endpoint()?)?;
    let mut identity = Identity::new(entry, &endpoint);
    // `models/m` and `m` are one model.
    identity.model = model.strip_prefix("models/").unwrap_or(&model).to_owned();
    let source = key
        .as_ref()
        .map_or_else(CredentialSource::anonymous, |key| key.source().clone());
    let cost = TokenCost::Text;
    Ok(Gemini {
        declared: Declared::new(identity, source, cost, media, DEFAULT_OUTPUT_CAP),
        endpoint,
        model,
        key,
        task,
        extra_body,
    })
}

fn default_endpoint() -> Result<Endpoint> {
    Ok(Endpoint::parse(DEFAULT_URL)?.with_default_path(DEFAULT_PATH))
}

fn endpoint(entry: &EntryConfig) -> Result<Endpoint> {
    match &entry.url {
        Some(url) => Endpoint::parse(url)
            .map(|endpoint| endpoint.with_default_path(DEFAULT_PATH))
            .map_err(|e| Error::config(entry.field("url"), e.message())),
        None => default_endpoint(),
    }
}

/// The model's resource name: `models/m` for a bare `m`.
fn model(entry: &EntryConfig) -> Result<String> {
    let name = &entry.model;
    let bad = |part: &str| part.trim().is_empty() || part == "." || part == "..";
    let parts: Vec<&str> = name.split('/').collect();
    match parts.as_slice() {
        [name] if !bad(name) => Ok(format!("models/{name}")),
        ["models" | "tunedModels", id] if !bad(id) => Ok(name.clone()),
        _ => Err(Error::config(
            entry.field("model"),
            format!(
                "{name:?} is not allowed; a model's id is, or models/... or tunedModels/... (a name under a project belongs to \
                 provider \"vertex\")"
            ),
        )),
    }
}

/// The entry's key, else the environment's; elsewhere than at Google none is allowed.
fn key(entry: &EntryConfig, secrets: &Secrets, own: bool) -> Result<Option<ResolvedSecret>> {
    let path = entry.field("api_key");
    let key = match &entry.api_key {
        Some(setting) => Some(secrets.resolve(setting, &path)?),
        None => secrets.env(KEY_VARIABLE)?,
    };
    if key.is_none() && own {
        return Err(Error::config(
            path,
            format!(
                "the Gemini API needs a key: set api_key, or {KEY_VARIABLE} in the environment"
            ),
        ));
    }
    Ok(key)
}

fn check_embed(entry: &EntryConfig) -> Result<()> {
    let options = &entry.embed;
    for (name, is_set) in [
        ("encoding_format", options.encoding_format.is_some()),
        ("truncate", options.truncate.is_some()),
    ] {
        if is_set {
            return Err(Error::config(
                entry.field(name),
                "the Gemini API's embeddings have no such option",
            ));
        }
    }
    Ok(())
}

/// Gemini embeddings after the first take media; those before take text.
fn embed_media(entry: &EntryConfig, model: &str) -> Result<MediaSupport> {
    let takes_media = model.contains("gemini") && !model.ends_with("gemini-embedding-001");
    match entry.embed.multimodal {
        Some(true) if !takes_media => Err(Error::config(
            entry.field("multimodal"),
            "this model embeds text only",
        )),
        Some(false) => Ok(MediaSupport::None),
        _ if takes_media => Ok(GEMINI_MEDIA),
        _ => Ok(MediaSupport::None),
    }
}

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;
