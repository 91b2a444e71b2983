//! Puts a client together.

use std::path::Path;
use std::sync::Arc;

use antfly_limiter::{Limiter, Time};

use super::{Client, Inner};
use crate::attempt::{AttemptObserver, Jitter};
use crate::config::{Document, Env};
use crate::error::Result;
use crate::http::Transports;
use crate::provider::InferenceEngine;
use crate::registry::Registry;
use crate::secret::{FileStore, SecretStore, Secrets};

/// Builds a [`Client`]. What isn't set: every plugin linked in, the process's limiter, the process's environment, no store,
/// no engine.
#[derive(Debug, Default)]
pub struct ClientBuilder {
    registry: Option<Registry>,
    limiter: Option<Limiter>,
    time: Option<Time>,
    env: Option<Env>,
    store: Option<Arc<dyn SecretStore>>,
    store_error: Option<crate::Error>,
    engine: Option<Arc<dyn InferenceEngine>>,
    observer: Option<Arc<dyn AttemptObserver>>,
    jitter_seed: Option<u64>,
}

impl ClientBuilder {
    /// Uses these plugins instead of all that are linked in.
    #[must_use]
    pub fn registry(mut self, registry: Registry) -> Self {
        self.registry = Some(registry);
        self
    }

    /// Uses a limiter of one's own (its clock is the client's clock).
    #[must_use]
    pub fn limiter(mut self, limiter: Limiter) -> Self {
        self.limiter = Some(limiter);
        self
    }

    /// Uses a clock of one's own, with a limiter of its own on it. Ignored when a limiter is given.
    #[must_use]
    pub fn time(mut self, time: Time) -> Self {
        self.time = Some(time);
        self
    }

    /// Uses this environment instead of the process's.
    #[must_use]
    pub fn env(mut self, env: Env) -> Self {
        self.env = Some(env);
        self
    }

    /// Looks secrets up in this store before the environment.
    #[must_use]
    pub fn secret_store(mut self, store: Arc<dyn SecretStore>) -> Self {
        self.store = Some(store);
        self
    }

    /// Takes the document's `secrets` section: its file's path is relative to `folder`.
    #[must_use]
    pub fn document(mut self, document: &Document, folder: &Path) -> Self {
        if let Some(file) = &document.secrets_file {
            match FileStore::open(file, folder) {
                Ok(store) => self.store = Some(Arc::new(store)),
                Err(e) => self.store_error = Some(e),
            }
        }
        self
    }

    /// Gives the client an engine that runs models in this process.
    #[must_use]
    pub fn engine(mut self, engine: Arc<dyn InferenceEngine>) -> Self {
        self.engine = Some(engine);
        self
    }

    /// Tells `observer` of every attempt.
    #[must_use]
    pub fn observer(mut self, observer: Arc<dyn AttemptObserver>) -> Self {
        self.observer = Some(observer);
        self
    }

    /// Makes the jitter of backoff repeatable, for tests.
    #[must_use]
    pub fn jitter_seed(mut self, seed: u64) -> Self {
        self.jitter_seed = Some(seed);
        self
    }

    /// The client.
    ///
    /// # Errors
    /// `config` when the secrets file can't be read or two plugins claim one name and operation.
    pub fn build(self) -> Result<Client> {
        if let Some(e) = self.store_error {
            return Err(e);
        }
        let registry = match self.registry {
            Some(registry) => registry,
            None => Registry::with_inventory()?,
        };
        let limiter = match (self.limiter, self.time) {
            (Some(limiter), _) => limiter,
            (None, Some(time)) => Limiter::new(time),
            (None, None) => Limiter::global(),
        };
        let env = self.env.unwrap_or_else(Env::process);
        Ok(Client {
            inner: Arc::new(Inner {
                registry,
                limiter,
                secrets: Secrets::new(self.store, env.clone()),
                env,
                engine: self.engine,
                observer: self.observer,
                jitter: Arc::new(self.jitter_seed.map_or_else(Jitter::random, Jitter::seeded)),
                transports: Transports::default(),
            }),
        })
    }
}
