//! From a setting to the one source that answers it.

use std::sync::Arc;

use secrecy::{ExposeSecret as _, SecretString};

use super::source::CredentialSource;
use super::store::SecretStore;
use super::{check_value, problem};
use crate::config::{Env, KeySetting};
use crate::error::{Error, Kind, Result};

/// The configured store, if any, and the environment behind it.
#[derive(Clone, Debug)]
pub struct Secrets {
    store: Option<Arc<dyn SecretStore>>,
    env: Env,
}

/// One source, settled. Asked for its value before each attempt. `Debug` shows the source alone.
#[derive(Clone, Debug)]
pub struct ResolvedSecret {
    source: CredentialSource,
    setting: String,
    from: From,
}

#[derive(Clone)]
enum From {
    Literal(SecretString),
    Env(Env, String),
    Store(Arc<dyn SecretStore>, String),
}

impl std::fmt::Debug for From {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            From::Literal(_) => f.write_str("Literal(..)"),
            From::Env(_, name) => write!(f, "Env({name})"),
            From::Store(_, name) => write!(f, "Store({name})"),
        }
    }
}

impl Secrets {
    /// A store (if any) before an environment.
    pub fn new(store: Option<Arc<dyn SecretStore>>, env: Env) -> Self {
        Secrets { store, env }
    }

    /// The source behind a setting, which `setting` names in errors (`embedders.docs.api_key`).
    ///
    /// # Errors
    /// `config` when the key is blank or no header can carry it, or a reference is found nowhere.
    pub fn resolve(&self, key: &KeySetting, setting: &str) -> Result<ResolvedSecret> {
        match key {
            KeySetting::Literal(value) => {
                let value = trimmed(setting, value)?;
                Ok(ResolvedSecret {
                    source: CredentialSource::literal(&value),
                    setting: setting.to_owned(),
                    from: From::Literal(value),
                })
            }
            KeySetting::Reference(name) => self.reference(name, setting),
        }
    }

    fn reference(&self, name: &str, setting: &str) -> Result<ResolvedSecret> {
        if let Some(store) = &self.store
            && store.holds(name).map_err(|e| {
                let store = store.id();
                Error::config(
                    setting,
                    format!("secret {name:?} in {store}: {}", e.message()),
                )
            })?
        {
            return Ok(ResolvedSecret {
                source: CredentialSource::store(&store.id(), name),
                setting: setting.to_owned(),
                from: From::Store(Arc::clone(store), name.to_owned()),
            });
        }
        let variable = variable(name);
        if let Some(value) = self.env.get(&variable)? {
            if let Some(problem) = problem(&value) {
                return Err(Error::config(
                    setting,
                    format!("secret {name:?} in the environment as {variable}: {problem}"),
                ));
            }
            return Ok(ResolvedSecret {
                source: CredentialSource::secret_env(&variable),
                setting: setting.to_owned(),
                from: From::Env(self.env.clone(), variable),
            });
        }
        let store = match &self.store {
            Some(store) => format!("the store {}", store.id()),
            None => "a store (none is configured)".to_owned(),
        };
        Err(Error::config(
            setting,
            format!(
                "the secret {name:?} is neither in {store} nor in the environment as {variable}"
            ),
        ))
    }

    /// An environment variable as a provider's default source; `None` when it is unset or empty.
    ///
    /// # Errors
    /// `config` naming the variable when it is blank or no header can carry its value.
    pub fn env(&self, variable: &str) -> Result<Option<ResolvedSecret>> {
        let Some(value) = self.env.get(variable)? else {
            return Ok(None);
        };
        check_value(variable, value.trim())?;
        Ok(Some(ResolvedSecret {
            source: CredentialSource::env(variable),
            setting: variable.to_owned(),
            from: From::Env(self.env.clone(), variable.to_owned()),
        }))
    }
}

impl ResolvedSecret {
    /// Where it comes from.
    pub fn source(&self) -> &CredentialSource {
        &self.source
    }

    /// Whether asking again could give another value.
    pub fn is_refreshable(&self) -> bool {
        !matches!(self.from, From::Literal(_))
    }

    /// The value now.
    ///
    /// # Errors
    /// `auth` when it is gone from its source, `config` when no header can carry it.
    pub async fn value(&self) -> Result<SecretString> {
        let found = match &self.from {
            From::Literal(value) => return Ok(value.clone()),
            From::Env(env, name) => env.get(name)?.map(SecretString::from),
            From::Store(store, name) => store.get(name).await?,
        };
        match found {
            Some(value) => trimmed(&self.setting, &value),
            None => Err(Error::new(
                Kind::Auth,
                format!(
                    "{}: the secret is no longer at {}",
                    self.setting, self.source
                ),
            )),
        }
    }
}

fn trimmed(setting: &str, value: &SecretString) -> Result<SecretString> {
    let value = value.expose_secret().trim();
    check_value(setting, value)?;
    Ok(SecretString::from(value.to_owned()))
}

/// `openai.api_key` as an environment variable: `OPENAI_API_KEY`.
fn variable(name: &str) -> String {
    name.chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() {
                c.to_ascii_uppercase()
            } else {
                '_'
            }
        })
        .collect()
}
