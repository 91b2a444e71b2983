use antfly_framework::generate::GenerateRequest;

use super::Sampler;

fn sampler(temperature: f64, top_k: Option<u32>, top_p: Option<f64>, seed: i64) -> Sampler {
    let mut request = GenerateRequest::prompt("");
    (request.temperature, request.top_k, request.top_p) = (Some(temperature), top_k, top_p);
    request.seed = Some(seed);
    Sampler::new(&request)
}

/// How often each of the tokens is drawn in 4000.
fn counts(mut sampler: Sampler, scores: &[f32]) -> Vec<usize> {
    let mut counts = vec![0; scores.len()];
    for _ in 0..4000 {
        counts[sampler.next(scores).unwrap() as usize] += 1;
    }
    counts
}

#[test]
fn a_draw_follows_the_probabilities() {
    let scores = [3f32.ln(), f32::NEG_INFINITY, 0.0];
    let counts = counts(sampler(1.0, Some(0), Some(1.0), 1), &scores);
    assert!((2850..3150).contains(&counts[0]), "{counts:?}");
    assert_eq!(counts[1], 0);
}

#[test]
fn a_temperature_sharpens_and_flattens() {
    let scores = [1.0, 0.0];
    let cold = counts(sampler(0.25, None, Some(1.0), 1), &scores)[0];
    let hot = counts(sampler(10.0, None, Some(1.0), 1), &scores)[0];
    assert!((3850..3990).contains(&cold), "{cold}");
    assert!((1990..2210).contains(&hot), "{hot}");
}

#[test]
fn top_k_and_top_p_keep_the_best() {
    let scores = [0.0, 2.0, 1.0, 3.0, -1.0];
    let by_k = counts(sampler(1.0, Some(2), Some(1.0), 3), &scores);
    assert!(
        by_k[1] > 0 && by_k[3] > 0 && by_k[0] + by_k[2] + by_k[4] == 0,
        "{by_k:?}"
    );
    // 0.64, 0.23, 0.09, ...: two are needed for 0.8, one for 0.6.
    let by_p = counts(sampler(1.0, Some(0), Some(0.8), 3), &scores);
    assert!(
        by_p[1] > 0 && by_p[3] > 0 && by_p[0] + by_p[2] + by_p[4] == 0,
        "{by_p:?}"
    );
    assert_eq!(
        counts(sampler(1.0, Some(0), Some(0.6), 3), &scores)[3],
        4000
    );
}

#[test]
fn the_best_is_the_first_of_the_largest_and_what_is_no_number_is_never_drawn() {
    let scores = [f32::NAN, 1.0, 5.0, 5.0];
    assert_eq!(sampler(0.0, None, None, 0).next(&scores).unwrap(), 2);
    assert_eq!(counts(sampler(9.0, Some(0), Some(1.0), 0), &scores)[0], 0);
    assert!(sampler(0.0, None, None, 0).next(&[f32::NAN]).is_err());
    assert!(sampler(1.0, None, None, 0).next(&[f32::NAN]).is_err());
}
