//! J. URLs, redirects, headers and secrets.

use std::sync::Arc;

use antfly_framework::secret::MemoryStore;
use antfly_framework::testing::{Reply, Server};
use antfly_framework::{Client, Env, Kind, Operation, Time};
use serde_json::{Value, json};

use crate::support::{Way, ask, client, try_entry};

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

fn refused(
    operation: Operation,
    client: &Client,
    url: &str,
    extra: Value,
) -> antfly_framework::Error {
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

fn with_store(value: &str) -> Client {
    Client::builder()
        .registry(antfly_providers::registry().unwrap())
        .time(Time::thread())
        .env(Env::empty())
        .secret_store(Arc::new(MemoryStore::new("memory", [("the.key", value)])))
        .jitter_seed(1)
        .build()
        .unwrap()
}

/// The key as it was sent, or the error; from a literal, from a store and from the environment.
async fn send_key(way: Way, key: &str) -> Vec<Result<String, antfly_framework::Error>> {
    let mut results = Vec::new();
    let variable = match way {
        Way::Rerank => "ANTFLY_INFERENCE_API_KEY",
        _ => "OPENAI_API_KEY",
    };
    let from_env = Client::builder()
        .registry(antfly_providers::registry().unwrap())
        .time(Time::thread())
        .env(Env::from_pairs([(variable, key)]))
        .build()
        .unwrap();
    for (client, extra) in [
        (client(), json!({"api_key": key})),
        (with_store(key), json!({"api_key": "${secret:the.key}"})),
        (from_env, json!({})),
    ] {
        let server = Server::with(move |_| way.good());
        let operation = match way {
            Way::Embed => Operation::Embed,
            Way::Rerank => Operation::Rerank,
            _ => Operation::Generate,
        };
        let result = async {
            let entry = try_entry(operation, &server.url(), extra)?;
            match way {
                Way::Embed => {
                    let request = antfly_framework::EmbedRequest::texts(["a"]);
                    client.embedder(&entry)?.embed(request).await.map(drop)
                }
                Way::Rerank => {
                    let request = antfly_framework::RerankRequest::new("q", ["d"]);
                    client.reranker(&entry)?.rerank(request).await.map(drop)
                }
                _ => client.generator(&entry)?.generate(ask()).await.map(drop),
            }
        };
        let result = result.await;
        let requests = server.requests();
        assert_eq!(requests.len(), usize::from(result.is_ok()));
        results.push(result.map(|()| requests[0].header("authorization").unwrap_or("").to_owned()));
    }
    results
}

#[tokio::test]
async fn j08_outer_white_space_of_a_key_is_trimmed() {
    for way in [Way::Generate, Way::Embed, Way::Rerank] {
        for key in ["sk-good\n", "sk-good\r\n", "  sk-good\t", "\nsk-good"] {
            for sent in send_key(way, key).await {
                assert_eq!(sent.unwrap(), "Bearer sk-good", "{way:?} {key:?}");
            }
        }
    }
}

#[tokio::test]
async fn j08_a_control_character_inside_is_a_config_error_that_hides_the_key() {
    for way in [Way::Generate, Way::Embed, Way::Rerank] {
        for key in [
            "sk-hunter\n2two",
            "sk-hunter\r\n2two",
            "sk-hunter\u{0}2two",
            "sk-hunter\u{7f}2two",
        ] {
            for sent in send_key(way, key).await {
                let error = sent.unwrap_err();
                let shown = format!("{error} {error:?}");
                assert_eq!(error.kind(), Kind::Config, "{way:?} {key:?}: {shown}");
                assert!(
                    !shown.contains("hunter") && !shown.contains("2two"),
                    "{shown}"
                );
            }
        }
        for sent in send_key(way, " \n").await {
            assert_eq!(sent.unwrap_err().kind(), Kind::Config, "{way:?}");
        }
    }
}

#[tokio::test]
async fn j10_a_key_that_is_not_ascii_is_a_config_error_that_names_the_setting() {
    for way in [Way::Generate, Way::Embed, Way::Rerank] {
        for key in ["sk\u{2014}hunter2", "sk-hunter2\u{201d}"] {
            let settings = match way {
                Way::Embed => [
                    "embedders.w.api_key",
                    "embedders.w.api_key",
                    "OPENAI_API_KEY",
                ],
                Way::Rerank => [
                    "rerankers.w.api_key",
                    "rerankers.w.api_key",
                    "ANTFLY_INFERENCE_API_KEY",
                ],
                _ => [
                    "generators.w.api_key",
                    "generators.w.api_key",
                    "OPENAI_API_KEY",
                ],
            };
            for (sent, setting) in send_key(way, key).await.into_iter().zip(settings) {
                let error = sent.unwrap_err();
                assert_eq!(error.kind(), Kind::Config, "{error}");
                assert!(error.message().contains(setting), "{setting}: {error}");
                assert!(!format!("{error} {error:?}").contains("hunter2"));
            }
        }
    }
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
