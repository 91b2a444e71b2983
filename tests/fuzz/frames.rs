//! Frames of AWS's event streams, through the real SDK over loopback. A line of the input is a frame (`event NAME PAYLOAD`, `exception
//! NAME PAYLOAD`, `error CODE MESSAGE`), so that what is fed gets past the checksums; `raw BYTES` stands in the body as it is.

use std::sync::LazyLock;
use std::time::Duration;

use antfly_framework::testing::{Reply, Server};
use antfly_framework::{Client, EntryConfig, Env, GenerateRequest, Kind, Operation, StreamEvent};
use serde_json::json;
use tokio::runtime::Runtime;

use crate::aws_frames::{CONTENT_TYPE, frame};
use crate::targets::{Target, bounded};

pub(crate) const FRAMES: Target = Target {
    name: "frames",
    words: &[
        "event ",
        "exception ",
        "error ",
        "raw ",
        "\n",
        "contentBlockDelta ",
        "contentBlockStart ",
        "messageStop {\"stopReason\":\"end_turn\"}",
        "metadata {\"usage\":",
        "internalServerException {}",
        "throttlingException {}",
        "\"delta\":",
        "\"text\":",
        "\"toolUse\":{",
        "\"reasoningContent\":",
        "\"contentBlockIndex\":",
        "-1",
        "2147483648",
        "null",
        "\\u0000",
        "\\ud800",
        "\0\0\0\x10",
    ],
    check,
};

/// Longer than any case takes; reached, it is a stream that hangs.
const PATIENCE: Duration = Duration::from_secs(60);

type Read = (Vec<StreamEvent>, Option<Kind>);

fn check(data: &[u8]) {
    let body: Vec<u8> = data.split(|b| *b == b'\n').flat_map(bytes).collect();
    let whole = read(&body, body.len());
    assert_eq!(read(&body, body.len() / 3 + 1), whole, "in pieces");
    let (events, ended) = whole;
    let mut text = 0;
    for event in &events {
        if let StreamEvent::Text(t) | StreamEvent::Reasoning(t) = event {
            assert!(!t.is_empty(), "an event without text");
            text += t.len();
        }
    }
    // Bytes that are no UTF-8 become a replacement of three bytes each.
    assert!(text <= 3 * data.len(), "out of nothing");
    let said = body.windows(11).any(|w| w == b"messageStop");
    assert!(
        ended.is_some() || said,
        "ended well without an end: {events:?}"
    );
}

/// A line as it stands in the body.
fn bytes(line: &[u8]) -> Vec<u8> {
    let mut words = line.splitn(3, |b| *b == b' ');
    let mut word = || words.next().unwrap_or_default();
    let (kind, name) = (word(), word());
    let rest = word();
    let name = String::from_utf8_lossy(name);
    // A header's value has at most this many bytes, and one that is empty is no name.
    let named = (1..=200).contains(&name.len());
    match kind {
        b"event" if named => frame(
            &[
                (":message-type", "event"),
                (":event-type", &name),
                (":content-type", "application/json"),
            ],
            rest,
        ),
        b"exception" if named => frame(
            &[
                (":message-type", "exception"),
                (":exception-type", &name),
                (":content-type", "application/json"),
            ],
            rest,
        ),
        b"error" if named => frame(
            &[
                (":message-type", "error"),
                (":error-code", &name),
                (":error-message", &String::from_utf8_lossy(rest)),
            ],
            b"",
        ),
        b"raw" => line.get(4..).unwrap_or_default().to_vec(),
        _ => Vec::new(),
    }
}

/// What a stream with this body gives, and how it ends.
fn read(body: &[u8], size: usize) -> Read {
    static RUNTIME: LazyLock<(Runtime, Client)> = LazyLock::new(|| {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime");
        let env = Env::from_pairs([
            ("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE"),
            ("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI"),
            ("AWS_CONFIG_FILE", "/nonexistent"),
            ("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent"),
        ]);
        let client = antfly_providers::client_builder()
            .expect("plugins")
            .env(env)
            .build()
            .expect("a client");
        (runtime, client)
    });
    let (runtime, client) = &*RUNTIME;
    let reply = body
        .chunks(size.max(1))
        .fold(Reply::stream(200, CONTENT_TYPE), |reply, chunk| {
            reply.chunk(chunk.to_vec())
        });
    let work = async {
        let server = Server::start([reply]);
        let entry = json!({
            "provider": "bedrock",
            "model": "amazon.nova-lite-v1:0",
            "url": server.url(),
            "proxy": "none",
            "retry": {"max_attempts": 1},
        });
        let entry =
            EntryConfig::from_json(Operation::Generate, "generators.f", entry).expect("an entry");
        let generator = client.generator(&entry).expect("a handle");
        let mut events = Vec::new();
        let mut stream = match generator.stream(GenerateRequest::prompt("hi")).await {
            Ok(stream) => stream,
            Err(e) => {
                bounded(&e);
                return (events, Some(e.kind()));
            }
        };
        while let Some(event) = stream.next().await {
            match event {
                Ok(event) => events.push(event),
                Err(e) => {
                    bounded(&e);
                    assert!(stream.next().await.is_none(), "something follows an error");
                    return (events, Some(e.kind()));
                }
            }
        }
        (events, None)
    };
    runtime
        .block_on(async { tokio::time::timeout(PATIENCE, work).await })
        .expect("a stream that hangs")
}
