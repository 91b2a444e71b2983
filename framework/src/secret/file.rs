//! The file store: `{"secrets": [{"key": "...", "value": "..."}]}`, read again when the file changes.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use secrecy::SecretString;
use serde::Deserialize;

use super::store::SecretStore;
use crate::error::{Error, Result};

type Values = BTreeMap<String, SecretString>;

/// A file of secrets. It is looked at before each use, so a rotated key is used by the next attempt; a rewrite that is broken
/// keeps the last good values and warns.
pub struct FileStore {
    path: PathBuf,
    id: String,
    state: Mutex<State>,
}

struct State {
    /// The text the values came from, as a hash: a rewrite within one tick of the file's clock is seen too.
    text: u64,
    values: Values,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    secrets: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    key: String,
    value: SecretString,
}

impl FileStore {
    /// Opens a file; a relative path starts at `folder`.
    ///
    /// # Errors
    /// `config` when it can't be read or isn't of the form above; values are never shown.
    pub fn open(file: &str, folder: &Path) -> Result<Self> {
        let path = folder.join(file);
        let path = path.canonicalize().unwrap_or(path);
        let text = read(&path).map_err(|e| {
            Error::config(
                "secrets.file",
                format!("{} can't be read: {e}", path.display()),
            )
        })?;
        let values = parse(&text).map_err(|problem| {
            Error::config("secrets.file", format!("{}: {problem}", path.display()))
        })?;
        Ok(FileStore {
            id: format!("file:{}", path.display()),
            path,
            state: Mutex::new(State {
                text: digest(&text),
                values,
            }),
        })
    }

    fn look(&self, name: &str) -> Option<SecretString> {
        // The file is small and local: reading it whole is cheaper to trust than its time stamps.
        let read = read(&self.path);
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match read {
            Ok(text) if digest(&text) != state.text => {
                state.text = digest(&text);
                match parse(&text) {
                    Ok(values) => state.values = values,
                    Err(problem) => tracing::warn!(
                        file = %self.path.display(),
                        "the secrets file is broken, its last good values stay: {problem}"
                    ),
                }
            }
            Ok(_) => {}
            Err(e) => tracing::warn!(
                file = %self.path.display(),
                "the secrets file can't be read, its last good values stay: {e}"
            ),
        }
        state.values.get(name).cloned()
    }
}

/// A secrets file is small; a bound keeps a wrong path from being read for ever.
const MAX_BYTES: u64 = 1 << 20;

fn read(path: &Path) -> std::io::Result<String> {
    use std::io::Read as _;
    let file = std::fs::File::open(path)?;
    if !file.metadata()?.is_file() {
        return Err(std::io::Error::other("not a file"));
    }
    let mut text = String::new();
    file.take(MAX_BYTES).read_to_string(&mut text)?;
    Ok(text)
}

fn digest(text: &str) -> u64 {
    use std::hash::{DefaultHasher, Hash as _, Hasher as _};
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

/// Problems are told by position: a parser's own words could quote a value.
fn parse(text: &str) -> Result<Values, String> {
    let written: Written = serde_json::from_str(text).map_err(|e| {
        format!(
            "line {}, column {}: not of the form {{\"secrets\": [{{\"key\": \"...\", \"value\": \"...\"}}]}}",
            e.line(),
            e.column()
        )
    })?;
    let mut values = Values::new();
    for entry in written.secrets {
        if entry.key.trim().is_empty() {
            return Err("a secret's key is empty".to_owned());
        }
        if values.insert(entry.key.clone(), entry.value).is_some() {
            return Err(format!("the key {:?} stands twice", entry.key));
        }
    }
    Ok(values)
}

impl fmt::Debug for FileStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileStore")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl SecretStore for FileStore {
    fn id(&self) -> String {
        self.id.clone()
    }

    fn holds(&self, name: &str) -> Result<bool> {
        Ok(self.look(name).is_some())
    }

    async fn get(&self, name: &str) -> Result<Option<SecretString>> {
        Ok(self.look(name))
    }
}
