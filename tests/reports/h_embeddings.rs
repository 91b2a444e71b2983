//! H. Embeddings: order, counts, dimensions, encodings and batches.

use antfly_framework::testing::{Received, Reply, Server};
use antfly_framework::{CallOptions, EmbedRequest, Embeddings, Error, Kind};
use serde_json::{Value, json};

use crate::support::{OPENAI_WIRE, Way, client, embedder, through};

/// Embeds `count` texts against a server that answers `data`.
async fn embed(count: usize, extra: Value, data: Value) -> Result<Embeddings, Error> {
    let server = Server::always(Reply::json(200, json!({"data": data})));
    let texts: Vec<String> = (0..count).map(|n| format!("text {n}")).collect();
    let result = embedder(&client(), &server, extra)
        .embed(EmbedRequest::texts(texts))
        .await;
    assert_eq!(
        server.requests().len(),
        1,
        "a wrong answer is not asked for again"
    );
    result
}

fn vector(index: usize, numbers: &[f32]) -> Value {
    json!({"object": "embedding", "index": index, "embedding": numbers})
}

fn base64(index: usize, numbers: &[f32]) -> Value {
    const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let bytes: Vec<u8> = numbers.iter().flat_map(|n| n.to_le_bytes()).collect();
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let mut bits = 0_u32;
        for at in 0..3 {
            bits = bits << 8 | u32::from(three.get(at).copied().unwrap_or(0));
        }
        for at in 0..4 {
            if at <= three.len() {
                text.push(char::from(ALPHABET[(bits >> (18 - 6 * at)) as usize & 63]));
            } else {
                text.push('=');
            }
        }
    }
    json!({"object": "embedding", "index": index, "embedding": text})
}

fn invalid(result: Result<Embeddings, Error>, item: Option<usize>) {
    let error = result.unwrap_err();
    assert_eq!(error.kind(), Kind::InvalidResponse, "{error}");
    assert!(!error.is_retryable());
    if item.is_some() {
        assert_eq!(error.item(), item, "{error}");
    }
}

#[tokio::test]
async fn h01_vectors_are_placed_by_index() {
    for encode in [vector, base64] {
        let data = json!([encode(2, &[2.0]), encode(0, &[0.0]), encode(1, &[1.0])]);
        let vectors = embed(3, json!({}), data).await.unwrap();
        assert_eq!(vectors.as_flat(), [0.0, 1.0, 2.0]);
    }
}

#[tokio::test]
async fn h02_a_gap_in_the_indices_is_an_error() {
    for encode in [vector, base64] {
        let data = json!([encode(0, &[0.0]), encode(1, &[1.0]), encode(3, &[3.0])]);
        invalid(embed(4, json!({}), data).await, Some(2));
    }
}

#[tokio::test]
async fn h02_so_is_an_index_twice_or_out_of_range() {
    let data = json!([vector(0, &[0.0]), vector(0, &[1.0])]);
    invalid(embed(2, json!({}), data).await, Some(0));
    let data = json!([vector(0, &[0.0]), vector(2, &[1.0])]);
    invalid(embed(2, json!({}), data).await, None);
    let data = json!([vector(0, &[0.0]), {"index": -1, "embedding": [1.0]}]);
    invalid(embed(2, json!({}), data).await, None);
}

#[tokio::test]
async fn h04_fewer_or_more_vectors_than_inputs_are_an_error() {
    invalid(embed(2, json!({}), json!([])).await, None);
    invalid(embed(2, json!({}), Value::Null).await, None);
    let three = json!([vector(0, &[0.0]), vector(1, &[1.0]), vector(2, &[2.0])]);
    invalid(embed(2, json!({}), three).await, None);
    // The same without indices.
    let bare = |count: usize| -> Value {
        let all: Vec<Value> = (0..count).map(|_| json!({"embedding": [1.0]})).collect();
        json!(all)
    };
    invalid(embed(2, json!({}), bare(1)).await, None);
    invalid(embed(2, json!({}), bare(3)).await, None);
}

#[tokio::test]
async fn h05_every_vectors_length_is_checked() {
    let four = [1.0, 2.0, 3.0, 4.0];
    for encode in [vector, base64] {
        let data = json!([encode(0, &four), encode(1, &four), encode(2, &four[..3])]);
        invalid(embed(3, json!({}), data).await, Some(2));
        let data = json!([encode(0, &four), encode(1, &[])]);
        invalid(embed(2, json!({}), data).await, Some(1));
        let data = json!([encode(0, &[])]);
        invalid(embed(1, json!({}), data).await, Some(0));
        let data = json!([encode(0, &four[..3]), encode(1, &four[..3])]);
        invalid(embed(2, json!({"dimensions": 4}), data).await, Some(0));
    }
}

#[tokio::test]
async fn h05_a_number_that_is_none_is_an_error_too() {
    let data = json!([vector(0, &[1.0]), base64(1, &[f32::NAN])]);
    invalid(embed(2, json!({}), data).await, Some(1));
    let data = json!([vector(0, &[1.0]), base64(1, &[f32::INFINITY])]);
    invalid(embed(2, json!({}), data).await, Some(1));
    let data = json!([{"index": 0, "embedding": [1.0, null]}]);
    invalid(embed(1, json!({}), data).await, None);
    let data = json!([{"index": 0, "embedding": "AAAA"}]);
    invalid(embed(1, json!({}), data).await, None);
}

#[tokio::test]
async fn h06_an_embedding_is_read_by_what_it_is_not_by_what_was_asked() {
    let numbers = [0.25, -1.5, 3.0];
    for (provider, asked) in [
        ("openai", Some("base64")),
        ("openai", Some("float")),
        ("antfly", None),
    ] {
        let server = Server::start([
            Reply::json(200, json!({"data": [vector(0, &numbers)]})),
            Reply::json(200, json!({"data": [base64(0, &numbers)]})),
        ]);
        let fields = json!({"provider": provider, "encoding_format": asked});
        let embedder = embedder(&client(), &server, fields);
        for _ in 0..2 {
            let vectors = embedder.embed(EmbedRequest::texts(["a"])).await.unwrap();
            assert_eq!(vectors.as_flat(), numbers, "{provider} {asked:?}");
            assert_eq!(vectors.dim(), 3);
        }
        let sent = server.requests()[0].json();
        assert_eq!(sent["encoding_format"].as_str(), asked, "{provider}");
    }
}

#[tokio::test]
async fn h06_both_forms_in_one_answer_work() {
    let data = json!([base64(0, &[1.0, 2.0]), vector(1, &[3.0, 4.0])]);
    for provider in OPENAI_WIRE {
        let vectors = embed(2, through(provider), data.clone()).await.unwrap();
        assert_eq!(vectors.as_flat(), [1.0, 2.0, 3.0, 4.0], "{provider}");
    }
}

fn inputs(request: &Received) -> Vec<String> {
    let body = request.json();
    let list = body["input"].as_array().unwrap();
    list.iter()
        .map(|t| t.as_str().unwrap().to_owned())
        .collect()
}

/// Answers each text `t<n>...` with the vector `[n]`; more than `most` texts, or more bytes than `bytes`, with a 400.
fn numbered(most: usize, bytes: usize) -> Server {
    Server::with(move |request| {
        let texts = inputs(request);
        if texts.len() > most {
            let message = format!("{} texts, the limit is {most}", texts.len());
            return Reply::json(400, json!({"error": {"message": message}}));
        }
        if texts.iter().map(String::len).sum::<usize>() > bytes {
            return Reply::json(400, json!({"error": {"message": "too many tokens in all"}}));
        }
        let data: Vec<Value> = texts
            .iter()
            .enumerate()
            .map(|(at, text)| {
                let digits: String = text[1..].chars().take_while(char::is_ascii_digit).collect();
                vector(at, &[digits.parse().unwrap()])
            })
            .collect();
        Reply::json(200, json!({"data": data}))
    })
}

fn texts(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("t{n}")).collect()
}

fn in_order(vectors: &Embeddings, count: usize) {
    let expected: Vec<f32> = (0..count).map(|n| n as f32).collect();
    assert_eq!(vectors.as_flat(), expected);
}

#[tokio::test]
async fn h09_inputs_beyond_the_limit_are_split_in_order_and_each_part_is_admitted() {
    let server = numbered(96, usize::MAX);
    let embedder = embedder(&client(), &server, json!({"batch_size": 96}));
    let vectors = embedder
        .embed(EmbedRequest::texts(texts(280)))
        .await
        .unwrap();
    in_order(&vectors, 280);
    let mut parts: Vec<Vec<String>> = server.requests().iter().map(inputs).collect();
    parts.sort_by_key(|part| part[0][1..].parse::<usize>().unwrap());
    let sizes: Vec<usize> = parts.iter().map(Vec::len).collect();
    assert_eq!(sizes, [96, 96, 88]);
    assert_eq!(parts.concat(), texts(280));
    assert_eq!(embedder.scope_snapshot().counters.admitted, 3);
}

#[tokio::test]
async fn h10_a_lower_limit_is_configurable_and_the_servers_word_is_clear_without() {
    let server = numbered(10, usize::MAX);
    let vectors = embedder(&client(), &server, json!({"batch_size": 10}))
        .embed(EmbedRequest::texts(texts(25)))
        .await
        .unwrap();
    in_order(&vectors, 25);
    assert_eq!(server.requests().len(), 3);
    // The call's own size goes before the entry's.
    let request = EmbedRequest::texts(texts(25)).with_batch_size(5);
    let vectors = embedder(&client(), &server, json!({}))
        .embed(request)
        .await
        .unwrap();
    in_order(&vectors, 25);
    assert_eq!(server.requests().len(), 8);
    let error = embedder(&client(), &server, json!({}))
        .embed(EmbedRequest::texts(texts(25)))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), Kind::InvalidRequest);
    assert_eq!(error.message(), "25 texts, the limit is 10");
    assert_eq!(server.requests().len(), 9);
}

/// The bytes of text in one request: OpenAI's bound of tokens, of which a text never has more than bytes, and what the adapter
/// holds itself to where Antfly documents none.
const BOUNDS: [(&str, usize); 2] = [("openai", 300_000), ("antfly", 1 << 20)];

#[tokio::test]
async fn h11_a_batch_is_bounded_by_size_as_well() {
    for (provider, bound) in BOUNDS {
        let server = numbered(2048, bound);
        let embedder = embedder(&client(), &server, through(provider));
        // Three fit, a fourth does not.
        let long = |n: usize| format!("t{n} {}", "x".repeat(bound * 3 / 10));
        let vectors = embedder
            .embed(EmbedRequest::texts((0..10).map(long)))
            .await
            .unwrap();
        in_order(&vectors, 10);
        let mut sizes: Vec<_> = server.requests().iter().map(|r| inputs(r).len()).collect();
        sizes.sort_unstable();
        assert_eq!(sizes, [1, 3, 3, 3], "{provider}");
    }
}

#[tokio::test]
async fn h11_one_oversized_input_fails_alone() {
    for (provider, bound) in BOUNDS {
        let server = numbered(2048, bound);
        let embedder = embedder(&client(), &server, through(provider));
        let inputs = vec![
            "t0".to_owned(),
            "t1".to_owned(),
            format!("t2 {}", "x".repeat(bound)),
            "t3".to_owned(),
        ];
        let parts = embedder
            .embed_parts(EmbedRequest::texts(inputs), CallOptions::default())
            .await
            .unwrap();
        let mut seen = 0;
        for part in parts {
            assert_eq!(part.items.start, seen);
            seen = part.items.end;
            if part.items.contains(&2) {
                assert_eq!(part.items, 2..3, "{provider}");
                let error = part.result.unwrap_err();
                assert_eq!(error.item(), Some(2));
                assert_eq!(error.message(), "too many tokens in all");
            } else {
                let expected: Vec<f32> = part.items.map(|n| n as f32).collect();
                assert_eq!(part.result.unwrap().as_flat(), expected);
            }
        }
        assert_eq!(seen, 4);
    }
}

#[tokio::test]
async fn h16_one_vector_for_three_inputs_is_an_error() {
    invalid(
        embed(3, json!({}), json!([vector(0, &[1.0])])).await,
        Some(1),
    );
    invalid(
        embed(3, json!({}), json!([{"embedding": [1.0]}])).await,
        Some(1),
    );
}

#[tokio::test]
async fn h17_an_empty_input_is_refused_before_sending_and_named() {
    let server = numbered(2048, usize::MAX);
    let embedder = embedder(&client(), &server, json!({}));
    let error = embedder
        .embed(EmbedRequest::texts(["t0", "", "t2"]))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), Kind::InvalidRequest);
    assert_eq!(error.item(), Some(1));
    assert_eq!(server.connections(), 0);
    assert_eq!(embedder.scope_snapshot().counters.admitted, 0);
    // Part by part it costs only itself.
    let parts = embedder
        .embed_parts(
            EmbedRequest::texts(["t0", "", "t2"]),
            CallOptions::default(),
        )
        .await
        .unwrap();
    let told: Vec<_> = parts
        .iter()
        .map(|part| (part.items.clone(), part.result.is_ok()))
        .collect();
    assert_eq!(told, [(0..1, true), (1..2, false), (2..3, true)]);
}

#[tokio::test]
async fn h20_an_input_the_server_fails_on_ends_after_bounded_tries_and_costs_only_its_batch() {
    for provider in OPENAI_WIRE {
        let server = Server::with(move |request| {
            if request.text().contains("t3") {
                let message = "failed to encode response: json: unsupported value: NaN";
                return Reply::json(500, json!({"error": message}));
            }
            let texts = inputs(request);
            let data: Vec<Value> = texts
                .iter()
                .enumerate()
                .map(|(at, text)| vector(at, &[text[1..].parse().unwrap()]))
                .collect();
            Reply::json(200, json!({"data": data}))
        });
        let embedder = embedder(&client(), &server, through(provider));
        let request = EmbedRequest::texts(texts(6)).with_batch_size(2);
        let parts = embedder
            .embed_parts(request, CallOptions::default())
            .await
            .unwrap();
        assert_eq!(parts.len(), 3);
        for part in parts {
            if part.items == (2..4) {
                let error = part.result.unwrap_err();
                assert_eq!(error.kind(), Kind::Server);
                assert!(error.message().contains("unsupported value: NaN"));
                assert_eq!(error.attempts(), 3);
            } else {
                let expected: Vec<f32> = part.items.map(|n| n as f32).collect();
                assert_eq!(part.result.unwrap().as_flat(), expected);
            }
        }
        assert_eq!(server.requests().len(), 5);
    }
}

#[tokio::test]
async fn h21_413_is_a_request_too_large_and_not_retried() {
    for (provider, way) in Way::EACH {
        let server = Server::always(Reply::text(413, "length limit exceeded"));
        let asker = way.open(&client(), &server, through(provider));
        let error = asker.ask().await.unwrap_err();
        assert_eq!(error.kind(), Kind::RequestTooLarge, "{provider} {way:?}");
        assert_eq!(error.message(), "length limit exceeded");
        assert!(!error.is_retryable());
        assert_eq!(server.requests().len(), 1, "{provider} {way:?}");
    }
}
