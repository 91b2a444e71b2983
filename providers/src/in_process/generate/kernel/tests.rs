//! The tiles against candle's own products, and the rest against the plainest form of itself.

use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{CpuStorage, CustomOp1, Device, Layout, Tensor};

use super::dot;
use super::ops::exp;
use super::tiles::Tiles;
use super::{HeadCache, Heads, Rope, attend};

/// Numbers from -1 to 1 that look random.
fn numbers(seed: u64, n: usize) -> Vec<f32> {
    let mut state = seed;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1u32 << 23) as f32 - 1.0
    };
    (0..n).map(|_| next()).collect()
}

const FORMATS: [GgmlDType; 5] = [
    GgmlDType::Q4_0,
    GgmlDType::Q4_1,
    GgmlDType::Q5_0,
    GgmlDType::Q5_1,
    GgmlDType::Q8_0,
];

fn quantised(format: GgmlDType, rows: usize, columns: usize) -> QTensor {
    let numbers = numbers(rows as u64, rows * columns);
    let tensor = Tensor::from_vec(numbers, (rows, columns), &Device::Cpu).unwrap();
    QTensor::quantize(&tensor, format).unwrap()
}

fn close(a: &[f32], b: &[f32], within: f32) {
    assert_eq!(a.len(), b.len());
    for (at, (a, b)) in a.iter().zip(b).enumerate() {
        assert!((a - b).abs() <= within, "{at}: {a} and {b}");
    }
}

#[test]
fn a_repacked_row_is_the_row() {
    for format in FORMATS {
        let (rows, columns) = (19, 96);
        let tensor = quantised(format, rows, columns);
        let tiles = Tiles::pack(format, rows, columns, &tensor.data().unwrap()).unwrap();
        let plain = tensor
            .dequantize(&Device::Cpu)
            .unwrap()
            .to_vec2::<f32>()
            .unwrap();
        for (row, plain) in plain.iter().enumerate() {
            let mut out = vec![0.0; columns];
            tiles.row(row, &mut out);
            close(&out, plain, 1e-6);
        }
    }
}

#[test]
fn tiles_multiply_as_the_matrix_does_for_any_number_of_rows() {
    let Some(avx2) = dot::available() else {
        eprintln!("not run: this processor has no AVX2");
        return;
    };
    for format in FORMATS {
        for (rows, columns, n) in [
            (8, 32, 1),
            (19, 96, 5),
            (40, 64, 4),
            (7, 32, 3),
            (16, 160, 2),
        ] {
            let tensor = quantised(format, rows, columns);
            let tiles = Tiles::pack(format, rows, columns, &tensor.data().unwrap()).unwrap();
            let x = numbers(99, n * columns);
            let acts = avx2.quantise(&x, columns);
            let mut out = vec![f32::NAN; n * rows];
            avx2.multiply(&tiles, &acts, (0, n), 0, &mut out);
            // In full precision: activations lose at most half of 1/127 each.
            let plain = tensor
                .dequantize(&Device::Cpu)
                .unwrap()
                .to_vec2::<f32>()
                .unwrap();
            let products = x.chunks(columns).flat_map(|x| {
                plain
                    .iter()
                    .map(move |w| w.iter().zip(x).map(|(w, x)| w * x).sum::<f32>())
            });
            close(
                &out,
                &products.collect::<Vec<_>>(),
                0.004 * (columns as f32).sqrt(),
            );
            // Against candle, which quantises as well, closer by far; it takes an even number of blocks.
            if (columns / 32) % 2 == 1 {
                continue;
            }
            let (theirs, _) = tensor
                .cpu_fwd(&CpuStorage::F32(x), &Layout::contiguous((n, columns)))
                .unwrap();
            let CpuStorage::F32(theirs) = theirs else {
                panic!()
            };
            let within = if format == GgmlDType::Q4_1 || format == GgmlDType::Q5_1 {
                0.02
            } else {
                0.008
            };
            close(&out, &theirs, within);
        }
    }
}

#[test]
fn tiles_are_appended_where_they_fit_and_only_there() {
    let pack = |format, rows, columns| {
        let tensor = quantised(format, rows, columns);
        Tiles::pack(format, rows, columns, &tensor.data().unwrap()).unwrap()
    };
    let mut one = pack(GgmlDType::Q4_1, 8, 64);
    one.append(pack(GgmlDType::Q4_1, 13, 64)).unwrap();
    assert_eq!((one.rows, one.scales.len()), (21, 6));
    // A tile that is not full, another format, another minimum.
    assert!(one.append(pack(GgmlDType::Q4_1, 8, 64)).is_err());
    for format in [GgmlDType::Q4_0, GgmlDType::Q5_1, GgmlDType::Q8_0] {
        assert!(
            pack(GgmlDType::Q4_1, 8, 64)
                .append(pack(format, 8, 64))
                .is_err()
        );
    }
    assert!(
        pack(GgmlDType::Q5_0, 8, 64)
            .append(pack(GgmlDType::Q5_1, 8, 64))
            .is_err()
    );
    let q = quantised(GgmlDType::Q4K, 8, 256);
    assert!(Tiles::pack(GgmlDType::Q4K, 8, 256, &q.data().unwrap()).is_none());
}

#[test]
fn attention_is_the_weighted_mean_of_what_a_position_sees() {
    for (group, size, keys, past, n) in [
        (3, 64, 2, 9, 5),
        (1, 20, 3, 0, 7),
        (5, 16, 1, 17, 1),
        (2, 8, 1, 0, 1),
    ] {
        let heads = Heads { group, size, keys };
        let width = (group + 2) * keys * size;
        let mut cache: Vec<HeadCache> = (0..keys).map(|_| HeadCache::default()).collect();
        let rows = numbers(5, (past + n) * width);
        let (k, v) = (group * keys * size, (group + 1) * keys * size);
        for row in rows.chunks(width) {
            for (head, cache) in cache.iter_mut().enumerate() {
                cache.push(
                    &row[k + head * size..][..size],
                    &row[v + head * size..][..size],
                );
            }
        }
        let got = attend(&rows[past * width..], n, heads, &cache);
        let mut expected = Vec::new();
        for (position, row) in rows.chunks(width).enumerate().skip(past) {
            for head in 0..group * keys {
                let at = head / group * size;
                let query = &row[head * size..][..size];
                let seen = || rows.chunks(width).take(position + 1);
                let score = |r: &[f32]| -> f64 {
                    let dot: f32 = query.iter().zip(&r[k + at..]).map(|(q, k)| q * k).sum();
                    f64::from(dot / (size as f32).sqrt()).exp()
                };
                let total: f64 = seen().map(score).sum();
                for d in 0..size {
                    let sum: f64 = seen().map(|r| score(r) * f64::from(r[v + at + d])).sum();
                    expected.push((sum / total) as f32);
                }
            }
        }
        close(&got, &expected, 2e-5);
    }
}

#[test]
fn the_exponential_is_good_to_single_precision() {
    for i in -8700..8800 {
        let x = i as f32 / 100.0;
        let (got, right) = (f64::from(exp(x)), f64::from(x).exp());
        assert!((got / right - 1.0).abs() < 5e-7, "{x}: {got} {right}");
    }
    assert!(exp(-1e9) < 1e-37 && exp(f32::NEG_INFINITY) < 1e-37);
}

#[test]
fn a_turn_keeps_lengths_and_depends_on_the_distance_alone() {
    let rope = Rope::new(4, 10_000.0, 1.0, &[]);
    let (a, b) = (numbers(1, 8), numbers(2, 8));
    let product = |p: usize, q: usize| -> f32 {
        let (mut a, mut b) = (a.clone(), b.clone());
        Rope::turn(&mut a, 8, &rope.angles(p, 1));
        Rope::turn(&mut b, 8, &rope.angles(q, 1));
        a.iter().zip(&b).map(|(a, b)| a * b).sum()
    };
    assert!((product(3, 10) - product(103, 110)).abs() < 1e-4);
    assert!((product(3, 3) - product(0, 0)).abs() < 1e-5);
    assert!((product(3, 10) - product(3, 11)).abs() > 1e-3);
}
