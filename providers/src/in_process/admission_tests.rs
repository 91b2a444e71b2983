use std::sync::mpsc;
use std::time::Duration;

use antfly_framework::Time;

use super::*;

/// How long anything that must happen may take, in real time.
const PATIENCE: Duration = Duration::from_secs(60);

fn queue(max_concurrency: u32, max_queue: u32) -> Arc<Queue> {
    Arc::new(Queue::new(Admission {
        max_concurrency,
        max_queue,
    }))
}

/// A run that says when it has begun and ends when told.
fn held(
    queue: &Arc<Queue>,
) -> (
    impl Future<Output = Result<bool>> + use<>,
    mpsc::Receiver<()>,
    mpsc::Sender<()>,
) {
    let (begun, has_begun) = mpsc::channel();
    let (end, told) = mpsc::channel::<()>();
    let queue = Arc::clone(queue);
    let run = async move {
        queue
            .run(move |cancel| {
                begun.send(()).unwrap();
                told.recv_timeout(PATIENCE).unwrap();
                Ok(cancel.is_cancelled())
            })
            .await
    };
    (run, has_begun, end)
}

/// Waits for what another thread does.
fn until(what: &str, happened: impl Fn() -> bool) {
    let began = std::time::Instant::now();
    while !happened() {
        assert!(began.elapsed() < PATIENCE, "waited for {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[tokio::test]
async fn five_hundred_callers_run_one_at_a_time_in_the_order_they_came() {
    let queue = queue(1, 500);
    let order = Arc::new(Mutex::new(Vec::new()));
    let (first, has_begun, end) = held(&queue);
    let first = tokio::spawn(first);
    tokio::task::yield_now().await;
    has_begun.recv_timeout(PATIENCE).unwrap();
    let callers: Vec<_> = (0..500)
        .map(|number| {
            let (queue, order) = (Arc::clone(&queue), Arc::clone(&order));
            tokio::spawn(async move {
                let work = move |_: &CancelFlag| {
                    order.lock().unwrap().push(number);
                    Ok(())
                };
                queue.run(work).await
            })
        })
        .collect();
    while queue.load().1 < 500 {
        tokio::task::yield_now().await;
    }
    assert_eq!(queue.load(), (1, 500));
    end.send(()).unwrap();
    first.await.unwrap().unwrap();
    for caller in callers {
        caller.await.unwrap().unwrap();
    }
    assert_eq!(*order.lock().unwrap(), (0..500).collect::<Vec<_>>());
    assert_eq!(queue.load(), (0, 0));
}

#[tokio::test]
async fn a_full_queue_refuses_at_once_and_says_what_is_full() {
    let queue = queue(1, 1);
    let (first, has_begun, end) = held(&queue);
    let first = tokio::spawn(first);
    tokio::task::yield_now().await;
    has_begun.recv_timeout(PATIENCE).unwrap();
    let mut second = Box::pin(queue.run(|_| Ok(())));
    assert!(futures::poll!(second.as_mut()).is_pending());
    let mut third = Box::pin(queue.run(|_| Ok(())));
    let refused = futures::poll!(third.as_mut());
    let std::task::Poll::Ready(Err(e)) = refused else {
        panic!("the third must be refused by its first poll");
    };
    assert_eq!(e.kind(), Kind::Overloaded);
    assert!(e.is_retryable());
    assert!(e.message().contains("admission.max_queue 1"), "{e}");
    end.send(()).unwrap();
    first.await.unwrap().unwrap();
    second.await.unwrap();
}

#[tokio::test]
async fn a_caller_that_leaves_the_queue_gives_its_place_up_at_once() {
    let queue = queue(1, 1);
    let (first, has_begun, end) = held(&queue);
    let first = tokio::spawn(first);
    tokio::task::yield_now().await;
    has_begun.recv_timeout(PATIENCE).unwrap();
    let request = Arc::new(());
    let kept = Arc::clone(&request);
    let mut second = Box::pin(queue.run(move |_| {
        drop(kept);
        Ok(())
    }));
    assert!(futures::poll!(second.as_mut()).is_pending());
    drop(second);
    assert_eq!(queue.load(), (1, 0));
    assert_eq!(Arc::strong_count(&request), 1, "nothing of it is left");
    let mut third = Box::pin(queue.run(|_| Ok(())));
    assert!(futures::poll!(third.as_mut()).is_pending());
    end.send(()).unwrap();
    first.await.unwrap().unwrap();
    third.await.unwrap();
}

#[tokio::test]
async fn a_deadline_ends_the_wait_on_the_clients_own_clock() {
    let (time, clock) = Time::manual();
    let queue = queue(1, 8);
    let (first, has_begun, end) = held(&queue);
    let first = tokio::spawn(first);
    tokio::task::yield_now().await;
    has_begun.recv_timeout(PATIENCE).unwrap();
    let deadline = time.now().saturating_add(Duration::from_secs(5));
    let mut second = Box::pin(time.timeout_at(deadline, queue.run(|_| Ok(()))));
    assert!(futures::poll!(second.as_mut()).is_pending());
    clock.advance(Duration::from_nanos(4_999_999_999));
    assert!(futures::poll!(second.as_mut()).is_pending());
    clock.advance(Duration::from_nanos(1));
    assert!(second.await.is_err());
    assert_eq!(queue.load(), (1, 0));
    end.send(()).unwrap();
    first.await.unwrap().unwrap();
}

#[tokio::test]
async fn the_slot_is_taken_until_the_work_has_really_ended() {
    let queue = queue(1, 8);
    let (first, has_begun, end) = held(&queue);
    let mut first = Box::pin(first);
    assert!(futures::poll!(first.as_mut()).is_pending());
    has_begun.recv_timeout(PATIENCE).unwrap();
    drop(first);
    assert_eq!(
        queue.load(),
        (1, 0),
        "its caller has gone, the work has not"
    );
    let mut second = Box::pin(queue.run(|cancel| Ok(cancel.is_cancelled())));
    assert!(futures::poll!(second.as_mut()).is_pending());
    assert_eq!(queue.load(), (1, 1));
    end.send(()).unwrap();
    assert!(!second.await.unwrap(), "the flag is each run's own");
    assert_eq!(queue.load(), (0, 0));
}

#[tokio::test]
async fn a_run_learns_that_its_caller_has_gone() {
    let queue = queue(1, 8);
    let (saw, seen) = mpsc::channel();
    let mut run = Box::pin(queue.run(move |cancel| {
        saw.send(false).unwrap();
        until("the flag", || cancel.is_cancelled());
        saw.send(true).unwrap();
        cancel.check()
    }));
    assert!(futures::poll!(run.as_mut()).is_pending());
    assert!(!seen.recv_timeout(PATIENCE).unwrap());
    drop(run);
    assert!(seen.recv_timeout(PATIENCE).unwrap());
    until("the slot", || queue.load() == (0, 0));
}

#[tokio::test]
async fn as_many_run_at_once_as_the_entry_says() {
    let queue = queue(3, 8);
    let mut runs = Vec::new();
    for _ in 0..4 {
        let (run, begun, end) = held(&queue);
        let mut run = Box::pin(run);
        assert!(futures::poll!(run.as_mut()).is_pending());
        tokio::spawn(run);
        runs.push((begun, end));
    }
    for (begun, _) in runs.iter().take(3) {
        begun.recv_timeout(PATIENCE).unwrap();
    }
    assert_eq!(queue.load(), (3, 1));
    assert!(runs[3].0.try_recv().is_err(), "the fourth waits");
    runs[1].1.send(()).unwrap();
    runs[3].0.recv_timeout(PATIENCE).unwrap();
    for at in [0, 2, 3] {
        runs[at].1.send(()).unwrap();
    }
    until("the end", || queue.load() == (0, 0));
}

#[tokio::test]
async fn a_panic_costs_its_own_caller_only_and_gives_the_slot_back() {
    let queue = queue(1, 8);
    let e = queue
        .run(|_| -> Result<()> { panic!("a fault, on purpose") })
        .await
        .unwrap_err();
    assert_eq!(e.kind(), Kind::Server);
    assert!(!e.is_retryable());
    assert_eq!(queue.load(), (0, 0));
    queue.run(|_| Ok(())).await.unwrap();
}

#[tokio::test]
async fn the_async_thread_goes_on_while_a_run_works() {
    // One thread drives this runtime; were it blocked by the run, nobody could tell the run to end.
    let queue = queue(1, 8);
    let (run, has_begun, end) = held(&queue);
    let run = tokio::spawn(run);
    tokio::task::yield_now().await;
    has_begun.recv_timeout(PATIENCE).unwrap();
    end.send(()).unwrap();
    assert!(!run.await.unwrap().unwrap());
}

#[tokio::test]
async fn a_caller_that_has_its_answer_can_rely_on_the_slot() {
    let queue = queue(1, 0);
    for _ in 0..1000 {
        queue.run(|_| Ok(())).await.unwrap();
    }
}

#[test]
fn a_run_outlives_the_runtime_of_its_caller() {
    let queue = queue(1, 8);
    let (run, has_begun, end) = held(&queue);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    runtime.block_on(async {
        tokio::spawn(run);
        tokio::task::yield_now().await;
    });
    has_begun.recv_timeout(PATIENCE).unwrap();
    drop(runtime);
    assert_eq!(queue.load(), (1, 0));
    end.send(()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    runtime.block_on(queue.run(|_| Ok(()))).unwrap();
}
