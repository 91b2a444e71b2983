//! What the entries of a plugin may say, for the errors that list it.

use super::Operation;

/// The keys that entries of one plugin and operation take. Submitted with `inventory::submit!` beside the plugin, so that an error over an unknown
/// key lists what this provider takes and nothing that it refuses. Without one, the error lists every key that entries of the operation can have.
#[derive(Clone, Copy, Debug)]
pub struct Accepts {
    /// The plugin's name.
    pub provider: &'static str,
    /// The operation.
    pub operation: Operation,
    /// The keys, in groups, in the order they are listed.
    pub keys: &'static [&'static [&'static str]],
}

inventory::collect!(Accepts);

impl Accepts {
    /// What every entry takes whose requests leave the process.
    pub const OUTBOUND: &'static [&'static str] = &[
        "provider",
        "model",
        "url",
        "api_url",
        "rate_limit",
        "retry",
        "timeout_ms",
        "extra_body",
        "ca_file",
        "proxy",
        "stream_idle_timeout_ms",
        "redirects",
        "headers",
        "max_response_bytes",
        "max_event_bytes",
    ];
    /// What every such embedder takes besides.
    pub const EMBEDDER: &'static [&'static str] = &[
        "dimensions",
        "dimension",
        "batch_size",
        "requests_per_minute",
        "burst",
    ];

    /// What the plugin of this name declares for an operation.
    pub fn of(provider: &str, operation: Operation) -> Option<&'static Accepts> {
        inventory::iter::<Accepts>
            .into_iter()
            .find(|a| a.provider == provider && a.operation == operation)
    }

    /// The keys, one by one.
    pub fn iter(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.keys.iter().flat_map(|group| group.iter().copied())
    }
}
