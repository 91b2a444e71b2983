//! A clock that moves when told, and may jump over its alarms as a suspended process sees it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use antfly_limiter::{Alarm, AlarmKey, Driver, Instant};

#[derive(Default)]
pub struct Clock(Mutex<State>);

#[derive(Default)]
struct State {
    now: Instant,
    next_id: u64,
    alarms: BTreeMap<AlarmKey, Arc<dyn Alarm>>,
}

impl Clock {
    pub fn next_alarm(&self) -> Option<Instant> {
        self.state().alarms.keys().next().map(|key| key.at())
    }

    pub fn armed(&self) -> usize {
        self.state().alarms.len()
    }

    /// Shows `to`, then rings what is due.
    pub fn set(&self, to: Instant) {
        self.state().now = to;
        loop {
            let due = {
                let mut state = self.state();
                match state.alarms.first_entry() {
                    Some(first) if first.key().at() <= to => first.remove(),
                    _ => return,
                }
            };
            due.ring();
        }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().expect("not poisoned")
    }
}

impl std::fmt::Debug for Clock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Clock")
    }
}

impl Driver for Clock {
    fn now(&self) -> Instant {
        self.state().now
    }

    fn arm(&self, at: Instant, alarm: Arc<dyn Alarm>) -> AlarmKey {
        let mut state = self.state();
        state.next_id += 1;
        let key = AlarmKey::new(at, state.next_id);
        state.alarms.insert(key, alarm);
        key
    }

    fn disarm(&self, key: AlarmKey) {
        let alarm = self.state().alarms.remove(&key);
        drop(alarm);
    }
}
