//! Credentials, as adapters load them and the attempt loop keeps them.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use antfly_limiter::Instant;
use async_trait::async_trait;
use http::HeaderValue;
use secrecy::{ExposeSecret as _, SecretString};

use crate::error::{Error, Kind, Result};
use crate::secret::ResolvedSecret;

/// How fresh a credential is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freshness {
    /// Whatever is good now.
    Cached,
    /// The provider called the last one expired: load anew.
    Forced,
}

/// How long a credential is good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Validity {
    /// Ask again before each attempt (a key in a store that may be rotated). Asking is cheap.
    EachAttempt,
    /// Good before this instant of the client's clock.
    Until(Instant),
    /// Good before this wall-clock time.
    UntilWall(SystemTime),
    /// The source hides its expiry: it is asked before each attempt and once more just before the claim.
    Hidden,
}

/// A loaded credential. Its secret never appears in `Debug`.
#[derive(Clone)]
pub struct Credential {
    value: Option<Arc<SecretString>>,
    typed: Option<Arc<dyn Any + Send + Sync>>,
    /// Secrets inside the typed value, to be taken out of what a provider says.
    hidden: Arc<[SecretString]>,
    validity: Validity,
    refreshable: bool,
}

impl Credential {
    /// No credential.
    pub fn anonymous() -> Self {
        Credential {
            value: None,
            typed: None,
            hidden: Arc::default(),
            validity: Validity::EachAttempt,
            refreshable: false,
        }
    }

    /// A secret string (a key or a token). `refreshable`: whether asking again could give another one.
    pub fn secret(value: SecretString, validity: Validity, refreshable: bool) -> Self {
        Credential {
            value: Some(Arc::new(value)),
            typed: None,
            hidden: Arc::default(),
            validity,
            refreshable,
        }
    }

    /// What a key's source holds now, or no credential where there is no key. The source is asked before each attempt, so that a
    /// rotated key is used by the next one.
    ///
    /// # Errors
    /// Those of [`ResolvedSecret::value`].
    pub async fn of_key(key: Option<&ResolvedSecret>) -> Result<Self> {
        match key {
            Some(key) => Ok(Credential::secret(
                key.value().await?,
                Validity::EachAttempt,
                key.is_refreshable(),
            )),
            None => Ok(Credential::anonymous()),
        }
    }

    /// The secret as the value of an `authorization: Bearer` header that no log shows; `None` where there is no secret string.
    ///
    /// # Errors
    /// `auth` when no header can carry it.
    pub fn bearer(&self) -> Result<Option<HeaderValue>> {
        let Some(secret) = self.value() else {
            return Ok(None);
        };
        let mut value = HeaderValue::try_from(format!("Bearer {}", secret.expose_secret()))
            .map_err(|_| {
                Error::new(
                    Kind::Auth,
                    "the key holds a character that no header can carry",
                )
            })?;
        value.set_sensitive(true);
        Ok(Some(value))
    }

    /// A credential of an SDK's own type.
    pub fn typed(value: Arc<dyn Any + Send + Sync>, validity: Validity) -> Self {
        Credential {
            value: None,
            typed: Some(value),
            hidden: Arc::default(),
            validity,
            refreshable: true,
        }
    }

    /// Names the secrets inside a typed credential. Errors never show them, even where the provider repeats them.
    #[must_use]
    pub fn hiding(mut self, secrets: impl IntoIterator<Item = SecretString>) -> Self {
        self.hidden = secrets.into_iter().collect();
        self
    }

    /// The secret string, where it is one.
    pub fn value(&self) -> Option<&SecretString> {
        self.value.as_deref()
    }

    /// Every secret this credential is known to hold.
    pub(crate) fn secrets(&self) -> impl Iterator<Item = &SecretString> {
        self.value().into_iter().chain(self.hidden.iter())
    }

    /// The SDK's own value, where it is one of type `T`.
    pub fn downcast<T: Any>(&self) -> Option<&T> {
        self.typed.as_deref().and_then(|v| v.downcast_ref())
    }

    /// How long it is good.
    pub fn validity(&self) -> Validity {
        self.validity
    }

    /// Whether asking again could give another one.
    pub fn is_refreshable(&self) -> bool {
        self.refreshable
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credential")
            .field("validity", &self.validity)
            .field("refreshable", &self.refreshable)
            .finish_non_exhaustive()
    }
}

/// Loads credentials, outside the quota. The framework calls it single-flight and keeps what it returns as long as it is good.
#[async_trait]
pub trait CredentialProvider: Send + Sync {
    /// A credential that is good now. Errors are of kind `auth` (or `transport` where a token endpoint can't be reached).
    async fn credential(&self, freshness: Freshness) -> Result<Credential>;
}
