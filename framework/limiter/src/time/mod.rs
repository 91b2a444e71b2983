//! The only clock: a [`Driver`] says what time it is and rings [`Alarm`]s.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

mod manual;
mod sleep;
mod thread;
#[cfg(feature = "tokio")]
mod tokio;

pub use manual::ManualClock;
pub use sleep::Sleep;

/// A point in time: nanoseconds since the epoch of a [`Driver`].
///
/// Instants of different drivers must not be mixed. All arithmetic saturates.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Instant(u64);

impl Instant {
    /// The driver's epoch.
    pub const ZERO: Self = Self(0);
    /// The end of the clock, about 584 years after the epoch.
    pub const MAX: Self = Self(u64::MAX);

    /// The instant this many nanoseconds after the epoch.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the epoch.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// This instant plus `duration`, at most [`Instant::MAX`].
    #[must_use]
    pub fn saturating_add(self, duration: Duration) -> Self {
        Self(
            self.0
                .saturating_add(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)),
        )
    }

    /// The time from `earlier` to this instant, zero if `earlier` is later.
    #[must_use]
    pub fn saturating_duration_since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", Duration::from_nanos(self.0))
    }
}

/// Something to be told, once, that its time has come.
pub trait Alarm: Send + Sync {
    /// Called once, at or after the instant it was armed for, never while the driver holds a lock of its own.
    fn ring(&self);
}

/// Names an armed alarm to the driver that armed it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct AlarmKey {
    at: Instant,
    id: u64,
}

impl AlarmKey {
    /// A key for the alarm armed for `at`; `id` tells alarms of the same instant apart.
    #[must_use]
    pub const fn new(at: Instant, id: u64) -> Self {
        Self { at, id }
    }

    /// The instant the alarm was armed for.
    #[must_use]
    pub const fn at(self) -> Instant {
        self.at
    }

    /// What tells it apart from others of the same instant.
    #[must_use]
    pub const fn id(self) -> u64 {
        self.id
    }
}

/// A source of time.
///
/// # Contract
///
/// - `now` may be read from any thread; a reading that is older than one taken elsewhere is tolerated.
/// - `arm` never rings before it returns, even if `at` has passed: callers arm while they hold their own locks. An
///   alarm whose instant has passed is rung as soon as the driver can, or when its clock next moves.
/// - `ring` is called at most once an alarm, with no lock of the driver held. After `disarm` it may still be under way.
pub trait Driver: fmt::Debug + Send + Sync + 'static {
    /// The time.
    fn now(&self) -> Instant;
    /// Rings `alarm` at `at` or as soon after as possible.
    fn arm(&self, at: Instant, alarm: Arc<dyn Alarm>) -> AlarmKey;
    /// Forgets an alarm; nothing happens if it has rung already.
    fn disarm(&self, key: AlarmKey);
}

/// A shared handle on a [`Driver`]; clones are the same clock.
#[derive(Clone, Debug)]
pub struct Time(Arc<dyn Driver>);

impl Time {
    /// The process's own clock: one timer thread for all, started when the first alarm is armed. It needs no runtime
    /// and survives the end of any. An alarm on its own is on time; where alarms follow each other more closely than
    /// two milliseconds, they are rung together, late by up to that much, which the limiter catches up.
    #[must_use]
    pub fn thread() -> Self {
        Self(thread::shared())
    }

    /// A clock on tokio's timer, which follows tokio's paused clock.
    ///
    /// It is bound to the runtime it is made in; an alarm armed after that runtime has shut down is lost. Made outside
    /// any runtime it uses whatever runtime arms an alarm, and the timer thread where there is none. tokio's timer is
    /// about a millisecond late, so prefer [`Time::thread`] unless a test needs the paused clock.
    #[cfg(feature = "tokio")]
    #[must_use]
    pub fn tokio() -> Self {
        Self(tokio::driver())
    }

    /// A clock that stands still until the [`ManualClock`] moves it.
    #[must_use]
    pub fn manual() -> (Self, ManualClock) {
        let clock = ManualClock::new();
        (Self(clock.driver()), clock)
    }

    /// A clock with a driver of the caller's own.
    #[must_use]
    pub fn new(driver: Arc<dyn Driver>) -> Self {
        Self(driver)
    }

    /// The time.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.0.now()
    }

    /// Waits until `at`; ready at once if that has passed.
    pub fn sleep_until(&self, at: Instant) -> Sleep {
        Sleep::new(self.clone(), at)
    }

    /// Waits for `duration`, counted from this call.
    pub fn sleep(&self, duration: Duration) -> Sleep {
        self.sleep_until(self.now().saturating_add(duration))
    }

    /// Runs `future` until `at` at the latest. The future is polled first, so one that is ready wins over a deadline
    /// that has passed.
    ///
    /// # Errors
    ///
    /// [`Elapsed`] if `at` came first; the future is dropped.
    pub async fn timeout_at<F: Future>(
        &self,
        at: Instant,
        future: F,
    ) -> Result<F::Output, Elapsed> {
        let mut future = pin!(future);
        let mut sleep = pin!(self.sleep_until(at));
        poll_fn(|cx| {
            if let Poll::Ready(output) = future.as_mut().poll(cx) {
                return Poll::Ready(Ok(output));
            }
            sleep.as_mut().poll(cx).map(|()| Err(Elapsed(())))
        })
        .await
    }

    pub(crate) fn arm(&self, at: Instant, alarm: Arc<dyn Alarm>) -> AlarmKey {
        self.0.arm(at, alarm)
    }

    pub(crate) fn disarm(&self, key: AlarmKey) {
        self.0.disarm(key);
    }
}

/// The deadline of [`Time::timeout_at`] came before the future was ready.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Elapsed(());

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the deadline has passed")
    }
}

impl std::error::Error for Elapsed {}
