//! Stores of secrets.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use secrecy::SecretString;

use crate::error::Result;

/// A place that keeps secrets by name: a file, a vault. Users bring their own.
#[async_trait]
pub trait SecretStore: fmt::Debug + Send + Sync {
    /// Which store this is: part of the credential source's identity. Stable, and no secret.
    fn id(&self) -> String;

    /// Whether `name` is there. Asked when a handle is built; opens no connection.
    ///
    /// # Errors
    /// When the store can't say.
    fn holds(&self, name: &str) -> Result<bool>;

    /// The value of `name` now; `None` when it isn't there. Asked before each attempt, outside the quota.
    ///
    /// # Errors
    /// Of kind `auth` when the store can't answer.
    async fn get(&self, name: &str) -> Result<Option<SecretString>>;
}

/// A store in memory.
pub struct MemoryStore {
    id: String,
    values: Mutex<BTreeMap<String, SecretString>>,
}

impl MemoryStore {
    /// A store with an identity and these values.
    pub fn new<K: Into<String>, V: Into<String>>(
        id: impl Into<String>,
        values: impl IntoIterator<Item = (K, V)>,
    ) -> Self {
        MemoryStore {
            id: id.into(),
            values: Mutex::new(
                values
                    .into_iter()
                    .map(|(k, v)| (k.into(), SecretString::from(v.into())))
                    .collect(),
            ),
        }
    }

    /// Sets a value; the next attempt uses it.
    pub fn set(&self, name: impl Into<String>, value: impl Into<String>) {
        self.lock()
            .insert(name.into(), SecretString::from(value.into()));
    }

    /// Takes a value away.
    pub fn remove(&self, name: &str) {
        self.lock().remove(name);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, SecretString>> {
        self.values.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore")
            .field("id", &self.id)
            .field("names", &self.lock().keys().collect::<Vec<_>>())
            .finish()
    }
}

#[async_trait]
impl SecretStore for MemoryStore {
    fn id(&self) -> String {
        self.id.clone()
    }

    fn holds(&self, name: &str) -> Result<bool> {
        Ok(self.lock().contains_key(name))
    }

    async fn get(&self, name: &str) -> Result<Option<SecretString>> {
        Ok(self.lock().get(name).cloned())
    }
}
