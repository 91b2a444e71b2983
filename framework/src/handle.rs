//! What every clone of a handle shares: the adapter, its entry, its lease on the scope, and the ways out.

use std::sync::Arc;

use antfly_limiter::{Lease, Time};
use http::HeaderMap;
use secrecy::ExposeSecret as _;

use crate::attempt::{AttemptObserver, CredentialCell, Jitter};
use crate::config::EntryConfig;
use crate::error::{Error, Kind, Result};
use crate::http::{Redactor, Transport};
use crate::provider::{Credential, Provider};

#[derive(Debug)]
pub(crate) struct Handle {
    pub(crate) provider: Arc<dyn Provider>,
    pub(crate) entry: EntryConfig,
    pub(crate) lease: Lease,
    pub(crate) time: Time,
    pub(crate) credentials: CredentialCell,
    pub(crate) observer: Option<Arc<dyn AttemptObserver>>,
    pub(crate) jitter: Arc<Jitter>,
    /// The entry's extra headers.
    pub(crate) headers: HeaderMap,
    /// The way out of an HTTP route; none on the others.
    pub(crate) transport: Option<Transport>,
}

impl Handle {
    pub(crate) fn transport(&self) -> Result<&Transport> {
        self.transport
            .as_ref()
            .ok_or_else(|| Error::new(Kind::Config, "this entry has no HTTP route"))
    }

    /// Takes the credential, and whatever looks like one, out of what a provider said.
    pub(crate) fn scrub(&self, error: Error, credential: &Credential) -> Error {
        let keys = credential.secrets().map(|v| v.expose_secret());
        // Extra headers may hold what is confidential too; short ones are ordinary words.
        let extra = self.headers.values().filter_map(|v| v.to_str().ok());
        let redactor = Redactor::new(keys.chain(extra.filter(|v| v.len() >= 8)));
        error.map_text(|text| redactor.scrub(text))
    }
}
