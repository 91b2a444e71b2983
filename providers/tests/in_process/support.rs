//! A client on a clock of its own, and entries.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use antfly_framework::testing::ManualClock;
use antfly_providers::{
    Client, EmbedRequest, Embeddings, EntryConfig, Env, Operation, RerankRequest, Result, Time,
};
use serde_json::{Value, json};

pub(crate) use crate::fetched::models;

pub(crate) const MINILM: &str = "all-MiniLM-L6-v2";

/// A folder beside these tests.
pub(crate) fn here(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/in_process")
        .join(name)
}

/// A client that knows the models in `models`.
pub(crate) fn client_of(models: &Path) -> (Client, ManualClock) {
    let (time, clock) = Time::manual();
    let client = Client::builder()
        .registry(antfly_providers::registry().unwrap())
        .time(time)
        .env(Env::from_pairs([(
            "ANTFLY_MODELS_DIR",
            models.to_str().unwrap(),
        )]))
        .build()
        .unwrap();
    (client, clock)
}

pub(crate) fn entry(operation: Operation, model: &str, more: Value) -> EntryConfig {
    try_entry(operation, model, more).unwrap()
}

pub(crate) fn try_entry(operation: Operation, model: &str, more: Value) -> Result<EntryConfig> {
    let path = match operation {
        Operation::Embed => "embedders.one",
        Operation::Generate => "generators.one",
        _ => "rerankers.one",
    };
    let mut json = json!({ "provider": "in_process", "model": model });
    for (key, value) in more.as_object().unwrap() {
        json[key] = value.clone();
    }
    EntryConfig::from_json(operation, path, json)
}

/// Vectors of texts by a model of a folder.
pub(crate) async fn embed(
    models: &Path,
    model: &str,
    more: Value,
    texts: &[&str],
) -> Result<Embeddings> {
    let (client, _clock) = client_of(models);
    let embedder = client.embedder(&entry(Operation::Embed, model, more))?;
    embedder
        .embed(EmbedRequest::texts(texts.iter().copied()))
        .await
}

/// The scores of documents, by their index.
pub(crate) async fn scores(
    models: &Path,
    model: &str,
    more: Value,
    query: &str,
    documents: &[&str],
) -> Result<Vec<f64>> {
    let (client, _clock) = client_of(models);
    let reranker = client.reranker(&entry(Operation::Rerank, model, more))?;
    let ranking = reranker
        .rerank(RerankRequest::new(query, documents.iter().copied()))
        .await?;
    let mut scores = vec![f64::NAN; documents.len()];
    for r in &ranking.results {
        scores[r.index] = r.score;
    }
    Ok(scores)
}

pub(crate) fn cosine(a: &[f32], b: &[f32]) -> f64 {
    let dot = |a: &[f32], b: &[f32]| -> f64 {
        a.iter()
            .zip(b)
            .map(|(x, y)| f64::from(*x) * f64::from(*y))
            .sum()
    };
    assert_eq!(a.len(), b.len());
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
}

/// A folder of this test's own, gone when it is dropped.
pub(crate) struct Scratch(pub(crate) PathBuf);

impl Scratch {
    pub(crate) fn new(name: &str) -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        // Tests run side by side, and some ask for a folder several times.
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = Path::new(env!("CARGO_TARGET_TMPDIR"))
            .join(format!("in-process-{name}-{}-{number}", std::process::id()));
        drop(std::fs::remove_dir_all(&path));
        std::fs::create_dir_all(&path).unwrap();
        Scratch(path)
    }

    /// A copy of one of the tiny models, under its own name.
    pub(crate) fn with_tiny(self, name: &str) -> Self {
        self.with_copy(&here("tiny").join(name))
    }

    /// A copy of a model's folder, under its own name.
    pub(crate) fn with_copy(self, folder: &Path) -> Self {
        copy(folder, &self.0.join(folder.file_name().unwrap()));
        self
    }
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for file in std::fs::read_dir(from).unwrap() {
        let file = file.unwrap();
        let to = to.join(file.file_name());
        match file.file_type().unwrap().is_dir() {
            true => copy(&file.path(), &to),
            false => assert!(std::fs::copy(file.path(), to).is_ok()),
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}
