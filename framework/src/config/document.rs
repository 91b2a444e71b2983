//! The whole document: named entries and where secrets are.

use serde_json::Value;

use super::entry::EntryConfig;
use super::fields::{Fields, join, shown};
use super::tree::{self, Tree};
use crate::error::{Error, Result};
use crate::provider::Operation;

const SECTIONS: [(&str, Operation); 3] = [
    ("embedders", Operation::Embed),
    ("generators", Operation::Generate),
    ("rerankers", Operation::Rerank),
];

/// Where editors look for the schema of a document. It says nothing about the document itself.
const SCHEMA: &str = "$schema";

/// A parsed document.
#[derive(Clone, Debug, Default)]
pub struct Document {
    /// The entries, section by section, in the order they stand.
    pub entries: Vec<EntryConfig>,
    /// The secrets file, as written; relative to the document's folder.
    pub secrets_file: Option<String>,
}

impl Document {
    /// Parses a document of named entries.
    ///
    /// # Errors
    /// `config` naming the path, the value and what is allowed.
    pub fn parse(text: &str) -> Result<Self> {
        Self::from_value(tree::parse(text)?, None, |_, _| true)
    }

    /// [`Document::parse`] over bytes.
    ///
    /// # Errors
    /// As for [`Document::parse`], and when the bytes are not UTF-8.
    pub fn from_slice(bytes: &[u8]) -> Result<Self> {
        let text = std::str::from_utf8(bytes)
            .map_err(|e| Error::config("configuration", format!("not UTF-8: {e}")))?;
        Self::parse(text)
    }

    /// Parses a document where entries of one operation are needed: one that is itself an entry (it has `provider`) is taken as
    /// that. Entries of other operations, and those that `used` says no to, are not looked at.
    ///
    /// # Errors
    /// As for [`Document::parse`].
    pub fn parse_for(
        operation: Operation,
        text: &str,
        used: impl Fn(&str) -> bool,
    ) -> Result<Self> {
        Self::from_value(tree::parse(text)?, Some(operation), |o, name| {
            o == operation && used(name)
        })
    }

    fn from_value(
        mut tree: Tree,
        bare: Option<Operation>,
        used: impl Fn(Operation, &str) -> bool,
    ) -> Result<Self> {
        take_schema(&mut tree.value)?;
        let value = &tree.value;
        if value.get("provider").is_some() {
            let operation = bare.ok_or_else(|| {
                Error::config(
                    "provider",
                    "this document is one entry, and for which operation isn't said; put it under embedders, generators or \
                     rerankers",
                )
            })?;
            return Ok(Document {
                entries: vec![EntryConfig::from_json(operation, "", tree.value)?],
                secrets_file: None,
            });
        }
        let top = Fields::of("", value)?;
        top.only(&["embedders", "generators", "rerankers", "secrets", SCHEMA])?;
        let mut document = Document::default();
        for (section, operation) in SECTIONS {
            let Some(entries) = top.object(section)? else {
                continue;
            };
            let entries = tree.names(section).filter_map(|n| entries.get_key_value(n));
            for (name, entry) in entries {
                if name.is_empty() {
                    return Err(Error::config(section, "an entry's name is empty"));
                }
                if used(operation, name) {
                    let path = join(section, name);
                    document
                        .entries
                        .push(EntryConfig::from_json(operation, &path, entry.clone())?);
                }
            }
        }
        if let Some(secrets) = top.get("secrets") {
            let secrets = Fields::of("secrets", secrets)?;
            secrets.only(&["file"])?;
            document.secrets_file = secrets.text("file")?;
        }
        Ok(document)
    }

    /// The entry of an operation by name.
    pub fn entry(&self, operation: Operation, name: &str) -> Option<&EntryConfig> {
        self.entries
            .iter()
            .find(|e| e.operation == operation && e.name == name)
    }

    /// The entries of an operation.
    pub fn of(&self, operation: Operation) -> impl Iterator<Item = &EntryConfig> {
        self.entries
            .iter()
            .filter(move |e| e.operation == operation)
    }
}

/// Takes the schema's name out of a document, so that what remains is the same whether or not an editor is told of one. It is a
/// key of the whole document: inside an entry it is as unknown as any other.
fn take_schema(document: &mut Value) -> Result<()> {
    match document.as_object_mut().and_then(|top| top.remove(SCHEMA)) {
        None | Some(Value::Null | Value::String(_)) => Ok(()),
        Some(other) => Err(Error::config(
            SCHEMA,
            format!(
                "{} is not allowed; a text is: the schema's path or URL, which only editors read",
                shown(&other)
            ),
        )),
    }
}
