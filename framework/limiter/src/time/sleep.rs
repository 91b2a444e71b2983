//! The future that waits for an instant.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use super::{Alarm, AlarmKey, Instant, Time};
use crate::sync::{Mutex, lock};

/// Waits for an instant; made by [`Time::sleep_until`]. Dropping it disarms its alarm.
#[derive(Debug)]
#[must_use = "futures do nothing unless awaited"]
pub struct Sleep {
    time: Time,
    at: Instant,
    armed: Option<(AlarmKey, Arc<Bell>)>,
}

#[derive(Debug, Default)]
struct Bell(Mutex<Option<Waker>>);

impl Alarm for Bell {
    fn ring(&self) {
        let waker = lock(&self.0).take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl Sleep {
    pub(super) fn new(time: Time, at: Instant) -> Self {
        Self {
            time,
            at,
            armed: None,
        }
    }

    /// The instant it waits for.
    #[must_use]
    pub fn deadline(&self) -> Instant {
        self.at
    }

    fn disarm(&mut self) {
        if let Some((key, _)) = self.armed.take() {
            self.time.disarm(key);
        }
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.time.now() >= self.at {
            self.disarm();
            return Poll::Ready(());
        }
        let waker = cx.waker().clone();
        let rang = match &self.armed {
            Some((_, bell)) => {
                // An empty bell has rung, though the clock says it is too early (it was set back): arm anew.
                let old = lock(&bell.0).replace(waker.clone());
                let rang = old.is_none();
                drop(old);
                rang
            }
            None => true,
        };
        if rang {
            self.disarm();
            let bell = Arc::new(Bell(Mutex::new(Some(waker))));
            let key = self.time.arm(self.at, bell.clone());
            self.armed = Some((key, bell));
        }
        // The clock may have moved between the reading above and the arming.
        if self.time.now() >= self.at {
            self.disarm();
            return Poll::Ready(());
        }
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        self.disarm();
    }
}
