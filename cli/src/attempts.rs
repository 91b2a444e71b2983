//! `--attempts`: one JSON line a request that left, written when it has ended.

use std::fs::File;
use std::io::Write as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use antfly_framework::{AttemptObserver, AttemptRecord, Instant};
use serde::Serialize;

/// Counts attempts, and writes them down once it has a file.
#[derive(Debug, Default)]
pub(crate) struct Attempts {
    count: AtomicU64,
    broken: AtomicBool,
    log: OnceLock<Log>,
}

#[derive(Debug)]
struct Log {
    file: Mutex<Option<File>>,
    /// An instant of the client's clock, and how long after the start of the process it was.
    known: (Instant, Duration),
}

#[derive(Serialize)]
struct Row<'a> {
    t_ms: f64,
    scope: &'a str,
    entry: &'a str,
    operation: &'a str,
    attempt: u32,
    tokens: u64,
    waited_ms: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    outcome: &'a str,
}

impl Attempts {
    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Whether an attempt could not be written down.
    pub(crate) fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Relaxed)
    }

    /// Writes to `file` from now on; `now` of the client's clock is `since_start` after the start of the process.
    pub(crate) fn write_to(&self, file: File, now: Instant, since_start: Duration) {
        let _ = self.log.set(Log {
            file: Mutex::new(Some(file)),
            known: (now, since_start),
        });
    }
}

impl Log {
    /// Whether nothing has gone wrong just now.
    fn write(&self, record: &AttemptRecord) -> bool {
        let row = Row {
            t_ms: ms(self.since_start(record.at)),
            scope: record.scope.as_str(),
            entry: &record.entry,
            operation: record.operation.as_str(),
            attempt: record.attempt,
            tokens: record.tokens,
            waited_ms: ms(record.waited),
            status: record.status,
            outcome: record.outcome.as_str(),
        };
        let Ok(mut line) = serde_json::to_vec(&row) else {
            return false;
        };
        line.push(b'\n');
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(Err(error)) = file.as_mut().map(|file| file.write_all(&line)) {
            *file = None;
            crate::say(format_args!(
                "the attempts file can't be written any more: {error}"
            ));
            return false;
        }
        true
    }

    fn since_start(&self, at: Instant) -> Duration {
        let (instant, since_start) = self.known;
        (since_start + at.saturating_duration_since(instant))
            .saturating_sub(instant.saturating_duration_since(at))
    }
}

impl AttemptObserver for Attempts {
    fn attempt(&self, record: &AttemptRecord) {
        self.count.fetch_add(1, Ordering::Relaxed);
        if self.log.get().is_some_and(|log| !log.write(record)) {
            self.broken.store(true, Ordering::Relaxed);
        }
    }
}

/// Milliseconds, to the microsecond.
fn ms(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e6).round() / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_count_from_the_start_of_the_process() {
        let now = Instant::default().saturating_add(Duration::from_millis(500));
        let log = Log {
            file: Mutex::default(),
            known: (now, Duration::from_millis(20)),
        };
        let at = |ms| log.since_start(Instant::default().saturating_add(Duration::from_millis(ms)));
        assert_eq!(at(500), Duration::from_millis(20));
        assert_eq!(at(750), Duration::from_millis(270));
        assert_eq!(at(490), Duration::from_millis(10));
        assert_eq!(at(0), Duration::ZERO);
        assert_eq!(ms(Duration::from_nanos(12_500_400)), 12.5);
    }
}
