use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::HeaderMap;
use serde_json::json;

use super::*;

fn head() -> Head {
    Head {
        status: 200,
        headers: HeaderMap::new(),
    }
}

fn read(body: &Value, inputs: usize) -> Result<Embeddings> {
    decode(&head(), body.to_string().as_bytes(), inputs)
}

fn item(index: u64, embedding: Value) -> Value {
    json!({"object": "embedding", "index": index, "embedding": embedding})
}

fn base64_of(numbers: &[f32]) -> String {
    let bytes: Vec<u8> = numbers.iter().flat_map(|n| n.to_le_bytes()).collect();
    STANDARD.encode(bytes)
}

#[test]
fn the_specified_answer_is_read() {
    let body = include_bytes!("fixtures/embeddings.json");
    let e = decode(&head(), body, 2).unwrap();
    assert_eq!((e.len(), e.dim()), (2, 3));
    assert_eq!(
        e.get(0).unwrap(),
        &[0.002_306_425_5, -0.009_327_292, 0.015_797_347]
    );
    assert_eq!(e.get(1).unwrap(), &[-0.002_884_222_2, 1e-05, -1.0]);
    let usage = e.usage.unwrap();
    assert_eq!(
        (usage.input_tokens, usage.total_tokens, usage.output_tokens),
        (Some(8), Some(8), None)
    );
}

#[test]
fn h01_vectors_are_placed_by_their_index() {
    let body =
        json!({"data": [item(2, json!([2.0])), item(0, json!([0.5])), item(1, json!([1.0]))]});
    assert_eq!(read(&body, 3).unwrap().as_flat(), &[0.5, 1.0, 2.0]);
    // The index may come after the numbers.
    let body = r#"{"data":[{"embedding":[2,2],"index":1},{"embedding":[1,1],"index":0}]}"#;
    assert_eq!(
        decode(&head(), body.as_bytes(), 2).unwrap().as_flat(),
        &[1.0, 1.0, 2.0, 2.0]
    );
}

#[test]
fn h02_a_gap_is_an_error_that_names_the_item() {
    let body =
        json!({"data": [item(0, json!([1.0])), item(1, json!([1.0])), item(3, json!([1.0]))]});
    let e = read(&body, 4).unwrap_err();
    assert_eq!((e.kind(), e.item()), (Kind::InvalidResponse, Some(2)));
}

#[test]
fn h04_fewer_and_more_vectors_than_inputs_are_errors() {
    assert_eq!(
        read(&json!({"data": []}), 2).unwrap_err().kind(),
        Kind::InvalidResponse
    );
    assert_eq!(
        read(&json!({"data": null}), 2).unwrap_err().kind(),
        Kind::InvalidResponse
    );
    assert_eq!(
        read(&json!({}), 2).unwrap_err().kind(),
        Kind::InvalidResponse
    );
    let three =
        json!({"data": [item(0, json!([1.0])), item(1, json!([1.0])), item(2, json!([1.0]))]});
    let e = read(&three, 2).unwrap_err();
    assert_eq!((e.kind(), e.item()), (Kind::InvalidResponse, Some(2)));
    let twice = json!({"data": [item(0, json!([1.0])), item(0, json!([1.0]))]});
    assert_eq!(read(&twice, 2).unwrap_err().item(), Some(0));
}

#[test]
fn h05_a_vector_of_another_length_is_named() {
    let body = json!({"data": [item(0, json!([1, 2, 3, 4])), item(1, json!([1, 2, 3, 4])), item(2, json!([1, 2, 3]))]});
    assert_eq!(read(&body, 3).unwrap_err().item(), Some(2));
    let body = json!({"data": [item(0, json!([1])), item(1, json!([]))]});
    assert_eq!(read(&body, 2).unwrap_err().item(), Some(1));
}

#[test]
fn h06_each_embedding_is_read_by_what_it_is() {
    let numbers = [1.5_f32, -0.25, f32::MIN_POSITIVE];
    let body =
        json!({"data": [item(0, json!(base64_of(&numbers))), item(1, json!([1.5, -0.25, 0.0]))]});
    let e = read(&body, 2).unwrap();
    assert_eq!(e.get(0).unwrap(), &numbers);
    assert_eq!(e.get(1).unwrap(), &[1.5, -0.25, 0.0]);
}

#[test]
fn h06_base64_of_every_length_is_read_whole() {
    for dim in [1, 2, 3, 255, 256, 768, 1023, 1024, 1536, 3072] {
        let numbers: Vec<f32> = (0..dim).map(|n| n as f32 / 7.0).collect();
        let e = read(&json!({"data": [item(0, json!(base64_of(&numbers)))]}), 1).unwrap();
        assert_eq!(e.as_flat(), numbers);
    }
    // Some encoders escape the slash.
    let escaped = r#"{"data":[{"index":0,"embedding":"\/\/\/\/\/w=="}]}"#;
    assert!(decode(&head(), escaped.as_bytes(), 1).unwrap().as_flat()[0].is_nan());
}

#[test]
fn base64_that_is_no_list_of_numbers_is_an_error() {
    for bad in ["AAA", "AAAA", "no base64!", "AAAAAAA="] {
        let e = read(&json!({"data": [item(0, json!(bad))]}), 1).unwrap_err();
        assert_eq!(e.kind(), Kind::InvalidResponse, "{bad}");
    }
}

#[test]
fn without_any_index_the_position_counts_and_a_mixture_is_an_error() {
    let none = json!({"data": [{"embedding": [1.0]}, {"embedding": [2.0], "index": null}]});
    assert_eq!(read(&none, 2).unwrap().as_flat(), &[1.0, 2.0]);
    let mixed = json!({"data": [{"embedding": [1.0]}, item(1, json!([2.0]))]});
    let e = read(&mixed, 2).unwrap_err();
    assert!(e.message().contains("some have none"), "{e}");
}

#[test]
fn numbers_that_are_none_are_an_error() {
    for bad in [
        json!(null),
        json!(["1"]),
        json!([null]),
        json!({"indices": [1], "values": [1.0]}),
    ] {
        let e = read(&json!({"data": [item(0, bad.clone())]}), 1).unwrap_err();
        assert_eq!(e.kind(), Kind::InvalidResponse, "{bad}");
    }
}

#[test]
fn numbers_are_rounded_as_typed_parsing_rounds_them() {
    let texts = [
        "0",
        "-0",
        "1",
        "-1",
        "0.1",
        "1e-7",
        "1E+3",
        "0.023064255",
        "-0.006929283495992422",
        "3.4028235e38",
        "1e-45",
        "123456789",
        "0.30000000000000004",
        "0.00000000000000000000000000000000000001",
        "9007199254740993",
        "16777217",
        "1.00000017881393432617187499",
    ];
    let body = format!(
        r#"{{"data":[{{"index":0,"embedding":[{}]}}]}}"#,
        texts.join(" , ")
    );
    let e = decode(&head(), body.as_bytes(), 1).unwrap();
    for (text, read) in texts.iter().zip(e.as_flat()) {
        let right: f32 = text.parse().unwrap();
        assert!(
            (right - read).abs() <= right.abs() * f32::EPSILON,
            "{text}: {read}"
        );
        assert_eq!(right.is_sign_negative(), read.is_sign_negative(), "{text}");
    }
}

#[test]
fn e06_an_error_object_inside_a_success_is_reported() {
    let e = read(&json!({"error": {"code": 429, "message": "slow down"}}), 1).unwrap_err();
    assert_eq!((e.kind(), e.message()), (Kind::RateLimited, "slow down"));
    let e = read(
        &json!({"data": null, "error": {"message": "no", "code": "insufficient_quota"}}),
        1,
    )
    .unwrap_err();
    assert_eq!(e.kind(), Kind::QuotaExhausted);
    let e = read(&json!([{"error": {"code": 503, "message": "full"}}]), 1).unwrap_err();
    assert_eq!(e.kind(), Kind::Overloaded);
    assert!(read(&json!({"error": null, "data": [item(0, json!([1.0]))]}), 1).is_ok());
}

#[test]
fn e01_a_page_instead_of_vectors_is_an_invalid_answer() {
    for body in [
        "<html>",
        "",
        "null",
        "[]",
        "{\"data\":[{\"index\":0,\"embedding\":[1.0",
    ] {
        let e = decode(&head(), body.as_bytes(), 1).unwrap_err();
        assert_eq!(
            (e.kind(), e.is_retryable()),
            (Kind::InvalidResponse, false),
            "{body}"
        );
    }
}

#[test]
fn unknown_fields_are_fine_anywhere() {
    let body = json!({"x": [1, {"y": 2}], "data": [{"z": {}, "embedding": [1.0], "index": 0, "w": [[]]}], "usage": {"a": 1}});
    let e = read(&body, 1).unwrap();
    assert_eq!(e.usage, None);
}
