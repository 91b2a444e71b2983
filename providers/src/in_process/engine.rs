//! The same models behind entries of providers that may be remote or in-process.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use antfly_framework::Result;
use antfly_framework::config::{EntryConfig, Env};
use antfly_framework::provider::{InferenceEngine, LocalProvider, Operation};

use super::config::{self, MODELS_VARIABLE};
use super::folder::Folder;

/// Runs models of one folder in this process. Give it to a client with `builder().engine(..)`: entries of providers that may be
/// remote or in-process (`antfly`) then run here when this engine has their model.
///
/// Engines, and entries of the provider `in_process`, that name the same model share its weights and its queue.
#[derive(Clone, Debug)]
pub struct Engine {
    models: PathBuf,
}

impl Engine {
    /// An engine over the folders of models in `models`. An entry's `model` is the name of one of them (`all-MiniLM-L6-v2`, or
    /// `organisation/name`). Opens nothing.
    pub fn new(models: impl AsRef<Path>) -> Self {
        Engine {
            models: models.as_ref().to_owned(),
        }
    }

    /// An engine over the folder that `ANTFLY_MODELS_DIR` names; `None` when it is not set. A warning is logged when there is no such
    /// folder: every entry that could run here is then remote.
    ///
    /// # Errors
    /// `config` when the variable's value is not UTF-8.
    pub fn from_env(env: &Env) -> Result<Option<Self>> {
        let engine = env.get(MODELS_VARIABLE)?.map(Engine::new);
        if let Some(Engine { models }) = &engine
            && !models.is_dir()
        {
            tracing::warn!(path = %models.display(), "{MODELS_VARIABLE} names no folder: no model runs in this process");
        }
        Ok(engine)
    }
}

impl InferenceEngine for Engine {
    /// Whether the model's folder is there and holds what the operation needs.
    fn knows(&self, operation: Operation, model: &str) -> bool {
        config::under(&self.models, model).is_some_and(|path| Folder::new(&path).serves(operation))
    }

    fn open(&self, entry: &EntryConfig) -> Result<Arc<dyn LocalProvider>> {
        let local = config::local(entry, Some(&self.models))?;
        Ok(Arc::new(local))
    }
}
