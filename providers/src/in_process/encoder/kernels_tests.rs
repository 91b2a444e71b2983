use super::*;

/// The error function by its series, in double precision.
fn erf(x: f64) -> f64 {
    if x.abs() > 5.0 {
        return x.signum();
    }
    let (mut term, mut sum) = (x, x);
    for n in 1..200 {
        term *= -x * x / f64::from(n);
        sum += term / f64::from(2 * n + 1);
    }
    sum * 2.0 / std::f64::consts::PI.sqrt()
}

fn points() -> Vec<f32> {
    (-4000..=4000).map(|n| n as f32 / 400.0).collect()
}

/// How far `activation` is from `exact`, at most, relative to the larger of 1 and the value.
fn worst(activation: Activation, exact: impl Fn(f64) -> f64) -> f64 {
    let mut values = points();
    apply(&mut values, activation);
    let apart = |(x, y): (&f32, &f32)| {
        let exact = exact(f64::from(*x));
        (f64::from(*y) - exact).abs() / exact.abs().max(1.0)
    };
    points().iter().zip(&values).map(apart).fold(0.0, f64::max)
}

#[test]
fn activations_are_exact_to_single_precision() {
    let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
    let gelu = |x: f64| 0.5 * x * (1.0 + erf(x / 2_f64.sqrt()));
    let gelu_tanh = |x: f64| {
        0.5 * x * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x.powi(3))).tanh())
    };
    assert!(worst(Activation::Gelu, gelu) < 2e-6);
    assert!(worst(Activation::GeluTanh, gelu_tanh) < 2e-6);
    assert!(worst(Activation::Tanh, f64::tanh) < 5e-7);
    assert!(worst(Activation::Sigmoid, sigmoid) < 5e-7);
    assert!(worst(Activation::Silu, |x| x * sigmoid(x)) < 1e-6);
    assert!(worst(Activation::Relu, |x| x.max(0.0)) == 0.0);
    assert!(worst(Activation::Identity, |x| x) == 0.0);
}

#[test]
fn activations_stay_finite_at_the_ends() {
    let ends = [f32::MIN, -1e30, -100.0, 100.0, 1e30, f32::MAX];
    for activation in [
        Activation::Gelu,
        Activation::Tanh,
        Activation::Sigmoid,
        Activation::Silu,
        Activation::Relu,
    ] {
        let mut values = ends;
        apply(&mut values, activation);
        assert!(
            values.iter().all(|v| v.is_finite()),
            "{activation:?}: {values:?}"
        );
    }
}

#[test]
fn a_softmax_sums_to_one_and_leaves_what_is_out_of_reach_at_zero() {
    for len in [1, 5, 16, 33, 257] {
        let scores: Vec<f32> = (0..len).map(|n| ((n * 7919) % 31) as f32 - 15.0).collect();
        let bias: Vec<f32> = (0..len).map(|n| (n % 3) as f32).collect();
        let (from, to) = (len / 4, len - len / 5);
        let mut row = scores.clone();
        let how = Row {
            scale: 0.3,
            bias: Some(&bias),
            from,
            to,
        };
        softmax(&mut row, how);
        let exact: Vec<f64> = (from..to)
            .map(|i| f64::from(scores[i] * 0.3 + bias[i]).exp())
            .collect();
        let sum: f64 = exact.iter().sum();
        for (i, v) in row.iter().enumerate() {
            let should = match (from..to).contains(&i) {
                true => exact[i - from] / sum,
                false => 0.0,
            };
            assert!(
                (f64::from(*v) - should).abs() < 1e-6,
                "{len}, {i}: {v} is not {should}"
            );
        }
    }
}

#[test]
fn very_far_scores_do_not_overflow() {
    let mut row = [1e30, -1e30, 0.0];
    softmax(
        &mut row,
        Row {
            scale: 1.0,
            bias: None,
            from: 0,
            to: 3,
        },
    );
    assert!(
        (row[0] - 1.0).abs() < 1e-6 && row[1].abs() < 1e-30,
        "{row:?}"
    );
}

#[test]
fn a_normalised_row_has_no_mean_and_one_variance() {
    for len in [1_usize, 15, 16, 100] {
        let mut row: Vec<f32> = (0..2 * len).map(|n| (n as f32).sin() * 3.0 + 5.0).collect();
        normalize(&mut row, &vec![1.0; len], None, 1e-12);
        for row in row.chunks_exact(len).filter(|r| r.len() > 1) {
            let mean = row.iter().sum::<f32>() / len as f32;
            let variance = row.iter().map(|v| v * v).sum::<f32>() / len as f32;
            assert!(
                mean.abs() < 1e-5 && (variance - 1.0).abs() < 1e-4,
                "{len}: {mean} {variance}"
            );
        }
    }
    let mut row = [3.0, 5.0];
    normalize(&mut row, &[2.0, 2.0], Some(&[1.0, 10.0]), 0.0);
    assert_eq!(row, [-1.0, 12.0]);
}

#[test]
fn a_gate_multiplies_what_was_bent() {
    let rows = [-1.0, 2.0, 10.0, 100.0, 3.0, -4.0, 5.0, 7.0];
    assert_eq!(gated(&rows, 2, Activation::Relu), [0.0, 200.0, 15.0, 0.0]);
}

#[test]
fn a_product_counts_every_number() {
    for len in [0, 1, 15, 16, 17, 40] {
        let a: Vec<f32> = (0..len).map(|n| n as f32).collect();
        let exact: f32 = a.iter().map(|v| v * 2.0).sum();
        assert_eq!(dot(&a, &vec![2.0; len]), exact);
    }
}

#[test]
fn a_vector_of_zeros_stays() {
    let mut zeros = [0.0_f32; 3];
    to_unit(&mut zeros);
    assert_eq!(zeros, [0.0; 3]);
    let mut v = [3.0, 4.0];
    to_unit(&mut v);
    assert!((v[0] - 0.6).abs() < 1e-7 && (v[1] - 0.8).abs() < 1e-7);
}
