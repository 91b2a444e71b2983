//! The identity of a credential: where it comes from.

use std::fmt;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::OnceLock;

use secrecy::{ExposeSecret as _, SecretString};

/// Which store, and which name in it: `env:OPENAI_API_KEY`, `secret:file:...:openai.api_key`, `literal:<hash>`, `anonymous`.
/// Two handles share a quota only if their sources are equal; the secret behind them doesn't matter.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CredentialSource(String);

impl CredentialSource {
    /// No credential.
    pub fn anonymous() -> Self {
        CredentialSource("anonymous".to_owned())
    }

    /// An environment variable.
    pub fn env(name: &str) -> Self {
        CredentialSource(format!("env:{name}"))
    }

    /// A name in a secret store. Different for every pair of the two, whatever characters they hold, and never equal to one of
    /// [`CredentialSource::secret_env`].
    pub fn store(store: &str, name: &str) -> Self {
        // The last colon divides, and a bare `env` is the environment.
        let mark = if store == "env" || store.starts_with('%') {
            "%"
        } else {
            ""
        };
        let name = name.replace('%', "%25").replace(':', "%3A");
        CredentialSource(format!("secret:{mark}{store}:{name}"))
    }

    /// A secret reference that the environment answers: another source than [`CredentialSource::env`] of the same variable.
    pub fn secret_env(variable: &str) -> Self {
        CredentialSource(format!("secret:env:{variable}"))
    }

    /// A key written into the entry: told apart by a hash under keys that this process drew at random, so that no other
    /// process can compare or test it.
    pub fn literal(key: &SecretString) -> Self {
        static KEYS: OnceLock<[RandomState; 2]> = OnceLock::new();
        let [a, b] = KEYS.get_or_init(|| [RandomState::new(), RandomState::new()]);
        let key = key.expose_secret();
        CredentialSource(format!(
            "literal:{:016x}{:016x}",
            a.hash_one(key),
            b.hash_one(key)
        ))
    }

    /// Another kind of source, in an adapter's words (`aws-profile:prod`, `google-adc`). Never a secret.
    pub fn custom(source: impl Into<String>) -> Self {
        CredentialSource(source.into())
    }

    /// The source as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for CredentialSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
