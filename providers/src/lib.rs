//! Embedding, generation and reranking providers behind one API, with every HTTP attempt admitted by a shared limiter.
//!
//! This crate is the front door: it re-exports [`antfly_framework`] whole and adds the adapters. [`client()`] has every plugin
//! that is compiled in; [`client_builder`] is the same with everything else still open (limiter, secrets, clock, engine).
//!
//! ```no_run
//! use antfly_providers::{Document, EmbedRequest, Operation};
//!
//! # async fn run() -> antfly_providers::Result<()> {
//! let document = Document::parse(r#"{"embedders": {"docs": {
//!     "provider": "openai", "model": "text-embedding-3-small", "rate_limit": {"requests_per_minute": 120}
//! }}}"#)?;
//! let client = antfly_providers::client()?;
//! let entry = document.entry(Operation::Embed, "docs").expect("it is written above");
//! let vectors = client.embedder(entry)?.embed(EmbedRequest::texts(["one", "two"])).await?;
//! # drop(vectors); Ok(()) }
//! ```
//!
//! # Where to start
//! - To embed, generate or rerank: [`Client`], then [`Embedder`], [`Generator`], [`Reranker`]; what went wrong is a [`Kind`].
//! - To read a configuration: [`Document`]; to make one entry in Rust: [`EntryConfig`].
//! - To write a provider: [`provider`], and `docs/write-a-provider.md` in the repository.
//!
//! # Reading order
//! [`registry()`] names the plugins. Each adapter is one folder with the same files: `mod` (what it is), `config` (how an entry
//! becomes one), `wire` (requests and answers), `error` (what a refusal means).
//!
//! # Features
//! - `openai` (default): OpenAI and servers that speak its wire; embed and generate.
//! - `antfly` (default): Antfly inference; embed and generate.
//! - `antfly-reranker` (default): the remote Antfly reranker.
//! - `bedrock` (default): Amazon Bedrock through the AWS SDK; embed, generate, rerank. `bedrock-sso` and
//!   `bedrock-credential-process` add profiles that need those.
//! - `vertex` (default): Google Vertex AI; embed, generate, rerank.
//! - `gemini` (default): the Gemini API with a key; embed, generate.
//! - `in-process`: models that run in this process; embed, generate, rerank.
//!
//! A feature links an adapter in; it changes nothing about the entries of another.

#![forbid(unsafe_code)]

pub use antfly_framework::*;

#[cfg(feature = "antfly")]
pub mod antfly;
#[cfg(feature = "bedrock")]
pub mod bedrock;
#[cfg(feature = "gemini")]
pub mod gemini;
#[cfg(any(feature = "vertex", feature = "gemini"))]
mod google;
#[cfg(feature = "in-process")]
pub mod in_process;
#[cfg(feature = "openai")]
pub mod openai;
#[cfg(any(feature = "openai", feature = "antfly"))]
mod openai_wire;
#[cfg(any(
    feature = "openai",
    feature = "antfly",
    feature = "vertex",
    feature = "gemini"
))]
mod refusal;
#[cfg(feature = "vertex")]
pub mod vertex;

#[cfg(feature = "antfly-reranker")]
pub use antfly_reranker;

/// Every plugin compiled into this crate.
///
/// Naming them here is what links them in: a plugin crate that a binary never names registers nothing.
///
/// # Errors
/// `config` when two of them claim the same name and operation, which a released version never does.
pub fn registry() -> Result<Registry> {
    let mut registry = Registry::with_inventory()?;
    for plugin in plugins() {
        registry.register(*plugin)?;
    }
    Ok(registry)
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// The plugins of this crate.
fn plugins() -> &'static [Plugin] {
    &[
        #[cfg(feature = "antfly")]
        antfly::PLUGIN,
        #[cfg(feature = "openai")]
        openai::PLUGIN,
        #[cfg(feature = "bedrock")]
        bedrock::PLUGIN,
        #[cfg(feature = "vertex")]
        vertex::PLUGIN,
        #[cfg(feature = "gemini")]
        gemini::PLUGIN,
        #[cfg(feature = "antfly-reranker")]
        antfly_reranker::PLUGIN,
        #[cfg(feature = "in-process")]
        in_process::PLUGIN,
    ]
}

/// A builder of clients that know every plugin compiled in, and those that other crates of the binary submit.
///
/// # Errors
/// As for [`registry()`].
pub fn client_builder() -> Result<ClientBuilder> {
    Ok(Client::builder().registry(registry()?))
}

/// A client with every plugin compiled in, the process's limiter and the process's environment.
///
/// # Errors
/// As for [`registry()`].
pub fn client() -> Result<Client> {
    client_builder()?.build()
}

#[cfg(all(
    test,
    feature = "openai",
    feature = "antfly",
    feature = "antfly-reranker",
    feature = "bedrock",
    feature = "vertex",
    feature = "gemini"
))]
mod accepts_tests;

#[cfg(test)]
mod tests {
    use antfly_framework::Operation;

    #[test]
    fn every_plugin_compiled_in_is_registered() {
        let registry = super::registry().unwrap();
        let mut count = 0;
        for plugin in super::plugins() {
            for operation in plugin.operations {
                assert!(registry.find(plugin.name, *operation, "").is_ok());
                count += 1;
            }
        }
        #[cfg(feature = "openai")]
        assert!(registry.find("openai", Operation::Embed, "").is_ok());
        #[cfg(feature = "antfly")]
        assert!(registry.find("antfly", Operation::Embed, "").is_ok());
        #[cfg(feature = "antfly-reranker")]
        assert!(registry.find("antfly", Operation::Rerank, "").is_ok());
        #[cfg(feature = "in-process")]
        assert!(registry.find("in_process", Operation::Generate, "").is_ok());
        assert_eq!(registry.iter().count(), count, "none but these");
    }
}
