//! What is left to do when the lock is released.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::task::Waker;

/// Wakers to wake, or only to drop, once the lock is released.
#[derive(Debug, Default)]
pub(crate) struct Wakes {
    first: Option<Waker>,
    rest: Vec<Waker>,
    /// Dropping a waker can run anything as well.
    discarded: Option<Waker>,
    also_discarded: Vec<Waker>,
}

impl Wakes {
    /// Keeps one that is to be woken.
    pub(crate) fn push(&mut self, waker: Option<Waker>) {
        let Some(waker) = waker else { return };
        if self.first.is_none() {
            self.first = Some(waker);
        } else {
            self.rest.push(waker);
        }
    }

    /// Keeps one that is only to be dropped.
    pub(crate) fn discard(&mut self, waker: Option<Waker>) {
        if let Some(old) = waker.and_then(|waker| self.discarded.replace(waker)) {
            self.also_discarded.push(old);
        }
    }

    /// Wakes them in order. One that panics does not cost the others their wake-up.
    pub(crate) fn wake(self) {
        let mut panicked = None;
        for waker in self.first.into_iter().chain(self.rest) {
            let woken = catch_unwind(AssertUnwindSafe(|| waker.wake()));
            panicked = woken.err().or(panicked);
        }
        if let Some(payload) = panicked
            && !std::thread::panicking()
        {
            resume_unwind(payload);
        }
    }
}
