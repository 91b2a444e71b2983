//! A pass by itself: an engine that tries to send twice with one attempt, and the service client's own way out.

use std::sync::Arc;

use antfly_framework::embed::{EmbedPart, Embeddings};
use antfly_framework::provider::{
    BatchLimits, Codec, Credential, CredentialProvider, Declared, EmbedCodec, EngineProvider,
    Freshness, Identity, Operation, Plugin, Prepared, Provider, Reply, Route, TokenCost,
};
use antfly_framework::secret::CredentialSource;
use antfly_framework::testing::{Reply as Answer, Server};
use antfly_framework::{Client, EmbedRequest, EntryConfig, Env, Registry, Time};
use async_trait::async_trait;

use super::super::connect::Connectors;
use super::*;

const PLUGIN: Plugin = Plugin {
    name: "twice",
    operations: &[Operation::Embed],
    env_prefix: None,
    resolve: |setup| {
        let url = setup.entry.url.clone().unwrap_or_default();
        Ok(Arc::new(Twice {
            declared: Declared::new(
                Identity::new(setup.entry, &url),
                CredentialSource::anonymous(),
                TokenCost::Text,
                antfly_framework::MediaSupport::None,
                1,
            ),
            url,
        }))
    },
};

/// Sends each request twice through one pass, and once more through a copy of it that an SDK might keep.
#[derive(Debug)]
struct Twice {
    declared: Declared,
    url: String,
}

impl Provider for Twice {
    fn declare(&self) -> &Declared {
        &self.declared
    }
    fn route(&self) -> Route<'_> {
        Route::Engine(self)
    }
}

impl Codec for Twice {
    fn embed(&self) -> Option<&dyn EmbedCodec> {
        Some(self)
    }
    fn classify(&self, _: &Head, _: &[u8]) -> Error {
        Error::new(Kind::Server, "refused")
    }
}

impl EmbedCodec for Twice {
    fn limits(&self) -> BatchLimits {
        BatchLimits {
            max_items: 1,
            max_bytes: usize::MAX,
        }
    }
    fn prepare(&self, _: &EmbedPart<'_>) -> Result<Prepared> {
        Prepared::json(url::Url::parse(&self.url).unwrap(), &"x")
    }
    fn decode(&self, _: &Head, _: Bytes, _: &EmbedPart<'_>) -> Result<Embeddings> {
        Embeddings::dense(1, vec![1.0])
    }
}

#[async_trait]
impl CredentialProvider for Twice {
    async fn credential(&self, _: Freshness) -> Result<Credential> {
        Ok(Credential::anonymous())
    }
}

#[async_trait]
impl EngineProvider for Twice {
    async fn send(&self, _: &Prepared, _: &Credential, attempt: Attempt) -> Result<Reply> {
        let bounds = Bounds {
            response: 1000,
            event: 1000,
        };
        let pass = Pass::new(Connectors::to_metadata().current()?, attempt, bounds, false);
        let seen = pass.seen();
        let request = || HttpRequest::get(&self.url).unwrap();
        let first = pass.call(request());
        let second = pass.call(request()).await;
        assert!(second.unwrap_err().is_user(), "one pass, one request");
        assert!(first.await.is_ok());
        assert!(
            pass.call(request()).await.is_err(),
            "also when the first has ended"
        );
        assert!(NoWay.call(request()).await.unwrap_err().is_user());
        let mut seen = lock(&seen);
        Ok(Reply::Bytes(
            seen.head.take().unwrap(),
            seen.body.take().unwrap(),
        ))
    }
}

#[tokio::test]
async fn a_pass_lets_one_request_through_and_a_client_without_one_none() {
    let server = Server::with(|_| Answer::text(200, "ok"));
    let mut registry = Registry::new();
    registry.register(PLUGIN).unwrap();
    let client = Client::builder()
        .registry(registry)
        .time(Time::thread())
        .env(Env::empty())
        .build()
        .unwrap();
    let entry = EntryConfig::new(Operation::Embed, "twice", "m").with_url(server.url());
    let embedder = client.embedder(&entry).unwrap();
    embedder.embed(EmbedRequest::texts(["a"])).await.unwrap();
    assert_eq!(server.requests().len(), 1);
    assert_eq!(embedder.scope_snapshot().counters.admitted, 1);
}
