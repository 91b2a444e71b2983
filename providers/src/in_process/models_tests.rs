use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

#[test]
fn many_threads_that_need_a_value_make_it_once() {
    let lazy = Lazy::<u32>::default();
    let made = AtomicUsize::new(0);
    let gate = std::sync::Barrier::new(16);
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                gate.wait();
                let value = lazy.get(|| {
                    made.fetch_add(1, Ordering::SeqCst);
                    std::thread::sleep(std::time::Duration::from_millis(20));
                    Ok(Arc::new(7))
                });
                assert_eq!(*value.unwrap(), 7);
            });
        }
    });
    assert_eq!(made.load(Ordering::SeqCst), 1);
}

#[test]
fn a_failure_is_told_to_who_met_it_and_tried_again_by_the_next() {
    let lazy = Lazy::<u32>::default();
    let failed = lazy.get(|| Err(Error::new(Kind::Config, "not there")));
    assert_eq!(failed.unwrap_err().kind(), Kind::Config);
    assert_eq!(*lazy.get(|| Ok(Arc::new(7))).unwrap(), 7);
    assert_eq!(
        *lazy
            .get(|| Err(Error::new(Kind::Config, "never asked")))
            .unwrap(),
        7
    );
}

#[test]
fn a_model_nobody_holds_is_forgotten() {
    let path = PathBuf::from("/no/such/folder/of/this/test");
    let first = Model::shared(path.clone(), Admission::default(), "a").unwrap();
    let second = Model::shared(path.clone(), Admission::default(), "b").unwrap();
    assert!(Arc::ptr_eq(&first, &second));
    drop((first, second));
    let other = Admission {
        max_concurrency: 9,
        max_queue: 9,
    };
    Model::shared(path, other, "c").unwrap();
}
