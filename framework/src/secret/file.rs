//! The file store: `{"secrets": [{"key": "...", "value": "..."}]}`, read again when the file changes.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;
use sha2::{Digest as _, Sha256};

use super::problem;
use super::store::SecretStore;
use crate::error::{Error, Kind, Result};

type Values = BTreeMap<String, SecretString>;

/// A file of secrets. It is looked at before each use, so a rotated key is used by the next attempt; a rewrite that is broken
/// keeps the last good values and warns once.
///
/// The store is its folder and its name there: a name that links to the newest version, as mounted secrets do, stays the same
/// store when the link moves.
pub struct FileStore {
    path: PathBuf,
    id: String,
    state: Mutex<State>,
}

struct State {
    /// The text last looked at, as a hash: a rewrite within one tick of the file's clock is seen too.
    text: Digest,
    values: Values,
    /// Why the file can't be read, when that was warned of already.
    unreadable: Option<String>,
}

type Digest = [u8; 32];

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
        // Absolute, so that a later change of the process's folder moves nothing; links are followed at each look.
        let path = std::path::absolute(&path).unwrap_or(path);
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
            id: format!("file:{}", identity(&path).display()),
            path,
            state: Mutex::new(State {
                text: digest(&text),
                values,
                unreadable: None,
            }),
        })
    }

    fn look(&self, name: &str) -> Option<SecretString> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        // The file is small and local: reading it whole is cheaper to trust than its time stamps. Read under the lock, so that
        // an older text never replaces a newer one.
        match read(&self.path) {
            Ok(text) => {
                state.unreadable = None;
                let digest = digest(&text);
                if digest != state.text {
                    state.text = digest;
                    match parse(&text) {
                        Ok(values) => state.values = values,
                        Err(problem) => tracing::warn!(
                            file = %self.path.display(),
                            "the secrets file is broken, its last good values stay: {problem}"
                        ),
                    }
                }
            }
            Err(e) => {
                let problem = Some(e.to_string());
                if state.unreadable != problem {
                    state.unreadable = problem;
                    tracing::warn!(
                        file = %self.path.display(),
                        "the secrets file can't be read, its last good values stay: {e}"
                    );
                }
            }
        }
        state.values.get(name).cloned()
    }
}

/// The folder without links, and the name in it.
fn identity(path: &Path) -> PathBuf {
    match (path.parent().map(Path::canonicalize), path.file_name()) {
        (Some(Ok(folder)), Some(name)) => folder.join(name),
        _ => path.to_owned(),
    }
}

/// A secrets file is small; a bound keeps a wrong path from being read for ever.
const MAX_BYTES: u64 = 1 << 20;

fn read(path: &Path) -> std::io::Result<Vec<u8>> {
    use std::io::Read as _;
    // Before it is opened: opening a pipe would wait for its writer.
    if !std::fs::metadata(path)?.is_file() {
        return Err(std::io::Error::other("not a file"));
    }
    let mut text = Vec::new();
    std::fs::File::open(path)?
        .take(MAX_BYTES + 1)
        .read_to_end(&mut text)?;
    if text.len() as u64 > MAX_BYTES {
        return Err(std::io::Error::other("larger than 1 MiB"));
    }
    Ok(text)
}

fn digest(text: &[u8]) -> Digest {
    Sha256::digest(text).into()
}

/// Problems are told by position: a parser's own words could quote a value.
fn parse(text: &[u8]) -> Result<Values, String> {
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    let written: Written = serde_json::from_slice(text).map_err(|e| {
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
        match self.look(name) {
            None => Ok(false),
            // What no header can carry is found when the handle is built, not at its first call.
            Some(value) => match problem(value.expose_secret()) {
                Some(problem) => Err(Error::new(Kind::Config, problem)),
                None => Ok(true),
            },
        }
    }

    async fn get(&self, name: &str) -> Result<Option<SecretString>> {
        Ok(self.look(name))
    }
}
