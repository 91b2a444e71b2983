use super::*;

fn of(json: Value) -> Result<Pooling, String> {
    pooling(&serde_json::from_value(json).unwrap())
}

#[test]
fn the_pooling_is_the_one_the_file_names() {
    use serde_json::json;
    let older = json!({ "word_embedding_dimension": 384, "pooling_mode_cls_token": true, "pooling_mode_mean_tokens": false });
    assert_eq!(of(older), Ok(Pooling::First));
    assert_eq!(
        of(json!({ "pooling_mode": "lasttoken" })),
        Ok(Pooling::Last)
    );
    assert_eq!(of(json!({ "pooling_mode": ["max"] })), Ok(Pooling::Max));
    assert_eq!(
        of(json!({ "pooling_mode_mean_sqrt_len_tokens": true })),
        Ok(Pooling::MeanSqrt)
    );
    assert_eq!(of(json!({})), Ok(Pooling::Mean));
    let two = json!({ "pooling_mode_cls_token": true, "pooling_mode_mean_tokens": true });
    assert!(of(two).unwrap_err().contains("one pooling"));
    let weighted = json!({ "pooling_mode_weightedmean_tokens": true });
    assert!(
        of(weighted)
            .unwrap_err()
            .contains("pooling_mode_weightedmean_tokens")
    );
    assert!(of(json!({ "include_prompt": false })).is_err());
}
