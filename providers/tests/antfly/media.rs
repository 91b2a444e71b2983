//! Media in embedding inputs.

use antfly_providers::testing::Server;
use antfly_providers::{EmbedInput, EmbedRequest, Kind, Part};
use serde_json::{Value, json};

use crate::support::*;

fn image() -> EmbedInput {
    EmbedInput::Parts(vec![Part::image_url("https://h/x.png")])
}

fn captioned() -> EmbedInput {
    EmbedInput::Parts(vec![
        Part::text("a cat"),
        Part::media(vec![1, 2, 3], "image/png"),
    ])
}

fn request(inputs: impl IntoIterator<Item = EmbedInput>) -> EmbedRequest {
    EmbedRequest {
        inputs: inputs.into_iter().collect(),
        ..EmbedRequest::default()
    }
}

#[tokio::test]
async fn media_and_texts_of_one_call_travel_as_parts_one_a_vector() {
    let server = Server::with(one_each);
    let sound = EmbedInput::Parts(vec![Part::media(vec![1, 2, 3], "audio/wav")]);
    let vectors = embedder(&server, json!({"multimodal": true}))
        .embed(request(["a".into(), image(), sound]))
        .await
        .unwrap();
    assert_eq!(vectors.as_flat(), &[0.0, 1.0, 2.0]);
    let sent = server.requests();
    assert_eq!(sent.len(), 1);
    assert_eq!(
        sent[0].json(),
        json!({"model": "m", "input": [
            {"type": "text", "text": "a"},
            {"type": "image_url", "image_url": {"url": "https://h/x.png"}},
            {"type": "media", "data": "AQID", "mime_type": "audio/wav"},
        ]})
    );
}

#[tokio::test]
async fn an_input_of_text_and_media_has_a_request_to_itself() {
    // A server that makes one vector of all parts of such a request.
    let server = Server::with(|request| match &request.json()["input"] {
        Value::Array(parts) if parts[0]["type"] == "text" => answer(&[json!([9.0])]),
        Value::Array(items) => answer(&items.iter().map(|_| json!([1.0])).collect::<Vec<_>>()),
        other => panic!("{other}"),
    });
    let inputs = ["a".into(), "b".into(), captioned(), captioned(), "c".into()];
    let vectors = embedder(&server, json!({}))
        .embed(request(inputs))
        .await
        .unwrap();
    assert_eq!(vectors.as_flat(), &[1.0, 1.0, 9.0, 9.0, 1.0]);
    let mut sizes: Vec<usize> = server
        .requests()
        .iter()
        .map(|r| r.json()["input"].as_array().unwrap().len())
        .collect();
    sizes.sort_unstable();
    assert_eq!(sizes, [1, 2, 2, 2], "c; a and b; and each captioned image");
}

#[tokio::test]
async fn a_server_that_does_not_join_parts_is_told_of_and_its_vectors_are_not_used() {
    let server = Server::with(one_each);
    let e = embedder(&server, json!({}))
        .embed(request(["a".into(), captioned()]))
        .await
        .unwrap_err();
    assert_eq!((e.kind(), e.item()), (Kind::Unsupported, Some(1)), "{e}");
    assert!(e.message().contains("2 parts"), "{e}");
}

#[tokio::test]
async fn media_under_a_token_budget_is_refused_before_any_network_in_every_encoding() {
    let server = Server::start([]);
    let embedder = embedder(
        &server,
        json!({"rate_limit": {"tokens_per_minute": 100_000}}),
    );
    for input in [
        image(),
        captioned(),
        EmbedInput::Parts(vec![Part::image_url("data:image/png;base64,AQID")]),
        EmbedInput::Parts(vec![Part::media(vec![1], "audio/wav")]),
    ] {
        let e = embedder
            .embed(request(["a".into(), input]))
            .await
            .unwrap_err();
        assert_eq!((e.kind(), e.item()), (Kind::MediaNotAllowed, Some(1)));
    }
    assert!(server.requests().is_empty());
}

#[tokio::test]
async fn an_entry_can_say_that_its_model_takes_text_only() {
    let server = Server::start([]);
    let e = embedder(&server, json!({"multimodal": false}))
        .embed(request([image()]))
        .await
        .unwrap_err();
    assert_eq!(e.kind(), Kind::MediaNotAllowed);
    assert!(server.requests().is_empty());
}
