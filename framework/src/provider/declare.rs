//! What an adapter declares: whose quota its attempts use, and what they cost.

use std::fmt;

use antfly_limiter::ScopeKey;

use super::Operation;
use super::prepared::Prepared;
use crate::config::EntryConfig;
use crate::content::MediaSupport;
use crate::secret::CredentialSource;

/// Everything an adapter must declare. Its constructor takes all of it, so that a new declaration can't be forgotten.
#[derive(Clone, Debug)]
pub struct Declared {
    /// Whose quota attempts use.
    pub identity: Identity,
    /// Where the secret comes from; never the secret.
    pub credential: CredentialSource,
    /// How attempts are priced against `tokens_per_minute`.
    pub cost: TokenCost,
    /// What the model takes besides text.
    pub media: MediaSupport,
    /// The generator's output cap where the caller gives none and one is needed, in tokens.
    pub default_output_cap: u32,
}

impl Declared {
    /// All declarations at once. `default_output_cap` counts only for generators (1024 unless the provider has its own).
    pub fn new(
        identity: Identity,
        credential: CredentialSource,
        cost: TokenCost,
        media: MediaSupport,
        default_output_cap: u32,
    ) -> Self {
        Declared {
            identity,
            credential,
            cost,
            media,
            default_output_cap,
        }
    }

    /// The scope these declarations share: an injective key over field names and values.
    pub fn scope(&self) -> ScopeKey {
        ScopeKey::new(self.fields())
    }

    /// The scope's fields in order, as `check` shows them.
    pub fn fields(&self) -> Vec<(&'static str, String)> {
        let i = &self.identity;
        let mut fields = vec![
            ("provider", i.provider.clone()),
            ("endpoint", i.endpoint.clone()),
            ("operation", i.operation.as_str().to_owned()),
            ("model", i.model.clone()),
            ("credential", self.credential.to_string()),
        ];
        fields.extend(i.extra.iter().map(|(name, value)| (*name, value.clone())));
        fields
    }
}

/// The identity of a scope, all of it effective: after defaults and environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The plugin's name.
    pub provider: String,
    /// The normalised endpoint.
    pub endpoint: String,
    /// The operation.
    pub operation: Operation,
    /// The effective model.
    pub model: String,
    /// Project, region, location: whatever else decides whose quota it is.
    pub extra: Vec<(&'static str, String)>,
}

impl Identity {
    /// What most adapters declare: the entry's provider, operation and model at an endpoint, and nothing else. The endpoint
    /// must be the effective one, normalised.
    pub fn new(entry: &EntryConfig, endpoint: impl fmt::Display) -> Self {
        Identity {
            provider: entry.provider.clone(),
            endpoint: endpoint.to_string(),
            operation: entry.operation,
            model: entry.model.clone(),
            extra: Vec::new(),
        }
    }

    /// Adds a field that decides whose quota it is (`project`, `region`, `location`).
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.extra.push((name, value.into()));
        self
    }
}

/// How an attempt is priced. Never below the serialised body's bytes plus the output cap.
#[derive(Clone, Copy, Debug)]
pub enum TokenCost {
    /// Body bytes plus output cap.
    Text,
    /// The larger of [`TokenCost::Text`] and this.
    AtLeast(fn(&Prepared) -> u64),
}

impl TokenCost {
    /// The cost of one attempt, in tokens.
    pub fn of(self, prepared: &Prepared) -> u64 {
        let text = (prepared.body.len() as u64).saturating_add(prepared.output_cap);
        match self {
            TokenCost::Text => text,
            TokenCost::AtLeast(own) => text.max(own(prepared)),
        }
    }
}
