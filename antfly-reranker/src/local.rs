//! The in-process route: the same entry, answered by the client's engine. Nothing leaves, and no credential is looked at.

use std::sync::Arc;

use antfly_framework::provider::{Declared, LocalProvider, Provider, Route};

/// An entry that the client's engine answers.
#[derive(Debug)]
pub(crate) struct Local {
    pub(crate) declared: Declared,
    pub(crate) model: Arc<dyn LocalProvider>,
}

impl Provider for Local {
    fn declare(&self) -> &Declared {
        &self.declared
    }

    fn route(&self) -> Route<'_> {
        Route::Local(&*self.model)
    }
}
