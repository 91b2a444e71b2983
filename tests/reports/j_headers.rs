//! J. URLs, redirects, headers and secrets.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use antfly_framework::secret::{FileStore, MemoryStore};
use antfly_framework::testing::{Reply, Server};
use antfly_framework::{Client, EmbedRequest, Env, Error, Kind, Operation, RerankRequest, Time};
use serde_json::{Value, json};

use crate::support::{Way, ask, client, own, try_entry};

const OPERATIONS: [Operation; 3] = [Operation::Embed, Operation::Generate, Operation::Rerank];

#[tokio::test]
async fn j01_trailing_slashes_change_nothing_and_404_is_not_retried() {
    for way in Way::ALL {
        let mut paths = Vec::new();
        for base in ["/base", "/base/", "/base//"] {
            let server = Server::always(Reply::status(404));
            let url = format!("{}{base}", server.url());
            let asker = way.open(&client(), &server, json!({"url": url}));
            let error = asker.ask().await.unwrap_err();
            assert_eq!(error.kind(), Kind::NotFound, "{way:?} {base}");
            assert_eq!(server.requests().len(), 1, "{way:?} {base}");
            paths.push(server.requests()[0].path.clone());
        }
        assert!(
            paths[0].starts_with("/base/") && !paths[0].contains("//"),
            "{paths:?}"
        );
        assert!(paths.iter().all(|path| *path == paths[0]), "{paths:?}");
    }
}

#[tokio::test]
async fn j01_the_same_holds_for_a_url_without_a_path() {
    for way in Way::ALL {
        let mut paths = Vec::new();
        for base in ["", "/", "//"] {
            let server = Server::with(move |_| way.good());
            let url = format!("{}{base}", server.url());
            let asker = way.open(&client(), &server, json!({"url": url}));
            asker.ask().await.unwrap();
            paths.push(server.requests()[0].path.clone());
        }
        assert!(!paths[0].contains("//"), "{paths:?}");
        assert!(paths.iter().all(|path| *path == paths[0]), "{paths:?}");
    }
}

#[tokio::test]
async fn j02_a_path_prefix_is_kept() {
    for way in Way::ALL {
        for base in ["/a/b", "/a/b/"] {
            let server = Server::with(move |_| way.good());
            let url = format!("{}{base}", server.url());
            way.open(&client(), &server, json!({"url": url}))
                .ask()
                .await
                .unwrap();
            let path = &server.requests()[0].path;
            assert!(path.starts_with("/a/b/"), "{way:?}: {path}");
            assert!(path.len() > "/a/b/".len());
        }
    }
}

fn refused(operation: Operation, client: &Client, url: &str, extra: Value) -> Error {
    let result = try_entry(operation, url, extra).and_then(|entry| client.check(&entry));
    result.unwrap_err()
}

#[test]
fn j02_a_query_is_refused_when_the_handle_is_built() {
    for operation in OPERATIONS {
        for url in [
            "http://127.0.0.1:9/a/b?key=hunter2",
            "http://127.0.0.1:9/a#hunter2",
        ] {
            let error = refused(operation, &client(), url, json!({}));
            assert_eq!(error.kind(), Kind::Config);
            assert!(error.message().contains("url"), "{error}");
            assert!(!error.to_string().contains("hunter2"), "{error}");
        }
    }
}

#[tokio::test]
async fn j04_a_redirect_that_would_drop_the_body_is_an_error_that_names_the_target() {
    for way in Way::ALL {
        for status in [301, 302, 303] {
            let server = Server::always(Reply::status(status).header("location", "/elsewhere?x=1"));
            let asker = way.open(&client(), &server, json!({}));
            let error = asker.ask().await.unwrap_err();
            assert_eq!(error.kind(), Kind::Redirect, "{way:?} {status}");
            assert_eq!(error.status(), Some(status));
            let target = format!("{}/elsewhere", server.url());
            assert!(error.message().contains(&target), "{error}");
            assert!(!error.is_retryable());
            let requests = server.requests();
            assert_eq!(requests.len(), 1, "{way:?} {status}");
            assert_eq!(requests[0].method, "POST");
        }
    }
}

#[tokio::test]
async fn j04_307_and_308_keep_method_and_body_and_are_admitted_anew() {
    for way in Way::ALL {
        for status in [307, 308] {
            let server = Server::start([
                Reply::status(status).header("location", "/elsewhere"),
                way.good(),
            ]);
            let asker = way.open(&client(), &server, json!({"api_key": "sk-hunter2hunter2"}));
            asker.ask().await.unwrap();
            let requests = server.requests();
            assert_eq!(requests.len(), 2);
            assert_eq!(
                (&*requests[1].method, &*requests[1].path),
                ("POST", "/elsewhere")
            );
            assert_eq!(requests[0].body, requests[1].body);
            // Inside the origin the key goes along.
            assert_eq!(
                requests[0].header("authorization"),
                requests[1].header("authorization")
            );
            assert_eq!(asker.snapshot().counters.admitted, 2);
        }
    }
}

#[tokio::test]
async fn j06_no_credential_crosses_to_another_origin() {
    for way in Way::ALL {
        let away = Server::with(move |_| way.good());
        let target = format!("{}/elsewhere", away.url());
        let server = Server::always(Reply::status(307).header("location", target));
        let mut extra = json!({
            "api_key": "sk-hunter2hunter2",
            "headers": {"x-tenant": "hunter2", "x-goog-user-project": "hunter2"},
        });
        if way != Way::Rerank {
            extra["organization"] = json!("hunter2");
            extra["project"] = json!("hunter2");
        }
        way.open(&client(), &server, extra).ask().await.unwrap();
        let sent = &server.requests()[0];
        assert!(sent.header("authorization").is_some());
        assert_eq!(sent.header("x-tenant"), Some("hunter2"));
        let requests = away.requests();
        assert_eq!(requests.len(), 1);
        for (name, value) in &requests[0].headers {
            let value = value.to_str().unwrap();
            assert!(!value.contains("hunter2"), "{way:?}: {name}: {value}");
        }
        assert_eq!(requests[0].body, sent.body);
    }
}

#[tokio::test]
async fn j06_a_way_back_brings_no_credential_back() {
    let home = Arc::new(std::sync::OnceLock::<String>::new());
    let back = Arc::clone(&home);
    let away = Server::with(move |_| {
        Reply::status(307).header("location", format!("{}/home", back.get().unwrap()))
    });
    let target = format!("{}/away", away.url());
    let server = Server::with(move |request| {
        if request.path == "/home" {
            Way::Generate.good()
        } else {
            Reply::status(307).header("location", &target)
        }
    });
    home.set(server.url()).unwrap();
    let extra = json!({"api_key": "sk-hunter2hunter2"});
    Way::Generate
        .open(&client(), &server, extra)
        .ask()
        .await
        .unwrap();
    let requests = server.requests();
    assert_eq!(requests[1].path, "/home");
    assert_eq!(requests[1].header("authorization"), None);
    assert_eq!(away.requests()[0].header("authorization"), None);
}

#[tokio::test]
async fn j06_with_same_origin_the_other_host_sees_nothing_at_all() {
    for rule in ["same_origin", "none"] {
        for way in Way::ALL {
            let away = Server::start([]);
            let target = format!("{}/elsewhere", away.url());
            let server = Server::always(Reply::status(307).header("location", &target));
            let extra = json!({"redirects": rule, "api_key": "sk-hunter2hunter2"});
            let error = way.open(&client(), &server, extra).ask().await.unwrap_err();
            assert_eq!(error.kind(), Kind::Redirect, "{way:?}");
            assert!(error.message().contains(&target), "{error}");
            assert_eq!(away.connections(), 0);
            assert_eq!(server.requests().len(), 1);
        }
    }
}

#[test]
fn j06_credential_headers_can_not_be_set_by_hand() {
    for operation in OPERATIONS {
        for name in [
            "authorization",
            "X-API-Key",
            "api-key",
            "x-goog-api-key",
            "cookie",
        ] {
            let extra = json!({"headers": { name: "hunter2" }});
            let error = refused(operation, &client(), "http://127.0.0.1:9", extra);
            assert_eq!(error.kind(), Kind::Config, "{name}");
            assert!(!error.to_string().contains("hunter2"));
        }
    }
}

/// Where a key is kept.
#[derive(Clone, Copy, Debug)]
enum Kept {
    Entry,
    Environment,
    Store,
    File,
}

impl Kept {
    const ALL: [Kept; 4] = [Kept::Entry, Kept::Environment, Kept::Store, Kept::File];
}

/// A file with one secret, in a folder of its own that goes away with it.
struct SecretsFile(PathBuf);

impl SecretsFile {
    fn new(key: &str) -> Self {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("reports-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let text = json!({"secrets": [{"key": "the.key", "value": key}]}).to_string();
        std::fs::write(folder.join("secrets.json"), text).unwrap();
        SecretsFile(folder)
    }

    fn folder(&self) -> &Path {
        &self.0
    }
}

impl Drop for SecretsFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

const KEYED: [Way; 3] = [Way::Generate, Way::Embed, Way::Rerank];

/// Makes a call with `key`: the header it went out in, or why it did not, and the setting an error must name.
async fn send_key(way: Way, kept: Kept, key: &str) -> (Result<String, Error>, String) {
    let (operation, setting, variable) = match way {
        Way::Embed => (Operation::Embed, "embedders.w.api_key", "OPENAI_API_KEY"),
        Way::Rerank => (
            Operation::Rerank,
            "rerankers.w.api_key",
            "ANTFLY_INFERENCE_API_KEY",
        ),
        _ => (
            Operation::Generate,
            "generators.w.api_key",
            "OPENAI_API_KEY",
        ),
    };
    let builder = Client::builder()
        .registry(antfly_providers::registry().unwrap())
        .time(Time::thread())
        .env(Env::empty());
    let secrets = SecretsFile::new(key);
    let (builder, extra, setting) = match kept {
        Kept::Entry => (builder, json!({"api_key": key}), setting),
        Kept::Environment => {
            let env = Env::from_pairs([(variable, key)]);
            (builder.env(env), json!({}), variable)
        }
        Kept::Store => {
            let store = MemoryStore::new("memory", [("the.key", key)]);
            let extra = json!({"api_key": "${secret:the.key}"});
            (builder.secret_store(Arc::new(store)), extra, setting)
        }
        Kept::File => {
            let store = FileStore::open("secrets.json", secrets.folder()).unwrap();
            let extra = json!({"api_key": "${secret:the.key}"});
            (builder.secret_store(Arc::new(store)), extra, setting)
        }
    };
    let client = builder.build().unwrap();
    let server = Server::with(move |_| way.good());
    let result = async {
        let entry = try_entry(operation, &server.url(), extra)?;
        match way {
            Way::Embed => {
                let request = EmbedRequest::texts(["a"]);
                client.embedder(&entry)?.embed(request).await.map(drop)
            }
            Way::Rerank => {
                let request = RerankRequest::new("q", ["d"]);
                client.reranker(&entry)?.rerank(request).await.map(drop)
            }
            _ => client.generator(&entry)?.generate(ask()).await.map(drop),
        }
    };
    let result = result.await;
    let requests = server.requests();
    assert_eq!(requests.len(), usize::from(result.is_ok()));
    let sent = result.map(|()| {
        let header = requests[0].header("authorization");
        header.unwrap_or("none").to_owned()
    });
    (sent, setting.to_owned())
}

#[tokio::test]
async fn j08_outer_white_space_of_a_key_is_trimmed() {
    for way in KEYED {
        for kept in Kept::ALL {
            for key in ["sk-good\n", "sk-good\r\n", "  sk-good\t", "\nsk-good"] {
                let (sent, _) = send_key(way, kept, key).await;
                assert_eq!(sent.unwrap(), "Bearer sk-good", "{way:?} {kept:?} {key:?}");
            }
        }
    }
}

/// Sends keys that no header can carry: each must be refused as a bad setting, by its name and without its value.
async fn refuses(kept: &[Kept], keys: &[&str]) {
    for way in KEYED {
        for kept in kept {
            for key in keys {
                let (sent, setting) = send_key(way, *kept, key).await;
                let error = sent.unwrap_err();
                let shown = format!("{way:?} {kept:?} {error} {error:?}");
                assert!(error.message().contains(&setting), "{shown}");
                assert!(
                    !shown.contains("hunter") && !shown.contains("2two"),
                    "{shown}"
                );
                assert_eq!(error.kind(), Kind::Config, "{shown}");
            }
        }
    }
}

const UNPRINTABLE: [&str; 5] = [
    "sk-hunter\n2two",
    "sk-hunter\r\n2two",
    "sk-hunter\u{0}2two",
    "sk-hunter\u{7f}2two",
    " \n",
];
const NOT_ASCII: [&str; 2] = ["sk\u{2014}hunter2two", "sk-hunter2two\u{201d}"];

#[tokio::test]
async fn j08_a_control_character_inside_is_a_config_error_that_hides_the_key() {
    refuses(&[Kept::Entry, Kept::Environment], &UNPRINTABLE).await;
}

#[tokio::test]
async fn j08_so_it_is_in_a_secret_store() {
    refuses(&[Kept::Store, Kept::File], &UNPRINTABLE).await;
}

#[tokio::test]
async fn j10_a_key_that_is_not_ascii_is_a_config_error_that_names_the_setting() {
    refuses(&[Kept::Entry, Kept::Environment], &NOT_ASCII).await;
}

#[tokio::test]
async fn j10_so_it_is_in_a_secret_store() {
    refuses(&[Kept::Store, Kept::File], &NOT_ASCII).await;
}

#[tokio::test]
async fn j15_a_model_id_with_slash_and_colon_goes_out_untouched() {
    let model = "arn:aws:bedrock:us-east-1:1:application-inference-profile/abc";
    let server = Server::with(|_| Way::Generate.good());
    let asker = Way::Generate.open(&client(), &server, json!({"model": model}));
    asker.ask().await.unwrap();
    let sent = &server.requests()[0];
    assert_eq!(sent.json()["model"], model);
    assert_eq!(sent.path, "/v1/chat/completions");
}

#[tokio::test]
async fn j06_whatever_header_a_provider_authorizes_with_stays_at_its_origin() {
    for status in [307, 308] {
        let away = Server::always(Reply::text(200, "moved"));
        let target = format!("{}/elsewhere", away.url());
        let server = Server::always(Reply::status(status).header("location", target));
        let generator = own::generator(&server, json!({}));
        assert_eq!(generator.generate(ask()).await.unwrap().text, "moved");
        let (sent, seen) = (&server.requests()[0], &away.requests()[0]);
        for name in own::CREDENTIAL_HEADERS {
            assert_eq!(sent.header(name), Some(own::KEY), "{name}");
            assert_eq!(seen.header(name), None, "{name}");
        }
    }
    for status in [301, 302, 303] {
        let away = Server::start([]);
        let target = format!("{}/elsewhere", away.url());
        let server = Server::always(Reply::status(status).header("location", target));
        let error = own::generator(&server, json!({}))
            .generate(ask())
            .await
            .unwrap_err();
        assert_eq!(error.kind(), Kind::Redirect);
        assert_eq!(away.connections(), 0);
    }
}
