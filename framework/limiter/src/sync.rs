//! Where the locks and atomics of this crate come from: the standard library, or, under `--cfg antfly_loom`, loom, which
//! runs what they guard in every order that threads could (see `tests/loom.rs`). `Arc` is always the standard one: what
//! is shared here is changed under a lock or in an atomic, never through a count of references.

#[cfg(not(antfly_loom))]
pub(crate) use std::sync::{
    Condvar, Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicUsize},
};

#[cfg(antfly_loom)]
pub(crate) use loom::sync::{
    Condvar, Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicUsize},
};

use std::sync::PoisonError;

/// Locks, whether or not a panic elsewhere poisoned the mutex: every critical section here leaves its data whole.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
