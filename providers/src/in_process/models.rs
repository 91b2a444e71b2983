//! Models, loaded once and shared: entries that name the same folder have one queue and one set of weights.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Instant;

use antfly_framework::config::Admission;
use antfly_framework::{Error, Kind, Result};

use super::admission::Queue;
use super::encoder::Encoder;
use super::generate::{self, GenerateModel};

/// The models in use, by their canonical path. One that no entry holds any more is unloaded.
static MODELS: Mutex<BTreeMap<PathBuf, Weak<Model>>> = Mutex::new(BTreeMap::new());

/// A model folder in use: its queue, and its weights once a run has needed them.
pub(super) struct Model {
    path: PathBuf,
    queue: Queue,
    encoder: Lazy<Encoder>,
    generator: Lazy<dyn GenerateModel>,
}

impl Model {
    /// The model at `path`, which must be canonical; shared with every other entry that names it.
    ///
    /// # Errors
    /// `policy_conflict` when it is in use with another admission: two queues would be two capacities.
    pub(super) fn shared(path: PathBuf, admission: Admission, field: &str) -> Result<Arc<Model>> {
        let mut models = lock(&MODELS);
        models.retain(|_, model| model.strong_count() > 0);
        if let Some(model) = models.get(&path).and_then(Weak::upgrade) {
            let there = model.queue.admission();
            if there != admission {
                return Err(Error::new(
                    Kind::PolicyConflict,
                    format!(
                        "{field}: {} is in use with {}, this entry asks for {}; entries of one model share its queue: make them \
                         equal",
                        path.display(),
                        shown(there),
                        shown(admission),
                    ),
                ));
            }
            return Ok(model);
        }
        let model = Arc::new(Model {
            queue: Queue::new(admission),
            encoder: Lazy::default(),
            generator: Lazy::default(),
            path: path.clone(),
        });
        models.insert(path, Arc::downgrade(&model));
        Ok(model)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn queue(&self) -> &Queue {
        &self.queue
    }

    /// The encoder, loaded by the first run that needs it. Blocks: for the queue's threads.
    pub(super) fn encoder(&self) -> Result<Arc<Encoder>> {
        self.encoder.get(|| {
            self.loading("encoder", || Encoder::load(&self.path))
                .map(Arc::new)
        })
    }

    /// The generator, as [`Model::encoder`].
    pub(super) fn generator(&self) -> Result<Arc<dyn GenerateModel>> {
        self.generator
            .get(|| self.loading("generator", || generate::load(&self.path)))
    }

    fn loading<T>(&self, what: &str, load: impl FnOnce() -> Result<T>) -> Result<T> {
        let path = self.path.display();
        tracing::info!(%path, "loading the model's {what}");
        let began = Instant::now();
        let loaded = load();
        let millis = began.elapsed().as_millis();
        match &loaded {
            Ok(_) => tracing::info!(%path, %millis, "loaded the model's {what}"),
            // Its callers are told; a warning would say it twice.
            Err(e) => tracing::info!(%path, %millis, "the model's {what} can't be loaded: {e}"),
        }
        loaded
    }
}

impl fmt::Debug for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Model")
            .field("path", &self.path)
            .field("queue", &self.queue)
            .finish_non_exhaustive()
    }
}

fn shown(a: Admission) -> String {
    format!(
        "admission {{max_concurrency: {}, max_queue: {}}}",
        a.max_concurrency, a.max_queue
    )
}

/// A value made by the first who needs it while the others wait; a failure is told to who met it, and tried again by the next.
struct Lazy<T: ?Sized>(Mutex<Option<Arc<T>>>);

impl<T: ?Sized> Lazy<T> {
    fn get(&self, make: impl FnOnce() -> Result<Arc<T>>) -> Result<Arc<T>> {
        let mut there = lock(&self.0);
        if let Some(value) = &*there {
            return Ok(Arc::clone(value));
        }
        let value = make()?;
        *there = Some(Arc::clone(&value));
        Ok(value)
    }
}

impl<T: ?Sized> Default for Lazy<T> {
    fn default() -> Self {
        Lazy(Mutex::new(None))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is behind these locks is whole whenever anything may panic.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
#[path = "models_tests.rs"]
mod tests;
