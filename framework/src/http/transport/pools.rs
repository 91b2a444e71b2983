//! One connection pool for each tokio runtime.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use rustls::pki_types::CertificateDer;
use tokio::runtime::{Handle, Id};
use tokio::sync::oneshot;

use crate::error::{Error, Kind, Result};

/// More runtimes than this at once, and the pool unused for the longest time is dropped.
const MAX_POOLS: usize = 16;

/// Makes the client of a new runtime.
type Build = Box<dyn Fn() -> Result<reqwest::Client> + Send + Sync>;

/// The clients of one transport, by runtime.
pub(super) struct Pools {
    /// The most recently used one is last.
    entries: Arc<Mutex<Vec<Entry>>>,
    numbers: AtomicU64,
    build: Build,
}

struct Entry {
    runtime: Id,
    client: reqwest::Client,
    /// Tells this entry from a later one of the same runtime id, which tokio may use again.
    number: u64,
    /// Ends the task that watches the runtime, by being dropped.
    _alive: oneshot::Sender<()>,
}

impl Pools {
    pub(super) fn new(build: Build) -> Self {
        Pools {
            entries: Arc::default(),
            numbers: AtomicU64::new(0),
            build,
        }
    }

    /// The client of the runtime this is called on.
    pub(super) fn current(&self) -> Result<reqwest::Client> {
        let runtime = Handle::try_current().map_err(|_| {
            Error::new(Kind::Transport, "sending needs a running tokio runtime")
                .with_retryable(false)
        })?;
        let id = runtime.id();
        {
            let mut entries = lock(&self.entries);
            if let Some(at) = entries.iter().position(|entry| entry.runtime == id) {
                if at + 1 < entries.len() {
                    entries[at..].rotate_left(1);
                }
                if let Some(entry) = entries.last() {
                    return Ok(entry.client.clone());
                }
            }
        }
        let client = (self.build)()?;
        let (alive, ended) = oneshot::channel();
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let evicted = {
            let mut entries = lock(&self.entries);
            if let Some(entry) = entries.iter().find(|entry| entry.runtime == id) {
                return Ok(entry.client.clone()); // another thread was faster
            }
            let evicted = (entries.len() >= MAX_POOLS).then(|| entries.remove(0));
            entries.push(Entry {
                runtime: id,
                client: client.clone(),
                number,
                _alive: alive,
            });
            evicted
        };
        drop(evicted);
        let watch = Watch {
            entries: Arc::downgrade(&self.entries),
            number,
        };
        // A runtime that shuts down drops its tasks, and this one takes the pool with it. When the entry goes first, the channel
        // ends the task.
        runtime.spawn(async move {
            let _ = ended.await;
            drop(watch);
        });
        Ok(client)
    }

    pub(super) fn len(&self) -> usize {
        lock(&self.entries).len()
    }
}

/// Removes a runtime's pool when the runtime goes.
struct Watch {
    entries: Weak<Mutex<Vec<Entry>>>,
    number: u64,
}

impl Drop for Watch {
    fn drop(&mut self) {
        let Some(entries) = self.entries.upgrade() else {
            return;
        };
        let gone = {
            let mut entries = lock(&entries);
            let at = entries.iter().position(|entry| entry.number == self.number);
            at.map(|at| entries.remove(at))
        };
        drop(gone);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The system's root certificates, read once a process. Without any, only the extra ones are trusted.
pub(super) fn system_roots() -> &'static [CertificateDer<'static>] {
    static ROOTS: OnceLock<Vec<CertificateDer<'static>>> = OnceLock::new();
    ROOTS.get_or_init(|| {
        let loaded = rustls_native_certs::load_native_certs();
        if loaded.certs.is_empty() {
            tracing::warn!("no system root certificates were found: https works only with ca_file");
        }
        loaded.certs
    })
}
