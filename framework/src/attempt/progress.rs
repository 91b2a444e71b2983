//! What a call is at, for the error that says so when its time is over.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use crate::error::Phase;

/// Shared with the SDK that sends for the call: only that knows when an answer begins.
#[derive(Clone, Debug)]
pub(super) struct Progress(Arc<AtomicU8>);

impl Progress {
    pub(super) fn new(phase: Phase) -> Self {
        Progress(Arc::new(AtomicU8::new(phase as u8)))
    }

    pub(super) fn at(&self, phase: Phase) {
        self.0.store(phase as u8, Ordering::Relaxed);
    }

    pub(super) fn now(&self) -> Phase {
        let at = self.0.load(Ordering::Relaxed);
        Phase::ALL
            .into_iter()
            .find(|phase| *phase as u8 == at)
            .unwrap_or(Phase::Admission)
    }
}
