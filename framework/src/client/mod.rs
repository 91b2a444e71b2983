//! [`Client`]: plugins, limiter, secrets and transport in one; it makes handles.
//!
//! A handle ([`Embedder`], [`Generator`], [`Reranker`]) holds a lease on its scope. Clones share it.

/// What every handle says about its scope.
macro_rules! scope_methods {
    ($handle:ty) => {
        impl $handle {
            /// The scope whose quota this handle uses.
            pub fn scope(&self) -> &antfly_limiter::ScopeKey {
                self.handle.lease.key()
            }

            /// The lease itself, for work of one's own under the same quota (`try_admit`, `admit`, `cool_for`).
            pub fn lease(&self) -> &antfly_limiter::Lease {
                &self.handle.lease
            }

            /// The scope's policy.
            pub fn policy(&self) -> antfly_limiter::Policy {
                self.handle.lease.policy()
            }

            /// The scope as it is now: active, queued, debts, cooldown, counters.
            pub fn scope_snapshot(&self) -> antfly_limiter::ScopeSnapshot {
                self.handle.lease.snapshot()
            }

            /// How long an attempt of `cost` tokens would wait if it asked now, the queue counted; `None` when that can't
            /// be known (a slot that is in use) or will never be.
            pub fn estimated_wait(&self, cost: u64) -> Option<std::time::Duration> {
                self.handle.lease.estimated_wait(cost)
            }

            /// Forgets the scope's cooldown: an operator's word that the provider is well again.
            pub fn clear_cooldown(&self) {
                self.handle.lease.clear_cooldown();
            }
        }
    };
}
use scope_methods;

mod build;
mod embedder;
mod generator;
mod options;
mod plan;
mod reranker;

pub use build::ClientBuilder;
pub use embedder::Embedder;
pub use generator::Generator;
pub(crate) use options::Bound;
pub use options::CallOptions;
pub use reranker::Reranker;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use antfly_limiter::{Lease, Limiter, Policy, ScopeKey, ScopeSnapshot, Time};
use http::{HeaderMap, HeaderName, HeaderValue};

use crate::attempt::{AttemptObserver, CredentialCell, Jitter};
use crate::config::{EntryConfig, Env, effective_policy};
use crate::error::{Error, Kind, Result};
use crate::handle::Handle;
use crate::http::{Transport, Transports};
use crate::provider::{InferenceEngine, Operation, Plugin, Provider, Route, Setup};
use crate::registry::Registry;
use crate::secret::Secrets;

/// Makes handles for entries. Cheap to clone; clones are the same client.
///
/// Without a limiter of its own a client uses the process's, so that two clients share quotas as two handles do.
#[derive(Clone, Debug)]
pub struct Client {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    registry: Registry,
    limiter: Limiter,
    env: Env,
    secrets: Secrets,
    engine: Option<Arc<dyn InferenceEngine>>,
    observer: Option<Arc<dyn AttemptObserver>>,
    jitter: Arc<Jitter>,
    transports: Transports,
}

/// What an entry comes to, as `check` shows it. Making one opens no connection and takes no lease. Entries of one model in this process
/// that are checked while it is kept must agree on the model's admission.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Checked {
    /// Where the entry stands in the document (`embedders.docs`).
    pub entry: String,
    /// The plugin.
    pub provider: String,
    /// The operation.
    pub operation: Operation,
    /// The scope's fields, effective.
    pub scope: Vec<(&'static str, String)>,
    /// The key made of them.
    pub key: ScopeKey,
    /// The effective policy.
    pub policy: Policy,
    /// Of an embedder: what shapes its vectors, as a stable hash.
    pub fingerprint: Option<String>,
    /// Of a model in this process: where its files are.
    pub model_path: Option<PathBuf>,
    /// Keeps a model in this process, and so its admission, known to the next check.
    _provider: Arc<dyn Provider>,
}

/// An entry that has been looked at whole, before anything is opened.
struct Resolved {
    provider: Arc<dyn Provider>,
    policy: Policy,
    headers: HeaderMap,
}

impl Client {
    /// A builder: every part has a default.
    pub fn builder() -> ClientBuilder {
        ClientBuilder::default()
    }

    /// The plugins this client knows.
    pub fn registry(&self) -> &Registry {
        &self.inner.registry
    }

    /// The limiter this client's scopes live in.
    pub fn limiter(&self) -> &Limiter {
        &self.inner.limiter
    }

    /// The one clock of every wait.
    pub fn time(&self) -> &Time {
        self.inner.limiter.time()
    }

    /// Every scope of this client's limiter.
    pub fn snapshot(&self) -> Vec<ScopeSnapshot> {
        self.inner.limiter.snapshot()
    }

    /// An embedder for an entry.
    ///
    /// # Errors
    /// `config` for a bad entry, `policy_conflict` when another policy is active on its scope, `unsupported` when the provider
    /// does not embed.
    pub fn embedder(&self, entry: &EntryConfig) -> Result<Embedder> {
        Ok(Embedder::new(self.open(entry, Operation::Embed)?))
    }

    /// A generator for an entry. Errors as for [`Client::embedder`].
    pub fn generator(&self, entry: &EntryConfig) -> Result<Generator> {
        Ok(Generator::new(self.open(entry, Operation::Generate)?))
    }

    /// A reranker for an entry. Errors as for [`Client::embedder`].
    pub fn reranker(&self, entry: &EntryConfig) -> Result<Reranker> {
        Ok(Reranker::new(self.open(entry, Operation::Rerank)?))
    }

    /// What an entry comes to. Opens nothing.
    ///
    /// # Errors
    /// `config` for a bad entry, `unsupported` when the provider has no such operation, `policy_conflict` when a model in this process is
    /// in use with another admission.
    pub fn check(&self, entry: &EntryConfig) -> Result<Checked> {
        let resolved = self.resolve(entry)?;
        let declared = resolved.provider.declare();
        // The transport is built too: a broken `ca_file` or `proxy` is a configuration error, found here.
        self.transport(entry, &resolved)?;
        let provider = Arc::clone(&resolved.provider);
        Ok(Checked {
            entry: entry.path.clone(),
            provider: entry.provider.clone(),
            operation: entry.operation,
            scope: declared.fields(),
            key: declared.scope(),
            policy: resolved.policy,
            fingerprint: (entry.operation == Operation::Embed)
                .then(|| crate::config::fingerprint(entry, &declared.identity.endpoint)),
            model_path: match provider.route() {
                Route::Local(local) => local.model_path().map(Path::to_owned),
                _ => None,
            },
            _provider: provider,
        })
    }

    fn resolve(&self, entry: &EntryConfig) -> Result<Resolved> {
        entry.validate()?;
        let inner = &*self.inner;
        let plugin: &Plugin = inner
            .registry
            .find(&entry.provider, entry.operation, &entry.path)?;
        let setup = Setup {
            entry,
            env: &inner.env,
            secrets: &inner.secrets,
            engine: inner.engine.as_ref(),
            time: inner.limiter.time(),
        };
        let provider = (plugin.resolve)(&setup)?;
        let declared = provider.declare();
        if declared.identity.operation != entry.operation {
            return Err(Error::config(
                &entry.path,
                format!(
                    "the adapter declares operation {}, the entry is for {}",
                    declared.identity.operation, entry.operation
                ),
            ));
        }
        let policy = if matches!(provider.route(), Route::Local(_)) {
            refuse_limits(entry)?;
            Policy::UNLIMITED
        } else {
            let (policy, warnings) = effective_policy(entry, &inner.env, plugin.env_prefix)?;
            for warning in warnings {
                tracing::warn!(entry = %entry.path, "{warning}");
            }
            policy
        };
        let mut headers = HeaderMap::new();
        for (name, value) in &entry.headers {
            let bad = |what: &str| {
                Error::config(
                    entry.field(&format!("headers.{name}")),
                    format!("not a valid header {what}"),
                )
            };
            let key = HeaderName::from_bytes(name.as_bytes()).map_err(|_| bad("name"))?;
            let value = HeaderValue::from_str(value).map_err(|_| bad("value"))?;
            headers.append(key, value);
        }
        Ok(Resolved {
            provider,
            policy,
            headers,
        })
    }

    fn transport(&self, entry: &EntryConfig, resolved: &Resolved) -> Result<Option<Transport>> {
        match resolved.provider.route() {
            Route::Http(_) => self.inner.transports.for_entry(entry).map(Some),
            Route::Engine(_) | Route::Local(_) => Ok(None),
        }
    }

    fn open(&self, entry: &EntryConfig, operation: Operation) -> Result<Arc<Handle>> {
        if entry.operation != operation {
            return Err(Error::config(
                &entry.path,
                format!("this entry is for {}, not for {operation}", entry.operation),
            ));
        }
        let resolved = self.resolve(entry)?;
        let transport = self.transport(entry, &resolved)?;
        let inner = &*self.inner;
        let lease = self.lease(&resolved)?;
        let time = inner.limiter.time().clone();
        Ok(Arc::new(Handle {
            credentials: CredentialCell::new(Arc::clone(&resolved.provider), time.clone()),
            provider: resolved.provider,
            entry: entry.clone(),
            lease,
            time,
            observer: inner.observer.clone(),
            jitter: Arc::clone(&inner.jitter),
            headers: resolved.headers,
            transport,
        }))
    }

    fn lease(&self, resolved: &Resolved) -> Result<Lease> {
        let key = resolved.provider.declare().scope();
        self.inner
            .limiter
            .lease(&key, resolved.policy)
            .map_err(|conflict| {
                Error::new(Kind::PolicyConflict, conflict.to_string()).with_scope(key.to_string())
            })
    }
}

/// In-process models have their own admission; an outbound limit on them would promise what nothing keeps.
fn refuse_limits(entry: &EntryConfig) -> Result<()> {
    let key = if entry.rate_limit.is_some_and(|p| !p.is_unlimited()) {
        "rate_limit"
    } else if entry.legacy.requests_per_minute.is_some() {
        "requests_per_minute"
    } else if entry.legacy.burst.is_some() {
        "burst"
    } else {
        return Ok(());
    };
    Err(Error::config(
        entry.field(key),
        "this entry is served in-process, which has its own admission (`admission`); outbound limits apply to remote \
         providers only: remove it",
    ))
}
