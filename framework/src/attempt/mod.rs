//! The attempt loop: the one place that decides when a request leaves, and how often.
//!
//! Read top to bottom: [`Call::run`] tries until there is an answer or no use in trying; [`Call::try_once`] makes one try,
//! hop by hop; `admit` waits for the limiter with a credential that is still good when the permit is granted.
//!
//! The order that matters: credential, admission, send, status, cooldown, body, permit. What is dropped, at whatever await,
//! is dropped in the opposite order: the connection before the permit.

mod backoff;
mod classify;
mod credential;
mod deliver;
mod events;
mod observe;
mod progress;
mod redirect;
pub(crate) mod retry_after;
mod turnstile;

use std::fmt;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use antfly_limiter::{AdmitError, Claim, DeadlineCause, Instant, Permit};
use http::HeaderMap;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument as _, Span};

use crate::client::Bound;
use crate::error::{Error, Kind, Phase, Result};
use crate::handle::Handle;
use crate::provider::{EngineProvider, Head, HttpProvider, Prepared, Reply, Route};

pub(crate) use backoff::Jitter;
use classify::{may_retry, with_hint};
pub(crate) use credential::{CredentialCell, Loaded};
pub(crate) use deliver::{
    Deliver, Incoming, LocalEvents, Plain, Streamed, guard_local_stream, open_local_stream,
};
pub(crate) use observe::Held;
pub use observe::{AttemptObserver, AttemptRecord, Outcome};
use progress::Progress;
pub(crate) use turnstile::{Ticket, Turnstile};

/// The right to send one request, as an SDK route gets it. Can't be cloned or made; holds the permit until it is dropped.
pub struct Attempt {
    held: Arc<Held>,
    deadline: Instant,
    handle: Arc<Handle>,
    progress: Progress,
}

impl Attempt {
    /// Number within its call, from 1.
    pub fn number(&self) -> u32 {
        self.held.number()
    }

    /// When the call is out of time, on the client's clock.
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Tells the framework the head of the answer as soon as it is there: a 429's hint cools the scope before the body is read.
    pub fn heard(&self, head: &Head) {
        self.progress.at(Phase::Reading);
        self.held.set_status(head.status);
        self.handle.heed_head(head);
    }
}

impl fmt::Debug for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attempt")
            .field("number", &self.number())
            .finish_non_exhaustive()
    }
}

/// One call (or one part of a split call): its bounds and what it has used.
pub(crate) struct Call {
    pub(crate) handle: Arc<Handle>,
    pub(crate) bound: Bound,
    pub(crate) cancel: Option<CancellationToken>,
    /// Requests that left.
    sent: AtomicU32,
    /// What it is at.
    progress: Progress,
    /// What everything logged on the way belongs to. Names the call; never its content, never a secret.
    span: Span,
}

/// Why a try failed, with the attempt it failed in (if one left), still holding its permit.
struct Failure {
    error: Error,
    held: Option<Arc<Held>>,
    loaded: Option<Loaded>,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure {
            error,
            held: None,
            loaded: None,
        }
    }
}

impl Call {
    pub(crate) fn new(
        handle: Arc<Handle>,
        bound: Bound,
        cancel: Option<CancellationToken>,
    ) -> Self {
        let first = match handle.provider.route() {
            Route::Local(_) => Phase::Running,
            Route::Http(_) | Route::Engine(_) => Phase::Admission,
        };
        let span = tracing::debug_span!(
            "call",
            provider = %handle.entry.provider,
            operation = handle.entry.operation.as_str(),
            model = %handle.entry.model,
            entry = %handle.entry.path,
            scope = %handle.lease.key(),
        );
        Call {
            handle,
            bound,
            cancel,
            sent: AtomicU32::new(0),
            progress: Progress::new(first),
            span,
        }
    }

    /// The same call, going on with an answer after `sent` requests have left.
    fn having_sent(self, sent: u32) -> Self {
        self.progress.at(Phase::Reading);
        self.sent.store(sent, Ordering::Relaxed);
        self
    }

    /// Bounds any of this call's work by its deadline and its cancellation, and names the call in what goes wrong. The work comes
    /// pinned, because a future of many kilobytes would else be moved once for each of these bounds.
    pub(crate) async fn within<T>(
        &self,
        work: Pin<&mut impl Future<Output = Result<T>>>,
    ) -> Result<T> {
        let work = work.instrument(self.span.clone());
        let timed = self.handle.time.timeout_at(self.bound.deadline, work);
        let done = match &self.cancel {
            Some(cancel) => match cancel.run_until_cancelled(timed).await {
                Some(done) => done,
                None => return Err(self.name(Error::new(Kind::Cancelled, "the caller cancelled"))),
            },
            None => timed.await,
        };
        match done {
            Ok(result) => result.map_err(|e| self.name(e)),
            Err(_) => Err(self.name(self.late())),
        }
    }

    /// The deadline has passed, in the phase that the call is in.
    fn late(&self) -> Error {
        let (length, phase) = (self.bound.length, self.progress.now());
        let message = format!("the deadline of {length:?} passed {}", phase.during());
        Error::new(Kind::DeadlineExceeded, message).with_deadline(length, phase)
    }

    /// Sends `prepared` until `deliver` has an answer, or there is no use in trying.
    pub(crate) async fn run<D: Deliver>(
        &self,
        prepared: &Prepared,
        deliver: &D,
        mut ticket: Option<Ticket>,
    ) -> Result<D::Output> {
        sendable(&prepared.url)?;
        let retry = &self.handle.entry.retry;
        let mut failures = 0_u32;
        let mut refused: Option<Loaded> = None;
        let mut renewed = false;
        let mut last: Option<Error> = None;
        loop {
            let mut failure = match self
                .try_once(prepared, deliver, refused.take(), &mut ticket)
                .await
            {
                Ok(output) => return Ok(output),
                Err(failure) => failure,
            };
            let Some(held) = failure.held.take() else {
                // Nothing left: the credential or the admission failed. After a 429 that is still the news.
                return Err(match last {
                    Some(told)
                        if told.kind() == Kind::RateLimited
                            && failure.error.kind() == Kind::DeadlineExceeded =>
                    {
                        told
                    }
                    _ => failure.error,
                });
            };
            let error = failure.error;
            if error.is_credential_expired()
                && !renewed
                && let Some(loaded) = failure.loaded.filter(|l| l.credential.is_refreshable())
            {
                renewed = true;
                refused = Some(loaded);
                held.set_outcome(Outcome::Retry);
                continue;
            }
            failures += 1;
            if failures >= retry.max_attempts || !may_retry(&error) {
                return Err(error);
            }
            let wait = backoff::wait(retry, failures, &self.handle.jitter)
                .max(error.retry_after().unwrap_or_default());
            let until = self.handle.time.now().saturating_add(wait);
            if until > self.bound.deadline {
                return Err(error);
            }
            held.set_outcome(Outcome::Retry);
            drop(held);
            self.progress.at(Phase::Backoff);
            self.handle.time.sleep_until(until).await;
            last = Some(error);
        }
    }

    /// One try: credential, admission, send, and whatever hops the endpoint asks for.
    async fn try_once<D: Deliver>(
        &self,
        prepared: &Prepared,
        deliver: &D,
        refused: Option<Loaded>,
        ticket: &mut Option<Ticket>,
    ) -> Result<D::Output, Failure> {
        let handle = &*self.handle;
        self.progress.at(Phase::Credential);
        let loaded = match &refused {
            Some(refused) => handle.credentials.replace(refused).await?,
            None => handle.credentials.get().await?,
        };
        let (loaded, held) = self.admit(prepared, loaded, true, ticket).await?;
        let span = tracing::debug_span!("attempt", number = held.number());
        let tried = match handle.provider.route() {
            Route::Http(http) => {
                self.exchange(http, prepared, deliver, &loaded, held)
                    .instrument(span)
                    .await
            }
            Route::Engine(engine) => {
                self.engage(engine, prepared, deliver, &loaded, held)
                    .instrument(span)
                    .await
            }
            Route::Local(_) => Err(Error::new(
                Kind::Config,
                "a local route sends nothing and is never admitted",
            )
            .into()),
        };
        tried.map_err(|mut failure| {
            failure.error = handle.scrub(failure.error, &loaded.credential);
            failure.loaded.get_or_insert(loaded);
            failure
        })
    }

    /// Waits for a permit; the credential that comes with it was good at the very moment of the grant. `fresh`: it was loaded just
    /// before this.
    async fn admit(
        &self,
        prepared: &Prepared,
        mut loaded: Loaded,
        fresh: bool,
        ticket: &mut Option<Ticket>,
    ) -> Result<(Loaded, Arc<Held>)> {
        let handle = &*self.handle;
        let cost = handle.provider.declare().cost.of(prepared);
        let mut admission = handle.lease.admission(cost, Some(self.bound.deadline));
        // A key that was asked for just now, with no wait in between, is the store's word still.
        let mut just_asked = fresh && !loaded.is_hidden();
        loop {
            self.progress.at(Phase::Admission);
            {
                let mut ready = pin!(admission.ready());
                // The first poll takes the place in the queue; only then may the call's next part ask for one.
                let first = futures::poll!(ready.as_mut());
                if let Some(ticket) = ticket.take() {
                    ticket.pass();
                }
                match first {
                    std::task::Poll::Ready(done) => done,
                    std::task::Poll::Pending => {
                        just_asked = false;
                        ready.await
                    }
                }
                .map_err(|e| self.refusal(&e))?;
            }
            self.progress.at(Phase::Credential);
            let mut not_after = loaded.not_after;
            if loaded.ask_again() && !just_asked {
                let mut asked = pin!(handle.credentials.get());
                match futures::poll!(asked.as_mut()) {
                    std::task::Poll::Ready(fresh) => loaded = fresh?,
                    // Not ready in one poll: stale. The place is kept while it is waited for, and what comes is claimed with
                    // at once: a source that always takes its time would else be asked for ever.
                    std::task::Poll::Pending if loaded.is_hidden() => loaded = asked.await?,
                    std::task::Poll::Pending => {}
                }
                not_after = loaded.not_after;
            }
            match admission.claim(not_after) {
                Claim::Granted(permit) => {
                    let waited = admission.waited();
                    return Ok((loaded, self.hold(permit, cost, waited)));
                }
                Claim::Stale => loaded = handle.credentials.get().await?,
                Claim::NotYet => {}
                Claim::Refused(e) => return Err(self.refusal(&e)),
            }
        }
    }

    fn hold(&self, permit: Permit, cost: u64, waited: Duration) -> Arc<Held> {
        let handle = &*self.handle;
        let number = self.sent.fetch_add(1, Ordering::Relaxed) + 1;
        let record = AttemptRecord {
            at: handle.time.now(),
            scope: handle.lease.key().clone(),
            entry: handle.entry.name.clone(),
            operation: handle.entry.operation,
            attempt: number,
            tokens: cost,
            waited,
            status: None,
            outcome: Outcome::Error,
        };
        Held::new(record, permit, handle.observer.clone())
    }

    /// The HTTP route: send, follow 307 and 308 with a new admission each, hand a success on.
    async fn exchange<D: Deliver>(
        &self,
        http: &dyn HttpProvider,
        prepared: &Prepared,
        deliver: &D,
        loaded: &Loaded,
        mut held: Arc<Held>,
    ) -> Result<D::Output, Failure> {
        let handle = &*self.handle;
        let transport = handle.transport()?;
        let authorization = match http.authorize(prepared, &loaded.credential) {
            Ok(headers) => headers,
            Err(error) => {
                // Nothing was sent: the permit goes back, and the call counts one request less.
                held.never_left();
                self.sent.fetch_sub(1, Ordering::Relaxed);
                return Err(error.into());
            }
        };
        let mut url = prepared.url.clone();
        let mut hops = 0;
        // Once a hop has left the origin, for good.
        let mut stripped = false;
        let mut loaded = loaded.clone();
        loop {
            let mut headers = prepared.headers.clone();
            merge(&mut headers, &handle.headers);
            merge(&mut headers, &authorization);
            if stripped {
                redirect::strip(&mut headers, &[&handle.headers, &authorization]);
            }
            self.progress.at(Phase::Sending);
            let response = match transport.send(&url, headers, prepared.body.clone()).await {
                Ok(response) => response,
                Err(error) => {
                    if let Some(status) = error.status() {
                        held.set_status(status);
                    }
                    return Err(fail(error, held, loaded));
                }
            };
            self.progress.at(Phase::Reading);
            let (parts, body) = response.into_parts();
            let head = Head {
                status: parts.status.as_u16(),
                headers: parts.headers,
            };
            held.set_status(head.status);
            if redirect::is_redirect(head.status) {
                let target = match redirect::next(handle.entry.redirects, &url, &head, hops) {
                    Ok(target) => target,
                    Err(error) => return Err(fail(error, held, loaded)),
                };
                held.set_outcome(Outcome::Redirect);
                drop(body);
                drop(held);
                stripped |= !redirect::same_origin(&url, &target);
                url = target;
                hops += 1;
                (loaded, held) = self.admit(prepared, loaded, false, &mut None).await?;
                continue;
            }
            if !(200..300).contains(&head.status) {
                let error = self.classify(http, &head, body).await;
                return Err(fail(error, held, loaded));
            }
            let incoming = Incoming::Http(head, body);
            return self.deliver(deliver, incoming, held, loaded).await;
        }
    }

    /// The SDK route: exactly one request, sent by the adapter's engine.
    async fn engage<D: Deliver>(
        &self,
        engine: &dyn EngineProvider,
        prepared: &Prepared,
        deliver: &D,
        loaded: &Loaded,
        held: Arc<Held>,
    ) -> Result<D::Output, Failure> {
        let attempt = Attempt {
            held: Arc::clone(&held),
            deadline: self.bound.deadline,
            handle: Arc::clone(&self.handle),
            progress: self.progress.clone(),
        };
        self.progress.at(Phase::Sending);
        let loaded = loaded.clone();
        let incoming = match engine.send(prepared, &loaded.credential, attempt).await {
            Ok(Reply::Bytes(head, body)) => {
                held.set_status(head.status);
                self.handle.heed_head(&head);
                if redirect::is_redirect(head.status) {
                    let error =
                        Error::new(Kind::Redirect, "this endpoint's redirects are not followed")
                            .with_status(head.status);
                    return Err(fail(error, held, loaded));
                }
                if !(200..300).contains(&head.status) {
                    let error = self.judge(engine, &head, &body);
                    return Err(fail(error, held, loaded));
                }
                Incoming::Bytes(head, body)
            }
            Ok(Reply::Events(head, events)) => {
                held.set_status(head.status);
                Incoming::Events(head, events)
            }
            Err(error) => {
                if let Some(status) = error.status() {
                    held.set_status(status);
                }
                self.heed_error(&error);
                return Err(fail(error, held, loaded));
            }
        };
        self.progress.at(Phase::Reading);
        self.deliver(deliver, incoming, held, loaded).await
    }

    async fn deliver<D: Deliver>(
        &self,
        deliver: &D,
        incoming: Incoming,
        held: Arc<Held>,
        loaded: Loaded,
    ) -> Result<D::Output, Failure> {
        match deliver.deliver(self, incoming, &held, &loaded).await {
            Ok(output) => Ok(output),
            Err(error) => {
                self.heed_error(&error);
                Err(fail(error, held, loaded))
            }
        }
    }

    /// A refused admission as the call's error.
    fn refusal(&self, refused: &AdmitError) -> Error {
        let (retry_after, cause) = match refused {
            AdmitError::ExceedsBudget { cost, budget } => {
                return Error::new(
                    Kind::ExceedsTokenBudget,
                    format!("one attempt costs {cost} tokens, tokens_per_minute allows {budget}"),
                );
            }
            AdmitError::Deadline { retry_after, cause } => (*retry_after, Some(*cause)),
            _ => (None, None),
        };
        let length = self.bound.length;
        let what = match cause {
            Some(DeadlineCause::Cooldown) => "the cooldown of the scope ends",
            Some(DeadlineCause::CompletionDelay) => "the completion delay of the scope ends",
            Some(DeadlineCause::Tokens) => "the token budget has room only",
            Some(DeadlineCause::Requests) => "the request rate has room only",
            _ => "admission comes only",
        };
        let message = match cause {
            Some(DeadlineCause::Passed) => format!(
                "the deadline of {length:?} passed {}",
                Phase::Admission.during()
            ),
            _ => format!("{what} after the deadline of {length:?}"),
        };
        let error =
            Error::new(Kind::DeadlineExceeded, message).with_deadline(length, Phase::Admission);
        match retry_after {
            Some(wait) => error.with_retry_after(wait),
            None => error,
        }
    }

    /// Adds whose call it was and how many requests left for it.
    pub(crate) fn name(&self, error: Error) -> Error {
        let handle = &*self.handle;
        error
            .with_call(
                &handle.entry.provider,
                handle.entry.operation,
                &handle.entry.model,
            )
            .with_scope(handle.lease.key().to_string())
            .with_attempts(self.sent.load(Ordering::Relaxed))
    }
}

fn fail(error: Error, held: Arc<Held>, loaded: Loaded) -> Failure {
    Failure {
        error,
        held: Some(held),
        loaded: Some(loaded),
    }
}

fn merge(into: &mut HeaderMap, from: &HeaderMap) {
    for (name, value) in from {
        into.insert(name.clone(), value.clone());
    }
}

/// What no request can be made for is refused before any wait.
fn sendable(url: &url::Url) -> Result<()> {
    match http::Uri::try_from(url.as_str()) {
        Ok(_) => Ok(()),
        Err(e) => Err(Error::new(
            Kind::InvalidRequest,
            format!("the URL can't be requested: {e}"),
        )),
    }
}
