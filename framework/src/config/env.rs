//! The environment as a value. Only this file reads the process's.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::error::{Error, Result};

/// Environment variables: the process's own, or a fixed set for tests. `Debug` shows names, never values.
#[derive(Clone)]
pub struct Env(Source);

#[derive(Clone)]
enum Source {
    Process,
    Fixed(Arc<BTreeMap<String, String>>),
}

impl Env {
    /// The process's environment, read anew at each look-up.
    pub fn process() -> Self {
        Env(Source::Process)
    }

    /// No variables.
    pub fn empty() -> Self {
        Self::from_pairs::<&str, &str>([])
    }

    /// These variables.
    pub fn from_pairs<K: Into<String>, V: Into<String>>(
        pairs: impl IntoIterator<Item = (K, V)>,
    ) -> Self {
        Env(Source::Fixed(Arc::new(
            pairs
                .into_iter()
                .map(|(k, v)| (k.into(), v.into()))
                .collect(),
        )))
    }

    /// A variable; one that is empty is as if unset.
    ///
    /// # Errors
    /// `config` when its value is not UTF-8.
    pub fn get(&self, name: &str) -> Result<Option<String>> {
        let value = match &self.0 {
            #[allow(clippy::disallowed_methods)]
            // The one place that reads the process's environment.
            Source::Process => match std::env::var(name) {
                Ok(value) => Some(value),
                Err(std::env::VarError::NotPresent) => None,
                Err(std::env::VarError::NotUnicode(_)) => {
                    return Err(Error::config(name, "the variable's value is not UTF-8"));
                }
            },
            Source::Fixed(map) => map.get(name).cloned(),
        };
        Ok(value.filter(|v| !v.is_empty()))
    }
}

impl Default for Env {
    fn default() -> Self {
        Self::process()
    }
}

impl fmt::Debug for Env {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Source::Process => f.write_str("Env(process)"),
            Source::Fixed(map) => f.debug_set().entries(map.keys()).finish(),
        }
    }
}
