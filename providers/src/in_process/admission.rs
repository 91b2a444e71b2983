//! A model's own admission: so many runs at once, so many that may wait, first in first out.
//!
//! A place is taken by the first poll and given up by a drop. Runs happen on threads of the queue's own, started when they are
//! first needed and ended with the queue; a slot is a run that has not ended, whoever still waits for it. Nothing here knows time:
//! a deadline drops the waiting future, which is all it takes.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use antfly_framework::config::Admission;
use antfly_framework::{Error, Kind, Result};
use tokio::sync::oneshot;

/// Tells a run that nobody waits for it any more. Clones are the same flag.
#[derive(Clone, Debug, Default)]
pub(crate) struct CancelFlag(Arc<AtomicBool>);

impl CancelFlag {
    /// Raises it.
    pub(crate) fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether it is raised.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// `Err` (`cancelled`) once it is raised: for `?` between pieces of work.
    pub(crate) fn check(&self) -> Result<()> {
        if self.is_cancelled() {
            return Err(Error::new(Kind::Cancelled, "the caller has gone"));
        }
        Ok(())
    }
}

/// Raises a flag when it is dropped.
#[derive(Debug)]
pub(crate) struct CancelOnDrop(pub(crate) CancelFlag);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// Hands a run's result to whoever waits, after its slot is free: a caller that saw the result can rely on the slot.
pub(crate) type Deliver = Box<dyn FnOnce() + Send>;

type Job = Box<dyn FnOnce() -> Deliver + Send>;

/// The queue of one model.
pub(crate) struct Queue {
    shared: Arc<Shared>,
}

struct Shared {
    admission: Admission,
    state: Mutex<State>,
    handed_over: Condvar,
}

#[derive(Default)]
struct State {
    /// Waiting for a slot, by ticket: the lowest is next.
    waiting: BTreeMap<u64, Job>,
    next_ticket: u64,
    /// Runs that have a slot.
    running: u32,
    /// Runs that have a slot and wait for a thread to pick them up.
    handed: VecDeque<Job>,
    /// Threads waiting for a run.
    idle: usize,
    closed: bool,
}

/// A place in the queue, given up by a drop; of a run that has begun, nothing is left to give up.
pub(crate) struct Place {
    shared: Arc<Shared>,
    ticket: Option<u64>,
}

impl Queue {
    pub(crate) fn new(admission: Admission) -> Self {
        Queue {
            shared: Arc::new(Shared {
                admission,
                state: Mutex::default(),
                handed_over: Condvar::new(),
            }),
        }
    }

    pub(crate) fn admission(&self) -> Admission {
        self.shared.admission
    }

    /// Runs `work` on a thread of the queue's when its turn comes, and waits for it. Dropping the future gives up the place, or
    /// raises the flag of a run that has begun.
    ///
    /// # Errors
    /// `overloaded`, at once, when all slots are taken and the queue is full; whatever `work` says.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&CancelFlag) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let cancel = CancelFlag::default();
        let (send, answer) = oneshot::channel();
        let flag = cancel.clone();
        let _going = CancelOnDrop(cancel);
        let _place = self.enter(Box::new(move || {
            let result = guarded(|| flag.check().and_then(|()| work(&flag)));
            Box::new(move || drop(send.send(result)))
        }))?;
        answer.await.unwrap_or_else(|_| Err(broke()))
    }

    /// Takes a slot, or a place in the queue.
    ///
    /// # Errors
    /// `overloaded` when there is neither.
    pub(crate) fn enter(&self, job: Job) -> Result<Place> {
        let shared = &self.shared;
        let mut state = shared.lock();
        let mut ticket = None;
        if state.running < shared.admission.max_concurrency {
            if state.idle <= state.handed.len() {
                shared.start_thread()?;
            }
            state.running += 1;
            state.handed.push_back(job);
            shared.handed_over.notify_one();
        } else if state.waiting.len() < shared.admission.max_queue as usize {
            let next = state.next_ticket;
            state.next_ticket += 1;
            state.waiting.insert(next, job);
            ticket = Some(next);
        } else {
            let Admission {
                max_concurrency,
                max_queue,
            } = shared.admission;
            // The job holds the caller's request: it is dropped outside the lock.
            drop(state);
            return Err(Error::new(
                Kind::Overloaded,
                format!(
                    "the model's queue is full: admission.max_concurrency {max_concurrency} in use, admission.max_queue {max_queue} \
                     waiting"
                ),
            ));
        }
        drop(state);
        Ok(Place {
            shared: Arc::clone(shared),
            ticket,
        })
    }

    /// Runs that have a slot, and those that wait.
    #[cfg(test)]
    pub(crate) fn load(&self) -> (u32, usize) {
        let state = self.shared.lock();
        (state.running, state.waiting.len())
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Every critical section leaves the state whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start_thread(self: &Arc<Self>) -> Result<()> {
        let shared = Arc::clone(self);
        std::thread::Builder::new()
            .name("antfly-model".to_owned())
            .spawn(move || shared.work())
            .map(drop)
            .map_err(|e| {
                Error::new(Kind::Overloaded, format!("no thread for the model: {e}")).with_source(e)
            })
    }

    /// What a thread does until the queue ends.
    fn work(&self) {
        let mut state = self.lock();
        loop {
            if let Some(mut job) = state.handed.pop_front() {
                drop(state);
                while let Some(next) = self.run(job) {
                    job = next;
                }
                state = self.lock();
            } else if state.closed {
                return;
            } else {
                state.idle += 1;
                state = (self.handed_over.wait(state)).unwrap_or_else(PoisonError::into_inner);
                state.idle -= 1;
            }
        }
    }

    /// One run, and the next that takes its slot.
    fn run(&self, job: Job) -> Option<Job> {
        // Jobs guard their work; whatever still breaks, the slot must come back.
        let deliver = catch_unwind(AssertUnwindSafe(job));
        let next = {
            let mut state = self.lock();
            let next = state.waiting.pop_first();
            if next.is_none() {
                state.running -= 1;
            }
            next
        };
        if let Ok(deliver) = deliver {
            drop(catch_unwind(AssertUnwindSafe(deliver)));
        }
        next.map(|(_, job)| job)
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.handed_over.notify_all();
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            let job = self.shared.lock().waiting.remove(&ticket);
            drop(job);
        }
    }
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.shared.lock();
        f.debug_struct("Queue")
            .field("admission", &self.shared.admission)
            .field("running", &state.running)
            .field("waiting", &state.waiting.len())
            .finish()
    }
}

/// Work whose panic is an error: what it leaves behind is dropped, and its caller is told when the slot is free, as of any end.
pub(crate) fn guarded<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| Err(broke()))
}

/// A run that ended without a word.
pub(crate) fn broke() -> Error {
    Error::new(
        Kind::Server,
        "the model's run broke off; this is a fault of the model or of this library",
    )
    .with_retryable(false)
}

#[cfg(test)]
#[path = "admission_tests.rs"]
mod tests;
