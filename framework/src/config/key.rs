//! What `api_key` may say.

use std::fmt;

use secrecy::SecretString;

use crate::error::{Error, Result};
use crate::secret::check_value;

/// An `api_key` setting: a literal, or the name of a secret. `Debug` never shows a literal.
#[derive(Clone)]
pub enum KeySetting {
    /// The key itself.
    Literal(SecretString),
    /// `${secret:name}`.
    Reference(String),
}

impl KeySetting {
    /// Reads what a document or an option says: `${secret:name}`, else the key itself. Outer white space is taken off.
    /// `setting` names it in errors, which never show the text.
    ///
    /// # Errors
    /// `config` for a blank key, one that no header can carry, and a reference that is not just `${secret:name}`.
    pub fn parse(text: &str, setting: &str) -> Result<Self> {
        let text = text.trim();
        let name = text
            .strip_prefix("${secret:")
            .and_then(|rest| rest.strip_suffix('}'))
            .map(str::trim);
        match name {
            Some(name)
                if name.is_empty()
                    || name.contains(|c: char| c.is_control() || "${}".contains(c)) =>
            {
                Err(Error::config(
                    setting,
                    "the secret reference has no usable name; ${secret:name} is allowed",
                ))
            }
            Some(name) => Ok(KeySetting::Reference(name.to_owned())),
            // Sent as a key it would be a puzzling 401.
            None if text.starts_with("${") || text.contains("${secret:") => Err(Error::config(
                setting,
                "a reference must be the whole value and of the form ${secret:name}",
            )),
            None => {
                check_value(setting, text)?;
                Ok(KeySetting::Literal(SecretString::from(text.to_owned())))
            }
        }
    }
}

impl fmt::Debug for KeySetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeySetting::Literal(_) => f.write_str("Literal(..)"),
            KeySetting::Reference(name) => write!(f, "Reference({name:?})"),
        }
    }
}
