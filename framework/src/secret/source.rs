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

    /// A name in a secret store.
    pub fn store(store: &str, name: &str) -> Self {
        CredentialSource(format!("secret:{store}:{name}"))
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
