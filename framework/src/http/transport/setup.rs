//! What a transport is made of: TLS, proxy and client, and which entries share one.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

use super::{Transport, pools, within};
use crate::config::{EntryConfig, ProxySetting};
use crate::error::{Error, Kind, Result};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Just below the five seconds after which many servers close an idle connection: one that is about to be closed is not reused.
const POOL_IDLE_TIMEOUT: Duration = Duration::from_secs(4);

/// How many configurations keep their transport. More than this at once, and the oldest is forgotten.
const MAX_TRANSPORTS: usize = 64;

/// The transports of a client. Entries that connect in the same way share one, and with it their connections.
#[derive(Default)]
pub(crate) struct Transports(Mutex<Vec<(TransportConfig, Transport)>>);

impl Transports {
    /// The transport for an entry's `ca_file` and `proxy`. Reads the file, opens no connection.
    pub(crate) fn for_entry(&self, entry: &EntryConfig) -> Result<Transport> {
        if entry.proxy == ProxySetting::Environment {
            super::variables::check_proxy_variables()?;
        }
        let config = TransportConfig {
            extra_roots: read_ca_file(entry)?.into_iter().collect(),
            proxy: entry.proxy.clone(),
        };
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, transport)) = known.iter().find(|(key, _)| *key == config) {
            return Ok(transport.clone());
        }
        // The message begins with the field; where the field stands is known here.
        let transport =
            Transport::new(&config).map_err(|e| Error::new(e.kind(), entry.field(e.message())))?;
        if known.len() >= MAX_TRANSPORTS {
            known.remove(0);
        }
        known.push((config, transport.clone()));
        Ok(transport)
    }
}

fn read_ca_file(entry: &EntryConfig) -> Result<Option<Bytes>> {
    let Some(path) = &entry.ca_file else {
        return Ok(None);
    };
    let pem = std::fs::read(path).map_err(|error| {
        Error::config(
            entry.field("ca_file"),
            format!("can't read {path}: {error}"),
        )
    })?;
    Ok(Some(Bytes::from(pem)))
}

/// The PEM text of an entry's `ca_file`, for an SDK that connects by itself. What is in it has been checked: an SDK may panic
/// over a certificate that the framework refuses.
///
/// # Errors
/// `config` naming the field, when the file can't be read or holds anything but usable certificates.
pub fn extra_roots(entry: &EntryConfig) -> Result<Option<Bytes>> {
    let Some(pem) = read_ca_file(entry)? else {
        return Ok(None);
    };
    tls(std::slice::from_ref(&pem)).map_err(|e| Error::new(e.kind(), entry.field(e.message())))?;
    Ok(Some(pem))
}

impl fmt::Debug for Transports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Transports(..)")
    }
}

/// What makes two transports different. No `Debug`: a proxy's URL may hold a password.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct TransportConfig {
    /// PEM files' contents: root certificates trusted beside the system's.
    pub(crate) extra_roots: Vec<Bytes>,
    /// The proxy.
    pub(crate) proxy: ProxySetting,
}

/// What is done to a client builder about proxies.
pub(super) enum ProxyChoice {
    Environment,
    Only(Option<Box<reqwest::Proxy>>),
}

pub(super) fn proxy(proxy: &ProxySetting) -> Result<ProxyChoice> {
    let text = match proxy {
        ProxySetting::Environment => return Ok(ProxyChoice::Environment),
        ProxySetting::None => return Ok(ProxyChoice::Only(None)),
        ProxySetting::Url(text) => text.trim(),
    };
    // No error here repeats the value, which may hold a password.
    let problem = |what: &str| Error::new(Kind::Config, format!("proxy: {what}"));
    let url =
        ::url::Url::parse(text).map_err(|error| problem(&format!("not a valid URL: {error}")))?;
    if !matches!(
        url.scheme(),
        "http" | "https" | "socks4" | "socks4a" | "socks5" | "socks5h"
    ) {
        return Err(problem(
            "must be an http, https, socks4, socks4a, socks5 or socks5h URL",
        ));
    }
    if url.host_str().is_none_or(str::is_empty) {
        return Err(problem("has no host"));
    }
    reqwest::Proxy::all(url)
        .map(|proxy| ProxyChoice::Only(Some(Box::new(proxy))))
        .map_err(|error| problem(&within(&error.without_url())))
}

/// A reqwest client that does nothing on its own account.
pub(super) fn client(tls: &rustls::ClientConfig, proxy: &ProxyChoice) -> Result<reqwest::Client> {
    let mut builder = reqwest::Client::builder()
        .tls_backend_preconfigured(tls.clone())
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .referer(false)
        .no_gzip()
        .no_brotli()
        .no_deflate()
        .no_zstd()
        .connect_timeout(CONNECT_TIMEOUT)
        .pool_idle_timeout(POOL_IDLE_TIMEOUT)
        .tcp_nodelay(true)
        .user_agent(concat!("antfly-providers/", env!("CARGO_PKG_VERSION")));
    if let ProxyChoice::Only(proxy) = proxy {
        builder = builder.no_proxy();
        if let Some(proxy) = proxy {
            builder = builder.proxy(proxy.as_ref().clone());
        }
    }
    builder.build().map_err(|error| {
        let causes = within(&error.without_url());
        Error::new(
            Kind::Config,
            format!("the HTTP client can't be built: {causes}"),
        )
    })
}

/// TLS with ring, whatever the process's default provider is: the system's root certificates and the extra ones.
pub(super) fn tls(extra_roots: &[Bytes]) -> Result<rustls::ClientConfig> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add_parsable_certificates(pools::system_roots().iter().cloned());
    for pem in extra_roots {
        let mut found = 0;
        for certificate in CertificateDer::pem_slice_iter(pem) {
            let certificate = certificate.map_err(|error| {
                Error::new(Kind::Config, format!("ca_file: not valid PEM: {error}"))
            })?;
            roots.add(certificate).map_err(|error| {
                Error::new(
                    Kind::Config,
                    format!("ca_file: not a usable certificate: {error}"),
                )
            })?;
            found += 1;
        }
        if found == 0 {
            return Err(Error::new(Kind::Config, "ca_file: holds no certificate"));
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::new(Kind::Config, format!("TLS can't be set up: {error}")))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::Operation;

    #[test]
    fn bad_certificates_and_proxies_are_config_errors_that_show_no_secret() {
        for pem in [
            "",
            "nonsense",
            "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
        ] {
            let config = TransportConfig {
                extra_roots: vec![Bytes::from_static(pem.as_bytes())],
                ..TransportConfig::default()
            };
            let error = Transport::new(&config).unwrap_err();
            assert!(
                error.kind() == Kind::Config && error.message().starts_with("ca_file"),
                "{error}"
            );
        }
        for url in [
            "http://user:hunter2@",
            "",
            "ftp://user:hunter2@h",
            "http://user:hunter2@h:99999",
        ] {
            let config = TransportConfig {
                proxy: ProxySetting::Url(url.to_owned()),
                ..TransportConfig::default()
            };
            let error = Transport::new(&config).unwrap_err();
            assert_eq!(error.kind(), Kind::Config, "{url}");
            assert!(!format!("{error} {error:?}").contains("hunter2"));
        }
    }

    #[test]
    fn entries_that_connect_alike_share_a_transport() {
        let transports = Transports::default();
        let entry = EntryConfig::new(Operation::Embed, "p", "m");
        let first = transports.for_entry(&entry).unwrap();
        assert!(Arc::ptr_eq(
            &first.pools,
            &transports.for_entry(&entry).unwrap().pools
        ));
        let mut other = EntryConfig::new(Operation::Embed, "p", "m");
        other.proxy = ProxySetting::None;
        assert!(!Arc::ptr_eq(
            &first.pools,
            &transports.for_entry(&other).unwrap().pools
        ));
        other.ca_file = Some("/nowhere/ca.pem".to_owned());
        let error = transports.for_entry(&other).unwrap_err();
        assert!(error.message().contains("/nowhere/ca.pem"), "{error}");
    }
}
