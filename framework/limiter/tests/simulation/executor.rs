//! One thread, any order: polls the woken as the dice choose and moves the clock when nobody is woken.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use antfly_limiter::{Driver, Instant};

use crate::clock::Clock;
use crate::dice::Dice;

/// How unkind the surroundings are.
pub struct Weather {
    /// One poll in so many comes up to 20 ms late.
    pub late_polls: u64,
    /// When the process is suspended, and for how long; in order.
    pub suspensions: Vec<(Instant, Duration)>,
}

/// Until when each task is excused for not being where its turn is: to the end of time while it has been woken and is kept
/// from running, then for as long as the invitations stand that others got meanwhile.
pub type Excused = Rc<RefCell<Vec<Instant>>>;

/// How long an invitation stands.
pub const INVITATION: Duration = Duration::from_millis(5);

struct Task {
    future: Pin<Box<dyn Future<Output = ()>>>,
    waker: Waker,
    woken: Arc<TaskWaker>,
}

struct TaskWaker {
    id: usize,
    queued: AtomicBool,
    ready: Arc<Mutex<Vec<usize>>>,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.queued.swap(true, Ordering::Relaxed) {
            self.ready.lock().expect("not poisoned").push(self.id);
        }
    }
}

/// Runs all to their end; says how many polls that took and how many were late.
pub fn run(
    clock: &Clock,
    dice: &mut Dice,
    weather: &Weather,
    excused: &Excused,
    on_suspension: impl Fn(Instant, Duration),
    futures: Vec<Pin<Box<dyn Future<Output = ()>>>>,
) -> (u64, u64) {
    let ready = Arc::new(Mutex::new(Vec::new()));
    let start = |(id, future)| {
        let woken = Arc::new(TaskWaker {
            id,
            queued: AtomicBool::new(false),
            ready: ready.clone(),
        });
        woken.wake_by_ref();
        let waker = Waker::from(woken.clone());
        Some(Task {
            future,
            waker,
            woken,
        })
    };
    let mut tasks: Vec<Option<Task>> = futures.into_iter().enumerate().map(start).collect();
    *excused.borrow_mut() = vec![Instant::ZERO; tasks.len()];
    let mut late: BinaryHeap<Reverse<(Instant, usize)>> = BinaryHeap::new();
    let mut suspensions = weather.suspensions.iter().peekable();
    let (mut left, mut polls, mut late_polls) = (tasks.len(), 0, 0);
    while left > 0 {
        let now = clock.now();
        let next = {
            let mut ready = ready.lock().expect("not poisoned");
            let woken = ready.len() as u64;
            (woken > 0).then(|| ready.swap_remove(dice.roll(woken) as usize))
        };
        let overslept = late.peek().filter(|it| it.0.0 <= now).map(|it| it.0.1);
        if let Some(id) = overslept.or(next) {
            if overslept.is_some() {
                late.pop();
                excused.borrow_mut()[id] = now.saturating_add(INVITATION);
                if let Some(next) = next {
                    ready.lock().expect("not poisoned").push(next);
                }
            } else if dice.once_in(weather.late_polls) {
                late_polls += 1;
                excused.borrow_mut()[id] = Instant::MAX;
                let by = dice.between(Duration::ZERO, Duration::from_millis(20));
                late.push(Reverse((now.saturating_add(by), id)));
                continue;
            }
            let Some(task) = &mut tasks[id] else { continue };
            task.woken.queued.store(false, Ordering::Relaxed);
            polls += 1;
            let poll = task
                .future
                .as_mut()
                .poll(&mut Context::from_waker(&task.waker));
            if poll == Poll::Ready(()) {
                tasks[id] = None;
                left -= 1;
            }
            continue;
        }
        let event = clock
            .next_alarm()
            .into_iter()
            .chain(late.peek().map(|it| it.0.0))
            .min();
        let at = event
            .expect("all wait and nothing will ever happen")
            .max(now);
        if let Some(&&(from, rest)) = suspensions.peek().filter(|it| it.0 <= at) {
            suspensions.next();
            let until = from.max(now).saturating_add(rest);
            on_suspension(until, rest);
            clock.set(until);
            continue;
        }
        // Timers are a little late at times, and now and then more than the limiter makes up for.
        let lateness = match dice.roll(200) {
            0 => dice.between(Duration::ZERO, Duration::from_millis(9)),
            1..=20 => dice.between(Duration::ZERO, Duration::from_millis(2)),
            _ => Duration::ZERO,
        };
        clock.set(at.saturating_add(lateness));
    }
    assert!(suspensions.next().is_none(), "a suspension after the end");
    (polls, late_polls)
}
