//! How an entry becomes an adapter: remote or in-process first, then, only if remote, whose key.

use std::sync::Arc;

use antfly_framework::config::EntryConfig;
use antfly_framework::content::{MediaKind, MediaSupport};
use antfly_framework::http::Endpoint;
use antfly_framework::provider::{
    Declared, Identity, InferenceEngine, Operation, Provider, Setup, TokenCost,
};
use antfly_framework::secret::CredentialSource;
use antfly_framework::{Error, Result};

use crate::local::Local;
use crate::remote::Remote;
use crate::wire;

const DEFAULT_URL: &str = "http://127.0.0.1:8082";
/// What an endpoint without a path gets.
const DEFAULT_PATH: &str = "/ai/v1";
const URL_VARIABLE: &str = "ANTFLY_INFERENCE_URL";
const KEY_VARIABLE: &str = "ANTFLY_INFERENCE_API_KEY";

/// What the server's multimodal rerankers may take; one without an encoder says so (501).
const MEDIA: MediaSupport =
    MediaSupport::Kinds(&[MediaKind::Image, MediaKind::Audio, MediaKind::Video]);

/// The adapter of an entry. Opens nothing.
pub(crate) fn resolve(setup: &Setup<'_>) -> Result<Arc<dyn Provider>> {
    let entry = setup.entry;
    match route(setup)? {
        Chosen::Remote(endpoint) => remote(setup, endpoint),
        Chosen::Local(engine) => local(entry, engine.as_ref()),
    }
}

enum Chosen<'a> {
    Remote(Endpoint),
    Local(&'a Arc<dyn InferenceEngine>),
}

/// Where the entry goes; no key is looked at for it.
fn route<'a>(setup: &Setup<'a>) -> Result<Chosen<'a>> {
    let entry = setup.entry;
    let told = match &entry.url {
        Some(url) => Some((entry.field("url"), url.clone())),
        None => setup
            .env
            .get(URL_VARIABLE)?
            .map(|url| (URL_VARIABLE.to_owned(), url)),
    };
    let (name, url) = match (told, setup.engine) {
        (Some(told), _) => told,
        (None, Some(engine)) if engine.knows(Operation::Rerank, &entry.model) => {
            return Ok(Chosen::Local(engine));
        }
        (None, _) => (String::new(), DEFAULT_URL.to_owned()),
    };
    Endpoint::parse(&url)
        .map(|endpoint| Chosen::Remote(endpoint.with_default_path(DEFAULT_PATH)))
        .map_err(|e| Error::config(name, e.message()))
}

fn remote(setup: &Setup<'_>, endpoint: Endpoint) -> Result<Arc<dyn Provider>> {
    let entry = setup.entry;
    entry.refuse_fields_not_in(&["url", "api_key"])?;
    if let Some((name, instead)) = wire::OWNED
        .iter()
        .find(|(name, _)| entry.extra_body.contains_key(*name))
    {
        return Err(Error::config(
            entry.field(&format!("extra_body.{name}")),
            format!("this field belongs to the adapter; use {instead}"),
        ));
    }
    let key = match &entry.api_key {
        Some(setting) => Some(setup.secrets.resolve(setting, &entry.field("api_key"))?),
        None => setup.secrets.env(KEY_VARIABLE)?,
    };
    let source = key
        .as_ref()
        .map_or_else(CredentialSource::anonymous, |key| key.source().clone());
    Ok(Arc::new(Remote {
        declared: declared(entry, endpoint.to_string(), source),
        endpoint,
        model: entry.model.clone(),
        key,
        field: entry.rerank.field.clone(),
        extra_body: entry.extra_body.clone(),
    }))
}

fn local(entry: &EntryConfig, engine: &dyn InferenceEngine) -> Result<Arc<dyn Provider>> {
    entry.refuse_fields_not_in(&["api_key", "model_path", "admission", "scoring"])?;
    if entry
        .rate_limit
        .is_some_and(|policy| !policy.is_unlimited())
    {
        return Err(Error::config(
            entry.field("rate_limit"),
            format!(
                "this entry runs in-process, because neither url nor {URL_VARIABLE} is set and this client's engine has model \
                 {:?}; an in-process model has its own admission and takes no outbound limit. Set url (or {URL_VARIABLE}) to \
                 make the entry remote, or remove rate_limit",
                entry.model
            ),
        ));
    }
    Ok(Arc::new(Local {
        declared: declared(
            entry,
            "in-process".to_owned(),
            CredentialSource::anonymous(),
        ),
        model: engine.open(entry)?,
    }))
}

fn declared(entry: &EntryConfig, endpoint: String, source: CredentialSource) -> Declared {
    let identity = Identity {
        provider: crate::PLUGIN.name.to_owned(),
        endpoint,
        operation: Operation::Rerank,
        model: entry.model.clone(),
        extra: Vec::new(),
    };
    Declared::new(identity, source, TokenCost::Text, MEDIA, 0)
}

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;
