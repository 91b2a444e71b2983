use super::*;

#[test]
fn rows_become_one_by_each_pooling() {
    let rows = [1.0, 10.0, 3.0, -20.0, 5.0, 40.0, 7.0, 2.0];
    let pooled = |pooling: Pooling| {
        let mut out = vec![99.0];
        pooling.pool(&rows, 2, &mut out);
        out.split_off(1)
    };
    assert_eq!(pooled(Pooling::First), [1.0, 10.0]);
    assert_eq!(pooled(Pooling::Last), [7.0, 2.0]);
    assert_eq!(pooled(Pooling::Mean), [4.0, 8.0]);
    assert_eq!(pooled(Pooling::MeanSqrt), [8.0, 16.0]);
    assert_eq!(pooled(Pooling::Max), [7.0, 40.0]);
}
