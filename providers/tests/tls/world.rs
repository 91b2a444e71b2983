//! A certificate authority made for one test, a server that speaks TLS with its certificates, and a proxy that opens tunnels.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use antfly_providers::testing::Server;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

/// A folder of its own that goes away with the test.
pub(crate) struct Folder(std::path::PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        let name = format!("antfly-tls-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    pub(crate) fn path(&self) -> String {
        self.0.to_str().unwrap().to_owned()
    }

    /// Writes a file, folders and all, and gives its path.
    pub(crate) fn write(&self, name: &str, text: &str) -> String {
        let path = self.0.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// An authority that nobody trusts unless told to.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    /// Its certificate, as `ca_file` wants it.
    pub(crate) pem: String,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Authority {
            issuer: Issuer::new(params, key),
            pem,
        }
    }

    /// Ends the TLS of `names` before `server`, which sees plain requests. Gives where that is.
    pub(crate) async fn before(&self, server: &Server, names: &[&str]) -> SocketAddr {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(names).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(
                vec![certificate.der().clone()],
                PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
            )
            .unwrap();
        let (acceptor, plain) = (TlsAcceptor::from(Arc::new(config)), server.address());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let acceptor = acceptor.clone();
                tokio::spawn(async move {
                    // A client that does not trust us breaks off here.
                    if let Ok(mut secure) = acceptor.accept(stream).await
                        && let Ok(mut behind) = TcpStream::connect(plain).await
                    {
                        let _ = copy_bidirectional(&mut secure, &mut behind).await;
                    }
                });
            }
        });
        address
    }
}

/// What a client said to open a tunnel, and the first byte it sent through it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tunnel {
    pub(crate) head: String,
    pub(crate) first: Option<u8>,
}

/// A proxy that takes every tunnel to one address, whatever name it was asked for.
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    tunnels: Arc<Mutex<Vec<Tunnel>>>,
}

impl Proxy {
    /// `password`: what it wants before it opens one (`user:secret`).
    pub(crate) async fn to(target: SocketAddr, password: Option<&str>) -> Self {
        let wanted = password.map(|p| format!("basic {}", STANDARD.encode(p)));
        let tunnels: Arc<Mutex<Vec<Tunnel>>> = Arc::default();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::clone(&tunnels);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (wanted, seen) = (wanted.clone(), Arc::clone(&seen));
                tokio::spawn(async move {
                    let _ = tunnel(stream, target, wanted, seen).await;
                });
            }
        });
        Proxy { address, tunnels }
    }

    pub(crate) fn tunnels(&self) -> Vec<Tunnel> {
        self.tunnels.lock().unwrap().clone()
    }
}

async fn tunnel(
    mut client: TcpStream,
    target: SocketAddr,
    wanted: Option<String>,
    seen: Arc<Mutex<Vec<Tunnel>>>,
) -> std::io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(client.read_u8().await?);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let number = {
        let mut seen = seen.lock().unwrap();
        seen.push(Tunnel {
            head: head.clone(),
            first: None,
        });
        seen.len() - 1
    };
    let given = head.lines().find_map(|line| {
        let (name, value) = line.split_once(": ")?;
        let (scheme, secret) = value.split_once(' ')?;
        name.eq_ignore_ascii_case("proxy-authorization")
            .then(|| format!("{} {secret}", scheme.to_lowercase()))
    });
    if !head.starts_with("CONNECT ") || (wanted.is_some() && wanted != given) {
        return client
            .write_all(b"HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n")
            .await;
    }
    client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await?;
    let mut first = [0];
    client.peek(&mut first).await?;
    seen.lock().unwrap()[number].first = Some(first[0]);
    let mut behind = TcpStream::connect(target).await?;
    copy_bidirectional(&mut client, &mut behind).await?;
    Ok(())
}
