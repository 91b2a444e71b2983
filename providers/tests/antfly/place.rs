//! A server or this process: the decision, for each of the three operations, and what follows from it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use antfly_providers::provider::{InferenceEngine, LocalAnswer, LocalProvider, LocalRequest};
use antfly_providers::secret::SecretStore;
use antfly_providers::testing::Server;
use antfly_providers::{
    ClientBuilder, EmbedInput, EmbedRequest, Embeddings, EntryConfig, Error, GenerateRequest,
    Generation, Kind, Operation, Part, Ranked, Ranking, RerankRequest, Result,
};
use serde_json::{Value, json};

use crate::support::*;

const ALL: [Operation; 3] = [Operation::Embed, Operation::Generate, Operation::Rerank];
const URL: (&str, &str) = ("ANTFLY_INFERENCE_URL", "http://inference:8082/");

/// Knows the model `m` for every operation.
#[derive(Debug, Default)]
struct Engine(Arc<AtomicUsize>);

impl InferenceEngine for Engine {
    fn knows(&self, _operation: Operation, model: &str) -> bool {
        model == "m"
    }
    fn open(&self, _entry: &EntryConfig) -> Result<Arc<dyn LocalProvider>> {
        Ok(Arc::new(Model(Arc::clone(&self.0))))
    }
}

#[derive(Debug)]
struct Model(Arc<AtomicUsize>);

#[async_trait::async_trait]
impl LocalProvider for Model {
    async fn run(&self, request: LocalRequest) -> Result<LocalAnswer> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(match request {
            LocalRequest::Embed(_) => {
                LocalAnswer::Embeddings(Embeddings::dense(2, vec![1.0, 2.0]).unwrap())
            }
            LocalRequest::Generate(_) => LocalAnswer::Generation(Box::new(Generation {
                text: "here".to_owned(),
                ..Generation::default()
            })),
            LocalRequest::Rerank(_) => {
                let results = vec![Ranked {
                    index: 0,
                    score: 0.5,
                }];
                LocalAnswer::Ranking(Ranking {
                    results,
                    ..Ranking::default()
                })
            }
            other => panic!("{other:?}"),
        })
    }
}

fn with_engine(env: &[(&str, &str)]) -> ClientBuilder {
    builder(env).engine(Arc::new(Engine::default()))
}

/// The endpoint and the credential of the entry's scope.
fn scope(builder: ClientBuilder, operation: Operation, extra: Value) -> Result<(String, String)> {
    let checked = builder.build()?.check(&entry(operation, extra)?)?;
    let of = |name| {
        let field = checked.scope.iter().find(|(n, _)| *n == name);
        field.unwrap().1.clone()
    };
    Ok((of("endpoint"), of("credential")))
}

#[test]
fn the_decision() {
    let here = "in-process";
    let default = "http://127.0.0.1:8082/ai/v1";
    let variable = "http://inference:8082/ai/v1";
    let own = json!({"url": "http://h:1"});
    for operation in ALL {
        for (extra, env, engine, endpoint) in [
            (json!({}), None, false, default),
            (json!({}), Some(URL), false, variable),
            (json!({}), None, true, here),
            (json!({}), Some(URL), true, variable),
            (json!({"model": "other"}), None, true, default),
            (json!({"model": "other"}), Some(URL), true, variable),
            (own.clone(), None, false, "http://h:1/ai/v1"),
            (own.clone(), Some(URL), true, "http://h:1/ai/v1"),
            (own.clone(), None, true, "http://h:1/ai/v1"),
            (
                json!({"api_url": "http://h:1"}),
                None,
                true,
                "http://h:1/ai/v1",
            ),
            (
                json!({"url": "http://h:1/own/"}),
                None,
                true,
                "http://h:1/own",
            ),
            (json!({}), Some(("ANTFLY_INFERENCE_URL", "")), true, here),
        ] {
            let env: Vec<_> = env.into_iter().collect();
            let builder = if engine {
                with_engine(&env)
            } else {
                builder(&env)
            };
            let case = format!("{operation} {extra} {env:?} {engine}");
            let (found, _) = scope(builder, operation, extra).unwrap();
            assert_eq!(found, endpoint, "{case}");
        }
    }
}

#[test]
fn a_bad_url_is_an_error_that_names_where_it_stands() {
    for operation in ALL {
        let e = scope(builder(&[]), operation, json!({"url": "inference:8082"})).unwrap_err();
        assert!(e.message().contains("w.url: "), "{e}");
        let env = [("ANTFLY_INFERENCE_URL", "inference:8082")];
        let e = scope(with_engine(&env), operation, json!({})).unwrap_err();
        assert!(e.message().starts_with("ANTFLY_INFERENCE_URL: "), "{e}");
    }
}

#[test]
fn the_key_is_the_entrys_else_the_environments_else_none() {
    let env = [("ANTFLY_INFERENCE_API_KEY", KEY)];
    for operation in ALL {
        let credential = |env: &[(&str, &str)], extra| scope(builder(env), operation, extra);
        assert_eq!(credential(&[], json!({})).unwrap().1, "anonymous");
        assert_eq!(
            credential(&env, json!({})).unwrap().1,
            "env:ANTFLY_INFERENCE_API_KEY"
        );
        let literal = credential(&env, json!({"api_key": "other-key"})).unwrap().1;
        assert!(literal.starts_with("literal:"), "{literal}");
        let blank = credential(&env, json!({"api_key": " "})).unwrap_err();
        assert_eq!(blank.kind(), Kind::Config);
    }
}

/// A store that may not be asked.
#[derive(Debug)]
struct Forbidden;

#[async_trait::async_trait]
impl SecretStore for Forbidden {
    fn id(&self) -> String {
        "forbidden".to_owned()
    }
    fn holds(&self, name: &str) -> Result<bool> {
        panic!("asked for {name}")
    }
    async fn get(&self, name: &str) -> Result<Option<secrecy::SecretString>> {
        panic!("asked for {name}")
    }
}

#[tokio::test]
async fn in_process_no_credential_is_resolved_and_the_engine_answers() {
    let engine = Engine::default();
    let runs = Arc::clone(&engine.0);
    // A key that no header could carry, and a reference that leads nowhere.
    let client = builder(&[("ANTFLY_INFERENCE_API_KEY", "\u{7}")])
        .secret_store(Arc::new(Forbidden))
        .engine(Arc::new(engine))
        .build()
        .unwrap();
    let extra = json!({"api_key": "${secret:nowhere}"});
    for operation in ALL {
        assert_eq!(
            client
                .check(&entry(operation, extra.clone()).unwrap())
                .unwrap()
                .scope[4],
            ("credential", "anonymous".to_owned())
        );
    }
    let of = |operation| entry(operation, extra.clone()).unwrap();
    let embedder = client.embedder(&of(Operation::Embed)).unwrap();
    let vectors = embedder.embed(EmbedRequest::texts(["a"])).await.unwrap();
    assert_eq!(vectors.as_flat(), &[1.0, 2.0]);
    let generator = client.generator(&of(Operation::Generate)).unwrap();
    let answer = generator
        .generate(GenerateRequest::prompt("a"))
        .await
        .unwrap();
    assert_eq!(answer.text, "here");
    let reranker = client.reranker(&of(Operation::Rerank)).unwrap();
    let ranking = reranker
        .rerank(RerankRequest::new("q", ["a"]))
        .await
        .unwrap();
    assert_eq!(ranking.results[0].score, 0.5);
    assert_eq!(runs.load(Ordering::Relaxed), 3);
}

#[tokio::test]
async fn in_process_media_is_the_models_to_take() {
    let client = with_engine(&[]).build().unwrap();
    let entry = entry(Operation::Embed, json!({})).unwrap();
    let picture = EmbedInput::Parts(vec![Part::image_url("https://h/x.png")]);
    let request = EmbedRequest {
        inputs: vec![picture],
        ..EmbedRequest::default()
    };
    let e = client.embedder(&entry).unwrap().embed(request).await;
    assert_eq!(e.unwrap_err().kind(), Kind::MediaNotAllowed);
}

fn refused(builder: ClientBuilder, operation: Operation, extra: Value) -> Error {
    let e = scope(builder, operation, extra).unwrap_err();
    assert_eq!(e.kind(), Kind::Config, "{e}");
    e
}

#[test]
fn in_process_an_outbound_limit_is_refused_with_the_reason_and_the_way_out() {
    let limit = json!({"rate_limit": {"max_concurrency": 1}});
    for operation in ALL {
        let e = refused(with_engine(&[]), operation, limit.clone());
        for part in [
            "w.rate_limit: ",
            "in-process",
            "\"m\"",
            "neither url nor ANTFLY_INFERENCE_URL is set",
            "Set url",
        ] {
            assert!(e.message().contains(part), "{e}");
        }
        // One that limits nothing is none, and a remote entry takes it.
        assert!(scope(with_engine(&[]), operation, json!({"rate_limit": {}})).is_ok());
        assert!(scope(with_engine(&[URL]), operation, limit.clone()).is_ok());
        assert!(scope(builder(&[]), operation, limit.clone()).is_ok());
    }
    for (key, value) in [("requests_per_minute", 60), ("burst", 2)] {
        let e = refused(with_engine(&[]), Operation::Embed, json!({key: value}));
        assert!(e.message().contains(&format!("embedders.w.{key}: ")), "{e}");
        assert!(e.message().contains("Set url"), "{e}");
    }
}

#[test]
fn fields_of_a_model_in_the_process_are_refused_where_the_entry_is_remote() {
    let admission = json!({"admission": {"max_concurrency": 2}});
    for operation in ALL {
        assert!(scope(with_engine(&[]), operation, admission.clone()).is_ok());
        for (builder, why) in [
            (with_engine(&[URL]), "ANTFLY_INFERENCE_URL is set"),
            (builder(&[]), "no engine"),
        ] {
            let e = refused(builder, operation, admission.clone());
            assert!(e.message().contains("w.admission: "), "{e}");
            assert!(e.message().contains(why), "{e}");
        }
        let e = refused(
            with_engine(&[]),
            operation,
            json!({"model": "other", "model_path": "/x"}),
        );
        assert!(e.message().contains("w.model_path: "), "{e}");
        assert!(e.message().contains("no model \"other\""), "{e}");
    }
}

#[test]
fn the_environments_embedder_limits_are_for_the_remote_embedder_only() {
    let env = [
        ("ANTFLY_INFERENCE_EMBED_REQUESTS_PER_MINUTE", "600"),
        ("ANTFLY_EMBED_REQUESTS_PER_MINUTE", "5"),
    ];
    let limit = |builder: ClientBuilder, operation| {
        let client = builder.build().unwrap();
        let checked = client.check(&entry(operation, json!({})).unwrap()).unwrap();
        checked.policy.requests_per_minute()
    };
    assert_eq!(limit(builder(&env), Operation::Embed), Some(600));
    assert_eq!(limit(with_engine(&env), Operation::Embed), None);
    assert_eq!(limit(builder(&env), Operation::Generate), None);
    assert_eq!(limit(builder(&env), Operation::Rerank), None);
    assert_eq!(limit(builder(&env[1..]), Operation::Embed), Some(5));
}

#[tokio::test]
async fn j01_trailing_slashes_and_a_path_of_ones_own_are_kept_apart() {
    for (path, sent) in [
        ("", "/ai/v1/embed"),
        ("/", "/ai/v1/embed"),
        ("/own", "/own/embed"),
        ("/own//", "/own/embed"),
    ] {
        let server = Server::with(one_each);
        let url = format!("{}{path}", server.url());
        let client = client();
        let entry = entry(Operation::Embed, json!({"url": url})).unwrap();
        let embedder = client.embedder(&entry).unwrap();
        embedder.embed(EmbedRequest::texts(["a"])).await.unwrap();
        assert_eq!(server.requests()[0].path, sent);
    }
}
