use proptest::prelude::*;

use super::super::test_numbers;
use super::*;

/// Attention as its definition has it, in double precision.
fn plainly(qkv: &[f32], lengths: &[usize], form: Form<'_>) -> Vec<f64> {
    let (heads, dim) = (form.heads, form.dim);
    let all = heads * dim;
    let mut out = Vec::new();
    let mut start = 0;
    for length in lengths {
        let at = |position: usize, which: usize, head: usize, n: usize| {
            f64::from(qkv[(start + position) * 3 * all + which * all + head * dim + n])
        };
        for query in 0..*length {
            for head in 0..heads {
                let seen: Vec<usize> = (0..*length)
                    .filter(|key| form.reach.is_none_or(|r| key.abs_diff(query) <= r))
                    .collect();
                let scores: Vec<f64> = (seen.iter())
                    .map(|key| {
                        let product: f64 = (0..dim)
                            .map(|n| at(query, 0, head, n) * at(*key, 1, head, n))
                            .sum();
                        let bias = form.distance.map_or(0.0, |d| {
                            let width = 2 * d.longest - 1;
                            f64::from(d.table[head * width + d.longest - 1 + key - query])
                        });
                        product / (dim as f64).sqrt() + bias
                    })
                    .collect();
                let most = scores.iter().copied().fold(f64::MIN, f64::max);
                let weights: Vec<f64> = scores.iter().map(|s| (s - most).exp()).collect();
                let whole: f64 = weights.iter().sum();
                for n in 0..dim {
                    let terms = seen.iter().zip(&weights);
                    out.push(terms.map(|(key, w)| w * at(*key, 2, head, n)).sum::<f64>() / whole);
                }
            }
        }
        start += length;
    }
    out
}

/// Numbers without a pattern, from -2 to 2.
fn numbers(seed: u32, count: usize) -> Vec<f32> {
    test_numbers::numbers(seed, count)
        .into_iter()
        .map(|n| 2.0 * n)
        .collect()
}

/// Compares [`attend`] with the definition; `biased` with a distance bias for sequences of up to `longest` tokens.
fn agrees(
    lengths: &[usize],
    heads: usize,
    dim: usize,
    reach: Option<usize>,
    biased: bool,
    seed: u32,
) {
    let tokens: usize = lengths.iter().sum();
    let longest = lengths.iter().copied().max().unwrap_or(1) + (seed % 3) as usize;
    let bias = biased.then(|| DistanceBias {
        table: numbers(seed ^ 77, heads * (2 * longest - 1)),
        longest,
    });
    let form = Form {
        heads,
        dim,
        reach,
        distance: bias.as_ref(),
    };
    let qkv = Rows {
        numbers: numbers(seed, tokens * 3 * heads * dim),
        dim: 3 * heads * dim,
    };
    let found = attend(&qkv, lengths, form);
    let expected = plainly(&qkv.numbers, lengths, form);
    assert_eq!(found.dim, heads * dim);
    assert_eq!(found.numbers.len(), expected.len());
    for (at, (f, e)) in found.numbers.iter().zip(&expected).enumerate() {
        assert!(
            (f64::from(*f) - e).abs() < 2e-5,
            "{lengths:?}, {heads} heads of {dim}, reach {reach:?}, bias {biased}, number {at}: {f} is not {e}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn attention_of_any_form_is_what_its_definition_says(
        lengths in prop::collection::vec(prop_oneof![3 => 1_usize..40, 1 => Just(1)], 0..6),
        heads in 1_usize..6,
        dim in prop_oneof![1_usize..20, Just(32), Just(33), Just(64)],
        reach in prop::option::of(prop_oneof![0_usize..6, 6_usize..50, Just(usize::MAX / 2)]),
        biased: bool,
        seed: u32,
    ) {
        agrees(&lengths, heads, dim, reach, biased, seed);
    }
}

#[test]
fn attention_over_several_blocks_is_what_its_definition_says() {
    let long = 2 * BLOCK + 3;
    for (reach, biased) in [
        (None, false),
        (None, true),
        (Some(0), true),
        (Some(1), false),
        (Some(64), true),
        (Some(BLOCK - 1), false),
        (Some(BLOCK), false),
        (Some(BLOCK + 1), true),
    ] {
        agrees(&[1, long, 1, BLOCK, 2], 2, 5, reach, biased, 9);
    }
}
