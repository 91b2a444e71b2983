//! A loopback Google: every token endpoint there is, and credentials files that point at it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use antfly_providers::testing::{Gate, Received, Reply, Server};
use antfly_providers::{Client, Embedder, Env, Generator, Operation, Reranker, Time};
use serde_json::{Value, json};

use crate::support::*;

pub(crate) const REFRESH_TOKEN: &str = "1//refresh-sentinel-0123456789";
pub(crate) const CLIENT_SECRET: &str = "GOCSPX-sentinel-0123456789";

/// A folder that goes with the test.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("google-{}-{number}", std::process::id());
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Writes a file below and gives its path as text.
    pub(crate) fn write(&self, name: &str, content: &Value) -> String {
        let path = self.0.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content.to_string()).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Token endpoints on loopback. The tokens they give are numbered: `token-1`, `token-2`, ...
pub(crate) struct Google {
    pub(crate) server: Server,
    pub(crate) folder: Folder,
    pub(crate) given: Arc<AtomicUsize>,
}

impl Google {
    pub(crate) fn start() -> Self {
        Self::with(3600, None)
    }

    /// Tokens good for so many seconds, and handed out only behind the gate.
    pub(crate) fn with(expires_in: u64, gate: Option<Gate>) -> Self {
        Self::answering(move |_, token| {
            let reply = answer(token, expires_in);
            match &gate {
                Some(gate) => reply.after(gate),
                None => reply,
            }
        })
    }

    /// What `reply` makes of a request for a token, given the next token. A subject token is always given.
    pub(crate) fn answering(
        reply: impl Fn(&Received, &str) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let given = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&given);
        let server = Server::with(move |request| {
            if request.path == "/subject" {
                return Reply::json(200, json!({"id_token": "subject-sentinel"}));
            }
            let number = counter.fetch_add(1, Ordering::SeqCst) + 1;
            reply(request, &format!("token-{number}"))
        });
        Google {
            server,
            folder: Folder::new(),
            given,
        }
    }

    /// Tokens given so far.
    pub(crate) fn given(&self) -> usize {
        self.given.load(Ordering::SeqCst)
    }

    pub(crate) fn user(&self) -> Value {
        json!({"type": "authorized_user", "client_id": "client", "client_secret": CLIENT_SECRET,
               "refresh_token": REFRESH_TOKEN, "token_uri": format!("{}/token", self.server.url())})
    }

    pub(crate) fn service_account(&self) -> Value {
        json!({"type": "service_account", "project_id": "p-1", "private_key_id": "key-1",
               "private_key": fixture!("service_account_key.pem"), "client_email": "sa@p-1.iam.gserviceaccount.com",
               "token_uri": format!("{}/token", self.server.url())})
    }

    pub(crate) fn federated(&self) -> Value {
        let url = self.server.url();
        json!({"type": "external_account", "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
               "audience": "//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/pool/providers/provider",
               "token_url": format!("{url}/sts"),
               "credential_source": {"url": format!("{url}/subject"), "format": {"type": "json", "subject_token_field_name": "id_token"}}})
    }

    pub(crate) fn workforce_user(&self) -> Value {
        json!({"type": "external_account_authorized_user", "client_id": "client", "client_secret": CLIENT_SECRET,
               "audience": "//iam.googleapis.com/locations/global/workforcePools/pool/providers/provider",
               "refresh_token": REFRESH_TOKEN, "token_url": format!("{}/sts", self.server.url())})
    }

    /// Impersonation of a service account by what `source` is.
    pub(crate) fn impersonated(&self, source: &Value) -> Value {
        json!({"type": "impersonated_service_account", "delegates": [], "source_credentials": source,
               "service_account_impersonation_url": format!("{}/v1/projects/-/serviceAccounts/sa@p.iam.gserviceaccount.com:generateAccessToken", self.server.url())})
    }

    /// A credentials file of this content.
    pub(crate) fn file(&self, content: &Value) -> String {
        self.folder.write("credentials.json", content)
    }

    /// A generator with a credentials file of this content, on a client of its own.
    pub(crate) fn generator_of(&self, content: &Value, server: &Server, extra: Value) -> Generator {
        let fields = with_file(&self.file(content), extra);
        vertex(&client_of(Env::empty()), server, fields)
    }

    /// The same with a user's credentials.
    pub(crate) fn generator(&self, server: &Server, extra: Value) -> Generator {
        self.generator_of(&self.user(), server, extra)
    }
}

/// A token in the form that any of the endpoints gives: OAuth's, the metadata server's, STS's or IAM's.
pub(crate) fn answer(token: &str, expires_in: u64) -> Reply {
    Reply::json(
        200,
        json!({"access_token": token, "expires_in": expires_in, "token_type": "Bearer",
               "issued_token_type": "urn:ietf:params:oauth:token-type:access_token",
               "accessToken": token, "expireTime": "2099-01-01T00:00:00Z"}),
    )
}

/// A generation that went well.
pub(crate) fn good() -> Reply {
    Reply::json(200, fixture!("generate.json"))
}

/// A refusal of a token.
pub(crate) fn refused() -> Reply {
    Reply::json(401, fixture!("error_token.json"))
}

/// A model's server that answers each generation well, whatever the token.
pub(crate) fn model() -> Server {
    Server::always(good())
}

pub(crate) fn client_of(env: Env) -> Client {
    client_with(Time::thread(), env)
}

/// The fields of an entry that uses a credentials file.
pub(crate) fn with_file(path: &str, extra: Value) -> Value {
    let mut value = json!({"project_id": "p-1", "credentials_path": path});
    for (name, field) in extra.as_object().unwrap() {
        value[name] = field.clone();
    }
    value
}

pub(crate) fn vertex(client: &Client, server: &Server, extra: Value) -> Generator {
    let entry = try_entry(Operation::Generate, "vertex", &server.url(), extra).unwrap();
    client.generator(&entry).unwrap()
}

pub(crate) fn vertex_embedder(client: &Client, server: &Server, extra: Value) -> Embedder {
    let entry = try_entry(Operation::Embed, "vertex", &server.url(), extra).unwrap();
    client.embedder(&entry).unwrap()
}

pub(crate) fn vertex_reranker(client: &Client, server: &Server, extra: Value) -> Reranker {
    let entry = try_entry(Operation::Rerank, "vertex", &server.url(), extra).unwrap();
    client.reranker(&entry).unwrap()
}

/// The bearer tokens that a server was sent, in order.
pub(crate) fn bearers(server: &Server) -> Vec<String> {
    server
        .requests()
        .iter()
        .map(|request| {
            let header = request.header("authorization").unwrap_or("none");
            header.trim_start_matches("Bearer ").to_owned()
        })
        .collect()
}
