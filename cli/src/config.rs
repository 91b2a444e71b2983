//! The configuration: read once, and looked at only where it is used.

use std::cell::RefCell;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use antfly_framework::config::nearest;
use antfly_framework::{ClientBuilder, Document, EntryConfig, Error, Operation};

use crate::args::Stream;
use crate::run::Fatal;

const SECTIONS: [(&str, Operation); 3] = [
    ("embedders", Operation::Embed),
    ("generators", Operation::Generate),
    ("rerankers", Operation::Rerank),
];

/// A builder of clients that know every plugin of this binary and, where it was built with them, the models in this process.
pub(crate) fn client_builder() -> Result<ClientBuilder, Fatal> {
    Ok(with_engine(antfly_providers::client_builder()?)?)
}

#[cfg(feature = "in-process")]
fn with_engine(builder: ClientBuilder) -> Result<ClientBuilder, Error> {
    use antfly_providers::{Env, in_process::Engine};
    Ok(match Engine::from_env(&Env::process())? {
        Some(engine) => builder.engine(std::sync::Arc::new(engine)),
        None => builder,
    })
}

#[cfg(not(feature = "in-process"))]
fn with_engine(builder: ClientBuilder) -> Result<ClientBuilder, Error> {
    Ok(builder)
}

/// A configuration's text and where it came from.
pub(crate) struct Loaded {
    text: String,
    /// As messages name it.
    name: String,
    /// What paths inside it are relative to.
    folder: PathBuf,
}

impl Loaded {
    pub(crate) fn read(source: &Stream) -> Result<Self, Fatal> {
        let (name, folder, text) = match source {
            Stream::Standard => {
                let mut text = String::new();
                let read = io::stdin().read_to_string(&mut text);
                (
                    "standard input".to_owned(),
                    Path::new("."),
                    read.map(|_| text),
                )
            }
            Stream::File(path) => {
                let folder = path.parent().filter(|p| !p.as_os_str().is_empty());
                let text = std::fs::read_to_string(path);
                (
                    path.display().to_string(),
                    folder.unwrap_or(Path::new(".")),
                    text,
                )
            }
        };
        match text {
            Ok(text) => Ok(Loaded {
                text: text.trim_start_matches('\u{feff}').to_owned(),
                name,
                folder: folder.to_owned(),
            }),
            Err(error) => Err(format!("{name}: {error}").into()),
        }
    }

    /// A builder of clients that have this configuration's secrets.
    pub(crate) fn client_builder(&self, operation: Operation) -> Result<ClientBuilder, Fatal> {
        let document = self.parse(operation, |_| false)?;
        Ok(client_builder()?.document(&document, &self.folder))
    }

    /// The file of this configuration's secrets.
    pub(crate) fn secrets_file(&self, operation: Operation) -> Result<Option<PathBuf>, Fatal> {
        let document = self.parse(operation, |_| false)?;
        Ok(document.secrets_file.map(|file| self.folder.join(file)))
    }

    /// The entries of an operation that are named; without names, the only one.
    pub(crate) fn entries(
        &self,
        operation: Operation,
        names: &[String],
    ) -> Result<Vec<EntryConfig>, Fatal> {
        let known = self.names(operation)?;
        let names = match (names, known.as_slice()) {
            ([], [only]) => std::slice::from_ref(only),
            ([], _) if self.is_bare() => return Ok(self.parse(operation, |_| true)?.entries),
            (_, _) if self.is_bare() => {
                return self
                    .refuse("the document is one entry, which has no name; leave --name out");
            }
            ([], []) => return self.refuse(format!("there is no entry for {operation}")),
            ([], _) => {
                let problem = format!(
                    "pick one of several entries with --name: {}",
                    known.join(", ")
                );
                return self.refuse(problem);
            }
            (names, _) => names,
        };
        let entry = |name: &String| {
            if !known.contains(name) {
                let hint = match nearest(name, known.iter().map(String::as_str)) {
                    Some(near) => format!("; did you mean {near:?}?"),
                    None => String::new(),
                };
                let known = if known.is_empty() {
                    "none".to_owned()
                } else {
                    known.join(", ")
                };
                return self.refuse(format!(
                    "no entry {name:?} for {operation}{hint} (there are: {known})"
                ));
            }
            self.one(operation, name).map_err(Fatal::from)
        };
        names.iter().map(entry).collect()
    }

    /// Every entry, each looked at on its own.
    pub(crate) fn all(&self) -> Result<Vec<Result<EntryConfig, Error>>, Fatal> {
        let mut all = Vec::new();
        // Read once, not once an entry: documents may be long.
        let mut top: serde_json::Value = match serde_json::from_str(&self.text) {
            Ok(top) => top,
            Err(error) => return self.refuse(error),
        };
        for (section, operation) in SECTIONS {
            // This finds what is wrong with the document as a whole.
            for name in self.names(operation)? {
                let path = format!("{section}.{name}");
                let entry = top[section][&name].take();
                all.push(EntryConfig::from_json(operation, &path, entry));
            }
        }
        Ok(all)
    }

    /// Refuses a document that is itself one entry: its operation is nowhere said.
    pub(crate) fn refuse_bare(&self) -> Result<(), Fatal> {
        match self.is_bare() {
            true => self.refuse(match Document::parse(&self.text) {
                Ok(_) => "the document is one entry".to_owned(),
                Err(error) => error.to_string(),
            }),
            false => Ok(()),
        }
    }

    fn is_bare(&self) -> bool {
        serde_json::from_str::<serde_json::Value>(&self.text)
            .is_ok_and(|top| top.get("provider").is_some())
    }

    fn names(&self, operation: Operation) -> Result<Vec<String>, Fatal> {
        let names = RefCell::new(Vec::new());
        if !self.is_bare() {
            self.parse(operation, |name| {
                names.borrow_mut().push(name.to_owned());
                false
            })?;
        }
        Ok(names.into_inner())
    }

    fn one(&self, operation: Operation, name: &str) -> Result<EntryConfig, Error> {
        let document = Document::parse_for(operation, &self.text, |n| n == name)?;
        let missing = || Error::config(name, format!("there is no such entry for {operation}"));
        document.entries.into_iter().next().ok_or_else(missing)
    }

    fn parse(&self, operation: Operation, used: impl Fn(&str) -> bool) -> Result<Document, Fatal> {
        Document::parse_for(operation, &self.text, used)
            .or_else(|error| self.refuse(error.to_string()))
    }

    fn refuse<T>(&self, problem: impl std::fmt::Display) -> Result<T, Fatal> {
        Err(format!("{}: {problem}", self.name).into())
    }
}
