//! How an entry becomes an adapter: place, credentials, and how its model embeds; and what such an entry can't say.

use std::sync::{Arc, Mutex};

use antfly_framework::config::{EntryConfig, Env, GenerateOptions};
use antfly_framework::content::MediaSupport;
use antfly_framework::provider::{
    Accepts, Declared, Identity, Operation, Provider, Setup, TokenCost,
};
use antfly_framework::{Error, Result};
use http::HeaderValue;
use serde_json::Map;

use super::credentials::Tokens;
use super::place::Place;
use super::wire::{Embedding, rank};
use super::{QUOTA_PROJECT, Vertex, source};
use crate::google::generate::body;
use crate::google::{DEFAULT_OUTPUT_CAP, GEMINI_MEDIA};

const PLACE: &[&str] = &["project_id", "location", "credentials_path"];

antfly_framework::inventory::submit!(Accepts {
    provider: super::PLUGIN.name,
    operation: Operation::Embed,
    keys: &[
        Accepts::OUTBOUND,
        PLACE,
        Accepts::EMBEDDER,
        &["input_type", "task_type", "truncate", "multimodal"]
    ],
});

antfly_framework::inventory::submit!(Accepts {
    provider: super::PLUGIN.name,
    operation: Operation::Generate,
    keys: &[Accepts::OUTBOUND, PLACE, GenerateOptions::NAMES],
});

antfly_framework::inventory::submit!(Accepts {
    provider: super::PLUGIN.name,
    operation: Operation::Rerank,
    keys: &[Accepts::OUTBOUND, PLACE, &["top_n", "field"]],
});

/// The adapter of an entry. Opens no connection.
pub(super) fn resolve(setup: &Setup<'_>) -> Result<Arc<dyn Provider>> {
    Ok(Arc::new(adapter(setup.entry, setup.env)?))
}

pub(super) fn adapter(entry: &EntryConfig, env: &Env) -> Result<Vertex> {
    entry.refuse_fields_not_in(&["url", "project_id", "location", "credentials_path"])?;
    refuse_quota_header(entry)?;
    let place = Place::of(entry, env)?;
    let mut embedding = Embedding::default();
    let mut rank_extra = Map::new();
    let media = match entry.operation {
        Operation::Embed => {
            embedding = Embedding::of(entry, &place.model)?;
            embedding.media()
        }
        Operation::Rerank => {
            if entry.rerank.template.is_some() {
                return Err(Error::config(
                    entry.field("template"),
                    "the ranking API has no such option",
                ));
            }
            rank_extra = rank::RULES.of_entry(entry)?.beside;
            MediaSupport::None
        }
        _ => {
            body::RULES.of_entry(entry)?;
            GEMINI_MEDIA
        }
    };
    let found = source::find(entry, env)?;
    let mut identity = Identity::new(entry, &place.endpoint)
        .with("project_id", &place.project)
        .with("location", &place.location);
    identity.model.clone_from(&place.model);
    // Where another project pays, its quota is the one that counts.
    let other = found.quota_project.filter(|quota| *quota != place.project);
    if let Some(quota) = &other {
        identity = identity.with("quota_project", quota);
    }
    let quota_project = other.map(|quota| {
        HeaderValue::from_str(&quota)
            .map_err(|_| Error::config("quota_project_id", "no header can carry this value"))
    });
    let declared = Declared::new(
        identity,
        found.source.identity(),
        TokenCost::Text,
        media,
        DEFAULT_OUTPUT_CAP,
    );
    Ok(Vertex {
        declared,
        place,
        tokens: Tokens::of(found.source),
        sought: found.sought,
        handed_out: Mutex::default(),
        quota_project: quota_project.transpose()?,
        embedding,
        rank_field: entry.rerank.field.clone(),
        rank_extra,
    })
}

/// Whose quota pays is a part of the scope: it can't be said where the scope does not look.
fn refuse_quota_header(entry: &EntryConfig) -> Result<()> {
    let name = QUOTA_PROJECT;
    let name = name.as_str();
    if entry
        .headers
        .iter()
        .any(|(header, _)| header.eq_ignore_ascii_case(name))
    {
        return Err(Error::config(
            entry.field(&format!("headers.{name}")),
            "this header belongs to the adapter; set GOOGLE_CLOUD_QUOTA_PROJECT in the environment, or quota_project_id in the \
             credentials file",
        ));
    }
    Ok(())
}

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;
