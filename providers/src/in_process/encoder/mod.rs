//! Texts to hidden states.

use std::path::Path;

use antfly_framework::{Error, Kind, Result};

use super::folder::Folder;

/// A loaded encoder.
#[derive(Debug)]
pub(super) struct Encoder {}

impl Encoder {
    pub(super) fn load(path: &Path) -> Result<Self> {
        let folder = Folder::new(path);
        folder.weights()?;
        folder.bytes("tokenizer.json")?;
        Err(Error::new(Kind::Unsupported, "not here yet"))
    }
}
