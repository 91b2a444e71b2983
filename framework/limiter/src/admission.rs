//! Waiting for admission, in one step or two.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::error::AdmitError;
use crate::lease::Lease;
use crate::permit::Permit;
use crate::shared::{Step, Ticket, Want};
use crate::time::Instant;

/// Waits for admission in two steps: [`ready`](Self::ready) waits until it could go, [`claim`](Self::claim) takes the
/// permit. In between the caller may look whether what it is about to send is still fresh.
///
/// The place in line is taken by the first poll or claim that has to wait. An invitation that is not claimed within
/// 5 ms lapses, so that it stalls nobody; the place is kept, and the next call of `ready` or `claim` makes use of it.
/// Dropping it at any point changes nothing and lets the next be considered at once. After a grant or an error it
/// starts anew.
#[must_use = "an admission does nothing unless polled"]
pub struct Admission {
    lease: Lease,
    ticket: Ticket,
}

/// What [`Admission::claim`] came to.
#[derive(Debug)]
#[must_use]
pub enum Claim {
    /// Paid and admitted.
    Granted(Permit),
    /// `not_after` has come. Nothing was paid and the place in line is kept: refresh, then go on with
    /// [`Admission::ready`].
    Stale,
    /// It is not its turn. Nothing was paid: go back to [`Admission::ready`].
    NotYet,
    /// It will not be admitted. Nothing was paid.
    Refused(AdmitError),
}

impl Admission {
    pub(crate) fn new(lease: Lease, cost: u64, deadline: Option<Instant>) -> Self {
        Self {
            lease,
            ticket: Ticket {
                cost,
                deadline,
                slot: None,
                since: None,
            },
        }
    }

    /// Ready when it could go now. It may have become untrue by the time it is claimed.
    ///
    /// # Errors
    ///
    /// [`AdmitError`] if it will not be admitted.
    pub fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), AdmitError>> {
        match self
            .lease
            .scope()
            .step(&mut self.ticket, Want::Wait(cx.waker().clone()))
        {
            Step::Refused(error) => Poll::Ready(Err(error)),
            Step::Ready | Step::Granted(_) => Poll::Ready(Ok(())),
            Step::Pending | Step::NeedsWaker => Poll::Pending,
        }
    }

    /// Waits until it could go; see [`poll_ready`](Self::poll_ready). Dropping this future keeps the place in line.
    ///
    /// # Errors
    ///
    /// [`AdmitError`] if it will not be admitted.
    pub async fn ready(&mut self) -> Result<(), AdmitError> {
        poll_fn(|cx| self.poll_ready(cx)).await
    }

    /// Takes the permit if it is its turn and every limit still allows it, unless `not_after` has come.
    pub fn claim(&mut self, not_after: Option<Instant>) -> Claim {
        let scope = self.lease.scope();
        if not_after.is_some_and(|not_after| scope.time.now() >= not_after) {
            return match scope.step_aside(&mut self.ticket) {
                Step::Refused(error) => Claim::Refused(error),
                _ => Claim::Stale,
            };
        }
        match scope.step(&mut self.ticket, Want::Claim) {
            Step::Granted(at) => Claim::Granted(self.permit(at)),
            Step::Refused(error) => Claim::Refused(error),
            Step::Ready | Step::Pending | Step::NeedsWaker => Claim::NotYet,
        }
    }

    /// How long ago it was first polled or claimed; zero before that.
    #[must_use]
    pub fn waited(&self) -> Duration {
        let since = self.ticket.since;
        since.map_or(Duration::ZERO, |since| {
            self.lease.time().now().saturating_duration_since(since)
        })
    }

    /// The cost it asks for, in tokens.
    #[must_use]
    pub fn cost(&self) -> u64 {
        self.ticket.cost
    }

    /// The lease it was made from.
    #[must_use]
    pub fn lease(&self) -> &Lease {
        &self.lease
    }

    fn permit(&mut self, at: Instant) -> Permit {
        self.ticket.since = None;
        Permit::new(self.lease.clone(), self.ticket.cost, at)
    }

    fn poll_admit(&mut self, cx: &mut Context<'_>) -> Poll<Result<Permit, AdmitError>> {
        let scope = self.lease.scope();
        let mut step = Step::NeedsWaker;
        if self.ticket.slot.is_none() && !scope.is_waited_for() {
            step = scope.step(&mut self.ticket, Want::ClaimOrAsk);
        }
        if matches!(step, Step::NeedsWaker) {
            // The waker is the caller's code: it is cloned before the lock is taken.
            step = scope.step(&mut self.ticket, Want::ClaimOrWait(cx.waker().clone()));
        }
        match step {
            Step::Granted(at) => Poll::Ready(Ok(self.permit(at))),
            Step::Refused(error) => Poll::Ready(Err(error)),
            Step::Ready | Step::Pending | Step::NeedsWaker => Poll::Pending,
        }
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        if let Some(slot) = self.ticket.slot.take() {
            self.lease.scope().cancel(slot);
        }
    }
}

impl fmt::Debug for Admission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Admission")
            .field("scope", self.lease.key())
            .field("cost", &self.ticket.cost)
            .field("deadline", &self.ticket.deadline)
            .finish_non_exhaustive()
    }
}

/// Waits for a [`Permit`]; made by [`Lease::admit`]. Must not be polled again once it is ready.
#[derive(Debug)]
#[must_use = "futures do nothing unless awaited"]
pub struct Admit {
    admission: Admission,
    done: bool,
}

impl Admit {
    pub(crate) fn new(admission: Admission) -> Self {
        Self {
            admission,
            done: false,
        }
    }

    /// How long ago it was first polled; zero before that.
    #[must_use]
    pub fn waited(&self) -> Duration {
        self.admission.waited()
    }
}

impl Future for Admit {
    type Output = Result<Permit, AdmitError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if self.done {
            return Poll::Pending;
        }
        let result = self.admission.poll_admit(cx);
        self.done = result.is_ready();
        result
    }
}
