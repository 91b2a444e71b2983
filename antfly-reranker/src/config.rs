//! How an entry becomes an adapter: remote or in-process first, then, only if remote, whose key.

use std::sync::Arc;

use antfly_framework::content::{MediaKind, MediaSupport};
use antfly_framework::http::Endpoint;
use antfly_framework::provider::{
    Accepts, Declared, Identity, Place, Provider, Service, Setup, TokenCost,
};
use antfly_framework::secret::CredentialSource;
use antfly_framework::{Error, Result};

use crate::remote::Remote;
use crate::wire;

/// Antfly inference, which is also what runs in the process.
const SERVICE: Service = Service {
    url_variable: "ANTFLY_INFERENCE_URL",
    default_url: "http://127.0.0.1:8082",
    default_path: "/ai/v1",
};
const KEY_VARIABLE: &str = "ANTFLY_INFERENCE_API_KEY";

/// What the server's multimodal rerankers may take; one without an encoder says so (501).
const MEDIA: MediaSupport =
    MediaSupport::Kinds(&[MediaKind::Image, MediaKind::Audio, MediaKind::Video]);

antfly_framework::inventory::submit!(Accepts {
    provider: crate::PLUGIN.name,
    operation: antfly_framework::Operation::Rerank,
    keys: &[
        Accepts::OUTBOUND,
        &["api_key", "top_n", "field", "template"]
    ],
});

/// The adapter of an entry. Opens nothing.
pub(crate) fn resolve(setup: &Setup<'_>) -> Result<Arc<dyn Provider>> {
    match SERVICE.place(setup)? {
        Place::Remote(endpoint) => remote(setup, endpoint),
        Place::InProcess(engine) => {
            let local = SERVICE.in_process(setup, engine.as_ref())?;
            Ok(Arc::new(local))
        }
    }
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
    let key = setup.key(KEY_VARIABLE)?;
    let source = key
        .as_ref()
        .map_or_else(CredentialSource::anonymous, |key| key.source().clone());
    Ok(Arc::new(Remote {
        declared: Declared::new(
            Identity::new(entry, &endpoint),
            source,
            TokenCost::Text,
            MEDIA,
            0,
        ),
        endpoint,
        model: entry.model.clone(),
        key,
        field: entry.rerank.field.clone(),
        extra_body: entry.extra_body.clone(),
    }))
}

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;
