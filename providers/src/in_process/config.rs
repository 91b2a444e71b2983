//! How an entry becomes a model and a run's settings. Looks at the folder's small files only; weights wait for the first run.

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use antfly_framework::config::EntryConfig;
use antfly_framework::content::MediaSupport;
use antfly_framework::provider::{Declared, Identity, Provider, Setup, TokenCost};
use antfly_framework::secret::CredentialSource;
use antfly_framework::{Error, Operation, Result};

use super::InProcess;
use super::embed::EmbedSettings;
use super::folder::Folder;
use super::generate;
use super::local::{Local, Settings};
use super::models::Model;
use super::rerank::RerankSettings;

/// Where models are looked for.
pub(super) const MODELS_VARIABLE: &str = "ANTFLY_MODELS_DIR";

/// The adapter of an entry of this plugin's.
pub(super) fn resolve(setup: &Setup<'_>) -> Result<Arc<dyn Provider>> {
    let entry = setup.entry;
    refuse(entry)?;
    let models = setup.env.get(MODELS_VARIABLE)?.map(PathBuf::from);
    let identity = Identity::new(entry, "in-process");
    Ok(Arc::new(InProcess {
        declared: Declared::new(
            identity,
            CredentialSource::anonymous(),
            TokenCost::Text,
            MediaSupport::None,
            generate::DEFAULT_OUTPUT_CAP,
        ),
        local: local(entry, models.as_deref())?,
    }))
}

/// What only a request over a network has.
fn refuse(entry: &EntryConfig) -> Result<()> {
    entry.refuse_fields_not_in(&["model_path", "admission", "scoring"])?;
    let set = [
        ("headers", !entry.headers.is_empty()),
        ("ca_file", entry.ca_file.is_some()),
        ("proxy", entry.proxy != Default::default()),
    ];
    match set.into_iter().find(|(_, set)| *set) {
        Some((key, _)) => Err(Error::config(
            entry.field(key),
            "a model in this process makes no request; remove it",
        )),
        None => Ok(()),
    }
}

/// The local route of an entry: of this plugin's, or of another's that is in-process.
pub(super) fn local(entry: &EntryConfig, models: Option<&Path>) -> Result<Local> {
    if !entry.extra_body.is_empty() {
        return Err(Error::config(
            entry.field("extra_body"),
            "a model in this process gets no request body; remove it",
        ));
    }
    let path = folder(entry, models)?;
    let settings = match entry.operation {
        Operation::Embed => Settings::Embed(EmbedSettings::of(entry, &path)?),
        Operation::Rerank => Settings::Rerank(RerankSettings::of(entry, &path)?),
        _ => {
            generate::check_entry(entry)?;
            Settings::Generate
        }
    };
    // A folder of another kind of model, or half of one, is told here and not by the first call.
    match settings {
        Settings::Generate => drop(generate::file(&path)?),
        _ => Folder::new(&path).is_whole()?,
    }
    let admission = entry.admission.unwrap_or_default();
    let model = Model::shared(path, admission, &entry.field("admission"))?;
    Ok(Local::new(model, settings))
}

/// Where the entry's model is: `model_path`, else a folder of the models' folder.
fn folder(entry: &EntryConfig, models: Option<&Path>) -> Result<PathBuf> {
    let (field, path) = match (&entry.model_path, models) {
        (Some(path), _) => ("model_path", PathBuf::from(path)),
        (None, Some(models)) => (
            "model",
            under(models, &entry.model).ok_or_else(|| {
                Error::config(
                    entry.field("model"),
                    format!(
                        "{:?} is no name of a folder below the models' folder",
                        entry.model
                    ),
                )
            })?,
        ),
        (None, None) => {
            return Err(Error::config(
                entry.field("model_path"),
                format!(
                    "missing; a folder of local weights is needed here, or {MODELS_VARIABLE} with folders of models"
                ),
            ));
        }
    };
    path.canonicalize().map_err(|e| {
        Error::config(
            entry.field(field),
            format!("the model's folder {} can't be used: {e}", path.display()),
        )
    })
}

/// `model` as a folder below `models`; nothing that leads elsewhere.
pub(super) fn under(models: &Path, model: &str) -> Option<PathBuf> {
    let model = Path::new(model);
    let stays = model
        .components()
        .all(|c| matches!(c, Component::Normal(_)));
    (stays && model.components().next().is_some()).then(|| models.join(model))
}
