//! Generation with GGUF models, through the front door.
//!
//! - `reference`: greedy answers equal llama.cpp's (`fixtures/`, made by `reference.py`).
//! - `answers`: streams, seeds, stop sequences, caps, options.
//! - `streams`: deadlines, drops, and what becomes of the run.
//! - `files`: broken and hostile files.
//! - `tiny`: small models, written by these tests, that everything but the real one's reference runs with.
#![allow(clippy::unwrap_used)] // A test fails by panicking.

mod answers;
#[path = "../in_process/fetched.rs"]
mod fetched;
mod files;
mod reference;
mod streams;
#[allow(dead_code)] // The crate's own tests use the rest of it.
mod tiny;

use std::path::Path;

use antfly_providers::{Client, EntryConfig, Env, Generator, Limiter, Operation, Time};

/// A client that knows nothing of this machine.
fn client() -> Client {
    antfly_providers::client_builder()
        .unwrap()
        .limiter(Limiter::new(Time::thread()))
        .env(Env::from_pairs([("UNUSED", "")]))
        .build()
        .unwrap()
}

fn entry(model: &Path) -> EntryConfig {
    let mut entry = EntryConfig::new(Operation::Generate, "in_process", "m");
    entry.model_path = Some(model.display().to_string());
    entry
}

fn generator(model: &Path) -> Generator {
    client().generator(&entry(model)).unwrap()
}
