//! The provider of `custom_provider`, proved by the conformance kit: the whole proof of a small adapter.
#![forbid(unsafe_code)]

use antfly_framework::testing::conformance::{Row, Subject, Wire};
use antfly_framework::testing::{Received, Reply};
use antfly_providers::Operation;
use serde_json::json;

#[allow(dead_code, missing_docs)] // Its `main` is for the example.
#[path = "../examples/custom_provider.rs"]
mod custom_provider;

struct Acme;

impl Wire for Acme {
    fn texts(&self, request: &Received) -> Vec<String> {
        serde_json::from_value(request.json()["texts"].clone()).unwrap_or_default()
    }

    fn embeddings(&self, rows: &[Row<'_>]) -> Option<Reply> {
        let rows: Vec<_> = rows.iter().map(|r| r.vector).collect();
        Some(Reply::json(200, json!(rows)))
    }

    fn indexed(&self) -> bool {
        false
    }

    fn error(&self, status: u16, message: &str) -> Reply {
        Reply::text(status, message)
    }
}

#[test]
fn the_custom_provider_conforms() {
    let entry = |server: &str| json!({"provider": "acme", "model": "tiny", "url": server});
    Subject::new(custom_provider::PLUGIN, Operation::Embed, entry)
        .scope(|server| {
            vec![
                ("provider", "acme".to_owned()),
                ("endpoint", server.to_owned()),
                ("operation", "embed".to_owned()),
                ("model", "tiny".to_owned()),
                ("credential", "anonymous".to_owned()),
            ]
        })
        .check(Acme)
        .assert();
}
