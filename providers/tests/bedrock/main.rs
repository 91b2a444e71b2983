//! The Bedrock adapter with the real AWS SDK, over real HTTP on loopback: a model endpoint, the metadata services and STS.
//!
//! `embed`, `converse`, `stream`, `rerank`: what travels. `paths`: model ids in URLs and signatures. `attempts`: one request an
//! attempt, and what refusals mean. `odd_answers`: exceptions in their place and ends out of order. `credentials`: every source, outside
//! the quota. `broken_sources`: what goes wrong with them. `pacing`: slow sources under each policy. `entries`: what configuration says.
//! `botocore` (opt-in): signatures, checked by another implementation.
#![allow(missing_docs, clippy::unwrap_used)] // A test fails by panicking.
#![cfg(feature = "bedrock")]

mod attempts;
mod botocore;
mod broken_sources;
mod conformance;
mod converse;
mod credentials;
mod embed;
mod entries;
mod frames;
mod odd_answers;
mod pacing;
mod paths;
mod rerank;
mod stream;
mod support;
