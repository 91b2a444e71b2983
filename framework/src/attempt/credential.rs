//! Credentials outside the quota: kept while good, loaded once for all who wait.
//!
//! A load belongs to those who wait for it: it goes on as long as one of them does, and is dropped with the last. Nothing is left
//! behind that nobody drives, and so nobody can join it. One that has been under way for long is not joined either: who is in it
//! waits on, whoever comes has one begun anew.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use antfly_limiter::{Instant, Time};
use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared, WeakShared};

use crate::error::{Error, Kind, Result};
use crate::provider::{Credential, CredentialProvider, Freshness, Provider, Route, Validity};

type Work = BoxFuture<'static, Result<Loaded, Arc<Error>>>;
type Load = Shared<Work>;

/// How long a load may be under way and still be joined. Sources have bounds of their own, which are no longer.
const JOINABLE: Duration = Duration::from_secs(60);

/// A credential with the number of the load it came from.
#[derive(Clone, Debug)]
pub(crate) struct Loaded {
    pub(crate) credential: Credential,
    pub(crate) not_after: Option<Instant>,
    load: u64,
}

impl Loaded {
    fn good_at(&self, now: Instant) -> bool {
        match self.credential.validity() {
            Validity::EachAttempt | Validity::Hidden => false,
            Validity::Until(_) | Validity::UntilWall(_) => {
                self.not_after.is_none_or(|until| now < until)
            }
        }
    }

    /// Whether the source hides its expiry: then a credential that isn't there in one poll is stale.
    pub(crate) fn is_hidden(&self) -> bool {
        self.credential.validity() == Validity::Hidden
    }

    /// Whether the source wants to be asked once more just before the claim.
    pub(crate) fn ask_again(&self) -> bool {
        matches!(
            self.credential.validity(),
            Validity::Hidden | Validity::EachAttempt
        )
    }
}

#[derive(Default)]
struct State {
    kept: Option<Loaded>,
    loading: Option<Loading>,
    loads: u64,
    /// The last forced load that gave a credential. What was loaded before it and refused since has been replaced already.
    forced: u64,
}

/// A load under way, held by those who wait for it alone.
struct Loading {
    number: u64,
    forced: bool,
    since: Instant,
    work: WeakShared<Work>,
}

impl Loading {
    /// The load, if somebody still waits for it and it is not stuck.
    fn join(&self, now: Instant) -> Option<Load> {
        (now.saturating_duration_since(self.since) < JOINABLE).then(|| self.work.upgrade())?
    }
}

/// One handle's credential.
pub(crate) struct CredentialCell {
    provider: Arc<dyn Provider>,
    time: Time,
    state: Mutex<State>,
}

impl std::fmt::Debug for CredentialCell {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CredentialCell").finish_non_exhaustive()
    }
}

impl CredentialCell {
    pub(crate) fn new(provider: Arc<dyn Provider>, time: Time) -> Self {
        CredentialCell {
            provider,
            time,
            state: Mutex::default(),
        }
    }

    /// A credential that is good now.
    pub(crate) async fn get(&self) -> Result<Loaded> {
        self.obtain(None).await
    }

    /// Another one than `expired`, which the provider refused: loaded anew unless someone has done so meanwhile.
    pub(crate) async fn replace(&self, expired: &Loaded) -> Result<Loaded> {
        self.obtain(Some(expired.load)).await
    }

    async fn obtain(&self, refused: Option<u64>) -> Result<Loaded> {
        let loaded = self.once(refused).await?;
        if self.is_good(&loaded) {
            return Ok(loaded);
        }
        // Good when it came, and not any more when this caller's turn was: another is loaded, once.
        let loaded = self.once(refused).await?;
        match self.is_good(&loaded) {
            true => Ok(loaded),
            false => Err(expired()),
        }
    }

    fn is_good(&self, loaded: &Loaded) -> bool {
        loaded.not_after.is_none_or(|until| self.time.now() < until)
    }

    async fn once(&self, refused: Option<u64>) -> Result<Loaded> {
        let now = self.time.now();
        let (number, load) = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(kept) = &state.kept
                && kept.good_at(now)
                && refused.is_none_or(|refused| kept.load > refused)
            {
                return Ok(kept.clone());
            }
            let joined = state
                .loading
                .as_ref()
                .filter(|loading| refused.is_none_or(|refused| loading.number > refused))
                .and_then(|loading| Some((loading.number, loading.join(now)?)));
            match joined {
                Some(joined) => joined,
                None => {
                    state.loads += 1;
                    let number = state.loads;
                    let forced = refused.is_some_and(|refused| refused >= state.forced);
                    let load = self.load(
                        number,
                        match forced {
                            true => Freshness::Forced,
                            false => Freshness::Cached,
                        },
                    );
                    state.loading = load.downgrade().map(|work| Loading {
                        number,
                        forced,
                        since: now,
                        work,
                    });
                    (number, load)
                }
            }
        };
        let result = load.await;
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let ended = state.loading.take_if(|l| l.number == number);
        if let Ok(loaded) = &result {
            if ended.is_some_and(|l| l.forced) {
                state.forced = number;
            }
            // Of two loads at once, the one that began later counts.
            if state.kept.as_ref().is_none_or(|kept| kept.load < number) {
                state.kept = Some(loaded.clone());
            }
        }
        drop(state);
        result.map_err(|e| e.duplicate().with_source(SharedCause(e)))
    }

    fn load(&self, number: u64, freshness: Freshness) -> Load {
        let provider = Arc::clone(&self.provider);
        let time = self.time.clone();
        async move {
            let source: &dyn CredentialProvider = match provider.route() {
                Route::Http(http) => http,
                Route::Engine(engine) => engine,
                Route::Local(_) => {
                    return Ok(Loaded {
                        credential: Credential::anonymous(),
                        not_after: None,
                        load: number,
                    });
                }
            };
            // A panic would be told to the one who polls, and to the others never: they would wait for a load that nobody drives.
            let asked = AssertUnwindSafe(async move { source.credential(freshness).await });
            let asked = asked.catch_unwind().await.unwrap_or_else(|_| Err(broke()));
            let credential = asked.map_err(Arc::new)?;
            let not_after = match credential.validity() {
                Validity::Until(at) => Some(at),
                Validity::UntilWall(at) => Some(on_clock(&time, at)),
                Validity::EachAttempt | Validity::Hidden => None,
            };
            if not_after.is_some_and(|until| time.now() >= until) {
                return Err(Arc::new(expired()));
            }
            Ok(Loaded {
                credential,
                not_after,
                load: number,
            })
        }
        .boxed()
        .shared()
    }
}

fn expired() -> Error {
    Error::new(
        Kind::Auth,
        "the credential source answered a credential that has already expired",
    )
}

fn broke() -> Error {
    Error::new(
        Kind::Auth,
        "the credential source broke off; this is a fault of the provider's adapter",
    )
}

/// A wall-clock time on the client's clock, read once when the credential arrives.
fn on_clock(time: &Time, at: SystemTime) -> Instant {
    #[allow(clippy::disallowed_methods)]
    // An expiry is told in wall-clock time; this is the one place that converts it.
    let left = at
        .duration_since(SystemTime::now())
        .unwrap_or(Duration::ZERO);
    time.now().saturating_add(left)
}

/// A shared cause, so that every caller of one failed load can name it.
#[derive(Debug)]
struct SharedCause(Arc<Error>);

impl std::fmt::Display for SharedCause {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for SharedCause {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        std::error::Error::source(&*self.0)
    }
}
