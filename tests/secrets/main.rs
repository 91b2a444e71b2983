//! A key is looked for wherever text comes out: errors, `Debug`, logs. A process of its own: whether a log line is made at all is
//! decided once a process, by whoever logs first.
#![forbid(unsafe_code)]
#![allow(missing_docs)]

use std::io::Write;
use std::sync::{Arc, Mutex};

use antfly_framework::provider::Operation;
use antfly_framework::testing::{Reply, Server};
use antfly_framework::{Client, Document, EmbedRequest, EntryConfig, Env, Time};
use serde_json::json;

const KEY: &str = "zz-SENTINEL-4f1c9a77";

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn no_secret_reaches_an_error_a_debug_or_a_log() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(move || writer.clone())
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let mut seen = String::new();
    runtime.block_on(async {
        // A server that echoes the key wherever it can.
        let echo = |status: u16| {
            Reply::json(
                status,
                json!({"error": {"message": format!("bad key {KEY} (Bearer {KEY})"), "code": KEY}}),
            )
            .header("x-request-id", KEY)
        };
        let server = Server::start([
            echo(401),
            echo(400),
            echo(429),
            echo(500),
            echo(500),
            echo(500),
        ]);
        let client = Client::builder()
            .registry(antfly_providers::registry().unwrap())
            .limiter(antfly_framework::Limiter::new(Time::thread()))
            .env(Env::from_pairs([("OPENAI_API_KEY", KEY)]))
            .build()
            .unwrap();
        let text = json!({"embedders": {"e": {
            "provider": "openai", "model": "m", "url": server.url(), "api_key": KEY,
            "retry": {"max_attempts": 1},
        }}})
        .to_string();
        let document = Document::parse(&text).unwrap();
        let embedder = client.embedder(&document.entries[0]).unwrap();
        seen += &format!(
            "{document:?} {client:?} {embedder:?} {:?}",
            client.check(&document.entries[0])
        );
        for _ in 0..5 {
            let e = embedder
                .embed(EmbedRequest::texts(["a"]))
                .await
                .unwrap_err();
            seen += &format!("{e} {e:?} {e:#?}");
        }
        assert!(
            server.requests()[0]
                .header("authorization")
                .unwrap()
                .contains(KEY),
            "it was really sent"
        );
        for bad in [
            format!("{KEY}\n{KEY}"),
            format!("{KEY}\u{2014}"),
            format!("{KEY}\0"),
        ] {
            let json = json!({"provider": "openai", "model": "m", "api_key": bad});
            let e = EntryConfig::from_json(Operation::Embed, "embedders.e", json).unwrap_err();
            assert!(e.message().starts_with("embedders.e.api_key: "), "{e}");
            seen += &format!("{e} {e:?}");
        }
    });
    seen += &String::from_utf8_lossy(&log.0.lock().unwrap());
    assert!(seen.contains("attempt ended"), "the log was on");
    assert!(
        !seen.contains("SENTINEL"),
        "{}",
        &seen[seen.find("SENTINEL").unwrap().saturating_sub(200)..]
    );
}
