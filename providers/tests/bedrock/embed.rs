//! Embedding models in their own wires.

use antfly_framework::testing::{Reply, Server};
use antfly_framework::{CallOptions, EmbedInput, EmbedRequest, Error, Kind, Part};
use serde_json::{Value, json};

use crate::support::{client, embedder, keys, refusal, vector};

/// Cohere's answer: one vector an input, its first number the input's place in the call.
fn cohere(request: &antfly_framework::testing::Received, by_type: bool) -> Reply {
    let body = request.json();
    let inputs = ["texts", "images", "inputs"]
        .iter()
        .find_map(|field| body[*field].as_array());
    let vectors: Vec<Value> = inputs
        .unwrap()
        .iter()
        .map(|text| {
            json!([
                text.as_str()
                    .and_then(|t| t.parse::<f64>().ok())
                    .unwrap_or(0.0),
                1.0
            ])
        })
        .collect();
    let embeddings = if by_type {
        json!({ "float": vectors })
    } else {
        json!(vectors)
    };
    Reply::json(200, json!({"id": "x", "embeddings": embeddings}))
        .header("x-amzn-bedrock-input-token-count", "7")
}

fn numbers(count: usize) -> EmbedRequest {
    EmbedRequest::texts((0..count).map(|i| i.to_string()))
}

#[tokio::test]
async fn titan_takes_one_text_a_request_and_answers_keep_their_order() {
    let server = Server::with(|request| {
        let number: f64 = request.json()["inputText"]
            .as_str()
            .unwrap()
            .parse()
            .unwrap();
        Reply::json(
            200,
            json!({"embedding": [number, 1.0], "inputTextTokenCount": 2}),
        )
    });
    let embedder = embedder(&client(keys()), &server, json!({}));
    let vectors = embedder.embed(numbers(3)).await.unwrap();
    assert_eq!(vectors.as_flat(), [0.0, 1.0, 1.0, 1.0, 2.0, 1.0]);
    assert_eq!(vectors.usage.unwrap().input_tokens, Some(6));
    assert_eq!(server.requests().len(), 3);
    assert_eq!(embedder.scope_snapshot().counters.admitted, 3);
}

#[tokio::test]
async fn each_titan_gets_its_own_body() {
    let server = Server::with(|_| Reply::json(200, json!({"embedding": [1.0]})));
    let client = client(keys());
    for (extra, body) in [
        (
            json!({"model": "amazon.titan-embed-text-v1"}),
            json!({"inputText": "a"}),
        ),
        (json!({}), json!({"inputText": "a"})),
        (
            json!({"extra_body": {"normalize": false, "embeddingTypes": ["float"]}}),
            json!({"inputText": "a", "normalize": false, "embeddingTypes": ["float"]}),
        ),
    ] {
        embedder(&client, &server, extra)
            .embed(EmbedRequest::texts(["a"]))
            .await
            .unwrap();
        assert_eq!(server.requests().last().unwrap().json(), body);
    }
    // With a length asked for, the answer has to have it.
    let v2 = embedder(&client, &server, json!({"dimensions": 256}));
    let e = v2.embed(EmbedRequest::texts(["a"])).await.unwrap_err();
    assert_eq!(e.kind(), Kind::InvalidResponse);
    assert_eq!(
        server.requests().last().unwrap().json(),
        json!({"inputText": "a", "dimensions": 256})
    );
}

#[tokio::test]
async fn titans_image_model_takes_text_and_raw_base64_together() {
    let server =
        Server::with(|_| Reply::json(200, json!({"embedding": vec![0.5; 384], "message": null})));
    let extra = json!({"model": "amazon.titan-embed-image-v1", "dimensions": 384});
    let embedder = embedder(&client(keys()), &server, extra);
    let request = EmbedRequest {
        inputs: vec![
            EmbedInput::Parts(vec![
                Part::text("a cat"),
                Part::media(&b"\x89PNG"[..], "image/png"),
            ]),
            EmbedInput::Parts(vec![Part::image_url("data:image/png;base64,iVBORw==")]),
        ],
        batch_size: None,
    };
    assert_eq!(embedder.embed(request).await.unwrap().dim(), 384);
    let bodies: Vec<Value> = server.requests().iter().map(|r| r.json()).collect();
    let config = json!({"outputEmbeddingLength": 384});
    let both = json!({"inputText": "a cat", "inputImage": "iVBORw==", "embeddingConfig": config});
    let image = json!({"inputImage": "iVBORw==", "embeddingConfig": config});
    // Parts travel side by side.
    assert!(
        bodies.contains(&both) && bodies.contains(&image),
        "{bodies:?}"
    );
}

#[tokio::test]
async fn h09_280_texts_are_split_into_96_96_88_in_order_and_each_is_admitted() {
    for (model, by_type) in [
        ("cohere.embed-english-v3", false),
        ("us.cohere.embed-v4:0", true),
    ] {
        let server = Server::with(move |request| {
            match request.json()["texts"].as_array().map_or(0, Vec::len) {
                count @ 1..=96 => {
                    let _ = count;
                    cohere(request, by_type)
                }
                _ => Reply::json(400, json!({"message": "too many texts"})),
            }
        });
        let embedder = embedder(&client(keys()), &server, json!({ "model": model }));
        let vectors = embedder.embed(numbers(280)).await.unwrap();
        let firsts: Vec<f32> = vectors.iter().map(|v| v[0]).collect();
        assert_eq!(firsts, (0..280_u16).map(f32::from).collect::<Vec<_>>());
        let mut sizes: Vec<usize> = server
            .requests()
            .iter()
            .map(|r| r.json()["texts"].as_array().unwrap().len())
            .collect();
        sizes.sort_unstable();
        assert_eq!(sizes, [88, 96, 96]);
        assert_eq!(embedder.scope_snapshot().counters.admitted, 3);
        assert_eq!(vectors.usage.unwrap().input_tokens, Some(21));
    }
}

#[tokio::test]
async fn h11_a_request_is_bounded_by_its_bytes_as_well_and_one_too_large_fails_alone() {
    // As the service does: a larger body is a 413.
    let server = Server::with(|request| match request.body.len() {
        0..=25_000_000 => cohere(request, true),
        _ => Reply::text(413, "length limit exceeded"),
    });
    let v4 = json!({"model": "cohere.embed-v4:0"});
    let embedder = embedder(&client(keys()), &server, v4);
    let sizes = || -> Vec<usize> {
        let requests = server.requests();
        let texts = requests
            .iter()
            .map(|r| r.json()["texts"].as_array().map_or(0, Vec::len));
        texts.collect()
    };
    // Two of 6,000,000 bytes travel together and a third would be too many.
    let texts = (0..3).map(|_| "a".repeat(6_000_000));
    embedder.embed(EmbedRequest::texts(texts)).await.unwrap();
    let mut seen = sizes();
    seen.sort_unstable();
    assert_eq!(seen, [1, 2]);
    // A quote has two bytes in JSON. Two of these fit by their length and not by their body; the third not even alone.
    let quotes = |count: usize| "\"".repeat(count);
    let texts = [quotes(7_000_000), quotes(7_000_000), quotes(13_000_000)];
    let parts = embedder
        .embed_parts(EmbedRequest::texts(texts), CallOptions::default())
        .await
        .unwrap();
    let told: Vec<_> = parts
        .iter()
        .map(|part| {
            (
                part.items.clone(),
                part.result.as_ref().err().map(Error::kind),
            )
        })
        .collect();
    let too_large = Some(Kind::RequestTooLarge);
    assert_eq!(told, [(0..1, None), (1..2, None), (2..3, too_large)]);
    let error = parts[2].result.as_ref().unwrap_err();
    assert_eq!((error.item(), error.attempts()), (Some(2), 0));
    assert!(error.message().contains("25000000"), "{error}");
    assert_eq!(sizes().len(), 4, "it was sent");
}

#[tokio::test]
async fn h20_an_input_the_service_fails_on_ends_after_bounded_tries_and_costs_only_its_batch() {
    let words = "failed to encode response: unsupported value: NaN";
    let server = Server::with(move |request| match request.text().contains("\"3\"") {
        true => refusal(500, "InternalServerException", words),
        false => cohere(request, true),
    });
    let v4 = json!({"model": "cohere.embed-v4:0"});
    let embedder = embedder(&client(keys()), &server, v4);
    let parts = embedder
        .embed_parts(numbers(6).with_batch_size(2), CallOptions::default())
        .await
        .unwrap();
    assert_eq!(parts.len(), 3);
    for part in parts {
        if part.items == (2..4) {
            let error = part.result.unwrap_err();
            assert_eq!((error.kind(), error.attempts()), (Kind::Server, 3));
            assert_eq!(error.message(), words);
        } else {
            let firsts: Vec<f32> = part.result.unwrap().iter().map(|v| v[0]).collect();
            let expected: Vec<f32> = part.items.map(|n| n as f32).collect();
            assert_eq!(firsts, expected);
        }
    }
    assert_eq!(server.requests().len(), 5);
}

#[tokio::test]
async fn h21_413_is_a_request_too_large_and_not_tried_again() {
    let server = Server::always(Reply::text(413, "length limit exceeded"));
    let embedder = embedder(&client(keys()), &server, json!({}));
    let error = embedder.embed(numbers(1)).await.unwrap_err();
    assert_eq!(error.kind(), Kind::RequestTooLarge);
    assert_eq!(error.message(), "length limit exceeded");
    assert!(!error.is_retryable());
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn truncate_is_translated_into_each_cohere_models_words() {
    let server = Server::with(|request| cohere(request, true));
    let client = client(keys());
    for (model, word, wire) in [
        ("cohere.embed-english-v3", "start", "START"),
        ("cohere.embed-english-v3", "RIGHT", "END"),
        ("cohere.embed-v4:0", "START", "LEFT"),
        ("cohere.embed-v4:0", "end", "RIGHT"),
        ("cohere.embed-v4:0", "none", "NONE"),
    ] {
        let embedder = embedder(&client, &server, json!({"model": model, "truncate": word}));
        embedder.embed(numbers(1)).await.unwrap();
        let body = server.requests().last().unwrap().json();
        assert_eq!(
            body,
            json!({"input_type": "search_document", "texts": ["0"], "truncate": wire})
        );
    }
}

#[tokio::test]
async fn cohere_v4_takes_a_task_and_a_length() {
    let server =
        Server::with(|_| Reply::json(200, json!({"embeddings": {"float": [vec![0.5; 512]]}})));
    let extra = json!({"model": "cohere.embed-v4:0", "task_type": "RETRIEVAL_QUERY", "dimensions": 512,
                       "extra_body": {"max_tokens": 100, "embedding_types": ["float"]}});
    let embedder = embedder(&client(keys()), &server, extra);
    embedder.embed(numbers(1)).await.unwrap();
    assert_eq!(
        server.requests()[0].json(),
        json!({"input_type": "search_query", "texts": ["0"], "output_dimension": 512, "max_tokens": 100,
               "embedding_types": ["float"]})
    );
}

#[tokio::test]
async fn texts_and_images_travel_apart_or_mixed_as_the_model_has_it() {
    let image = || EmbedInput::Parts(vec![Part::media(&b"img"[..], "image/png")]);
    let uri = "data:image/png;base64,aW1n";
    let request = || EmbedRequest {
        inputs: vec!["0".into(), "1".into(), image(), image(), "4".into()],
        batch_size: None,
    };
    for (model, wanted) in [
        (
            "cohere.embed-multilingual-v3",
            vec![
                json!({"input_type": "search_document", "texts": ["0", "1"]}),
                json!({"input_type": "image", "images": [uri]}),
                json!({"input_type": "image", "images": [uri]}),
                json!({"input_type": "search_document", "texts": ["4"]}),
            ],
        ),
        (
            "cohere.embed-v4:0",
            vec![
                json!({"input_type": "search_document", "texts": ["0", "1"]}),
                json!({"input_type": "search_document", "images": [uri, uri]}),
                json!({"input_type": "search_document", "texts": ["4"]}),
            ],
        ),
    ] {
        let server = Server::with(|request| cohere(request, true));
        let embedder = embedder(&client(keys()), &server, json!({ "model": model }));
        let vectors = embedder.embed(request()).await.unwrap();
        let firsts: Vec<f32> = vectors.iter().map(|v| v[0]).collect();
        assert_eq!(firsts, [0.0, 1.0, 0.0, 0.0, 4.0]);
        let bodies: Vec<Value> = server.requests().iter().map(|r| r.json()).collect();
        assert_eq!(bodies.len(), wanted.len());
        assert!(
            wanted.iter().all(|body| bodies.contains(body)),
            "{bodies:?}"
        );
    }
    let server = Server::with(|request| cohere(request, true));
    let embedder = embedder(
        &client(keys()),
        &server,
        json!({"model": "cohere.embed-v4:0"}),
    );
    let page = EmbedInput::Parts(vec![Part::text("page 1"), Part::image_url(uri)]);
    let request = EmbedRequest {
        inputs: vec![page],
        batch_size: None,
    };
    embedder.embed(request).await.unwrap();
    let content =
        json!([{"type": "text", "text": "page 1"}, {"type": "image_url", "image_url": uri}]);
    assert_eq!(
        server.requests()[0].json()["inputs"],
        json!([{ "content": content }])
    );
}

#[tokio::test]
async fn what_a_model_does_not_take_is_refused_before_anything_is_sent() {
    let server = Server::start([]);
    let client = client(keys());
    let image = EmbedInput::Parts(vec![Part::media(&b"img"[..], "image/png")]);
    let titan = embedder(&client, &server, json!({}));
    let e = titan
        .embed(EmbedRequest {
            inputs: vec![image],
            batch_size: None,
        })
        .await
        .unwrap_err();
    assert_eq!(e.kind(), Kind::MediaNotAllowed);
    let link = EmbedInput::Parts(vec![Part::image_url("https://example.com/cat.png")]);
    let v4 = embedder(&client, &server, json!({"model": "cohere.embed-v4:0"}));
    let e = v4
        .embed(EmbedRequest {
            inputs: vec![link],
            batch_size: None,
        })
        .await
        .unwrap_err();
    assert_eq!((e.kind(), e.attempts()), (Kind::MediaNotAllowed, 0));
    let e = titan
        .embed(numbers(4).with_batch_size(2))
        .await
        .unwrap_err();
    assert_eq!((e.kind(), e.attempts()), (Kind::InvalidRequest, 0));
    let e = titan
        .embed(EmbedRequest::texts(["a", "", "b"]))
        .await
        .unwrap_err();
    assert_eq!((e.kind(), e.item()), (Kind::InvalidRequest, Some(1)));
    assert!(server.requests().is_empty());
}

#[tokio::test]
async fn the_request_says_what_it_is_and_carries_the_entrys_headers() {
    let server = Server::with(|_| vector());
    let embedder = embedder(
        &client(keys()),
        &server,
        json!({"headers": {"X-Team": "search"}}),
    );
    let vectors = embedder.embed(numbers(1)).await.unwrap();
    assert_eq!(vectors.as_flat(), [0.5, 0.25]);
    let request = &server.requests()[0];
    assert_eq!(
        (request.method.as_str(), request.header("content-type")),
        ("POST", Some("application/json"))
    );
    assert_eq!(request.header("accept"), Some("application/json"));
    assert_eq!(request.header("x-team"), Some("search"));
    let signed = request.header("authorization").unwrap();
    assert!(
        signed.starts_with("AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/"),
        "{signed}"
    );
    assert!(
        signed.contains("/us-east-1/bedrock/aws4_request") && signed.contains("x-team"),
        "{signed}"
    );
}
