//! How an entry becomes an adapter: endpoint, key, dialect; and what such an entry can't say.

use std::sync::Arc;

use antfly_framework::config::{EncodingFormat, EntryConfig, Env, GenerateOptions};
use antfly_framework::content::{MediaKind, MediaSupport};
use antfly_framework::http::Endpoint;
use antfly_framework::provider::{
    Accepts, Declared, Identity, Operation, Provider, Setup, TokenCost,
};
use antfly_framework::secret::{CredentialSource, ResolvedSecret, Secrets};
use antfly_framework::{Error, Result};
use http::{HeaderMap, HeaderName, HeaderValue};

use super::{OpenAi, wire};
use crate::openai_wire::chat::Dialect;
use crate::openai_wire::{chat, refuse_owned};

/// OpenAI's own endpoint.
const DEFAULT_URL: &str = "https://api.openai.com";
/// What an endpoint without a path gets.
const DEFAULT_PATH: &str = "/v1";
const URL_VARIABLE: &str = "OPENAI_BASE_URL";
const KEY_VARIABLE: &str = "OPENAI_API_KEY";
/// The output cap where a token budget needs one and nobody gave it.
const DEFAULT_OUTPUT_CAP: u32 = 1024;

const CHAT_MEDIA: MediaSupport =
    MediaSupport::Kinds(&[MediaKind::Image, MediaKind::Audio, MediaKind::File]);

const ACCOUNT: &[&str] = &["api_key", "project", "organization"];

antfly_framework::inventory::submit!(Accepts {
    provider: super::PLUGIN.name,
    operation: Operation::Embed,
    keys: &[
        Accepts::OUTBOUND,
        ACCOUNT,
        Accepts::EMBEDDER,
        &["encoding_format"]
    ],
});

antfly_framework::inventory::submit!(Accepts {
    provider: super::PLUGIN.name,
    operation: Operation::Generate,
    keys: &[Accepts::OUTBOUND, ACCOUNT, GenerateOptions::NAMES],
});

/// The adapter of an entry. Opens nothing.
pub(super) fn resolve(setup: &Setup<'_>) -> Result<Arc<dyn Provider>> {
    Ok(Arc::new(adapter(setup.entry, setup.env, setup.secrets)?))
}

pub(super) fn adapter(entry: &EntryConfig, env: &Env, secrets: &Secrets) -> Result<OpenAi> {
    entry.refuse_fields_not_in(&["url", "api_key", "project", "organization"])?;
    let endpoint = endpoint(entry, env)?;
    let dialect = match endpoint == default_endpoint()? {
        true => Dialect::OpenAi,
        false => Dialect::Compatible,
    };
    let media = match entry.operation {
        Operation::Embed => {
            check_embed(entry)?;
            MediaSupport::None
        }
        _ => {
            check_generate(entry, dialect)?;
            CHAT_MEDIA
        }
    };
    let key = key(entry, secrets, dialect)?;
    let identity = Identity {
        provider: super::PLUGIN.name.to_owned(),
        endpoint: endpoint.to_string(),
        operation: entry.operation,
        model: entry.model.clone(),
        extra: entry
            .project
            .iter()
            .map(|project| ("project", project.clone()))
            .collect(),
    };
    let source = key
        .as_ref()
        .map_or_else(CredentialSource::anonymous, |key| key.source().clone());
    let url = endpoint.join(match entry.operation {
        Operation::Embed => "embeddings",
        _ => "chat/completions",
    })?;
    Ok(OpenAi {
        declared: Declared::new(identity, source, TokenCost::Text, media, DEFAULT_OUTPUT_CAP),
        endpoint,
        url,
        dialect,
        model: entry.model.clone(),
        key,
        extra_body: entry.extra_body.clone(),
        encoding_format: encoding_format(entry, dialect),
        headers: account_headers(entry)?,
    })
}

fn default_endpoint() -> Result<Endpoint> {
    Ok(Endpoint::parse(DEFAULT_URL)?.with_default_path(DEFAULT_PATH))
}

/// The entry's `url`, else the environment's, else OpenAI's.
fn endpoint(entry: &EntryConfig, env: &Env) -> Result<Endpoint> {
    let (name, url) = match &entry.url {
        Some(url) => (entry.field("url"), url.clone()),
        None => match env.get(URL_VARIABLE)? {
            Some(url) => (URL_VARIABLE.to_owned(), url),
            None => return default_endpoint(),
        },
    };
    Endpoint::parse(&url)
        .map(|endpoint| endpoint.with_default_path(DEFAULT_PATH))
        .map_err(|e| Error::config(name, e.message()))
}

/// The entry's key, else the environment's; elsewhere than at OpenAI none is allowed.
fn key(entry: &EntryConfig, secrets: &Secrets, dialect: Dialect) -> Result<Option<ResolvedSecret>> {
    let path = entry.field("api_key");
    let key = match &entry.api_key {
        Some(setting) => Some(secrets.resolve(setting, &path)?),
        None => secrets.env(KEY_VARIABLE)?,
    };
    if key.is_none() && dialect == Dialect::OpenAi {
        return Err(Error::config(
            path,
            format!("OpenAI needs a key: set api_key, or {KEY_VARIABLE} in the environment"),
        ));
    }
    Ok(key)
}

fn check_embed(entry: &EntryConfig) -> Result<()> {
    let options = &entry.embed;
    for (name, is_set) in [
        ("input_type", options.input_type.is_some()),
        ("task_type", options.task_type.is_some()),
        ("truncate", options.truncate.is_some()),
        ("multimodal", options.multimodal == Some(true)),
    ] {
        if is_set {
            return Err(Error::config(
                entry.field(name),
                "OpenAI's embeddings have no such option; for a server that has it, put its own field into extra_body",
            ));
        }
    }
    refuse_owned(entry, wire::OWNED)
}

fn check_generate(entry: &EntryConfig, dialect: Dialect) -> Result<()> {
    if entry.generate.top_k.is_some() && dialect == Dialect::OpenAi {
        return Err(Error::config(
            entry.field("top_k"),
            "OpenAI has no such option; only servers elsewhere (`url`) may",
        ));
    }
    refuse_owned(entry, chat::OWNED)
}

/// Base64 is asked for at OpenAI only: other servers may not know the field. What comes back is read by what it is.
fn encoding_format(entry: &EntryConfig, dialect: Dialect) -> Option<&'static str> {
    match entry.embed.encoding_format {
        Some(EncodingFormat::Float) => Some("float"),
        Some(EncodingFormat::Base64) => Some("base64"),
        None => (dialect == Dialect::OpenAi).then_some("base64"),
    }
}

/// Whose account within the key: headers both, a part of the scope only the project.
fn account_headers(entry: &EntryConfig) -> Result<HeaderMap> {
    let mut headers = HeaderMap::new();
    for (header, field, value) in [
        ("openai-organization", "organization", &entry.organization),
        ("openai-project", "project", &entry.project),
    ] {
        if let Some(value) = value {
            let value = HeaderValue::from_str(value)
                .map_err(|_| Error::config(entry.field(field), "no header can carry this value"))?;
            headers.insert(HeaderName::from_static(header), value);
        }
    }
    Ok(headers)
}

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;
