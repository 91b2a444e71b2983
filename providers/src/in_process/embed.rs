//! Texts to vectors.

use std::path::Path;

use antfly_framework::config::EntryConfig;
use antfly_framework::embed::{EmbedRequest, Embeddings};
use antfly_framework::{Error, Kind, Result};

use super::admission::CancelFlag;
use super::encoder::Encoder;

/// What an entry says about embedding.
#[derive(Clone, Debug)]
pub(super) struct EmbedSettings {}

impl EmbedSettings {
    pub(super) fn of(_entry: &EntryConfig, _folder: &Path) -> Result<Self> {
        Ok(EmbedSettings {})
    }
}

impl Encoder {
    pub(super) fn embed(
        &self,
        _request: &EmbedRequest,
        _settings: &EmbedSettings,
        _cancel: &CancelFlag,
    ) -> Result<Embeddings> {
        Err(Error::new(Kind::Unsupported, "not here yet"))
    }
}
