//! AWS credentials: which source an entry uses, decided once and without network, and loading from that one source.
//!
//! Everything here runs outside the quota: the framework calls [`Loader::load`] single flight before admission, and the requests it
//! makes go through connectors of their own, never the model's. No failure is kept, so a source that was broken recovers with the
//! next load. The SDK's own chain is not used, because it reads the process's environment and not the client's.

mod metadata;
#[cfg(feature = "bedrock-credential-process")]
mod process;
mod profile;
mod sought;
mod source;
mod sts;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use antfly_framework::config::{EntryConfig, Env};
use antfly_framework::http::{MAX_MESSAGE_BYTES, clip};
use antfly_framework::provider::{Credential, Freshness, Validity};
use antfly_framework::secret::ResolvedSecret;
use antfly_framework::{Error, Kind, Result};
use aws_credential_types::Credentials;
use secrecy::SecretString;
use tracing::instrument::WithSubscriber as _;
use tracing::subscriber::NoSubscriber;

pub(super) use profile::Profiles;
pub(super) use source::{BEARER, Source};

use super::connect::Connectors;

/// How long before its expiry a credential is no longer used: a request signed with it must still arrive.
const MARGIN: Duration = Duration::from_secs(60);
/// The same, for the last credentials of a source that gives none.
const LAST_MARGIN: Duration = Duration::from_secs(5);
/// How soon such a source is asked again.
const ASK_AGAIN: Duration = Duration::from_secs(5);
/// A source that tells no expiry (a program, a sign-in) is asked again after this.
const UNTOLD: Duration = Duration::from_secs(15 * 60);

/// Loads from one source.
pub(super) struct Loader {
    pub(super) source: Source,
    /// What else was looked at, where the instance's role is the source because nothing else was there.
    pub(super) sought: Option<String>,
    /// The bearer key, where that is the source.
    pub(super) bearer: Option<ResolvedSecret>,
    pub(super) env: Env,
    /// The client's clock.
    #[cfg(feature = "bedrock-credential-process")]
    pub(super) time: antfly_framework::Time,
    pub(super) region: String,
    /// `AWS_ENDPOINT_URL_STS`.
    pub(super) sts_endpoint: Option<String>,
    /// To STS and the sign-in services: through the proxies of the environment.
    pub(super) services: Connectors,
    /// To metadata endpoints on this machine: never through a proxy.
    pub(super) metadata: Connectors,
    /// The last credentials that tell their expiry.
    pub(super) spare: Mutex<Option<Credentials>>,
}

/// What else was looked at, where the instance's role stands at the end of the chain.
pub(super) fn sought_before(
    source: &Source,
    entry: &EntryConfig,
    env: &Env,
    profiles: &Result<Profiles>,
) -> Result<Option<String>> {
    match source {
        Source::Instance { .. } => sought::sought(entry, env, profiles).map(Some),
        _ => Ok(None),
    }
}

impl Loader {
    /// What the source gives now. Where it gives nothing and was not told to do better than the last credentials, those go on as long
    /// as they are good: they are replaced before their end, so a source that fails then has not failed anyone yet.
    pub(super) async fn load(&self, freshness: Freshness) -> Result<Credential> {
        if let Source::Bearer = self.source {
            return Credential::of_key(self.bearer.as_ref()).await;
        }
        match self.keys().await {
            Ok((keys, steady)) => {
                let spare = keys.expiry().is_some().then(|| keys.clone());
                *self.spare.lock().unwrap_or_else(PoisonError::into_inner) = spare;
                let validity = validity(keys.expiry(), steady);
                Ok(credential(keys, validity))
            }
            Err(e) => match (freshness, self.still_good()) {
                (Freshness::Cached, Some((keys, until))) => {
                    tracing::warn!(source = %self.source, "{e}; the last credentials are still good");
                    Ok(credential(keys, Validity::UntilWall(until)))
                }
                _ => Err(e),
            },
        }
    }

    /// The last credentials, and until when they may be used before the source is asked again.
    fn still_good(&self) -> Option<(Credentials, SystemTime)> {
        let keys = self
            .spare
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()?;
        let now = now();
        let end = keys.expiry()?.checked_sub(LAST_MARGIN)?;
        (now < end).then(|| (keys, end.min(now + ASK_AGAIN)))
    }

    async fn keys(&self) -> Result<(Credentials, bool)> {
        // What the SDK logs of its requests and answers here holds tokens: it is not heard.
        let loaded = match self.once().with_subscriber(NoSubscriber::new()).await {
            // A connection that breaks is tried once more, at once: nothing here waits on a clock of its own.
            Err(e) if e.is_retryable() => self.once().with_subscriber(NoSubscriber::new()).await,
            loaded => loaded,
        };
        let named = |kind, what: &str| {
            let what = clip(what, MAX_MESSAGE_BYTES);
            Error::new(
                kind,
                match &self.sought {
                    None => format!("no AWS credentials from {}: {what}", self.source),
                    Some(sought) => format!(
                        "no AWS credentials from {}: {what}. It was asked because nothing else is there: {sought}",
                        self.source
                    ),
                },
            )
        };
        let (keys, steady) =
            loaded.map_err(|e| named(e.kind(), e.message()).with_retryable(e.is_retryable()))?;
        match unsound(&keys) {
            Some(part) => Err(named(Kind::Auth, &format!("their {part} fits no header"))),
            None => Ok((keys, steady)),
        }
    }

    /// One load; and whether what came is a fixed pair of keys, which costs nothing to read again.
    async fn once(&self) -> Result<(Credentials, bool)> {
        match &self.source {
            Source::Bearer => Err(Error::new(Kind::Auth, "a bearer key signs nothing")),
            Source::Environment => Ok((source::keys_of_environment(&self.env)?, true)),
            Source::Profile(name) => {
                let profiles = Profiles::read(&self.env)?;
                self.profile(&profiles, name).await
            }
            Source::WebIdentity(identity) => Ok((self.web_identity(identity).await?, false)),
            Source::Container(endpoint) => Ok((self.container(endpoint).await?, false)),
            Source::Instance { endpoint } => Ok((self.instance(endpoint).await?, false)),
        }
    }
}

/// The part of credentials that can't travel in a header, if there is one. The SDK takes them for granted.
fn unsound(keys: &Credentials) -> Option<&'static str> {
    let travels = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_graphic());
    if !travels(keys.access_key_id()) {
        return Some("key id");
    }
    if !travels(keys.secret_access_key()) {
        return Some("secret key");
    }
    keys.session_token()
        .filter(|token| !travels(token))
        .map(|_| "session token")
}

fn credential(keys: Credentials, validity: Validity) -> Credential {
    let hidden = [Some(keys.secret_access_key()), keys.session_token()];
    let hidden: Vec<SecretString> = hidden
        .into_iter()
        .flatten()
        .map(SecretString::from)
        .collect();
    Credential::typed(Arc::new(keys), validity).hiding(hidden)
}

fn now() -> SystemTime {
    #[allow(clippy::disallowed_methods)]
    // Expiries are told in wall-clock time; the framework turns what is left into its own clock's time.
    SystemTime::now()
}

fn validity(expiry: Option<SystemTime>, steady: bool) -> Validity {
    let now = now();
    match expiry {
        Some(at) => {
            // Of a short-lived one, a part: a credential for five seconds is good for four and a half.
            let left = at.duration_since(now).unwrap_or_default();
            Validity::UntilWall(at.checked_sub(MARGIN.min(left / 10)).unwrap_or(at))
        }
        None if steady => Validity::EachAttempt,
        None => Validity::UntilWall(now + UNTOLD),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn k03_a_credential_ends_before_its_expiry_by_a_margin_that_fits_its_life() {
        #[allow(clippy::disallowed_methods)]
        let now = SystemTime::now();
        let ends = |seconds: u64| match validity(Some(now + Duration::from_secs(seconds)), false) {
            Validity::UntilWall(at) => at.duration_since(now).unwrap_or_default(),
            other => panic!("{other:?}"),
        };
        assert_eq!(ends(3600), Duration::from_secs(3540));
        let short = ends(5);
        assert!(
            short >= Duration::from_millis(4400) && short < Duration::from_millis(4600),
            "{short:?}"
        );
        assert!(matches!(
            validity(Some(now - Duration::from_secs(9)), false),
            Validity::UntilWall(at) if at < now
        ));
        assert_eq!(validity(None, true), Validity::EachAttempt);
    }
}
