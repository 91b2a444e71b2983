//! Scores against those of a pass in double precision over weights that another implementation dequantised:
//! `tests/in_process_generate/logits.py`, which also says how the fixture is made.

use std::io::Cursor;

use serde_json::Value;

use super::super::gguf::Gguf;
use super::super::tiny;
use super::Llama;

/// GGUF's number and name of every format that can be read.
const FORMATS: [(u32, &str); 13] = [
    (0, "f32"),
    (1, "f16"),
    (2, "q4_0"),
    (3, "q4_1"),
    (6, "q5_0"),
    (7, "q5_1"),
    (8, "q8_0"),
    (10, "q2_k"),
    (11, "q3_k"),
    (12, "q4_k"),
    (13, "q5_k"),
    (14, "q6_k"),
    (30, "bf16"),
];

fn model(format: u32) -> Vec<u8> {
    tiny::random(7, 256, 768, 4, 2, &[format]).bytes()
}

fn digest(bytes: &[u8]) -> String {
    let mix = |digest: u64, byte: &u8| (digest ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
    format!("{:016x}", bytes.iter().fold(0xcbf2_9ce4_8422_2325, mix))
}

fn mean_square(numbers: impl Iterator<Item = f64>) -> f64 {
    let (mut sum, mut count) = (0.0, 0.0);
    for x in numbers {
        sum += x * x;
        count += 1.0;
    }
    sum / count
}

/// Scores after `tokens[..20]`, read at once, and after four more, read one by one, without what all of them have in common.
fn scores(bytes: Vec<u8>, tokens: &[u32], vocabulary: usize) -> Vec<f64> {
    let mut file = Gguf::read("tiny.gguf".into(), Cursor::new(bytes)).unwrap();
    let llama = Llama::load(&mut file, vocabulary).unwrap();
    let mut memory = llama.memory();
    let centred = |scores: Vec<f32>| {
        let scores: Vec<f64> = scores.into_iter().map(f64::from).collect();
        let mean = scores.iter().sum::<f64>() / scores.len() as f64;
        scores.into_iter().map(move |x| x - mean)
    };
    let (first, rest) = tokens.split_at(20);
    let mut all: Vec<f64> = centred(llama.next(&mut memory, first, &|| Ok(())).unwrap()).collect();
    let mut last = Vec::new();
    for token in rest {
        last = llama.next(&mut memory, &[*token], &|| Ok(())).unwrap();
    }
    all.extend(centred(last));
    all
}

/// Weights are read as they are meant: all that may part the scores from exact ones is that activations are rounded, to 8 bits (for
/// the plain formats, to the format itself). llama.cpp rounds them as well; the fixture holds how far that takes it, and twice as far
/// is allowed here: where roundings fall is chance. Of the K formats, the lowest bit of every
/// number or of every scale read wrongly takes the scores off by 0.12 to 5, more than twice
/// what is allowed.
#[test]
fn every_format_scores_as_exact_arithmetic_over_its_weights_does() {
    if let Some(folder) = std::env::var_os("ANTFLY_TINY_MODELS") {
        for (number, name) in FORMATS {
            let path = std::path::Path::new(&folder).join(format!("{name}.gguf"));
            std::fs::write(path, model(number)).unwrap();
        }
    }
    let fixture = include_str!("../../../../tests/in_process_generate/fixtures/logits.json");
    let fixture: Value = serde_json::from_str(fixture).unwrap();
    let exact = include_bytes!("../../../../tests/in_process_generate/fixtures/logits.f32");
    let (exact, rest) = exact.as_chunks::<4>();
    assert!(rest.is_empty());
    let exact: Vec<f64> = exact
        .iter()
        .map(|x| f64::from(f32::from_le_bytes(*x)))
        .collect();
    let tokens: Vec<u32> = serde_json::from_value(fixture["tokens"].clone()).unwrap();
    let vocabulary = tiny::vocabulary(&[]).len();
    assert_eq!(exact.len(), FORMATS.len() * 2 * vocabulary);
    let mut exact = exact.chunks_exact(2 * vocabulary);
    let mut wrong = Vec::new();
    for (at, (number, name)) in FORMATS.into_iter().enumerate() {
        let bytes = model(number);
        let of = &fixture["models"][at];
        let known = (of["format"].as_str(), of["fnv1a"].as_str());
        let same = known == (Some(name), Some(digest(&bytes).as_str()));
        let ours = scores(bytes, &tokens, vocabulary);
        let exact = exact.next().unwrap();
        let difference = ours.iter().zip(exact).map(|(a, b)| a - b);
        let off = (mean_square(difference) / mean_square(exact.iter().copied())).sqrt();
        let theirs = of["llama_cpp_is_off"].as_f64().unwrap();
        println!("{name}: off by {off:.6}, llama.cpp by {theirs:.6}");
        // Written so that no number at all is wrong, too.
        let close = off <= 2.0 * theirs + 1e-5;
        if !(same && close) {
            wrong.push(format!(
                "{name}: {off}, llama.cpp {theirs}, file the same: {same}"
            ));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
