//! The remote Antfly reranker: the plugin `antfly` for the operation `rerank`.
//!
//! Written as a third party would write one, over [`antfly_framework`] alone. [`PLUGIN`] is the way in: submitted through
//! `inventory`, or registered by hand with `Registry::register`.
//!
//! # Reading order
//! `config` (how an entry becomes an adapter, remote or in-process), `remote` (what it is), `wire` (request and answer), `error`
//! (what a refusal means).

#![forbid(unsafe_code)]

mod config;
mod error;
mod remote;
mod wire;

use antfly_framework::provider::{Operation, Plugin};

/// The plugin `antfly`, for reranking.
pub const PLUGIN: Plugin = Plugin {
    name: "antfly",
    operations: &[Operation::Rerank],
    env_prefix: None,
    resolve: config::resolve,
};

antfly_framework::inventory::submit!(PLUGIN);
