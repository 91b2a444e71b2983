//! Generation with quantized GGUF models.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use antfly_framework::config::EntryConfig;
use antfly_framework::generate::{GenerateRequest, StreamEvent};
use antfly_framework::{Error, Kind, Result};

use super::admission::CancelFlag;

/// The output cap where a request gives none, in tokens.
pub(super) const DEFAULT_OUTPUT_CAP: u32 = 256;

/// A loaded model that generates. Shared by every run; what one run remembers is its own.
pub(super) trait GenerateModel: fmt::Debug + Send + Sync {
    /// Runs one request on the calling thread and tells `emit` each event as it comes, the finish reason and usage among them. A
    /// whole answer is these events put together. Looks at `cancel` between tokens. `request.max_tokens` is set.
    ///
    /// # Errors
    /// `cancelled`; `invalid_request` for a prompt that does not fit.
    fn generate(
        &self,
        request: &GenerateRequest,
        cancel: &CancelFlag,
        emit: &mut dyn FnMut(StreamEvent),
    ) -> Result<()>;
}

/// Loads the model in a folder (or a `.gguf` file). Blocks; runs on a thread of the model's queue.
pub(super) fn load(path: &Path) -> Result<Arc<dyn GenerateModel>> {
    Err(Error::new(
        Kind::Unsupported,
        format!("{}: generation is not here yet", path.display()),
    ))
}

/// Refuses options of an entry that no model here follows.
pub(super) fn check_entry(_entry: &EntryConfig) -> Result<()> {
    Ok(())
}

/// Refuses a request that no model here follows, before it waits.
pub(super) fn check_request(_request: &GenerateRequest) -> Result<()> {
    Ok(())
}
