//! In-process inference.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use antfly_framework::content::MediaSupport;
use antfly_framework::provider::{
    Declared, Identity, InferenceEngine, LocalAnswer, LocalProvider, LocalRequest, Provider, Route,
    TokenCost,
};
use antfly_framework::rerank::{Ranked, Ranking};
use antfly_framework::secret::{CredentialSource, SecretStore};
use antfly_framework::{EntryConfig, Error, Kind, Operation, Plugin, Policy, Registry, Result};
use secrecy::SecretString;
use serde_json::{Value, json};

use crate::support::*;

/// Ranks with one model, `m`.
#[derive(Debug, Default)]
struct Engine {
    runs: Arc<AtomicUsize>,
}

impl InferenceEngine for Engine {
    fn knows(&self, operation: Operation, model: &str) -> bool {
        operation == Operation::Rerank && model == "m"
    }
    fn open(&self, _entry: &EntryConfig) -> Result<Arc<dyn LocalProvider>> {
        Ok(Arc::new(Model(Arc::clone(&self.runs))))
    }
}

#[derive(Debug)]
struct Model(Arc<AtomicUsize>);

#[async_trait::async_trait]
impl LocalProvider for Model {
    async fn run(&self, request: LocalRequest) -> Result<LocalAnswer> {
        let LocalRequest::Rerank(request) = request else {
            return Err(Error::new(Kind::Unsupported, "this model only ranks"));
        };
        self.0.fetch_add(1, Ordering::Relaxed);
        let results = (0..request.documents.len()).map(|index| Ranked { index, score: 1.0 });
        Ok(LocalAnswer::Ranking(Ranking {
            results: results.collect(),
            ..Ranking::default()
        }))
    }
}

/// Counts how often anyone asks it anything.
#[derive(Debug, Default)]
struct Watched(AtomicUsize);

#[async_trait::async_trait]
impl SecretStore for Watched {
    fn id(&self) -> String {
        "watched".to_owned()
    }
    fn holds(&self, _name: &str) -> Result<bool> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(true)
    }
    async fn get(&self, _name: &str) -> Result<Option<SecretString>> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(Some("k".into()))
    }
}

const BLANK_KEY: [(&str, &str); 1] = [("ANTFLY_INFERENCE_API_KEY", "\u{7}")];

#[tokio::test]
async fn embedded_reranking_does_not_resolve_outbound_credentials() {
    let store = Arc::new(Watched::default());
    let engine = Engine::default();
    let runs = Arc::clone(&engine.runs);
    // The environment's key could not even be sent.
    let world = World::build(BLANK_KEY, |b| {
        b.secret_store(store.clone()).engine(Arc::new(engine))
    });
    for more in [json!({}), json!({ "api_key": "${secret:k}" })] {
        let caller = world.try_open(&entry(Operation::Rerank, more)).unwrap();
        caller.once().await.unwrap();
        assert_eq!(caller.admitted(), 0);
    }
    assert_eq!(runs.load(Ordering::Relaxed), 2);
    assert_eq!(store.0.load(Ordering::Relaxed), 0);

    // The same entries, made remote, do ask for the key.
    let url = json!({ "url": "http://127.0.0.1:9", "api_key": "${secret:k}" });
    world.client.check(&entry(Operation::Rerank, url)).unwrap();
    assert_eq!(store.0.load(Ordering::Relaxed), 1);
    let url = json!({ "url": "http://127.0.0.1:9" });
    let error = refused(world.client.check(&entry(Operation::Rerank, url)));
    assert!(error.message().contains(BLANK_KEY[0].0), "{error}");
}

#[tokio::test]
async fn in_process_inference_rejects_an_enabled_outbound_rate_limit() {
    let world = World::build([], |b| b.engine(Arc::new(Engine::default())));
    for limits in [
        json!({ "requests_per_minute": 60 }),
        json!({ "max_concurrency": 1 }),
        json!({ "tokens_per_minute": 1 }),
        json!({ "requests_per_minute": 60, "pacing": "completion" }),
    ] {
        let more = |limits: &Value| json!({ "rate_limit": limits });
        let entry = entry(Operation::Rerank, more(&limits));
        for error in [
            refused(world.client.check(&entry)),
            refused(world.try_open(&entry)),
        ] {
            assert_eq!(error.kind(), Kind::Config);
            assert!(
                error.message().starts_with("rerankers.one.rate_limit: "),
                "{error}"
            );
            // Why it is in-process, and the way out.
            assert!(error.message().contains("in-process"), "{error}");
            assert!(error.message().contains("url"), "{error}");
        }
        // Another model, or a URL, is remote, and there it is taken.
        let mut remote = more(&limits);
        remote["model"] = "unknown-to-the-engine".into();
        assert!(!world.policy(Operation::Rerank, remote).is_unlimited());
        let mut remote = more(&limits);
        remote["url"] = "http://127.0.0.1:9".into();
        assert!(!world.policy(Operation::Rerank, remote).is_unlimited());
    }
}

#[tokio::test]
async fn in_process_inference_accepts_a_rate_limit_that_limits_nothing() {
    let world = World::build([], |b| b.engine(Arc::new(Engine::default())));
    for limits in [json!({}), json!(null), json!({ "burst": 4 })] {
        let entry = entry(Operation::Rerank, json!({ "rate_limit": limits }));
        let caller = world.try_open(&entry).unwrap();
        assert_eq!(caller.snap().policy, Policy::UNLIMITED);
        caller.once().await.unwrap();
    }
}

#[test]
fn without_an_engine_the_same_entry_is_an_outbound_one() {
    let limits = json!({ "rate_limit": { "requests_per_minute": 60 } });
    let checked = World::new().check(Operation::Rerank, limits);
    assert_eq!(checked.policy.requests_per_minute(), Some(60));
    let endpoint = checked
        .scope
        .iter()
        .find(|(name, _)| *name == "endpoint")
        .unwrap();
    assert!(
        endpoint.1.starts_with("http://127.0.0.1:8082"),
        "{endpoint:?}"
    );
}

/// Any provider that runs in this process: here one that embeds.
const INSIDE: Plugin = Plugin {
    name: "inside",
    operations: &[Operation::Embed],
    env_prefix: Some("INSIDE"),
    resolve: |setup| Ok(Arc::new(Inside::new(setup.entry))),
};

#[derive(Debug)]
struct Inside {
    declared: Declared,
    model: Model,
}

impl Inside {
    fn new(entry: &EntryConfig) -> Self {
        let identity = Identity {
            provider: "inside".into(),
            endpoint: "in-process".into(),
            operation: Operation::Embed,
            model: entry.model.clone(),
            extra: Vec::new(),
        };
        let nobody = CredentialSource::anonymous();
        Inside {
            declared: Declared::new(identity, nobody, TokenCost::Text, MediaSupport::None, 1024),
            model: Model(Arc::default()),
        }
    }
}

impl Provider for Inside {
    fn declare(&self) -> &Declared {
        &self.declared
    }
    fn route(&self) -> Route<'_> {
        Route::Local(&self.model)
    }
}

fn inside<const N: usize>(env: [(&str, &str); N]) -> World {
    let mut registry = Registry::new();
    registry.register(INSIDE).unwrap();
    World::build(env, |b| b.registry(registry))
}

fn inside_entry(path: &str, mut more: Value) -> EntryConfig {
    more["provider"] = "inside".into();
    more["model"] = "m".into();
    EntryConfig::from_json(Operation::Embed, path, more).unwrap()
}

#[test]
fn any_in_process_provider_refuses_an_enabled_rate_limit_and_the_legacy_keys() {
    let world = inside([]);
    for (key, value) in [
        ("rate_limit", json!({ "requests_per_minute": 60 })),
        ("rate_limit", json!({ "max_concurrency": 1 })),
        ("rate_limit", json!({ "tokens_per_minute": 1 })),
        ("requests_per_minute", json!(60)),
        ("burst", json!(2)),
    ] {
        let entry = inside_entry("embedders.one", json!({ key: value }));
        let error = refused(world.client.check(&entry));
        assert_eq!(error.kind(), Kind::Config);
        let named = format!("embedders.one.{key}: ");
        assert!(error.message().starts_with(&named), "{error}");
        assert_eq!(refused(world.try_open(&entry)).kind(), Kind::Config);
    }
    let nothing = inside_entry("embedders.one", json!({ "rate_limit": {} }));
    assert!(world.try_open(&nothing).is_ok());
}

#[test]
fn the_refusal_of_an_entry_without_a_name_names_the_field_alone() {
    let limits = json!({ "rate_limit": { "max_concurrency": 1 } });
    let error = refused(inside([]).client.check(&inside_entry("", limits)));
    assert!(error.message().starts_with("rate_limit: "), "{error}");
}

#[test]
fn in_process_embedders_take_no_environment_default() {
    let world = inside([
        ("ANTFLY_INSIDE_EMBED_REQUESTS_PER_MINUTE", "5"),
        ("ANTFLY_EMBED_REQUESTS_PER_MINUTE", "not even a number"),
    ]);
    let entry = inside_entry("embedders.one", json!({}));
    let checked = world.client.check(&entry).unwrap();
    assert_eq!(checked.policy, Policy::UNLIMITED);
}
