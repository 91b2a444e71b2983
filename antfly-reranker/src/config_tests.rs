use antfly_framework::config::{EntryConfig, Env, KeySetting};
use antfly_framework::provider::{
    InferenceEngine, LocalAnswer, LocalProvider, LocalRequest, Operation,
};
use antfly_framework::rerank::{Ranked, Ranking, RerankRequest};
use antfly_framework::secret::Secrets;
use antfly_framework::{Client, ClientBuilder, Kind, Policy, Registry};
use async_trait::async_trait;
use secrecy::SecretString;

use super::*;

fn entry() -> EntryConfig {
    let mut entry = EntryConfig::new(Operation::Rerank, "antfly", "known");
    entry.path = "rerankers.r".to_owned();
    entry
}

fn builder(env: &[(&str, &str)]) -> ClientBuilder {
    let mut registry = Registry::new();
    registry.register(crate::PLUGIN).unwrap();
    Client::builder()
        .registry(registry)
        .env(Env::from_pairs(env.iter().copied()))
}

fn scope(builder: ClientBuilder, entry: &EntryConfig) -> Result<(String, String)> {
    let fields = builder.build()?.check(entry)?.scope;
    let of = |name: &str| {
        fields
            .iter()
            .find(|(n, _)| *n == name)
            .map(|(_, v)| v.clone())
    };
    Ok((of("endpoint").unwrap(), of("credential").unwrap()))
}

#[derive(Debug)]
struct Engine;

impl InferenceEngine for Engine {
    fn knows(&self, operation: Operation, model: &str) -> bool {
        operation == Operation::Rerank && model == "known"
    }
    fn open(&self, _entry: &EntryConfig) -> Result<Arc<dyn LocalProvider>> {
        Ok(Arc::new(Model))
    }
}

#[derive(Debug)]
struct Model;

#[async_trait]
impl LocalProvider for Model {
    async fn run(&self, _request: LocalRequest) -> Result<LocalAnswer> {
        let results = vec![Ranked {
            index: 0,
            score: 0.5,
        }];
        Ok(LocalAnswer::Ranking(Ranking {
            results,
            ..Ranking::default()
        }))
    }
}

#[test]
fn the_endpoint_is_the_entrys_the_environments_or_the_default() {
    let env = &[("ANTFLY_INFERENCE_URL", "http://inference:8082")];
    let endpoint =
        |env: &[(&str, &str)], entry: &EntryConfig| scope(builder(env), entry).unwrap().0;
    assert_eq!(endpoint(&[], &entry()), "http://127.0.0.1:8082/ai/v1");
    assert_eq!(endpoint(env, &entry()), "http://inference:8082/ai/v1");
    assert_eq!(
        endpoint(env, &entry().with_url("http://h/x/")),
        "http://h/x"
    );
}

#[test]
fn the_key_is_the_entrys_the_environments_or_none() {
    let env = &[("ANTFLY_INFERENCE_API_KEY", "secret-key")];
    let credential =
        |env: &[(&str, &str)], entry: &EntryConfig| scope(builder(env), entry).unwrap().1;
    assert_eq!(credential(&[], &entry()), "anonymous");
    assert_eq!(credential(env, &entry()), "env:ANTFLY_INFERENCE_API_KEY");
    let mut own = entry();
    own.api_key = Some(KeySetting::Literal(SecretString::from("k1234".to_owned())));
    assert!(credential(env, &own).starts_with("literal:"));
    own.api_key = Some(KeySetting::Literal(SecretString::from("  ".to_owned())));
    let e = scope(builder(&[]), &own).unwrap_err();
    assert!(e.message().starts_with("rerankers.r.api_key: "), "{e}");
}

#[test]
fn an_engine_that_knows_the_model_makes_the_entry_local_before_any_key_is_looked_at() {
    // A key that could not be resolved must not matter.
    let mut keyed = entry();
    keyed.api_key = Some(KeySetting::Reference("nowhere.at_all".to_owned()));
    let with_engine = |env: &[(&str, &str)]| builder(env).engine(Arc::new(Engine));
    let (endpoint, credential) = scope(with_engine(&[]), &keyed).unwrap();
    assert_eq!(
        (endpoint.as_str(), credential.as_str()),
        ("in-process", "anonymous")
    );
    // A URL makes it remote, and so does a model the engine doesn't know.
    let (endpoint, _) = scope(
        with_engine(&[("ANTFLY_INFERENCE_URL", "http://h")]),
        &entry(),
    )
    .unwrap();
    assert_eq!(endpoint, "http://h/ai/v1");
    let mut other = entry();
    other.model = "other".to_owned();
    assert_eq!(
        scope(with_engine(&[]), &other).unwrap().0,
        "http://127.0.0.1:8082/ai/v1"
    );
}

#[test]
fn a_local_entry_refuses_an_enabled_rate_limit_and_says_how_to_be_remote() {
    let limited = entry().with_rate_limit(Policy::builder().max_concurrency(1).build().unwrap());
    let e = scope(builder(&[]).engine(Arc::new(Engine)), &limited).unwrap_err();
    assert_eq!(e.kind(), Kind::Config);
    for part in [
        "rerankers.r.rate_limit",
        "in-process",
        "known",
        "url",
        "ANTFLY_INFERENCE_URL",
    ] {
        assert!(e.message().contains(part), "{e}");
    }
    let unlimited = entry().with_rate_limit(Policy::UNLIMITED);
    assert!(scope(builder(&[]).engine(Arc::new(Engine)), &unlimited).is_ok());
    assert!(scope(builder(&[]), &limited).is_ok());
}

#[tokio::test]
async fn a_local_entry_is_answered_by_the_engine() {
    let client = builder(&[]).engine(Arc::new(Engine)).build().unwrap();
    let ranker = client.reranker(&entry()).unwrap();
    let ranking = ranker.rerank(RerankRequest::new("q", ["a"])).await.unwrap();
    assert_eq!(ranking.results[0].score, 0.5);
}

#[test]
fn a_field_the_adapter_writes_and_fields_of_others_are_refused() {
    for name in ["model", "query", "prompts", "documents"] {
        let mut bad = entry();
        bad.extra_body.insert(name.to_owned(), serde_json::json!(1));
        let e = scope(builder(&[]), &bad).unwrap_err();
        assert!(
            e.message()
                .starts_with(&format!("rerankers.r.extra_body.{name}: ")),
            "{e}"
        );
    }
    let mut bad = entry();
    bad.region = Some("r".to_owned());
    assert_eq!(scope(builder(&[]), &bad).unwrap_err().kind(), Kind::Config);
}

#[test]
fn nothing_secret_is_shown() {
    let env = Env::from_pairs([("ANTFLY_INFERENCE_API_KEY", "secret-key")]);
    let secrets = Secrets::new(None, env.clone());
    let e = entry();
    assert!(!format!("{secrets:?} {e:?} {env:?}").contains("secret-key"));
}
