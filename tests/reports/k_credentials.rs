//! K. Keys that were replaced while a client ran. Credentials that expire by themselves are tested where they are loaded:
//! `providers/tests/bedrock`, `providers/tests/google`.

use std::sync::Arc;

use antfly_framework::secret::MemoryStore;
use antfly_framework::testing::{Received, Reply, Server};
use antfly_framework::{Client, Env, Kind};
use serde_json::{Value, json};

use crate::support::{Asker, Way, soon};

const BEFORE: &str = "key-before-0123456789";
const AFTER: &str = "key-after-0123456789";

/// Each way through each adapter that has a key.
fn keyed() -> impl Iterator<Item = (&'static str, Way)> {
    let gemini = [Way::Generate, Way::Stream, Way::Embed].map(|way| ("gemini", way));
    Way::EACH.into_iter().chain(gemini)
}

/// The key that a request carries.
fn key(request: &Received) -> String {
    let headers = ["authorization", "x-goog-api-key"];
    let key = headers.iter().find_map(|name| request.header(name));
    key.unwrap_or("none")
        .trim_start_matches("Bearer ")
        .to_owned()
}

fn keys(server: &Server) -> Vec<String> {
    server.requests().iter().map(key).collect()
}

fn good(provider: &str, way: Way) -> Reply {
    let said =
        json!({"candidates": [{"content": {"parts": [{"text": "ok"}]}, "finishReason": "STOP"}]});
    match (provider, way) {
        ("gemini", Way::Embed) => Reply::json(200, json!({"embeddings": [{"values": [1.0, 2.0]}]})),
        ("gemini", Way::Stream) => Reply::sse([said.to_string()]),
        ("gemini", _) => Reply::json(200, said),
        _ => way.good(),
    }
}

/// A refusal of a key, as the provider says it.
fn refused(provider: &str, words: &str) -> Reply {
    let reason =
        json!({"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"});
    let (status, error) = match provider {
        "openai" => (
            401,
            json!({"message": words, "type": "invalid_request_error"}),
        ),
        "gemini" => (
            400,
            json!({"code": 400, "status": "INVALID_ARGUMENT", "message": words, "details": [reason]}),
        ),
        _ => (401, Value::from(words)),
    };
    Reply::json(status, json!({ "error": error }))
}

/// A handle whose key is in a store, and that store.
fn open(store: &Arc<MemoryStore>, provider: &str, way: Way, server: &Server) -> Asker {
    let client = Client::builder()
        .registry(antfly_providers::registry().unwrap())
        .secret_store(store.clone())
        .env(Env::empty())
        .build()
        .unwrap();
    let once = json!({"max_attempts": 1});
    let fields = json!({"provider": provider, "api_key": "${secret:key}", "retry": once});
    way.open(&client, server, fields)
}

fn store() -> Arc<MemoryStore> {
    Arc::new(MemoryStore::new("vault", [("key", BEFORE)]))
}

#[tokio::test]
async fn k10_a_replaced_key_is_read_anew_when_the_old_one_is_called_expired_and_the_retry_is_admitted()
 {
    for (provider, way) in keyed() {
        let store = store();
        let vault = Arc::clone(&store);
        let server = Server::with(move |request| {
            if key(request) == AFTER {
                return good(provider, way);
            }
            vault.set("key", AFTER);
            refused(provider, "The key expired. Renew it.")
        });
        let asker = open(&store, provider, way, &server);
        soon(asker.ask()).await.unwrap();
        assert_eq!(keys(&server), [BEFORE, AFTER], "{provider} {way:?}");
        assert_eq!(asker.snapshot().counters.admitted, 2, "{provider} {way:?}");
        soon(asker.ask()).await.unwrap();
        assert_eq!(keys(&server), [BEFORE, AFTER, AFTER], "{provider} {way:?}");
    }
}

#[tokio::test]
async fn k11_a_key_that_is_refused_is_not_kept_for_the_next_call() {
    for (provider, way) in keyed() {
        let store = store();
        let server = Server::with(move |request| match key(request) == AFTER {
            true => good(provider, way),
            false => refused(provider, "Not a key."),
        });
        let asker = open(&store, provider, way, &server);
        let error = soon(asker.ask()).await.unwrap_err();
        assert_eq!(error.kind(), Kind::Auth, "{provider} {way:?}");
        // Nobody called it expired: there is no other to hope for.
        assert_eq!(keys(&server), [BEFORE], "{provider} {way:?}");
        store.set("key", AFTER);
        soon(asker.ask()).await.unwrap();
        assert_eq!(keys(&server), [BEFORE, AFTER], "{provider} {way:?}");
    }
}
