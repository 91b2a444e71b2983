//! The framework's own kit, with this adapter's wires: what it declares, sends, reads, costs, and that the promises hold with an SDK
//! in between.

use std::sync::LazyLock;

use antfly_framework::Kind;
use antfly_framework::content::{MediaKind, MediaSupport};
use antfly_framework::provider::Operation;
use antfly_framework::testing::conformance::{
    KEY, Refusal, Report, Row, Score, Stream, Subject, Wire,
};
use antfly_framework::testing::{Received, Reply};
use bytes::Bytes;
use serde_json::{Value, json};

use crate::frames;
use crate::support::{SECRET, credentials, refusal};

#[path = "../conformance/table.rs"]
mod table;

const CHAT: MediaSupport = MediaSupport::Kinds(&[
    MediaKind::Image,
    MediaKind::File,
    MediaKind::Video,
    MediaKind::Audio,
]);
const IMAGES: MediaSupport = MediaSupport::Kinds(&[MediaKind::Image]);

/// Why the kit's made-up models can't be tried; `entries.rs` looks at identities.
const MODELS: &str = "an unknown model is refused: each has a wire of its own";

fn subject(operation: Operation, model: &'static str) -> Subject {
    let entry = move |server: &str| json!({"provider": "bedrock", "model": model, "url": server});
    Subject::new(antfly_providers::bedrock::PLUGIN, operation, entry)
        // A session token travels in a header: the kit looks for it everywhere else.
        .environment(|_| {
            [
                ("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE"),
                ("AWS_SECRET_ACCESS_KEY", SECRET),
                ("AWS_SESSION_TOKEN", KEY),
                ("AWS_CONFIG_FILE", "/nonexistent/config"),
                ("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent/credentials"),
            ]
        })
        .scope(move |server| scope(server, operation, model, "env:AWS_ACCESS_KEY_ID"))
}

/// A generator whose credentials come from elsewhere: what its environment says and what its scope then names, at a server.
fn nova(
    variable: &'static str,
    value: fn(&str) -> String,
    credential: fn(&str) -> String,
) -> Subject {
    const MODEL: &str = "amazon.nova-lite-v1:0";
    let operation = Operation::Generate;
    subject(operation, MODEL)
        .media(CHAT)
        .environment(move |server| [(variable, value(server))])
        .scope(move |server| scope(server, operation, MODEL, &credential(server)))
}

fn scope(
    server: &str,
    operation: Operation,
    model: &str,
    credential: &str,
) -> Vec<(&'static str, String)> {
    vec![
        ("provider", "bedrock".into()),
        ("endpoint", server.trim_end_matches('/').into()),
        ("operation", operation.as_str().into()),
        ("model", model.into()),
        ("credential", credential.into()),
        ("region", "us-east-1".into()),
    ]
}

/// How AWS refuses, on every wire here: methods of [`Wire`].
macro_rules! refuses_as_aws_does {
    () => {
        fn error(&self, status: u16, message: &str) -> Reply {
            Reply::json(status, json!({ "message": message }))
        }
        /// Bedrock documents 424 as the model's own failure.
        fn kind_of(&self, status: u16) -> Kind {
            match status {
                424 => Kind::Server,
                status => Kind::of_status(status),
            }
        }
        fn refusals(&self) -> Vec<Refusal> {
            refusals()
        }
        fn request_id_header(&self) -> Option<&'static str> {
            Some("x-amzn-requestid")
        }
    };
}

fn refusals() -> Vec<Refusal> {
    let of = |status, name: &str, kind| {
        Refusal::new(name, refusal(status, name, "said"), kind).code(name)
    };
    vec![
        of(429, "ThrottlingException", Kind::RateLimited).retried(true),
        of(429, "ModelNotReadyException", Kind::Overloaded).retried(true),
        of(400, "ServiceQuotaExceededException", Kind::QuotaExhausted).retried(false),
        of(424, "ModelErrorException", Kind::Server).retried(false),
        of(408, "ModelTimeoutException", Kind::Server).retried(true),
        of(403, "AccessDeniedException", Kind::Auth).retried(false),
        of(400, "ValidationException", Kind::InvalidRequest).retried(false),
        of(404, "ResourceNotFoundException", Kind::NotFound).retried(false),
    ]
}

struct Titan;

impl Wire for Titan {
    fn texts(&self, request: &Received) -> Vec<String> {
        request.json()["inputText"]
            .as_str()
            .map(str::to_owned)
            .into_iter()
            .collect()
    }
    fn embeddings(&self, rows: &[Row<'_>]) -> Option<Reply> {
        let vector = rows.first().map_or(&[][..], |row| row.vector);
        Some(Reply::json(
            200,
            json!({"embedding": vector, "inputTextTokenCount": 1}),
        ))
    }
    fn indexed(&self) -> bool {
        false
    }
    refuses_as_aws_does!();
}

struct Cohere;

impl Wire for Cohere {
    fn texts(&self, request: &Received) -> Vec<String> {
        serde_json::from_value(request.json()["texts"].clone()).unwrap_or_default()
    }
    fn embeddings(&self, rows: &[Row<'_>]) -> Option<Reply> {
        let vectors: Vec<&[f32]> = rows.iter().map(|row| row.vector).collect();
        Some(Reply::json(200, json!({"embeddings": {"float": vectors}})))
    }
    fn indexed(&self) -> bool {
        false
    }
    refuses_as_aws_does!();
}

struct Ranker;

impl Wire for Ranker {
    fn texts(&self, request: &Received) -> Vec<String> {
        serde_json::from_value(request.json()["documents"].clone()).unwrap_or_default()
    }
    fn ranking(&self, scores: &[Score]) -> Option<Reply> {
        let results: Vec<Value> = scores
            .iter()
            .map(|s| json!({"index": s.index, "relevance_score": s.score}))
            .collect();
        Some(Reply::json(200, json!({ "results": results })))
    }
    refuses_as_aws_does!();
}

struct Converse;

impl Wire for Converse {
    fn generation(&self, text: &str) -> Option<Reply> {
        let message = json!({"role": "assistant", "content": [{"text": text}]});
        Some(Reply::json(
            200,
            json!({"output": {"message": message}, "stopReason": "end_turn"}),
        ))
    }
    fn stream(&self, texts: &[&str]) -> Option<Stream> {
        let deltas: Vec<Vec<u8>> = texts.iter().map(|text| frames::text(text)).collect();
        let stream = Stream::new(
            frames::CONTENT_TYPE,
            deltas,
            vec![frames::stop("end_turn")],
            vec![frames::usage(1, 1)],
        );
        Some(stream.opening([frames::event("messageStart", json!({"role": "assistant"}))]))
    }
    /// A container's agent beside the model: what it is asked is no attempt.
    fn auxiliary(&self, request: &Received) -> Option<Reply> {
        let mut keys = credentials(1, 3600);
        keys["SecretAccessKey"] = json!(SECRET);
        keys["Token"] = json!(KEY);
        (request.path == "/creds").then(|| Reply::json(200, keys))
    }
    fn output_cap(&self, request: &Received) -> Option<u64> {
        request.json()["inferenceConfig"]["maxTokens"].as_u64()
    }
    refuses_as_aws_does!();
    fn stream_errors(&self) -> Vec<(Bytes, Kind)> {
        [
            ("throttlingException", Kind::RateLimited),
            ("internalServerException", Kind::Server),
            ("modelStreamErrorException", Kind::Server),
            ("serviceUnavailableException", Kind::Overloaded),
            ("validationException", Kind::InvalidRequest),
        ]
        .map(|(name, kind)| (frames::exception(name, "said").into(), kind))
        .into()
    }
}

static TITAN: LazyLock<Report> = LazyLock::new(|| {
    subject(Operation::Embed, "amazon.titan-embed-text-v2:0")
        .skip("declares.identity", MODELS)
        .skip("answer.count", "an answer has one vector on this wire")
        .skip("cost.wire", "a request carries one text on this wire")
        .secret(SECRET)
        .check(Titan)
});

#[test]
fn a_titan_embedder_conforms() {
    TITAN.assert();
}

static COHERE: LazyLock<Report> = LazyLock::new(|| {
    subject(Operation::Embed, "cohere.embed-v4:0")
        .media(IMAGES)
        .skip("declares.identity", MODELS)
        .secret(SECRET)
        .check(Cohere)
});

#[test]
fn a_cohere_embedder_conforms() {
    COHERE.assert();
}

static GENERATOR: LazyLock<Report> = LazyLock::new(|| {
    subject(
        Operation::Generate,
        "anthropic.claude-sonnet-4-5-20250929-v1:0",
    )
    .media(CHAT)
    .secret(SECRET)
    .check(Converse)
});

#[test]
fn a_generator_conforms() {
    GENERATOR.assert();
}

static BEARER: LazyLock<Report> = LazyLock::new(|| {
    nova(
        "AWS_BEARER_TOKEN_BEDROCK",
        |_| KEY.to_owned(),
        |_| "env:AWS_BEARER_TOKEN_BEDROCK".to_owned(),
    )
    .check(Converse)
});

#[test]
fn a_generator_with_a_bearer_key_conforms() {
    BEARER.assert();
}

static AGENT: LazyLock<Report> = LazyLock::new(|| {
    nova(
        "AWS_CONTAINER_CREDENTIALS_FULL_URI",
        |server| format!("{server}/creds"),
        |server| format!("aws-container:{server}/creds"),
    )
    .secret(SECRET)
    .check(Converse)
});

#[test]
fn a_generator_whose_credentials_come_from_a_containers_agent_conforms() {
    AGENT.assert();
}

static RERANKER: LazyLock<Report> = LazyLock::new(|| {
    subject(Operation::Rerank, "cohere.rerank-v3-5:0")
        .skip("declares.identity", MODELS)
        .secret(SECRET)
        .check(Ranker)
});

#[test]
fn a_reranker_conforms() {
    RERANKER.assert();
}

#[test]
fn bedrock_has_passed_the_checks_that_the_table_names() {
    let embed_and_rerank: [&Report; 3] = [&TITAN, &COHERE, &RERANKER];
    let generate: [&Report; 3] = [&GENERATOR, &BEARER, &AGENT];
    table::holds("bedrock", &[embed_and_rerank, generate].concat());
}
