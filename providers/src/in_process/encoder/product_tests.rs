use super::super::test_numbers::numbers;
use super::*;

/// The product in double precision: `left` is `n x depth`, `right` has a column each `depth` numbers.
fn exact(left: &[f32], right: &[f32], depth: usize) -> Vec<f64> {
    let mut out = Vec::new();
    for row in left.chunks_exact(depth) {
        for column in right.chunks_exact(depth) {
            let terms = row.iter().zip(column);
            out.push(terms.map(|(a, b)| f64::from(*a) * f64::from(*b)).sum());
        }
    }
    out
}

fn close(found: &[f32], exact: &[f64], what: &str) {
    assert_eq!(found.len(), exact.len(), "{what}");
    for (at, (f, e)) in found.iter().zip(exact).enumerate() {
        assert!(
            (f64::from(*f) - e).abs() < 2e-5,
            "{what}, {at}: {f} is not {e}"
        );
    }
}

#[test]
fn products_of_every_shape_are_right() {
    // Rows around the tiles of 6 and 12 and the block of 96; columns around panels of 2 to 32; more than one thread's worth.
    for count in [1, 2, 5, 6, 7, 11, 12, 13, 23, 25, 96, 97, 200] {
        for columns in [1, 2, 15, 16, 17, 31, 32, 33, 64, 100] {
            for depth in [1, 3, 64, 130] {
                let left = numbers(1 + count as u32, count * depth);
                let right = numbers(1000 + columns as u32, columns * depth);
                let panels = Panels::of_columns(depth, right.chunks_exact(depth));
                let whole = Left {
                    numbers: &left,
                    stride: depth,
                    depth,
                };
                let found = panels.multiply(whole, None, Activation::Identity);
                close(
                    &found,
                    &exact(&left, &right, depth),
                    &format!("{count} x {depth} x {columns}"),
                );
            }
        }
    }
}

/// One product on the vectors of `simd`, whatever this machine's widest are.
fn on<S: Simd>(simd: S, left: &[f32], right: &[f32], depth: usize) -> Vec<f32> {
    let panels = Panels::of_columns_by(2 * S::F32_LANES, depth, right.chunks_exact(depth));
    let columns = panels.columns;
    let mut out = vec![0.0; left.len() / depth * columns];
    let mut rows: Vec<&mut [f32]> = out.chunks_exact_mut(columns).collect();
    simd.vectorize(Strip {
        left: Left {
            numbers: left,
            stride: depth,
            depth,
        },
        depth,
        panels: &panels.numbers,
        bias: None,
        activation: Activation::Identity,
        out: &mut rows,
    });
    out
}

#[test]
fn products_are_right_on_the_vectors_of_every_machine() {
    for (count, columns) in [(1, 1), (7, 33), (25, 100), (97, 64)] {
        let depth = 70;
        let left = numbers(20, count * depth);
        let right = numbers(21, columns * depth);
        let exact = exact(&left, &right, depth);
        close(&on(pulp::Scalar, &left, &right, depth), &exact, "plain");
        #[cfg(target_arch = "x86_64")]
        {
            let v3 = pulp::x86::V3::try_new().map(|v3| on(v3, &left, &right, depth));
            let v4 = pulp::x86::V4::try_new().map(|v4| on(v4, &left, &right, depth));
            for found in v3.iter().chain(&v4) {
                close(found, &exact, "vectors");
            }
            // Both add and multiply in one step, in the same order.
            if let (Some(v3), Some(v4)) = (v3, v4) {
                assert_eq!(v3, v4);
            }
        }
    }
}

#[test]
fn a_row_is_the_same_number_for_number_whatever_comes_with_it() {
    let (count, depth, columns) = (150, 200, 300);
    let left = numbers(5, count * depth);
    let right = numbers(6, columns * depth);
    let panels = Panels::of_columns(depth, right.chunks_exact(depth));
    let of = |left: &[f32]| {
        let left = Left {
            numbers: left,
            stride: depth,
            depth,
        };
        panels.multiply(left, None, Activation::Identity)
    };
    let together = of(&left);
    for (row, expected) in left.chunks_exact(depth).zip(together.chunks_exact(columns)) {
        assert_eq!(of(row), expected);
    }
}

#[test]
fn columns_and_rows_make_the_same_matrix() {
    let (depth, columns) = (37, 45);
    let by_column = numbers(7, depth * columns);
    let mut by_row = vec![0.0; depth * columns];
    for (column, numbers) in by_column.chunks_exact(depth).enumerate() {
        for (row, number) in numbers.iter().enumerate() {
            by_row[row * columns + column] = *number;
        }
    }
    let one = Panels::of_columns(depth, by_column.chunks_exact(depth));
    let other = Panels::of_rows(columns, by_row.chunks_exact(columns));
    assert_eq!(one.numbers, other.numbers);
    assert_eq!((one.depth, one.columns), (other.depth, other.columns));
}

#[test]
fn a_bias_is_added_before_values_are_bent_on_every_strip() {
    let (count, depth, columns) = (40, 128, 257);
    let left = numbers(8, count * depth);
    let right = numbers(9, columns * depth);
    let bias = numbers(10, columns);
    let panels = Panels::of_columns(depth, right.chunks_exact(depth));
    let whole = Left {
        numbers: &left,
        stride: depth,
        depth,
    };
    let found = panels.multiply(whole, Some(&bias), Activation::Relu);
    let mut expected = exact(&left, &right, depth);
    for row in expected.chunks_exact_mut(columns) {
        for (v, b) in row.iter_mut().zip(&bias) {
            *v = (*v + f64::from(*b)).max(0.0);
        }
    }
    close(&found, &expected, "bent");
}

#[test]
fn rows_may_lie_apart_and_results_may_have_more_room() {
    let (count, depth, stride, columns) = (9, 10, 17, 20);
    let spread = numbers(11, (count - 1) * stride + depth);
    let dense: Vec<f32> = (0..count)
        .flat_map(|n| &spread[n * stride..][..depth])
        .copied()
        .collect();
    let right = numbers(12, columns * depth);
    let panels = Panels::of_columns(depth, right.chunks_exact(depth));
    let left = Left {
        numbers: &spread,
        stride,
        depth,
    };
    let mut out = vec![7.0; count * 64];
    let mut rows: Vec<&mut [f32]> = out.chunks_exact_mut(64).collect();
    panels.multiply_into(left, &mut rows);
    let found: Vec<f32> = out
        .chunks_exact(64)
        .flat_map(|row| &row[..columns])
        .copied()
        .collect();
    close(&found, &exact(&dense, &right, depth), "apart");
}

#[test]
fn nothing_times_nothing_is_nothing() {
    let panels = Panels::of_columns(4, std::iter::empty::<&[f32]>());
    let left = Left {
        numbers: &[1.0; 8],
        stride: 4,
        depth: 4,
    };
    assert!(panels.multiply(left, None, Activation::Gelu).is_empty());
    let panels = Panels::of_columns(4, [[1.0; 4].as_slice()].into_iter());
    let none = Left {
        numbers: &[],
        stride: 4,
        depth: 4,
    };
    assert!(panels.multiply(none, None, Activation::Gelu).is_empty());
}

#[test]
fn strips_cover_every_column_once_and_end_at_units() {
    for (columns, unit, threads) in [
        (1, 32, 2),
        (100, 32, 2),
        (384, 32, 2),
        (384, 64, 1),
        (30, 10, 8),
    ] {
        let mut out = vec![0.0; 3 * columns];
        for (first, strip) in strips(&mut out, columns, unit, threads) {
            assert_eq!(first % unit, 0);
            for row in strip {
                row.iter_mut().for_each(|v| *v += 1.0);
            }
        }
        assert_eq!(out, vec![1.0; 3 * columns], "{columns}, {unit}, {threads}");
    }
}
