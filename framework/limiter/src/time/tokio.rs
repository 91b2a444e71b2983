//! Alarms on tokio's timer.

use std::collections::HashMap;
use std::sync::Arc;

use ::tokio::runtime::Handle;
use ::tokio::task::AbortHandle;

use super::{Alarm, AlarmKey, Driver, Instant, thread};
use crate::sync::{Mutex, lock};

pub(super) fn driver() -> Arc<dyn Driver> {
    let home = Handle::try_current().ok();
    Arc::new(Tokio {
        epoch: ::tokio::time::Instant::now(),
        home,
        tasks: Arc::default(),
        without: thread::shared(),
    })
}

#[derive(Debug)]
struct Tokio {
    epoch: ::tokio::time::Instant,
    home: Option<Handle>,
    tasks: Arc<Mutex<Tasks>>,
    without: Arc<dyn Driver>,
}

#[derive(Debug, Default)]
struct Tasks {
    next_id: u64,
    running: HashMap<u64, Running>,
}

#[derive(Debug)]
enum Running {
    Task(AbortHandle),
    Thread(AlarmKey),
}

impl Tokio {
    fn runtime(&self) -> Option<Handle> {
        self.home.clone().or_else(|| Handle::try_current().ok())
    }
}

impl Driver for Tokio {
    fn now(&self) -> Instant {
        // The paused clock is a runtime's own: read it from inside.
        let entered = self.home.as_ref().map(Handle::enter);
        let now = ::tokio::time::Instant::now();
        drop(entered);
        Instant::ZERO.saturating_add(now.saturating_duration_since(self.epoch))
    }

    fn arm(&self, at: Instant, alarm: Arc<dyn Alarm>) -> AlarmKey {
        let mut tasks = lock(&self.tasks);
        tasks.next_id += 1;
        let id = tasks.next_id;
        let wait = at.saturating_duration_since(self.now());
        let running = if let Some(runtime) = self.runtime() {
            let shared = self.tasks.clone();
            let task = runtime.spawn(async move {
                ::tokio::time::sleep(wait).await;
                lock(&shared).running.remove(&id);
                alarm.ring();
            });
            Running::Task(task.abort_handle())
        } else {
            Running::Thread(
                self.without
                    .arm(self.without.now().saturating_add(wait), alarm),
            )
        };
        tasks.running.insert(id, running);
        AlarmKey::new(at, id)
    }

    fn disarm(&self, key: AlarmKey) {
        let running = lock(&self.tasks).running.remove(&key.id());
        match running {
            Some(Running::Task(task)) => task.abort(),
            Some(Running::Thread(key)) => self.without.disarm(key),
            None => {}
        }
    }
}
