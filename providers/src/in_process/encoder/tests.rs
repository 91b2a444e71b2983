//! The encoder with a body of the tests' own, in a queue.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use antfly_framework::config::Admission;

use super::super::admission::Queue;
use super::*;

const PATIENCE: Duration = Duration::from_secs(60);

fn tiny() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/in_process/tiny/bert-encoder")
}

/// Counts the sequences it is given; from the third sub-batch on it says so and works until its caller has gone.
#[derive(Debug)]
struct Counting {
    sequences: Arc<AtomicUsize>,
    begun: mpsc::SyncSender<()>,
}

impl Body for Counting {
    fn dim(&self) -> usize {
        1
    }

    fn forward(&self, batch: &[&Tokens], cancel: &CancelFlag) -> Result<Rows> {
        let before = self.sequences.fetch_add(batch.len(), Ordering::SeqCst);
        if before + batch.len() > 2 * MOST {
            let _ = self.begun.try_send(());
            while !cancel.is_cancelled() {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        let tokens: usize = batch.iter().map(|t| t.len()).sum();
        Ok(Rows {
            numbers: vec![1.0; tokens],
            dim: 1,
        })
    }
}

#[tokio::test]
async fn a_run_whose_caller_goes_away_stops_within_a_sub_batch_and_gives_its_slot_back() {
    let folder = tiny();
    let folder = Folder::new(&folder);
    let sequences = Arc::new(AtomicUsize::new(0));
    let (begun, has_begun) = mpsc::sync_channel(64);
    let body = Counting {
        sequences: Arc::clone(&sequences),
        begun,
    };
    let encoder = Arc::new(Encoder {
        texts: Texts::load(&folder, 48, false).unwrap(),
        body: Box::new(body),
        end: End::Vectors(Recipe::load(&folder, 1).unwrap()),
    });
    let queue = Queue::new(Admission::default());
    let of_run = Arc::clone(&encoder);
    let mut run = Box::pin(queue.run(move |cancel| {
        let texts = vec!["the a an"; 20 * MOST];
        let tokens = of_run.tokens(&texts, Cut::End, cancel)?;
        of_run.vectors(&tokens, MOST, false, cancel)
    }));
    assert!(futures::poll!(run.as_mut()).is_pending());
    has_begun.recv_timeout(PATIENCE).unwrap();
    assert_eq!(queue.load(), (1, 0));
    drop(run);
    // The next run has the slot only once the first has ended.
    queue.run(|_| Ok(())).await.unwrap();
    assert_eq!(queue.load(), (0, 0));
    assert_eq!(
        sequences.load(Ordering::SeqCst),
        3 * MOST,
        "the sub-batch it was in, and no other"
    );
}

#[test]
fn a_flag_is_looked_at_between_layers() {
    let path = tiny();
    let encoder = Encoder::load(&path).unwrap();
    let cancel = CancelFlag::default();
    let tokens = encoder.tokens(&["the a an"], Cut::End, &cancel).unwrap();
    cancel.cancel();
    let e = encoder.body.forward(&[&tokens[0]], &cancel).unwrap_err();
    assert_eq!(e.kind(), Kind::Cancelled);
}

#[test]
fn a_text_has_the_same_vector_number_for_number_alone_and_among_others() {
    let encoder = Encoder::load(&tiny()).unwrap();
    let cancel = CancelFlag::default();
    let texts: Vec<String> = (1..=40).map(|n| "the a an ".repeat(n)).collect();
    let tokens = encoder.tokens(&texts, Cut::End, &cancel).unwrap();
    let together = encoder.vectors(&tokens, MOST, true, &cancel).unwrap();
    for (tokens, expected) in tokens.iter().zip(&together) {
        let alone = encoder.vectors(std::slice::from_ref(tokens), 1, true, &cancel);
        assert_eq!(&alone.unwrap()[0], expected);
    }
}

#[test]
fn a_text_that_a_tokenizer_leaves_nothing_of_is_refused() {
    let none = Tokens::default();
    assert_eq!(none.len(), 0);
    let folder = tiny();
    let e = Texts::load(&Folder::new(&folder), 3, false).unwrap_err();
    assert!(e.message().contains("leaves no room"), "{e}");
}
