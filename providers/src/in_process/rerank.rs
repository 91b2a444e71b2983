//! Documents scored against a query.

use std::path::Path;

use antfly_framework::config::{EntryConfig, Scoring};
use antfly_framework::rerank::{Ranking, RerankRequest};
use antfly_framework::{Error, Kind, Result};

use super::admission::CancelFlag;
use super::config;
use super::encoder::Encoder;

/// What an entry says about reranking.
#[derive(Clone, Debug)]
pub(super) struct RerankSettings {
    pub(super) scoring: Scoring,
}

impl RerankSettings {
    pub(super) fn of(entry: &EntryConfig, _folder: &Path) -> Result<Self> {
        Ok(RerankSettings {
            scoring: config::scoring(entry),
        })
    }
}

impl Encoder {
    pub(super) fn rerank(
        &self,
        _request: &RerankRequest,
        settings: &RerankSettings,
        _cancel: &CancelFlag,
    ) -> Result<Ranking> {
        Err(Error::new(
            Kind::Unsupported,
            format!("{:?}: not here yet", settings.scoring),
        ))
    }
}
