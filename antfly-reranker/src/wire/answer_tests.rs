use http::HeaderMap;
use serde_json::json;

use super::*;

fn read(body: &Value) -> Result<Ranking> {
    let head = Head {
        status: 200,
        headers: HeaderMap::new(),
    };
    decode(&head, body.to_string().as_bytes())
}

fn pairs(ranking: &Ranking) -> Vec<(usize, f64)> {
    ranking.results.iter().map(|r| (r.index, r.score)).collect()
}

#[test]
fn the_specified_answer_is_read() {
    let ranking = read(&json!({
        "object": "list", "model": "m",
        "data": [{"object": "rerank.score", "index": 1, "score": -2.5}, {"object": "rerank.score", "index": 0, "score": 7}],
        "usage": {"prompt_tokens": 5, "completion_tokens": 0, "total_tokens": 5}
    }))
    .unwrap();
    assert_eq!(pairs(&ranking), [(1, -2.5), (0, 7.0)]);
    let usage = ranking.usage.unwrap();
    assert_eq!(
        (usage.input_tokens, usage.output_tokens, usage.total_tokens),
        (Some(5), Some(0), Some(5))
    );
    assert!(!ranking.limited_by_provider);
}

#[test]
fn an_older_server_answers_scores_in_input_order() {
    let ranking = read(&json!({"scores": [0.9, 0.1]})).unwrap();
    assert_eq!(pairs(&ranking), [(0, 0.9), (1, 0.1)]);
    assert_eq!(ranking.usage, None);
}

#[test]
fn i06_a_score_that_is_no_number_names_the_field_and_the_index() {
    for bad in [json!(null), json!("0.9"), json!([0.9])] {
        let e = read(&json!({"data": [{"index": 1, "score": 0.5}, {"index": 0, "score": bad}]}))
            .unwrap_err();
        assert_eq!((e.kind(), e.item()), (Kind::InvalidResponse, Some(0)));
        assert!(
            e.message().contains("data[1].score") && e.message().contains("document 0"),
            "{e}"
        );
        let e = read(&json!({"scores": [0.1, bad]})).unwrap_err();
        assert_eq!((e.kind(), e.item()), (Kind::InvalidResponse, Some(1)));
        assert!(e.message().contains("scores[1]"), "{e}");
    }
    let e = read(&json!({"data": [{"index": 0}]})).unwrap_err();
    assert!(e.message().contains("data[0].score"), "{e}");
}

#[test]
fn an_index_that_is_none_is_an_error() {
    for bad in [json!(null), json!(-1), json!("0"), json!(0.5)] {
        let e = read(&json!({"data": [{"index": bad, "score": 1.0}]})).unwrap_err();
        assert_eq!(e.kind(), Kind::InvalidResponse);
        assert!(e.message().contains("data[0].index"), "{e}");
    }
}

#[test]
fn i08_no_text_is_needed_and_extra_fields_are_fine() {
    let ranking =
        read(&json!({"data": [{"index": 0, "score": 1.0, "document": null, "x": {}}], "y": 1}))
            .unwrap();
    assert_eq!(pairs(&ranking), [(0, 1.0)]);
}

#[test]
fn neither_data_nor_scores_is_an_invalid_answer_and_an_error_is_one() {
    assert_eq!(read(&json!({})).unwrap_err().kind(), Kind::InvalidResponse);
    assert_eq!(
        read(&json!([[0.5]])).unwrap_err().kind(),
        Kind::InvalidResponse
    );
    assert_eq!(
        read(&json!({"data": null})).unwrap_err().kind(),
        Kind::InvalidResponse
    );
    let e = read(&json!({"error": "model failed", "data": []})).unwrap_err();
    assert_eq!((e.kind(), e.message()), (Kind::Server, "model failed"));
}
