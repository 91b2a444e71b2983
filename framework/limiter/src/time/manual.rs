//! A clock for tests: it moves only when told.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::{Alarm, AlarmKey, Driver, Instant};
use crate::sync::{Mutex, lock};

/// Moves the clock of [`Time::manual`](crate::Time::manual). Clones move the same clock.
#[derive(Clone, Debug)]
pub struct ManualClock(Arc<Manual>);

#[derive(Debug, Default)]
struct Manual {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    now: Instant,
    next_id: u64,
    alarms: BTreeMap<AlarmKey, Arc<dyn Alarm>>,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State")
            .field("now", &self.now)
            .field("armed", &self.alarms.len())
            .finish()
    }
}

impl ManualClock {
    pub(super) fn new() -> Self {
        Self(Arc::default())
    }

    pub(super) fn driver(&self) -> Arc<dyn Driver> {
        self.0.clone()
    }

    /// Moves the clock forward, ringing every alarm on the way in the order of their times. While an alarm rings the
    /// clock shows that alarm's own time; alarms that are armed meanwhile and fall within the step ring as well.
    pub fn advance(&self, by: Duration) {
        let target = self.now().saturating_add(by);
        self.move_to(target);
    }

    /// Sets the clock. Forwards it rings alarms as [`advance`](Self::advance) does; backwards it only steps back, as a
    /// faulty clock would.
    pub fn set(&self, to: Instant) {
        let now = self.now();
        if to < now {
            lock(&self.0.state).now = to;
        } else {
            self.move_to(to);
        }
    }

    /// The time.
    #[must_use]
    pub fn now(&self) -> Instant {
        lock(&self.0.state).now
    }

    /// When the next alarm is due.
    #[must_use]
    pub fn next_alarm(&self) -> Option<Instant> {
        lock(&self.0.state).alarms.keys().next().map(|key| key.at())
    }

    /// How many alarms are armed.
    #[must_use]
    pub fn armed(&self) -> usize {
        lock(&self.0.state).alarms.len()
    }

    fn move_to(&self, target: Instant) {
        loop {
            let due = {
                let mut state = lock(&self.0.state);
                match state.alarms.first_entry() {
                    Some(first) if first.key().at() <= target => {
                        let (key, alarm) = first.remove_entry();
                        state.now = state.now.max(key.at());
                        alarm
                    }
                    _ => {
                        state.now = state.now.max(target);
                        return;
                    }
                }
            };
            due.ring();
        }
    }
}

impl Driver for Manual {
    fn now(&self) -> Instant {
        lock(&self.state).now
    }

    fn arm(&self, at: Instant, alarm: Arc<dyn Alarm>) -> AlarmKey {
        let mut state = lock(&self.state);
        state.next_id += 1;
        let key = AlarmKey::new(at, state.next_id);
        state.alarms.insert(key, alarm);
        key
    }

    fn disarm(&self, key: AlarmKey) {
        let alarm = lock(&self.state).alarms.remove(&key);
        drop(alarm);
    }
}
