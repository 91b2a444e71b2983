//! Entries whose model may be far away or in this process: the decision, made before any key is looked at, and the local route.

use std::sync::Arc;

use super::{
    Declared, Identity, InferenceEngine, LocalProvider, Provider, Route, Setup, TokenCost,
};
use crate::error::{Error, Result};
use crate::http::Endpoint;
use crate::secret::CredentialSource;

/// A service whose models can also run in this process: where it is when the entry does not say.
#[derive(Clone, Copy, Debug)]
pub struct Service {
    /// The environment variable of its URL.
    pub url_variable: &'static str,
    /// Its URL where neither entry nor environment has one.
    pub default_url: &'static str,
    /// What a URL without a path gets.
    pub default_path: &'static str,
}

/// Where an entry's requests go.
#[derive(Debug)]
pub enum Place<'a> {
    /// To this endpoint.
    Remote(Endpoint),
    /// To the client's engine.
    InProcess(&'a Arc<dyn InferenceEngine>),
}

impl Service {
    /// Where the entry goes: `url`, or the environment's, makes it remote; else it is in-process when the client has an engine
    /// that knows its model for its operation; else it is remote at the default. No key is looked at.
    ///
    /// # Errors
    /// `config` for a bad URL, and for a field that means nothing at that place.
    pub fn place<'a>(&self, setup: &Setup<'a>) -> Result<Place<'a>> {
        let entry = setup.entry;
        let told = match &entry.url {
            Some(url) => Some((entry.field("url"), url.clone())),
            None => setup
                .env
                .get(self.url_variable)?
                .map(|url| (self.url_variable.to_owned(), url)),
        };
        let because = match (&told, setup.engine) {
            (Some((name, _)), _) => format!("{name} is set"),
            (None, Some(engine)) if engine.knows(entry.operation, &entry.model) => {
                return Ok(Place::InProcess(engine));
            }
            (None, Some(_)) => format!(
                "this client's engine has no model {:?} for {}",
                entry.model, entry.operation
            ),
            (None, None) => "this client has no engine for models in the process".to_owned(),
        };
        for (key, is_set) in [
            ("model_path", entry.model_path.is_some()),
            ("admission", entry.admission.is_some()),
            ("scoring", entry.rerank.scoring.is_some()),
        ] {
            if is_set {
                return Err(Error::config(
                    entry.field(key),
                    format!(
                        "this field is for models in the process, and this entry is remote, because {because}"
                    ),
                ));
            }
        }
        let (name, url) = told.unwrap_or_else(|| (String::new(), self.default_url.to_owned()));
        Endpoint::parse(&url)
            .map(|endpoint| Place::Remote(endpoint.with_default_path(self.default_path)))
            .map_err(|e| Error::config(name, e.message()))
    }

    /// The local route of an entry whose place is in-process. No key is looked at, and no outbound limit is taken.
    ///
    /// # Errors
    /// `config` for fields that only a remote entry has, and whatever the engine says.
    pub fn in_process(&self, setup: &Setup<'_>, engine: &dyn InferenceEngine) -> Result<InProcess> {
        let entry = setup.entry;
        entry.refuse_fields_not_in(&["api_key", "model_path", "admission", "scoring"])?;
        let limits = [
            (
                "rate_limit",
                entry.rate_limit.is_some_and(|p| !p.is_unlimited()),
            ),
            (
                "requests_per_minute",
                entry.legacy.requests_per_minute.is_some(),
            ),
            ("burst", entry.legacy.burst.is_some()),
        ];
        if let Some((key, _)) = limits.into_iter().find(|(_, is_set)| *is_set) {
            let variable = self.url_variable;
            return Err(Error::config(
                entry.field(key),
                format!(
                    "this entry runs in-process, because neither url nor {variable} is set and this client's engine has model \
                     {:?}; an in-process model has its own admission and takes no outbound limit. Set url (or {variable}) to \
                     make the entry remote, or remove {key}",
                    entry.model
                ),
            ));
        }
        let model = engine.open(entry)?;
        Ok(InProcess {
            declared: Declared::new(
                Identity::new(entry, "in-process"),
                CredentialSource::anonymous(),
                TokenCost::Text,
                model.media(),
                // There is no token budget that would need one.
                0,
            ),
            model,
        })
    }
}

/// An entry that the client's engine answers: nothing leaves, and it has no credential.
#[derive(Debug)]
pub struct InProcess {
    declared: Declared,
    model: Arc<dyn LocalProvider>,
}

impl Provider for InProcess {
    fn declare(&self) -> &Declared {
        &self.declared
    }

    fn route(&self) -> Route<'_> {
        Route::Local(&*self.model)
    }
}
