//! One API for embedding, generation and reranking models, whoever serves them, without ever breaking a quota.
//!
//! An adapter says *what* an endpoint is and translates; the framework alone decides *when* anything is sent.
//!
//! ```text
//!  caller ──> Client ──> handle (Embedder | Generator | Reranker: holds a lease on its scope)
//!                           │  call: validate, split into parts, deadline, cancellation
//!                           ▼
//!                     attempt loop ── prepare ─> credential ─> admit ─> send ─> classify ─> retry | redirect | answer
//!                           │            │           │           │       │
//!                           │         adapter     adapter     limiter  transport, or the adapter's own engine
//!                           ▼
//!                     the permit travels with the answer until its body is read, its stream ends or is dropped
//! ```
//!
//! # Where to start
//! - To *use* providers: [`Client`], then [`Embedder`], [`Generator`], [`Reranker`].
//! - To *write* one: [`provider`], whose first page is the contract.
//! - Configuration: [`config`]. Secrets: [`secret`]. Errors: [`Error`] and [`Kind`].
//! - The limiter itself: the crate `antfly-limiter`, re-exported as [`limiter`].
//!
//! # Reading order
//! `provider/mod.rs` (the contract), `client/` (handles and calls), `attempt/mod.rs` (the loop), then whatever it names.
//!
//! # Features
//! - `testing`: the scripted server and helpers that tests of adapters use.

#![forbid(unsafe_code)]

mod attempt;
pub mod client;
pub mod config;
pub mod content;
pub mod embed;
pub mod error;
pub mod generate;
mod handle;
pub mod http;
pub mod provider;
pub mod registry;
pub mod rerank;
pub mod secret;
#[cfg(feature = "testing")]
pub mod testing;

/// The crates whose types are in the contract, for adapters that do not want to name their versions.
pub mod contract {
    pub use {::async_trait, ::bytes, ::futures, ::http, ::secrecy, ::serde_json, ::url};
}

pub use antfly_limiter as limiter;
pub use antfly_limiter::{Instant, Limiter, Pacing, Policy, ScopeKey, ScopeSnapshot, Time};
pub use inventory;

pub use attempt::{Attempt, AttemptObserver, AttemptRecord, Outcome};
pub use client::{CallOptions, Checked, Client, ClientBuilder, Embedder, Generator, Reranker};
pub use config::{Document, EntryConfig, Env};
pub use content::{Media, MediaKind, MediaSource, MediaSupport, Part};
pub use embed::{EmbedInput, EmbedPartResult, EmbedRequest, Embeddings, SparseVector};
pub use error::{Error, Kind, Phase, Result};
pub use generate::{
    Accumulator, FinishReason, GenerateRequest, GenerateStream, Generation, Message,
    ResponseFormat, Role, StreamEvent, Tool, ToolCall, ToolCallDelta, ToolChoice, Usage,
};
pub use provider::{Operation, Plugin, Provider};
pub use registry::Registry;
pub use rerank::{Ranked, Ranking, RerankRequest};
pub use tokio_util::sync::CancellationToken;
