//! What is compared: each thing once through the framework, once by hand over bare reqwest with typed serde.

use antfly_framework::{
    Client, EmbedRequest, Embedder, EntryConfig, Env, GenerateRequest, Generator, Limiter,
    Operation, StreamEvent, Time,
};
use eventsource_stream::Eventsource as _;
use futures::StreamExt as _;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::server::{DELTAS, DIM, VECTORS};

/// Something to do once, and the answer's shape checked.
pub enum Case {
    Chat(Generator),
    ChatBare(Bare),
    Embed(Embedder, usize, usize),
    EmbedBare(Bare, usize, usize),
    /// The body alone, undecoded: what the HTTP library itself takes.
    BytesBare(Bare),
    Stream(Generator),
    StreamBare(Bare),
}

/// reqwest as a careful user sets it up for one endpoint, with the body's parts and the texts ready.
pub struct Bare {
    http: reqwest::Client,
    url: String,
    texts: Vec<String>,
}

impl Bare {
    fn new(url: &str, path: &str, texts: usize) -> Bare {
        Bare {
            http: reqwest::Client::builder().no_proxy().build().unwrap(),
            url: format!("{url}/{path}"),
            texts: self::texts(texts),
        }
    }

    async fn post(&self, body: &impl Serialize) -> reqwest::Response {
        let answer = self
            .http
            .post(&self.url)
            .header("content-type", "application/json")
            .bearer_auth("sk-bench")
            .body(serde_json::to_vec(body).unwrap())
            .send()
            .await
            .unwrap();
        assert!(answer.status().is_success());
        answer
    }
}

fn texts(count: usize) -> Vec<String> {
    (0..count).map(|i| format!("document number {i}")).collect()
}

/// Every limit set, none of them in the way.
fn entry(operation: Operation, url: &str, more: Value) -> (Client, EntryConfig) {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = Client::builder()
        .registry(antfly_providers::registry().unwrap())
        .limiter(Limiter::new(Time::thread()))
        .env(Env::empty())
        .build()
        .unwrap();
    let mut json = json!({"provider": "openai", "model": "m", "url": url, "api_key": "sk-bench", "proxy": "none", "rate_limit":
        {"requests_per_minute": u32::MAX, "burst": u32::MAX, "max_concurrency": 64, "tokens_per_minute": u32::MAX}});
    json.as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    (
        client,
        EntryConfig::from_json(operation, "bench", json).unwrap(),
    )
}

fn generator(url: &str, path: &str) -> Generator {
    let url = format!("{url}/{path}");
    let (client, entry) = entry(Operation::Generate, &url, json!({"max_tokens": 64}));
    client.generator(&entry).unwrap()
}

fn embedder(url: &str, path: &str, format: &str) -> Embedder {
    let url = format!("{url}/{path}");
    let (client, entry) = entry(
        Operation::Embed,
        &url,
        json!({"encoding_format": format, "batch_size": 256}),
    );
    client.embedder(&entry).unwrap()
}

impl Case {
    pub fn named(name: &str, url: &str) -> Case {
        let _ = rustls::crypto::ring::default_provider().install_default();
        match name {
            "chat" => Case::Chat(generator(url, "chat")),
            "chat-bare" => Case::ChatBare(Bare::new(url, "chat", 0)),
            "embed" => Case::Embed(embedder(url, "embed", "float"), 1, 8),
            "embed-bare" => Case::EmbedBare(Bare::new(url, "embed", 1), 1, 8),
            "floats" => Case::Embed(embedder(url, "floats", "float"), VECTORS, DIM),
            "floats-bare" => Case::EmbedBare(Bare::new(url, "floats", VECTORS), VECTORS, DIM),
            "floats-bytes" => Case::BytesBare(Bare::new(url, "floats", VECTORS)),
            "base64" => Case::Embed(embedder(url, "base64", "base64"), VECTORS, DIM),
            "stream" => Case::Stream(generator(url, "stream")),
            "stream-bare" => Case::StreamBare(Bare::new(url, "stream", 0)),
            other => panic!("no case named {other}"),
        }
    }

    pub async fn once(&self) {
        match self {
            Case::Chat(generator) => {
                let answer = generator
                    .generate(GenerateRequest::prompt("Are limits kept?"))
                    .await
                    .unwrap();
                assert_eq!(answer.text.len(), 30);
                assert!(answer.usage.is_some());
            }
            Case::ChatBare(bare) => {
                let bytes = bare.post(&ask(false)).await.bytes().await.unwrap();
                let answer: ChatAnswer = serde_json::from_slice(&bytes).unwrap();
                assert_eq!(answer.choices[0].message.content.len(), 30);
                assert_eq!(answer.usage.total_tokens, 16);
            }
            Case::Embed(embedder, count, dim) => {
                let vectors = embedder
                    .embed(EmbedRequest::texts(texts(*count)))
                    .await
                    .unwrap();
                assert_eq!((vectors.len(), vectors.dim()), (*count, *dim));
            }
            Case::EmbedBare(bare, count, dim) => {
                let body = EmbedAsk {
                    model: "m",
                    input: &bare.texts,
                    encoding_format: "float",
                };
                let bytes = bare.post(&body).await.bytes().await.unwrap();
                let answer: EmbedAnswer = serde_json::from_slice(&bytes).unwrap();
                assert_eq!(answer.data.len(), *count);
                assert!(
                    answer
                        .data
                        .iter()
                        .enumerate()
                        .all(|(i, v)| v.index == i && v.embedding.len() == *dim)
                );
            }
            Case::BytesBare(bare) => {
                let bytes = bare.post(&ask(false)).await.bytes().await.unwrap();
                assert!(bytes.len() > VECTORS * DIM);
            }
            Case::Stream(generator) => {
                let mut stream = generator
                    .stream(GenerateRequest::prompt("Are limits kept?"))
                    .await
                    .unwrap();
                let mut deltas = 0;
                while let Some(event) = stream.next().await {
                    deltas += usize::from(matches!(event.unwrap(), StreamEvent::Text(_)));
                }
                assert_eq!(deltas, DELTAS);
            }
            Case::StreamBare(bare) => {
                let mut events = bare.post(&ask(true)).await.bytes_stream().eventsource();
                let mut deltas = 0;
                while let Some(event) = events.next().await {
                    let event = event.unwrap();
                    if event.data == "[DONE]" {
                        break;
                    }
                    let chunk: Chunk = serde_json::from_str(&event.data).unwrap();
                    deltas += usize::from(chunk.choices[0].delta.content.is_some());
                }
                assert_eq!(deltas, DELTAS);
            }
        }
    }
}

#[derive(Serialize)]
struct ChatAsk {
    model: &'static str,
    messages: [ChatMessage; 1],
    max_tokens: u32,
    stream: bool,
}

#[derive(Serialize)]
struct ChatMessage {
    role: &'static str,
    content: &'static str,
}

fn ask(stream: bool) -> ChatAsk {
    ChatAsk {
        model: "m",
        messages: [ChatMessage {
            role: "user",
            content: "Are limits kept?",
        }],
        max_tokens: 64,
        stream,
    }
}

#[derive(Serialize)]
struct EmbedAsk<'a> {
    model: &'static str,
    input: &'a [String],
    encoding_format: &'static str,
}

#[derive(Deserialize)]
struct EmbedAnswer {
    data: Vec<EmbedItem>,
}

#[derive(Deserialize)]
struct EmbedItem {
    index: usize,
    embedding: Vec<f32>,
}

#[derive(Deserialize)]
struct ChatAnswer {
    choices: Vec<ChatChoice>,
    usage: ChatUsage,
}

#[derive(Deserialize)]
struct ChatUsage {
    total_tokens: u64,
}

#[derive(Deserialize)]
struct ChatChoice {
    message: ChatText,
}

#[derive(Deserialize)]
struct ChatText {
    content: String,
}

/// The fields a user of a typed client gets of a chunk.
#[derive(Deserialize)]
#[allow(dead_code, reason = "read, as a typed client reads them")]
struct Chunk {
    id: String,
    model: Option<String>,
    choices: Vec<ChunkChoice>,
}

#[derive(Deserialize)]
#[allow(dead_code, reason = "read, as a typed client reads them")]
struct ChunkChoice {
    index: usize,
    delta: Delta,
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
#[allow(dead_code, reason = "read, as a typed client reads them")]
struct Delta {
    role: Option<String>,
    content: Option<String>,
}
