//! How an entry becomes an adapter: remote or in-process first, then, only if remote, whose key; and what it can't say.

use std::sync::Arc;

use antfly_framework::config::{EncodingFormat, EntryConfig, GenerateOptions};
use antfly_framework::content::{MediaKind, MediaSupport};
use antfly_framework::http::Endpoint;
use antfly_framework::provider::{
    Accepts, Declared, Identity, Operation, Place, Provider, Service, Setup, TokenCost,
};
use antfly_framework::secret::CredentialSource;
use antfly_framework::{Error, Result};

use super::{Antfly, wire};
use crate::openai_wire::{chat, refuse_owned};

/// Antfly inference, which is also what runs in the process.
const SERVICE: Service = Service {
    url_variable: "ANTFLY_INFERENCE_URL",
    default_url: "http://127.0.0.1:8082",
    default_path: "/ai/v1",
};
const KEY_VARIABLE: &str = "ANTFLY_INFERENCE_API_KEY";

/// The server's own output cap, which a token budget needs to know.
const DEFAULT_OUTPUT_CAP: u32 = 256;

const EMBED_MEDIA: MediaSupport =
    MediaSupport::Kinds(&[MediaKind::Image, MediaKind::Audio, MediaKind::Video]);
const CHAT_MEDIA: MediaSupport = MediaSupport::Kinds(&[
    MediaKind::Image,
    MediaKind::Audio,
    MediaKind::Video,
    MediaKind::File,
]);

antfly_framework::inventory::submit!(Accepts {
    provider: super::PLUGIN.name,
    operation: Operation::Embed,
    keys: &[
        Accepts::OUTBOUND,
        &["api_key"],
        Accepts::EMBEDDER,
        &["encoding_format", "input_type", "task_type", "multimodal"]
    ],
});

antfly_framework::inventory::submit!(Accepts {
    provider: super::PLUGIN.name,
    operation: Operation::Generate,
    keys: &[Accepts::OUTBOUND, &["api_key"], GenerateOptions::NAMES],
});

/// The adapter of an entry. Opens nothing.
pub(super) fn resolve(setup: &Setup<'_>) -> Result<Arc<dyn Provider>> {
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
    match entry.operation {
        Operation::Embed => check_embed(entry)?,
        _ => refuse_owned(entry, chat::OWNED)?,
    }
    let key = setup.key(KEY_VARIABLE)?;
    let source = key
        .as_ref()
        .map_or_else(CredentialSource::anonymous, |key| key.source().clone());
    Ok(Arc::new(Antfly {
        declared: Declared::new(
            Identity::new(entry, &endpoint),
            source,
            TokenCost::Text,
            media(entry),
            DEFAULT_OUTPUT_CAP,
        ),
        endpoint,
        model: entry.model.clone(),
        key,
        extra_body: entry.extra_body.clone(),
        task: task(entry)?,
    }))
}

/// What the models may take; a model that does not says so itself.
fn media(entry: &EntryConfig) -> MediaSupport {
    match (entry.operation, entry.embed.multimodal) {
        (Operation::Embed, Some(false)) => MediaSupport::None,
        (Operation::Embed, _) => EMBED_MEDIA,
        _ => CHAT_MEDIA,
    }
}

fn check_embed(entry: &EntryConfig) -> Result<()> {
    if entry.embed.truncate.is_some() {
        return Err(Error::config(
            entry.field("truncate"),
            "Antfly's embeddings have no such option: a model cuts inputs at its own maximum",
        ));
    }
    if entry.embed.encoding_format == Some(EncodingFormat::Base64) {
        return Err(Error::config(
            entry.field("encoding_format"),
            "\"base64\" is not allowed; Antfly answers \"float\" only",
        ));
    }
    refuse_owned(entry, wire::OWNED)
}

/// The task by Google's name, whichever of its two fields says it.
fn task(entry: &EntryConfig) -> Result<Option<String>> {
    match (&entry.embed.task_type, &entry.embed.input_type) {
        (Some(_), Some(_)) => Err(Error::config(
            entry.field("input_type"),
            "this is another name of task_type, which is set too; give one",
        )),
        (Some(task), None) | (None, Some(task)) => Ok(Some(wire::task_type(task))),
        (None, None) => Ok(None),
    }
}
