//! Numbers for tests.

/// Numbers without a pattern, from -1 to 1.
pub(super) fn numbers(seed: u32, count: usize) -> Vec<f32> {
    let mut state = seed.wrapping_mul(2_654_435_761).max(1);
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        f64::from(state) as f32 / 2_147_483_648.0 - 1.0
    };
    (0..count).map(|_| next()).collect()
}
