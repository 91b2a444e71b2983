//! `batchEmbedContents`.

use antfly_providers::testing::{Reply, Server};
use antfly_providers::{EmbedInput, EmbedRequest, Kind, Operation, Part};
use serde_json::{Value, json};

use crate::support::*;

/// As many vectors as there are requests; each begins with the number that its text is.
fn vectors() -> Server {
    Server::with(|request| {
        let body = request.json();
        let requests = body["requests"].as_array().cloned().unwrap_or_default();
        let values: Vec<Value> = requests
            .iter()
            .map(|r| {
                let text = r["content"]["parts"][0]["text"].as_str().unwrap_or("0");
                json!({"values": [text.parse().unwrap_or(0.0), 1.0]})
            })
            .collect();
        Reply::json(200, json!({"embeddings": values}))
    })
}

#[tokio::test]
async fn a_batch_is_one_request_with_the_model_in_each_of_its_parts() {
    let server = Server::start([Reply::json(200, fixture!("embed_batch.json"))]);
    let embedder = gemini_embedder(
        &client(),
        &server,
        json!({"dimensions": 3, "task_type": "retrieval_document", "extra_body": {"title": "Notes"}}),
    );
    let vectors = embedder
        .embed(EmbedRequest::texts(["a", "b"]))
        .await
        .unwrap();
    assert_eq!(vectors.as_flat(), [0.5, -0.25, 0.125, 1.0, 2.0, 3.0]);
    let sent = &server.requests()[0];
    assert_eq!(
        sent.path,
        "/v1beta/models/gemini-embedding-001:batchEmbedContents"
    );
    assert_eq!(sent.header("x-goog-api-key"), Some(KEY));
    let one = |text: &str| {
        json!({"model": "models/gemini-embedding-001", "content": {"parts": [{"text": text}]},
               "taskType": "RETRIEVAL_DOCUMENT", "outputDimensionality": 3, "title": "Notes"})
    };
    assert_eq!(sent.json(), json!({"requests": [one("a"), one("b")]}));
}

#[tokio::test]
async fn h09_250_texts_travel_a_hundred_a_request_in_order() {
    let server = vectors();
    let embedder = gemini_embedder(&client(), &server, json!({}));
    let texts: Vec<String> = (0..250).map(|i| i.to_string()).collect();
    let vectors = embedder.embed(EmbedRequest::texts(texts)).await.unwrap();
    let first: Vec<f32> = vectors.iter().map(|v| v[0]).collect();
    assert_eq!(first, (0..250).map(|i| i as f32).collect::<Vec<_>>());
    let mut sizes: Vec<usize> = server
        .requests()
        .iter()
        .map(|r| r.json()["requests"].as_array().map_or(0, Vec::len))
        .collect();
    sizes.sort_unstable();
    assert_eq!(sizes, [50, 100, 100]);
    assert_eq!(embedder.scope_snapshot().counters.admitted, 3);
}

#[tokio::test]
async fn h11_a_request_is_bounded_by_size_as_well_and_one_long_text_travels_alone() {
    // Google documents no bound of bytes for a batch; the adapter holds itself to 1 MiB of text.
    const BOUND: usize = 1 << 20;
    let server = vectors();
    let embedder = gemini_embedder(&client(), &server, json!({}));
    // Three fit, a fourth does not; the fifth is longer than the bound.
    let lengths = [3, 3, 3, 3, 11, 3].map(|tenths| BOUND * tenths / 10);
    let texts: Vec<String> = (0..)
        .zip(lengths)
        .map(|(i, bytes): (usize, _)| format!("{}{i}", "0".repeat(bytes)))
        .collect();
    let embedded = embedder.embed(EmbedRequest::texts(texts)).await.unwrap();
    let first: Vec<f32> = embedded.iter().map(|v| v[0]).collect();
    assert_eq!(first, [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    let mut sizes: Vec<usize> = server
        .requests()
        .iter()
        .map(|r| r.json()["requests"].as_array().map_or(0, Vec::len))
        .collect();
    sizes.sort_unstable();
    assert_eq!(sizes, [1, 1, 1, 3]);
    assert_eq!(embedder.scope_snapshot().counters.admitted, 4);
}

#[tokio::test]
async fn h09_a_fixed_batch_size_beyond_the_limit_is_refused_before_sending() {
    let server = Server::start([]);
    let embedder = gemini_embedder(&client(), &server, json!({"batch_size": 101}));
    let texts = vec!["x"; 101];
    let error = embedder
        .embed(EmbedRequest::texts(texts))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), Kind::InvalidRequest);
    assert!(error.message().contains("at most 100"), "{error}");
    assert!(server.requests().is_empty());
}

#[tokio::test]
async fn h16_one_vector_for_three_texts_is_an_error_and_no_panic() {
    for body in [
        json!({"embeddings": [{"values": [1.0]}]}),
        json!({"embeddings": []}),
        json!({"embeddings": null}),
        json!({}),
        json!({"embeddings": [{"values": [1.0]}, {"values": []}, {"values": [1.0]}]}),
        json!({"embeddings": [{"values": [1.0]}, {"values": [1.0, 2.0]}, {"values": [1.0]}]}),
        json!({"embeddings": [{"values": [1.0]}, {}, {"values": [1.0]}]}),
        json!({"embeddings": [{"values": [1.0]}, {"values": ["NaN"]}, {"values": [1.0]}]}),
        json!({"embeddings": vec![json!({"values": [1.0]}); 4]}),
    ] {
        let server = Server::start([Reply::json(200, &body)]);
        let embedder = gemini_embedder(&client(), &server, json!({}));
        let error = embedder
            .embed(EmbedRequest::texts(["a", "b", "c"]))
            .await
            .unwrap_err();
        assert_eq!(error.kind(), Kind::InvalidResponse, "{body}");
        assert_eq!(server.requests().len(), 1, "{body}");
    }
}

#[tokio::test]
async fn media_go_to_the_models_that_take_them_and_to_no_other() {
    let server = Server::start([Reply::json(200, json!({"embeddings": [{"values": [1.0]}]}))]);
    let request = || EmbedRequest {
        inputs: vec![EmbedInput::Parts(vec![
            Part::text("a cat"),
            Part::media(vec![1, 2], "image/png"),
        ])],
        batch_size: None,
    };
    let client = client();
    let old = gemini_embedder(&client, &server, json!({}));
    let error = old.embed(request()).await.unwrap_err();
    assert_eq!(error.kind(), Kind::MediaNotAllowed);
    let new = gemini_embedder(&client, &server, json!({"model": "gemini-embedding-2"}));
    new.embed(request()).await.unwrap();
    assert_eq!(
        server.requests()[0].json()["requests"][0]["content"]["parts"],
        json!([{"text": "a cat"}, {"inlineData": {"mimeType": "image/png", "data": "AQI="}}])
    );
    let off = gemini_embedder(
        &client,
        &server,
        json!({"model": "gemini-embedding-2", "multimodal": false}),
    );
    let error = off.embed(request()).await.unwrap_err();
    assert_eq!(error.kind(), Kind::MediaNotAllowed);
}

#[tokio::test]
async fn what_an_embedder_entry_cant_say_is_named() {
    let server = Server::start([]);
    for (extra, path) in [
        (json!({"truncate": "END"}), "embedders.w.truncate"),
        (
            json!({"encoding_format": "float"}),
            "embedders.w.encoding_format",
        ),
        (json!({"multimodal": true}), "embedders.w.multimodal"),
        (json!({"model": "projects/p/m"}), "embedders.w.model"),
        (json!({"project_id": "p"}), "embedders.w.project_id"),
        (
            json!({"extra_body": {"task_type": "X"}}),
            "embedders.w.extra_body.task_type",
        ),
        (
            json!({"extra_body": {"content": {}}}),
            "embedders.w.extra_body.content",
        ),
    ] {
        let mut extra = extra;
        if extra.get("model").is_none() {
            extra["model"] = json!("gemini-embedding-001");
        }
        let entry = try_entry(Operation::Embed, "gemini", &server.url(), extra).unwrap();
        let error = client().embedder(&entry).unwrap_err();
        assert_eq!(error.kind(), Kind::Config);
        assert!(error.message().starts_with(path), "{error}");
    }
}
