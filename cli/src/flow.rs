//! What `embed` and `generate` share: lines come in no faster than their answers can be written, calls go out as slots get
//! free, and an interrupt ends both.

use std::future::Future;
use std::num::NonZeroUsize;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use antfly_framework::{CallOptions, Error, Kind};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::input::{Line, Lines};
use crate::output::{self, Ticket};

/// How long calls in flight have to end once they are told to.
const GRACE: Duration = Duration::from_secs(2);

/// Items between the one whose turn it is to be written and the last one read, for `concurrency` calls of `batch` items:
/// enough that one slow call does not hold up the others at once, bounded because everything behind it must be kept.
pub(crate) fn window(concurrency: usize, batch: usize) -> usize {
    const COMFORTABLE: usize = 8192;
    let least = batch.saturating_mul(concurrency.saturating_add(2));
    let good = batch
        .saturating_mul(concurrency)
        .saturating_mul(4)
        .clamp(256, COMFORTABLE);
    least.max(good).min(Semaphore::MAX_PERMITS)
}

/// The input's lines, each with its place in the output.
pub(crate) struct Feed {
    lines: Lines,
    window: Arc<Semaphore>,
    place: u64,
    stop: CancellationToken,
    broken: Option<std::io::Error>,
}

impl Feed {
    pub(crate) fn new(lines: Lines, window: usize, stop: CancellationToken) -> Self {
        Feed {
            lines,
            window: Arc::new(Semaphore::new(window)),
            place: 0,
            stop,
            broken: None,
        }
    }

    /// The next line; none at the end of the input, when everything stops, and when the input can't be read. A call that is
    /// dropped loses nothing.
    pub(crate) async fn next(&mut self) -> Option<(Ticket, Line)> {
        let (window, line) = tokio::select! {
            biased;
            () = self.stop.cancelled() => return None,
            next = async {
                let window = Arc::clone(&self.window).acquire_owned().await.ok();
                (window, self.lines.next().await)
            } => next,
        };
        match line? {
            Ok(line) => {
                let ticket = Ticket {
                    place: self.place,
                    end: line.end,
                    _window: window,
                };
                self.place += 1;
                Some((ticket, line))
            }
            Err(error) => {
                self.broken = Some(error);
                None
            }
        }
    }

    pub(crate) fn is_broken(&self) -> bool {
        self.broken.is_some()
    }

    /// Why the input could not be read to its end.
    pub(crate) fn into_error(self) -> Option<std::io::Error> {
        self.broken
    }
}

/// The calls in flight.
pub(crate) struct Calls {
    slots: Arc<Semaphore>,
    running: JoinSet<()>,
    options: CallOptions,
    stop: CancellationToken,
    panicked: Arc<AtomicBool>,
}

/// Goes off when its task panics.
struct Alarm {
    stop: CancellationToken,
    panicked: Arc<AtomicBool>,
}

impl Alarm {
    fn ring(&self) {
        self.panicked.store(true, Ordering::Relaxed);
        self.stop.cancel();
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.ring();
        }
    }
}

/// The right to have one call in flight.
pub(crate) struct Slot(#[expect(dead_code, reason = "held, not read")] OwnedSemaphorePermit);

impl Calls {
    pub(crate) fn new(
        concurrency: NonZeroUsize,
        timeout: Option<Duration>,
        stop: CancellationToken,
    ) -> Self {
        let mut options = CallOptions::default().with_cancel(stop.clone());
        options.timeout = timeout;
        Calls {
            slots: Arc::new(Semaphore::new(
                concurrency.get().min(Semaphore::MAX_PERMITS),
            )),
            running: JoinSet::new(),
            options,
            stop,
            panicked: Arc::default(),
        }
    }

    /// What every call is made with.
    pub(crate) fn options(&self) -> CallOptions {
        self.options.clone()
    }

    /// A free slot, or none when everything stops.
    pub(crate) async fn slot(&mut self) -> Option<Slot> {
        while self.running.try_join_next().is_some() {}
        tokio::select! {
            biased;
            () = self.stop.cancelled() => None,
            slot = Arc::clone(&self.slots).acquire_owned() => slot.ok().map(Slot),
        }
    }

    /// Runs a call to its end. One that panics stops everything. When everything stops, it has [`GRACE`] to notice.
    ///
    /// The call is polled once before this returns: it takes its place in the limiter's queue ahead of the calls that are
    /// started after it, whatever order the threads get to them in.
    pub(crate) fn start(&mut self, slot: Slot, call: impl Future<Output = ()> + Send + 'static) {
        let mut call = Box::pin(call);
        let alarm = Alarm {
            stop: self.stop.clone(),
            panicked: Arc::clone(&self.panicked),
        };
        let first = std::panic::catch_unwind(AssertUnwindSafe(|| {
            // Whoever it is to wake is known once it runs as a task, which polls it again at once.
            let mut nobody = Context::from_waker(Waker::noop());
            // A task that has done much already must not keep it from its place.
            pin!(tokio::task::unconstrained(call.as_mut())).poll(&mut nobody)
        }));
        match first {
            Ok(Poll::Pending) => {}
            Ok(Poll::Ready(())) => return,
            Err(_) => return alarm.ring(),
        }
        let stop = self.stop.clone();
        self.running.spawn(async move {
            let _alarm = alarm;
            tokio::select! {
                () = call => {}
                () = async { stop.cancelled().await; tokio::time::sleep(GRACE).await } => {}
            }
            drop(slot);
        });
    }

    /// Waits for all of them. Whether all came to an end of their own.
    pub(crate) async fn finish(mut self) -> bool {
        while self.running.join_next().await.is_some() {}
        !self.panicked.load(Ordering::Relaxed)
    }
}

/// Whether a call has no result because it was told to stop: its items are unfinished, not failed.
pub(crate) fn is_unfinished(error: &Error, stop: &CancellationToken) -> bool {
    error.kind() == Kind::Cancelled && stop.is_cancelled()
}

/// Hands in an item's failure, or that it stays unfinished.
pub(crate) fn fail(
    lines: &output::Lines,
    ticket: Ticket,
    id: &crate::input::Id,
    error: &Error,
    stop: &CancellationToken,
) {
    if is_unfinished(error, stop) {
        lines.unfinished(ticket);
    } else {
        lines.failed(ticket, id, error);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_has_room_for_all_calls_in_flight_and_the_next_ones() {
        for concurrency in [1, 8, 1000] {
            for batch in [1, 64, 2048] {
                let window = window(concurrency, batch);
                assert!(
                    window >= batch * (concurrency + 2),
                    "{concurrency} {batch} {window}"
                );
                assert!(window <= (batch * (concurrency + 2)).max(8192));
            }
        }
        assert_eq!(window(usize::MAX, usize::MAX), Semaphore::MAX_PERMITS);
    }

    #[tokio::test]
    async fn no_line_is_handed_out_beyond_the_window() {
        let lines = Lines::read(&b"1\n2\n3\n"[..]);
        let mut feed = Feed::new(lines, 2, CancellationToken::new());
        let first = feed.next().await.unwrap();
        let second = feed.next().await.unwrap();
        assert_eq!((first.0.place, second.0.place), (0, 1));
        let early = tokio::time::timeout(Duration::from_millis(20), feed.next()).await;
        assert!(early.is_err(), "both places are taken");
        drop(first);
        assert_eq!(feed.next().await.unwrap().1.bytes, b"3");
        drop(second);
        assert!(feed.next().await.is_none());
        assert!(feed.into_error().is_none());
    }

    #[tokio::test]
    async fn a_stop_ends_the_feed_and_frees_no_slot() {
        let stop = CancellationToken::new();
        let mut calls = Calls::new(NonZeroUsize::MIN, None, stop.clone());
        let slot = calls.slot().await.unwrap();
        calls.start(slot, {
            let stop = stop.clone();
            async move { stop.cancelled().await }
        });
        stop.cancel();
        assert!(calls.slot().await.is_none());
        let mut feed = Feed::new(Lines::read(&b"1\n"[..]), 2, stop);
        assert!(feed.next().await.is_none());
        assert!(calls.finish().await);
    }

    #[tokio::test]
    async fn a_call_that_panics_stops_everything() {
        let stop = CancellationToken::new();
        let mut calls = Calls::new(NonZeroUsize::MIN, None, stop.clone());
        let slot = calls.slot().await.unwrap();
        calls.start(slot, async { panic!("on purpose") });
        stop.cancelled().await;
        assert!(!calls.finish().await);
        let stop = CancellationToken::new();
        let mut calls = Calls::new(NonZeroUsize::MIN, None, stop.clone());
        let slot = calls.slot().await.unwrap();
        calls.start(slot, async {
            tokio::task::yield_now().await;
            panic!("on purpose, later")
        });
        stop.cancelled().await;
        assert!(!calls.finish().await);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn calls_begin_in_the_order_they_are_started() {
        let eight = NonZeroUsize::new(8).unwrap();
        let mut calls = Calls::new(eight, None, CancellationToken::new());
        let begun = Arc::new(std::sync::Mutex::new(Vec::new()));
        for n in 0..500 {
            let slot = calls.slot().await.unwrap();
            let begun = Arc::clone(&begun);
            calls.start(slot, async move {
                begun.lock().unwrap().push(n);
                tokio::task::yield_now().await;
            });
        }
        assert!(calls.finish().await);
        assert!(begun.lock().unwrap().is_sorted());
    }
}
