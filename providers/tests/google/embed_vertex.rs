//! The three ways in which Vertex AI embeds.

use antfly_providers::content::{Media, MediaKind, MediaSource};
use antfly_providers::testing::{Reply, Server};
use antfly_providers::{EmbedInput, EmbedRequest, Embedder, Env, Kind, Part};
use serde_json::{Value, json};

use crate::google::*;
use crate::support::*;

/// An embedder with a user's credentials; the loopback Google goes with it.
fn open(server: &Server, extra: Value) -> (Embedder, Google) {
    let google = Google::start();
    let path = google.file(&google.user());
    let embedder = vertex_embedder(&client_of(Env::empty()), server, with_file(&path, extra));
    (embedder, google)
}

fn one(parts: impl IntoIterator<Item = Part>) -> EmbedRequest {
    EmbedRequest {
        inputs: vec![EmbedInput::Parts(parts.into_iter().collect())],
        batch_size: None,
    }
}

/// Answers as many vectors as there are instances, and refuses more than the family takes, as Google does.
fn predictions(most: usize) -> Server {
    Server::with(move |request| {
        let body = request.json();
        let instances = body["instances"].as_array().cloned().unwrap_or_default();
        if instances.len() > most {
            return Reply::json(
                400,
                json!({"error": {"code": 400, "status": "INVALID_ARGUMENT", "message": format!("{} instances", instances.len())}}),
            );
        }
        let predictions: Vec<Value> = instances
            .iter()
            .map(|instance| {
                let text = instance["content"].as_str().unwrap_or("");
                let number: f64 = text.split(' ').next().unwrap_or("").parse().unwrap_or(-1.0);
                json!({"embeddings": {"values": [number, 1.0], "statistics": {"token_count": 2}}})
            })
            .collect();
        Reply::json(200, json!({"predictions": predictions}))
    })
}

#[tokio::test]
async fn predict_carries_task_title_and_dimensions_and_does_not_truncate() {
    let server = Server::start([Reply::json(200, fixture!("predict.json"))]);
    let (embedder, _google) = open(
        &server,
        json!({"model": "text-embedding-005", "dimensions": 3, "task_type": "RETRIEVAL_DOCUMENT",
               "extra_body": {"title": "Notes", "labels": {"team": "a"}, "parameters": {"future": 1}}}),
    );
    let vectors = embedder
        .embed(EmbedRequest::texts(["a", "b"]))
        .await
        .unwrap();
    assert_eq!(vectors.as_flat(), [0.5, -0.25, 0.125, 1.0, 2.0, 3.0]);
    assert_eq!(vectors.usage.unwrap().input_tokens, Some(10));
    let sent = &server.requests()[0];
    assert_eq!(
        sent.path,
        "/v1/projects/p-1/locations/us-central1/publishers/google/models/text-embedding-005:predict"
    );
    let instance =
        |text: &str| json!({"content": text, "task_type": "RETRIEVAL_DOCUMENT", "title": "Notes"});
    assert_eq!(
        sent.json(),
        json!({"instances": [instance("a"), instance("b")], "labels": {"team": "a"},
               "parameters": {"autoTruncate": false, "outputDimensionality": 3, "future": 1}})
    );
}

#[tokio::test]
async fn a_text_is_cut_only_where_the_entry_says_so() {
    for (truncate, sent) in [
        (json!("END"), true),
        (json!("NONE"), false),
        (json!(null), false),
    ] {
        let server = predictions(250);
        let (embedder, _google) = open(
            &server,
            json!({"model": "text-embedding-005", "truncate": truncate}),
        );
        embedder.embed(EmbedRequest::texts(["1"])).await.unwrap();
        assert_eq!(
            server.requests()[0].json()["parameters"],
            json!({"autoTruncate": sent})
        );
    }
}

#[tokio::test]
async fn h12_gemini_embedding_001_takes_one_text_a_request_and_the_others_250() {
    let texts: Vec<String> = (0..260).map(|i| i.to_string()).collect();
    for (model, most, requests) in [
        ("text-embedding-005", 250, 2),
        ("gemini-embedding-001", 1, 260),
    ] {
        let server = predictions(most);
        let (embedder, google) = open(&server, json!({"model": model}));
        let vectors = embedder
            .embed(EmbedRequest::texts(texts.clone()))
            .await
            .unwrap();
        let first: Vec<f32> = vectors.iter().map(|v| v[0]).collect();
        assert_eq!(first, (0..260).map(|i| i as f32).collect::<Vec<_>>());
        assert_eq!(server.requests().len(), requests, "{model}");
        assert_eq!(embedder.scope_snapshot().counters.admitted, requests as u64);
        assert_eq!(google.given(), 1);
    }
}

#[tokio::test]
async fn h11_a_request_is_bounded_by_size_as_well() {
    // 20,000 tokens, of which a text never has more than bytes: five of 4,000 and no sixth.
    let server = predictions(250);
    let (embedder, _google) = open(&server, json!({"model": "text-embedding-005"}));
    let texts: Vec<String> = (0..12).map(|i| format!("{i:<4000}")).collect();
    let vectors = embedder.embed(EmbedRequest::texts(texts)).await.unwrap();
    assert_eq!(vectors.len(), 12);
    let mut sizes: Vec<usize> = server
        .requests()
        .iter()
        .map(|r| r.json()["instances"].as_array().map_or(0, Vec::len))
        .collect();
    sizes.sort_unstable();
    assert_eq!(sizes, [2, 5, 5]);
}

#[tokio::test]
async fn h12_a_fixed_batch_size_beyond_the_models_is_refused_before_sending() {
    for model in [
        "gemini-embedding-001",
        "gemini-embedding-2",
        "multimodalembedding@001",
    ] {
        let server = Server::start([]);
        let (embedder, _google) = open(&server, json!({"model": model, "batch_size": 2}));
        let error = embedder
            .embed(EmbedRequest::texts(["a", "b"]))
            .await
            .unwrap_err();
        assert_eq!(error.kind(), Kind::InvalidRequest);
        assert!(error.message().contains("at most 1"), "{error}");
    }
}

#[tokio::test]
async fn h16_wrong_counts_and_shapes_are_errors_and_no_panic() {
    for (model, body) in [
        (
            "text-embedding-005",
            json!({"predictions": [{"embeddings": {"values": [1.0]}}]}),
        ),
        ("text-embedding-005", json!({"predictions": null})),
        ("text-embedding-005", json!({"predictions": [{}, {}]})),
        (
            "text-embedding-005",
            json!({"predictions": vec![json!({"embeddings": {"values": [1.0]}}); 3]}),
        ),
        (
            "text-embedding-005",
            json!({"predictions": [{"embeddings": {"values": [1.0]}}, {"embeddings": {"values": [1.0, 2.0]}}]}),
        ),
        ("text-embedding-005", json!({"predictions": 3})),
    ] {
        let server = Server::start([Reply::json(200, &body)]);
        let (embedder, _google) = open(&server, json!({"model": model}));
        let error = embedder
            .embed(EmbedRequest::texts(["a", "b"]))
            .await
            .unwrap_err();
        assert_eq!(error.kind(), Kind::InvalidResponse, "{body}");
        assert_eq!(server.requests().len(), 1);
    }
    for (model, body) in [
        ("gemini-embedding-2", json!({})),
        ("gemini-embedding-2", json!({"embedding": {"values": []}})),
        ("gemini-embedding-2", json!({"embedding": null})),
        ("multimodalembedding@001", json!({"predictions": [{}]})),
        (
            "multimodalembedding@001",
            json!({"predictions": [{"textEmbedding": [1.0], "imageEmbedding": [1.0]}]}),
        ),
        (
            "multimodalembedding@001",
            json!({"predictions": [{"textEmbedding": [1.0]}, {"textEmbedding": [1.0]}]}),
        ),
    ] {
        let server = Server::start([Reply::json(200, &body)]);
        let (embedder, _google) = open(&server, json!({"model": model}));
        let error = embedder
            .embed(EmbedRequest::texts(["a"]))
            .await
            .unwrap_err();
        assert_eq!(error.kind(), Kind::InvalidResponse, "{model} {body}");
    }
}

#[tokio::test]
async fn embed_content_is_for_the_models_that_googles_own_sdks_send_there() {
    for (model, resource) in [
        ("gemini-embedding-2", "google/models/gemini-embedding-2"),
        (
            "intfloat/multilingual-e5-large-instruct-maas",
            "intfloat/models/multilingual-e5-large-instruct-maas",
        ),
    ] {
        let server = Server::start([Reply::json(200, fixture!("embed_content.json"))]);
        let (embedder, _google) = open(
            &server,
            json!({"model": model, "dimensions": 3, "task_type": "CLUSTERING", "location": "global",
                   "extra_body": {"title": "Notes", "embedContentConfig": {"documentOcr": true}}}),
        );
        let vectors = embedder.embed(EmbedRequest::texts(["a"])).await.unwrap();
        assert_eq!(vectors.as_flat(), [0.5, -0.25, 0.125]);
        assert_eq!(vectors.usage.unwrap().input_tokens, Some(6));
        let sent = &server.requests()[0];
        assert_eq!(
            sent.path,
            format!("/v1/projects/p-1/locations/global/publishers/{resource}:embedContent")
        );
        assert_eq!(
            sent.json(),
            json!({"content": {"role": "user", "parts": [{"text": "a"}]},
                   "embedContentConfig": {"taskType": "CLUSTERING", "title": "Notes", "outputDimensionality": 3,
                                          "autoTruncate": false, "documentOcr": true}})
        );
    }
}

#[tokio::test]
async fn a_content_may_hold_media_where_the_model_takes_them() {
    let server = Server::start([Reply::json(200, fixture!("embed_content.json"))]);
    let (embedder, _google) = open(&server, json!({"model": "gemini-embedding-2"}));
    embedder
        .embed(one([
            Part::text("a cat"),
            Part::image_url("gs://b/cat.png"),
        ]))
        .await
        .unwrap();
    assert_eq!(
        server.requests()[0].json()["content"]["parts"],
        json!([{"text": "a cat"}, {"fileData": {"mimeType": "image/png", "fileUri": "gs://b/cat.png"}}])
    );
    for model in [
        "text-embedding-005",
        "gemini-embedding-001",
        "intfloat/e5-maas",
    ] {
        let server = Server::start([]);
        let (embedder, _google) = open(&server, json!({"model": model}));
        let error = embedder
            .embed(one([Part::image_url("gs://b/cat.png")]))
            .await
            .unwrap_err();
        assert_eq!(error.kind(), Kind::MediaNotAllowed, "{model}");
    }
}

#[tokio::test]
async fn multimodalembedding_takes_a_text_an_image_or_a_video() {
    let video = |source: MediaSource| {
        Part::Media(Media {
            kind: MediaKind::Video,
            source,
        })
    };
    let segment = json!({"startOffsetSec": 0, "endOffsetSec": 120, "intervalSec": 120});
    let gcs = video(MediaSource::Url("gs://b/cat.mp4".to_owned()));
    for (parts, instance, answer, vector) in [
        (
            vec![Part::text("a cat")],
            json!({"text": "a cat"}),
            fixture!("multimodal_text.json"),
            [0.5, 0.25],
        ),
        (
            vec![Part::media(vec![1, 2], "image/png")],
            json!({"image": {"bytesBase64Encoded": "AQI=", "mimeType": "image/png"}}),
            fixture!("multimodal_image.json"),
            [0.75, -0.5],
        ),
        (
            vec![Part::image_url("gs://b/cat.png")],
            json!({"image": {"gcsUri": "gs://b/cat.png", "mimeType": "image/png"}}),
            fixture!("multimodal_image.json"),
            [0.75, -0.5],
        ),
        (
            vec![Part::image_url("data:image/jpeg;base64,AQI=")],
            json!({"image": {"bytesBase64Encoded": "AQI=", "mimeType": "image/jpeg"}}),
            fixture!("multimodal_image.json"),
            [0.75, -0.5],
        ),
        (
            vec![gcs],
            json!({"video": {"gcsUri": "gs://b/cat.mp4", "videoSegmentConfig": segment}}),
            fixture!("multimodal_video.json"),
            [-0.5, 1.5],
        ),
    ] {
        let server = Server::start([Reply::json(200, answer)]);
        let (embedder, _google) = open(&server, json!({"model": "multimodalembedding@001"}));
        let vectors = embedder.embed(one(parts)).await.unwrap();
        assert_eq!(vectors.as_flat(), vector);
        let sent = &server.requests()[0];
        assert!(
            sent.path
                .ends_with("/models/multimodalembedding@001:predict")
        );
        assert_eq!(sent.json(), json!({"instances": [instance]}));
    }
}

#[tokio::test]
async fn multimodalembedding_refuses_what_would_be_several_vectors_or_none() {
    let server = Server::start([]);
    let (embedder, _google) = open(
        &server,
        json!({"model": "multimodalembedding@001", "dimensions": 512}),
    );
    let video = Part::Media(Media {
        kind: MediaKind::Video,
        source: MediaSource::Url("gs://b/cat.mp4".to_owned()),
    });
    for (parts, kind, words) in [
        (
            vec![Part::text("a cat"), Part::image_url("gs://b/cat.png")],
            Kind::InvalidRequest,
            "a vector for each",
        ),
        (
            vec![
                Part::image_url("gs://b/a.png"),
                Part::image_url("gs://b/b.png"),
            ],
            Kind::InvalidRequest,
            "a vector for each",
        ),
        (
            vec![Part::image_url("https://h/cat.png")],
            Kind::MediaNotAllowed,
            "gs:// URI",
        ),
        (vec![video], Kind::InvalidRequest, "1408"),
    ] {
        let error = embedder.embed(one(parts)).await.unwrap_err();
        assert_eq!(error.kind(), kind);
        assert!(error.message().contains(words), "{error}");
    }
    assert!(server.requests().is_empty());
}
