//! Models that run in this process: embeddings and reranking with BERT-family encoders, generation with quantized GGUF models.
//!
//! No network, no credential, no outbound limit. A model has its own admission: so many runs at once, so many that may wait, first
//! in first out, and one more is refused. Work runs on threads of its own, never on the caller's; a run's slot is taken until the
//! work has really ended, also when its caller has gone, and a caller that goes stops the work within a token or a sub-batch.
//!
//! [`PLUGIN`] serves entries of the provider `in_process`. [`Engine`] is the same for entries of providers that may be remote or
//! in-process, once a client has been given one.
//!
//! # Reading order
//! `config` (how an entry becomes a run's settings), `local` (a request, queued and run), `admission` (the queue and its threads),
//! `models` (loaded once, shared), `folder` (what a model's own files say), `encoder/` (texts to hidden states), `embed` and
//! `rerank` (what is made of them), `generate/`.

mod admission;
mod config;
mod embed;
mod encoder;
mod engine;
mod folder;
mod generate;
mod local;
mod models;
mod rerank;

use antfly_framework::Operation;
use antfly_framework::provider::{Declared, Plugin, Provider, Route};

pub use engine::Engine;

/// The plugin `in_process`.
pub const PLUGIN: Plugin = Plugin {
    name: "in_process",
    operations: &[Operation::Embed, Operation::Generate, Operation::Rerank],
    env_prefix: None,
    resolve: config::resolve,
};

antfly_framework::inventory::submit!(PLUGIN);

/// One entry's adapter.
#[derive(Debug)]
struct InProcess {
    declared: Declared,
    local: local::Local,
}

impl Provider for InProcess {
    fn declare(&self) -> &Declared {
        &self.declared
    }

    fn route(&self) -> Route<'_> {
        Route::Local(&self.local)
    }
}
