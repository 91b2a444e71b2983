//! What is proved: a plugin, an entry for it, and what it has to declare.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use super::checks;
use super::report::Report;
use super::wire::Wire;
use crate::content::MediaSupport;
use crate::provider::{InferenceEngine, Operation, Plugin};

/// The key that entries and environments of a [`Subject`] carry: a sentinel that is looked for wherever text comes out.
pub const KEY: &str = "sk-conformance-SENTINEL-5b2f90c4";

type Fields = Vec<(&'static str, String)>;
type Pairs = Vec<(String, String)>;
type OfServer<T> = Arc<dyn Fn(&str) -> T + Send + Sync>;

/// An adapter to prove, for one operation.
#[derive(Clone)]
pub struct Subject {
    pub(super) plugin: Plugin,
    pub(super) operation: Operation,
    pub(super) entry: OfServer<Value>,
    pub(super) environment: OfServer<Pairs>,
    pub(super) scope: Option<OfServer<Fields>>,
    pub(super) media: MediaSupport,
    pub(super) output_cap: u32,
    pub(super) engine: Option<Arc<dyn InferenceEngine>>,
    pub(super) secrets: Vec<String>,
    pub(super) skips: Vec<(&'static str, String)>,
    pub(super) only: Option<Vec<String>>,
}

impl Subject {
    /// A plugin for one operation. `entry` makes the entry for a server's URL (`http://127.0.0.1:port`); where a key belongs it
    /// puts [`KEY`].
    pub fn new(
        plugin: Plugin,
        operation: Operation,
        entry: impl Fn(&str) -> Value + Send + Sync + 'static,
    ) -> Self {
        Subject {
            plugin,
            operation,
            entry: Arc::new(entry),
            environment: Arc::new(|_| Vec::new()),
            scope: None,
            media: MediaSupport::None,
            output_cap: 1024,
            engine: None,
            secrets: vec![KEY.to_owned()],
            skips: Vec::new(),
            only: None,
        }
    }

    /// The environment, for a server's URL. Without it, it is empty.
    #[must_use]
    pub fn environment<K: Into<String>, V: Into<String>, I: IntoIterator<Item = (K, V)>>(
        mut self,
        environment: impl Fn(&str) -> I + Send + Sync + 'static,
    ) -> Self {
        self.environment = Arc::new(move |server| {
            environment(server)
                .into_iter()
                .map(|(k, v)| (k.into(), v.into()))
                .collect()
        });
        self
    }

    /// Every field of the scope in order (provider, endpoint, operation, model, credential, then the adapter's own), for a
    /// server's URL. A value that ends in `*` stands for whatever begins so (`literal:*`).
    #[must_use]
    pub fn scope(
        mut self,
        scope: impl Fn(&str) -> Vec<(&'static str, String)> + Send + Sync + 'static,
    ) -> Self {
        self.scope = Some(Arc::new(scope));
        self
    }

    /// The media the adapter must declare. Without it: none.
    #[must_use]
    pub fn media(mut self, media: MediaSupport) -> Self {
        self.media = media;
        self
    }

    /// The default output cap a generator must declare, in tokens. Without it: 1024.
    #[must_use]
    pub fn default_output_cap(mut self, cap: u32) -> Self {
        self.output_cap = cap;
        self
    }

    /// Gives the client an engine that runs models in this process.
    #[must_use]
    pub fn engine(mut self, engine: Arc<dyn InferenceEngine>) -> Self {
        self.engine = Some(engine);
        self
    }

    /// More texts that must never come out anywhere (a session token, a private key).
    #[must_use]
    pub fn secret(mut self, secret: impl Into<String>) -> Self {
        self.secrets.push(secret.into());
        self
    }

    /// Skips one check by its name. The reason is in the report, and the skip is counted.
    #[must_use]
    pub fn skip(mut self, check: &'static str, reason: impl Into<String>) -> Self {
        self.skips.push((check, reason.into()));
        self
    }

    /// Runs only the checks whose names begin with one of these, for use while writing an adapter. The report says so, and
    /// [`Report::assert`] refuses it.
    #[must_use]
    pub fn only<T: Into<String>>(mut self, names: impl IntoIterator<Item = T>) -> Self {
        self.only = Some(names.into_iter().map(Into::into).collect());
        self
    }

    /// Runs every check that an adapter with a server calls for. Blocks, on a runtime of its own: call it from a plain `#[test]`.
    pub fn check(self, wire: impl Wire) -> Report {
        checks::run_wire(self, Arc::new(wire))
    }

    /// Runs every check that an adapter on the local route calls for. Blocks, as [`Subject::check`] does.
    pub fn check_local(self) -> Report {
        checks::run_local(self)
    }
}

impl fmt::Debug for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subject")
            .field("plugin", &self.plugin.name)
            .field("operation", &self.operation)
            .finish_non_exhaustive()
    }
}
