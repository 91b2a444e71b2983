//! Embeddings a second, one text at a time and in calls of 32, by the same model that `compare.py` runs beside it.
//!
//! `cargo bench -p antfly-providers --features in-process --bench in_process`, with `ANTFLY_MODELS_DIR` set.

#![allow(clippy::print_stdout, clippy::unwrap_used)]

use std::time::{Duration, Instant};

use antfly_providers::{Client, EmbedRequest, Embedder, EntryConfig, Env, Operation};

const MODEL: &str = "all-MiniLM-L6-v2";
/// A measurement takes at least this long.
const ROUND: Duration = Duration::from_millis(1500);
const ROUNDS: usize = 5;

fn main() {
    // `cargo test --benches` only wants to know that it builds.
    if std::env::args().any(|a| a == "--test") {
        return;
    }
    let texts: Vec<&str> = include_str!("texts.txt").lines().collect();
    let client = Client::builder()
        .registry(antfly_providers::registry().unwrap())
        .env(Env::process())
        .build()
        .unwrap();
    let entry = EntryConfig::new(Operation::Embed, "in_process", MODEL);
    let embedder = client.embedder(&entry).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    for (name, size) in [("single", 1), ("batch32", 32)] {
        run(&runtime, &embedder, &texts, size, ROUND / 3);
        let mut rates: Vec<f64> = (0..ROUNDS)
            .map(|_| run(&runtime, &embedder, &texts, size, ROUND))
            .collect();
        rates.sort_by(f64::total_cmp);
        println!(
            "{name}: {:.1} embeddings/s (median of {ROUNDS}; {:.1} to {:.1})",
            rates[ROUNDS / 2],
            rates[0],
            rates[ROUNDS - 1]
        );
    }
}

/// Embeds all texts, `size` a call, over and over, and gives the embeddings a second.
fn run(
    runtime: &tokio::runtime::Runtime,
    embedder: &Embedder,
    texts: &[&str],
    size: usize,
    at_least: Duration,
) -> f64 {
    let began = Instant::now();
    let mut count = 0;
    while began.elapsed() < at_least {
        for texts in texts.chunks(size) {
            let request = EmbedRequest::texts(texts.iter().copied());
            let vectors = runtime.block_on(embedder.embed(request)).unwrap();
            count += vectors.len();
        }
    }
    count as f64 / began.elapsed().as_secs_f64()
}
