//! Tokens through google-cloud-auth.
//!
//! It refreshes in the background, minutes before a token expires, on the runtime its credentials were built on; once that runtime
//! is gone it panics in whoever asks. So its credentials live on a small runtime of this module's own, which outlives every caller's.
//! A token that is there is handed out at the first poll; one that must be fetched is fetched by a task there, within a bound.

use std::future::Future as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use antfly_framework::http::{Redactor, clip};
use antfly_framework::{Error, Kind, Result};
use google_cloud_auth::credentials::{
    AccessToken, AccessTokenCredentials, external_account, external_account_authorized_user,
    impersonated, mds, service_account, user_account,
};
use google_cloud_auth::errors::CredentialsError;
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::Value;
use tokio::runtime::Handle;

use super::source::{FileKind, Source};

const SCOPE: &str = "https://www.googleapis.com/auth/cloud-platform";
/// How long a token endpoint may take before its credentials are given up and built anew by whoever asks next.
const PATIENCE: Duration = Duration::from_secs(60);
/// The longest account of what went wrong.
const MESSAGE_BYTES: usize = 600;

/// The tokens of one source.
pub(super) struct Tokens {
    source: Source,
    built: Mutex<Option<Arc<Built>>>,
    patience: Duration,
}

/// Credentials of google-cloud-auth, and the secrets that no error may show.
struct Built {
    credentials: AccessTokenCredentials,
    redactor: Redactor,
    /// Whether a token has come from them.
    delivered: AtomicBool,
    /// When their first token was first waited for: whoever waits later waits no longer.
    asked: OnceLock<Instant>,
}

impl Tokens {
    /// The tokens of a source: the same for all handles that use it, so that an embedder and a generator share one.
    pub(super) fn of(source: Source) -> Arc<Self> {
        static ALL: Mutex<Vec<Weak<Tokens>>> = Mutex::new(Vec::new());
        let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|tokens| tokens.strong_count() > 0);
        let mut known = all.iter().filter_map(Weak::upgrade);
        if let Some(tokens) = known.find(|tokens| tokens.source == source) {
            return tokens;
        }
        let tokens = Arc::new(Tokens::new(source, PATIENCE));
        all.push(Arc::downgrade(&tokens));
        tokens
    }

    fn new(source: Source, patience: Duration) -> Self {
        Tokens {
            source,
            built: Mutex::new(None),
            patience,
        }
    }

    /// A token that is good now, and not the one that was `refused`. Ready at the first poll when one is there.
    ///
    /// # Errors
    /// `auth`, or `transport` when a token endpoint can't be reached or is out of order for the moment. Either way the credentials
    /// are built anew next time: no failure is kept.
    pub(super) async fn token(
        self: &Arc<Self>,
        refused: Option<&SecretString>,
    ) -> Result<SecretString> {
        let (mut built, new) = self.built()?;
        let mut told = built.look();
        let is_stale = match &told {
            // Another handle of this source may have replaced it already.
            Some(Ok(token)) => refused.is_some_and(|r| r.expose_secret() == token.token),
            // A failure that came before this call.
            Some(Err(_)) => !new,
            // The last token has expired, and the library takes its time to ask for another.
            None => built.delivered.load(Ordering::Relaxed),
        };
        if is_stale {
            self.give_up(&built);
            (built, _) = self.built()?;
            told = built.look();
        }
        let told = match told {
            Some(Ok(token)) => checked(token),
            Some(Err(error)) => Err(failed(&error, &built.redactor)),
            None => return self.fetch(&built).await,
        };
        match &told {
            Ok(_) => built.delivered.store(true, Ordering::Relaxed),
            Err(_) => self.give_up(&built),
        }
        told
    }

    /// Waits for a token on the module's own runtime, where a panic of the library's stays. What failed is given up there as well:
    /// whoever asked may have gone by then.
    async fn fetch(self: &Arc<Self>, built: &Arc<Built>) -> Result<SecretString> {
        let (tokens, waiting) = (Arc::clone(self), Arc::clone(built));
        let asked = Arc::clone(built);
        let patience = self.patience;
        let end = *built.asked.get_or_init(Instant::now) + patience;
        let task = runtime()?.spawn(async move {
            let asking = tokio::spawn(async move {
                tokio::time::timeout_at(end.into(), asked.credentials.access_token()).await
            });
            let told = match asking.await {
                Ok(Ok(Ok(token))) => checked(token),
                Ok(Ok(Err(error))) => Err(failed(&error, &waiting.redactor)),
                Ok(Err(_)) => Err(Error::new(
                    Kind::Transport,
                    format!("no token came from Google's token endpoint within {patience:?}"),
                )),
                Err(_) => Err(unusable()),
            };
            match &told {
                Ok(_) => waiting.delivered.store(true, Ordering::Relaxed),
                Err(_) => tokens.give_up(&waiting),
            }
            told
        });
        task.await.unwrap_or_else(|_| Err(unusable()))
    }

    /// The credentials that there are, or new ones (and whether they are): after a failure, or at first.
    fn built(&self) -> Result<(Arc<Built>, bool)> {
        let mut built = self.built.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(built) = &*built {
            return Ok((Arc::clone(built), false));
        }
        let new = Arc::new(build(&self.source)?);
        *built = Some(Arc::clone(&new));
        Ok((new, true))
    }

    /// Forgets credentials that failed, unless someone has built others meanwhile.
    fn give_up(&self, failed: &Arc<Built>) {
        let mut built = self.built.lock().unwrap_or_else(PoisonError::into_inner);
        if built
            .as_ref()
            .is_some_and(|built| Arc::ptr_eq(built, failed))
        {
            *built = None;
        }
    }
}

impl Built {
    /// What there is at the first poll.
    fn look(&self) -> Option<Told> {
        let poll = || {
            let mut asked = pin!(self.credentials.access_token());
            let mut context = Context::from_waker(Waker::noop());
            asked.as_mut().poll(&mut context)
        };
        // The library panics in whoever asks once its own refresh has, as it does when it can't add up an expiry.
        match catch_unwind(AssertUnwindSafe(poll)) {
            Ok(Poll::Ready(told)) => Some(told),
            Ok(Poll::Pending) => None,
            Err(_) => Some(Err(CredentialsError::from_msg(false, UNUSABLE))),
        }
    }
}

type Told = std::result::Result<AccessToken, CredentialsError>;

const UNUSABLE: &str = "google-cloud-auth could not use what the token endpoint answered";

fn unusable() -> Error {
    Error::new(Kind::Auth, UNUSABLE)
}

/// A token that a header can carry. Another one would be kept, and fail every attempt after its admission, until it expires.
fn checked(token: AccessToken) -> Result<SecretString> {
    let fits = |byte: u8| byte.is_ascii_graphic();
    if token.token.is_empty() || !token.token.bytes().all(fits) {
        return Err(Error::new(
            Kind::Auth,
            "Google's token endpoint answered a token that is empty or that no header can carry",
        ));
    }
    Ok(SecretString::from(token.token))
}

fn failed(error: &CredentialsError, redactor: &Redactor) -> Error {
    let mut said = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(next) = cause {
        let words = next.to_string();
        if !said.contains(&words) {
            said = format!("{said}: {words}");
        }
        cause = next.source();
    }
    let kind = if error.is_transient() {
        Kind::Transport
    } else {
        Kind::Auth
    };
    let said = Redactor::new(echoed(&said)).scrub(&redactor.scrub(&said));
    Error::new(
        kind,
        format!("no token for Google: {}", clip(&said, MESSAGE_BYTES)),
    )
}

/// What a token endpoint repeats of the subject token it was sent. That comes from elsewhere and is in no file read here.
fn echoed(said: &str) -> Vec<&str> {
    let values = said.match_indices("subject_token").map(|(at, name)| {
        let rest = &said[at + name.len()..];
        let value = rest.trim_start_matches(['=', ':', '"', '\\', ' ']);
        let end = value.find(['&', '"', '\\', '\'', '>', ' ']);
        // `subject_token_type` is another field.
        match value.len() < rest.len() {
            true => &value[..end.unwrap_or(value.len())],
            false => "",
        }
    });
    values.filter(|value| !value.is_empty()).collect()
}

fn build(source: &Source) -> Result<Built> {
    install_crypto();
    let handle = runtime()?;
    // What is built here spawns its refresh on this runtime.
    let _entered = handle.enter();
    let (secrets, built) = match source {
        Source::Metadata(host) => {
            let builder = mds::Builder::default()
                .with_endpoint(format!("http://{host}"))
                .with_scopes([SCOPE]);
            (Vec::new(), builder.build_access_token_credentials())
        }
        Source::File { path, kind, .. } => {
            let file = Source::read_again(path, *kind)?;
            let secrets = secrets(&file);
            let built = match kind {
                FileKind::AuthorizedUser => {
                    user_account::Builder::new(file).build_access_token_credentials()
                }
                FileKind::ServiceAccount => {
                    service_account::Builder::new(file).build_access_token_credentials()
                }
                FileKind::ExternalAccount => external_account::Builder::new(file)
                    .with_scopes([SCOPE])
                    .build_access_token_credentials(),
                FileKind::ExternalAccountAuthorizedUser => {
                    external_account_authorized_user::Builder::new(file)
                        .build_access_token_credentials()
                }
                FileKind::ImpersonatedServiceAccount => {
                    impersonated::Builder::new(file).build_access_token_credentials()
                }
            };
            (secrets, built)
        }
    };
    let redactor = Redactor::new(secrets);
    match built {
        Ok(credentials) => Ok(Built {
            credentials,
            redactor,
            delivered: AtomicBool::new(false),
            asked: OnceLock::new(),
        }),
        Err(error) => Err(Error::new(
            Kind::Auth,
            format!(
                "the credentials can't be used: {}",
                clip(&redactor.scrub(&error.to_string()), MESSAGE_BYTES)
            ),
        )),
    }
}

/// The secrets in a credentials file, also in the one it wraps.
fn secrets(file: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let mut waiting = vec![file];
    while let Some(value) = waiting.pop() {
        let Some(fields) = value.as_object() else {
            continue;
        };
        for (name, value) in fields {
            match (name.as_str(), value) {
                ("client_secret" | "refresh_token" | "private_key", Value::String(secret)) => {
                    found.push(secret.clone());
                }
                (_, Value::Object(_)) => waiting.push(value),
                _ => {}
            }
        }
    }
    found
}

/// The library's TLS needs a provider of cryptography for the process; whoever set one before keeps it.
fn install_crypto() {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // Another thread may have been faster, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
}

/// The runtime that credentials live on: one thread for the process, started when the first token is asked for.
fn runtime() -> Result<&'static Handle> {
    static RUNTIME: OnceLock<std::result::Result<Handle, String>> = OnceLock::new();
    let start = || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|e| e.to_string())?;
        let handle = runtime.handle().clone();
        std::thread::Builder::new()
            .name("google-tokens".to_owned())
            .spawn(move || runtime.block_on(std::future::pending::<()>()))
            .map_err(|e| e.to_string())?;
        Ok(handle)
    };
    RUNTIME.get_or_init(start).as_ref().map_err(|problem| {
        Error::new(
            Kind::Auth,
            format!("no runtime for Google's credentials: {problem}"),
        )
    })
}

#[cfg(test)]
#[path = "credentials_tests.rs"]
mod tests;
