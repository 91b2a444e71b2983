//! Secrets: where a key comes from, and the key itself, kept apart.
//!
//! A [`CredentialSource`] is the identity: which store and which name in it, never the secret. A [`ResolvedSecret`] asks that
//! one source for its value whenever an attempt needs it, so a rotated key is used by the next attempt. Which source answers is
//! settled when the handle is built; a name later missing there is an `auth` error, never a fallback.

mod file;
mod resolve;
mod source;
mod store;

pub use file::FileStore;
pub use resolve::{ResolvedSecret, Secrets};
pub use source::CredentialSource;
pub use store::{MemoryStore, SecretStore};

use crate::error::{Error, Result};

/// Refuses a key that no header can carry. `setting` is named, the value is not.
pub(crate) fn check_value(setting: &str, value: &str) -> Result<()> {
    match problem(value) {
        Some(problem) => Err(Error::config(setting, problem)),
        None => Ok(()),
    }
}

/// Why no header can carry a key, its outer white space aside.
fn problem(value: &str) -> Option<&'static str> {
    let value = value.trim();
    if value.is_empty() {
        Some("the key is empty; leave the setting out to use the provider's default source")
    } else if value.chars().any(char::is_control) {
        Some("the key holds a control character")
    } else if !value.is_ascii() {
        Some("the key holds a character that is not ASCII (a typographic dash or quote, perhaps)")
    } else {
        None
    }
}

#[cfg(test)]
mod tests;
