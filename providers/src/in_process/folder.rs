//! A model's folder: which of its files there are, and what the small ones say. Errors name the file.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};

use antfly_framework::{Error, Kind, Operation, Result};
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// No small file of a model is larger, in bytes.
const LARGEST_JSON: u64 = 256 << 20;

/// How a model turns text into tokens.
pub(super) const TOKENIZER: &str = "tokenizer.json";

/// A folder of local weights.
#[derive(Clone, Copy, Debug)]
pub(super) struct Folder<'a> {
    path: &'a Path,
}

#[derive(Deserialize)]
struct Architectures {
    #[serde(default)]
    architectures: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct Shards {
    weight_map: std::collections::BTreeMap<String, String>,
}

impl<'a> Folder<'a> {
    pub(super) fn new(path: &'a Path) -> Self {
        Folder { path }
    }

    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Whether the files for `operation` are there.
    pub(super) fn serves(&self, operation: Operation) -> bool {
        match operation {
            Operation::Embed => self.has_encoder() && !self.is_classifier(),
            Operation::Rerank => self.has_encoder(),
            Operation::Generate => self.has_gguf(),
            _ => false,
        }
    }

    fn has_encoder(&self) -> bool {
        ["model.safetensors", "model.safetensors.index.json"]
            .iter()
            .any(|name| self.file(name).is_file())
            && self.file("config.json").is_file()
    }

    fn has_gguf(&self) -> bool {
        let is_gguf = |path: &Path| path.extension().is_some_and(|e| e == "gguf");
        std::fs::read_dir(self.path)
            .is_ok_and(|files| files.flatten().any(|file| is_gguf(&file.path())))
    }

    /// Whether the model ends in a head that scores a pair of texts.
    pub(super) fn is_classifier(&self) -> bool {
        let named = |c: Architectures| {
            (c.architectures.iter().flatten()).any(|a| a.ends_with("ForSequenceClassification"))
        };
        self.json("config.json").is_ok_and(named)
    }

    /// A file's JSON.
    ///
    /// # Errors
    /// `config` naming the file: it is missing, can't be read, or is something else.
    pub(super) fn json<T: DeserializeOwned>(&self, name: &str) -> Result<T> {
        self.json_if_there(name)?.ok_or_else(|| self.missing(name))
    }

    /// The same of a file that need not be there.
    pub(super) fn json_if_there<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>> {
        match self.bytes_if_there(name)? {
            None => Ok(None),
            Some(bytes) => serde_json::from_slice(&bytes)
                .map(Some)
                .map_err(|e| self.bad(name, e)),
        }
    }

    fn bytes_if_there(&self, name: &str) -> Result<Option<Vec<u8>>> {
        let path = self.file(name);
        match std::fs::metadata(&path) {
            Ok(m) if m.len() > LARGEST_JSON => {
                return Err(self.bad(name, format!("{} bytes are too many", m.len())));
            }
            _ => {}
        }
        match std::fs::read(&path) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
            Err(e) => Err(self.bad(name, e)),
        }
    }

    /// A file that must be there, by its bytes.
    pub(super) fn bytes(&self, name: &str) -> Result<Vec<u8>> {
        self.bytes_if_there(name)?.ok_or_else(|| self.missing(name))
    }

    /// The weights: one file, or the shards that an index lists, each once and sorted.
    pub(super) fn weights(&self) -> Result<Vec<PathBuf>> {
        const ONE: &str = "model.safetensors";
        const INDEX: &str = "model.safetensors.index.json";
        if self.file(ONE).is_file() {
            return Ok(vec![self.file(ONE)]);
        }
        let Some(shards) = self.json_if_there::<Shards>(INDEX)? else {
            return Err(self.missing(ONE));
        };
        let names: BTreeSet<String> = shards.weight_map.into_values().collect();
        let mut files = Vec::with_capacity(names.len());
        for name in names {
            let stays = Path::new(&name)
                .components()
                .all(|c| matches!(c, Component::Normal(_)));
            if !stays {
                return Err(self.bad(INDEX, format!("{name:?} is no file of this folder")));
            }
            if !self.file(&name).is_file() {
                return Err(self.missing(&name));
            }
            files.push(self.file(&name));
        }
        if files.is_empty() {
            return Err(self.bad(INDEX, "it lists no file"));
        }
        Ok(files)
    }

    /// Whether the files that an encoder is loaded from are there. Reads none of them but the index of shards.
    ///
    /// # Errors
    /// `config` naming the first that is not.
    pub(super) fn is_whole(&self) -> Result<()> {
        self.weights()?;
        if self.file(TOKENIZER).is_file() {
            Ok(())
        } else {
            Err(self.missing(TOKENIZER))
        }
    }

    /// The error of a file that is not there.
    pub(super) fn missing(&self, name: &str) -> Error {
        Error::new(
            Kind::Config,
            format!("the model's file {} is missing", self.file(name).display()),
        )
    }

    /// The error of a file that is something else than it should be.
    pub(super) fn bad(&self, name: &str, what: impl std::fmt::Display) -> Error {
        Error::new(
            Kind::Config,
            format!(
                "the model's file {} can't be used: {what}",
                self.file(name).display()
            ),
        )
    }
}
