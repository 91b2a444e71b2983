//! Generation with quantized Llama-family models in GGUF files.
//!
//! # Reading order
//! `run` (a request, from messages to events), `options` (what a request may ask), `template` and `tokenizer` (messages to tokens),
//! `llama` and `kernel` (tokens to scores), `sample` (scores to a token), `text` and `calls` (tokens to what is handed out), `gguf` (the file).

mod calls;
mod gguf;
mod kernel;
mod llama;
mod options;
mod run;
mod sample;
mod template;
mod text;
#[cfg(test)]
#[allow(dead_code)] // The tests of answers use the rest of it.
#[path = "../../../tests/in_process_generate/tiny.rs"]
mod tiny;
mod tokenizer;

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use antfly_framework::Result;
use antfly_framework::generate::{GenerateRequest, StreamEvent};

use super::admission::CancelFlag;

pub(super) use options::{check_entry, check_request};
pub(super) use run::file;

/// The output cap where a request gives none, in tokens.
pub(super) const DEFAULT_OUTPUT_CAP: u32 = 256;

/// A loaded model that generates. Shared by every run; what one run remembers is its own.
pub(super) trait GenerateModel: fmt::Debug + Send + Sync {
    /// Runs one request on the calling thread and tells `emit` each event as it comes, the finish reason and usage among them. A
    /// whole answer is these events put together. Looks at `cancel` between tokens. `request.max_tokens` is set.
    ///
    /// # Errors
    /// `cancelled`; `request_too_large` for a prompt that does not fit; `unsupported` for what this model can't do.
    fn generate(
        &self,
        request: &GenerateRequest,
        cancel: &CancelFlag,
        emit: &mut dyn FnMut(StreamEvent),
    ) -> Result<()>;
}

/// Loads the model in a folder (or a `.gguf` file). Blocks; runs on a thread of the model's queue.
pub(super) fn load(path: &Path) -> Result<Arc<dyn GenerateModel>> {
    Ok(Arc::new(run::Generator::load(&file(path)?)?))
}
