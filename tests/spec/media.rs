//! Media and token budgets.

use antfly_framework::content::{Media, MediaKind, MediaSource};
use antfly_framework::rerank::Document;
use antfly_framework::{
    EmbedInput, EmbedRequest, Error, GenerateRequest, Kind, Message, Operation, Part,
    RerankRequest, Role,
};
use serde_json::{Value, json};

use crate::support::*;

fn budget() -> Value {
    json!({ "rate_limit": { "tokens_per_minute": 1_000_000 } })
}

fn file_id() -> Part {
    Part::Media(Media {
        kind: MediaKind::File,
        source: MediaSource::FileId("file-1".into()),
    })
}

/// One image in every encoding there is.
fn encodings() -> Vec<Part> {
    vec![
        Part::image_url("data:image/png;base64,iVBORw0KGgo="),
        Part::image_url("https://example.com/cat.png"),
        Part::media(vec![1_u8, 2, 3], "image/png"),
        Part::media(vec![1_u8, 2, 3], "audio/wav"),
        Part::media(vec![1_u8, 2, 3], "application/pdf"),
        file_id(),
    ]
}

fn message(parts: Vec<Part>) -> GenerateRequest {
    let mut message = Message::new(Role::User, "look at this");
    message.content.extend(parts);
    GenerateRequest::messages([Message::user("before"), message])
}

fn check(error: &Error) {
    assert_eq!(error.kind(), Kind::MediaNotAllowed);
    assert!(error.message().contains("tokens_per_minute"), "{error}");
    assert_eq!(error.attempts(), 0);
}

#[tokio::test]
async fn media_in_messages_is_rejected_in_every_encoding_when_a_token_budget_is_set() {
    let world = World::new();
    let server = good();
    let generator = world.generator(&server, budget());
    for part in encodings() {
        let request = message(vec![part]);
        check(&refused(generator.generate(request.clone()).await));
        check(&refused(generator.stream(request.clone()).await));
        let mut batch = generator
            .generate_batch(vec![GenerateRequest::prompt("fine"), request])
            .await;
        check(&refused(batch.remove(1)));
        batch.remove(0).unwrap();
    }
    // Only the items without media were sent.
    assert_eq!(server.requests().len(), encodings().len());
    assert!(server.requests().iter().all(|r| r.text().contains("fine")));
    assert_eq!(
        generator.snap().counters.admitted as usize,
        encodings().len()
    );
}

#[tokio::test]
async fn media_in_messages_is_allowed_without_a_token_budget() {
    for more in [
        json!({}),
        json!({ "rate_limit": { "requests_per_minute": 600, "burst": 99 } }),
    ] {
        let world = World::new();
        let server = good();
        let generator = world.generator(&server, more);
        for (sent, part) in encodings().into_iter().enumerate() {
            generator.generate(message(vec![part])).await.unwrap();
            assert_eq!(server.requests().len(), sent + 1);
        }
    }
}

#[tokio::test]
async fn media_in_documents_is_rejected_when_a_token_budget_is_set_and_allowed_without() {
    for budgeted in [true, false] {
        let world = World::new();
        let server = good();
        let more = if budgeted { budget() } else { json!({}) };
        let reranker = world
            .client
            .reranker(&entry(Operation::Rerank, at(&server, more)))
            .unwrap();
        for part in [
            Part::image_url("data:image/png;base64,iVBORw0KGgo="),
            Part::image_url("https://example.com/cat.png"),
            Part::media(vec![1_u8, 2, 3], "image/png"),
        ] {
            let documents = [
                Document::from("text"),
                Document::Parts(vec![Part::text("cat"), part]),
            ];
            let ranked = reranker.rerank(RerankRequest::new("cats", documents)).await;
            if budgeted {
                let error = refused(ranked);
                check(&error);
                assert_eq!(error.item(), Some(1));
            } else {
                assert_eq!(ranked.unwrap().results.len(), 2);
            }
        }
        let sent = if budgeted { 0 } else { 3 };
        assert_eq!(server.requests().len(), sent);
    }
}

#[tokio::test]
async fn media_in_embedding_inputs_is_rejected_when_a_token_budget_is_set() {
    let world = World::new();
    let server = good();
    let embedder = world
        .client
        .embedder(&entry(Operation::Embed, at(&server, budget())))
        .unwrap();
    for part in encodings() {
        let request = EmbedRequest {
            inputs: vec![
                "text".into(),
                EmbedInput::Parts(vec![Part::text("cat"), part]),
            ],
            batch_size: None,
        };
        let error = refused(embedder.embed(request).await);
        check(&error);
        assert_eq!(error.item(), Some(1));
    }
    // Not even the part without media was sent.
    assert_eq!(server.requests().len(), 0);
}

#[tokio::test]
async fn media_cannot_slip_past_the_budget_in_an_extra_field() {
    let world = World::new();
    let server = good();
    let image = json!([{ "role": "user", "content": [
        { "type": "image_url", "image_url": { "url": "https://example.com/cat.png" } }] }]);
    for (operation, field) in [
        (Operation::Generate, "messages"),
        (Operation::Embed, "input"),
        (Operation::Rerank, "documents"),
        (Operation::Rerank, "prompts"),
    ] {
        let mut more = at(&server, budget());
        more["extra_body"] = json!({ field: image });
        let error = refused(world.try_open(&entry(operation, more)));
        assert_eq!(error.kind(), Kind::Config);
        let named = format!("{}.extra_body.{field}: ", path(operation));
        assert!(error.message().starts_with(&named), "{error}");
    }
    let generator = world.generator(&server, budget());
    let mut request = GenerateRequest::prompt("look");
    request.extra_body.insert("messages".to_owned(), image);
    refused(generator.generate(request).await);
    assert_eq!(server.requests().len(), 0);
}
