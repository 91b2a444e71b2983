//! Which plugins there are: those linked in through `inventory`, and those registered by hand.

use std::collections::BTreeMap;

use crate::error::{Error, Kind, Result};
use crate::provider::{Operation, Plugin};

/// Plugins, keyed by name and operation, sorted, without duplicates.
#[derive(Clone, Debug, Default)]
pub struct Registry {
    plugins: BTreeMap<(&'static str, Operation), Plugin>,
}

impl Registry {
    /// An empty registry.
    pub fn new() -> Self {
        Self::default()
    }

    /// Every plugin submitted through `inventory` by the crates that are linked into this binary.
    ///
    /// # Errors
    /// `config` when two different plugins claim the same name and operation.
    pub fn with_inventory() -> Result<Self> {
        let mut registry = Self::new();
        for plugin in inventory::iter::<Plugin> {
            registry.register(*plugin)?;
        }
        Ok(registry)
    }

    /// Adds a plugin. Adding the very same one again is fine.
    ///
    /// # Errors
    /// `config` when another plugin has the same name and operation; nothing is added then.
    pub fn register(&mut self, plugin: Plugin) -> Result<()> {
        for operation in plugin.operations {
            if let Some(there) = self.plugins.get(&(plugin.name, *operation))
                && !std::ptr::fn_addr_eq(there.resolve, plugin.resolve)
            {
                return Err(Error::new(
                    Kind::Config,
                    format!(
                        "two plugins are registered for provider {:?} and operation {operation}",
                        plugin.name
                    ),
                ));
            }
        }
        for operation in plugin.operations {
            self.plugins.insert((plugin.name, *operation), plugin);
        }
        Ok(())
    }

    /// The plugin for a provider name and operation.
    ///
    /// # Errors
    /// `config` when there is none (the message lists what is registered), `unsupported` when the provider is known but has no
    /// such operation.
    pub fn find(&self, name: &str, operation: Operation, path: &str) -> Result<&Plugin> {
        if let Some(((_, _), plugin)) = self
            .plugins
            .iter()
            .find(|((n, o), _)| *n == name && *o == operation)
        {
            return Ok(plugin);
        }
        let at = if path.is_empty() {
            "provider".to_owned()
        } else {
            format!("{path}.provider")
        };
        let has: Vec<&str> = self
            .plugins
            .keys()
            .filter(|(n, _)| *n == name)
            .map(|(_, o)| o.as_str())
            .collect();
        if !has.is_empty() {
            return Err(Error::new(
                Kind::Unsupported,
                format!(
                    "{at}: provider {name:?} has no operation {operation}; it has {}",
                    has.join(", ")
                ),
            ));
        }
        let names = self.names();
        let known = if names.is_empty() {
            "no provider is registered".to_owned()
        } else {
            format!("registered providers: {}", names.join(", "))
        };
        Err(Error::config(
            at,
            format!(
                "unknown provider {name:?}; {known} (a plugin crate registers nothing until the binary names it or calls \
                 Registry::register)"
            ),
        ))
    }

    /// The registered names, sorted, each once.
    pub fn names(&self) -> Vec<&'static str> {
        let mut names: Vec<_> = self.plugins.keys().map(|(name, _)| *name).collect();
        names.dedup();
        names
    }

    /// Every (name, operation) with its plugin, sorted.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, Operation, &Plugin)> {
        self.plugins.iter().map(|((n, o), p)| (*n, *o, p))
    }
}
