//! The numbers of a vector, from JSON text or from base64.
//!
//! [`number`] reads decimal text to the nearest `f32`, as `str::parse` does, but takes the short way for all but a few: the
//! digits as an integer, times a power of ten, in `f64`. That is off by a few units in the last place of an `f64` at
//! most, which can decide the rounding to `f32` only next to the middle between two of them; there, and wherever the short way
//! does not reach, `str::parse` decides.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Digits that fit a `u64` whatever they are.
const MOST_DIGITS: usize = 19;
/// Bits of an `f64` that an `f32` lacks.
const LOST_BITS: u64 = (1 << 29) - 1;
/// How near the middle between two `f32` is near, in units of the last place of an `f64`.
const NEAR: u64 = 8;

/// What makes room for so many more digits.
const TENS: [u64; 9] = [
    1,
    10,
    100,
    1_000,
    10_000,
    100_000,
    1_000_000,
    10_000_000,
    100_000_000,
];

/// The `f64` nearest to each power of ten from 1e-38 to 1e38.
const POWERS: [f64; 77] = [
    1e-38, 1e-37, 1e-36, 1e-35, 1e-34, 1e-33, 1e-32, 1e-31, 1e-30, 1e-29, 1e-28, 1e-27, 1e-26,
    1e-25, 1e-24, 1e-23, 1e-22, 1e-21, 1e-20, 1e-19, 1e-18, 1e-17, 1e-16, 1e-15, 1e-14, 1e-13,
    1e-12, 1e-11, 1e-10, 1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1e0, 1e1, 1e2, 1e3,
    1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20,
    1e21, 1e22, 1e23, 1e24, 1e25, 1e26, 1e27, 1e28, 1e29, 1e30, 1e31, 1e32, 1e33, 1e34, 1e35, 1e36,
    1e37, 1e38,
];
const HIGHEST: i32 = 38;

/// The JSON number that `text` begins with, and its length; `None` where there is none, or one no `f32` can hold.
#[inline(always)] // Into the one loop it was written for.
pub(super) fn number(text: &[u8]) -> Option<(f32, usize)> {
    let negative = text.first() == Some(&b'-');
    let mut at = usize::from(negative);
    let mut digits = Digits::default();
    match text.get(at)? {
        b'0' => at += 1,
        b'1'..=b'9' => at += digits.read(&text[at..]),
        _ => return None,
    }
    if text.get(at).is_some_and(u8::is_ascii_digit) {
        return None;
    }
    let mut exponent = 0_i32;
    if text.get(at) == Some(&b'.') {
        at += 1;
        let begin = at;
        at += digits.read(&text[at..]);
        if at == begin {
            return None;
        }
        if digits.count > MOST_DIGITS && digits.count == at - begin {
            // Zeros before the first digit that counts took no room.
            digits.count -= text[begin..at].iter().take_while(|b| **b == b'0').count();
        }
        exponent = -i32::try_from(at - begin).ok()?;
    }
    if matches!(text.get(at), Some(b'e' | b'E')) {
        at += 1;
        let down = text.get(at) == Some(&b'-');
        at += usize::from(matches!(text.get(at), Some(b'+' | b'-')));
        let begin = at;
        let mut told = 0_i32;
        while let Some(digit @ b'0'..=b'9') = text.get(at) {
            told = told
                .saturating_mul(10)
                .saturating_add(i32::from(digit - b'0'));
            at += 1;
        }
        if at == begin {
            return None;
        }
        exponent = exponent.saturating_add(if down { -told } else { told });
    }
    let size = match digits.short_way(exponent) {
        Some(size) => size,
        None => {
            let text = std::str::from_utf8(&text[usize::from(negative)..at]).ok()?;
            text.parse::<f32>().ok().filter(|size| size.is_finite())?
        }
    };
    // Not a branch: signs are as good as random.
    let sign = u32::from(negative) << 31;
    Some((f32::from_bits(size.to_bits() | sign), at))
}

/// Decimal digits as one integer.
#[derive(Default)]
struct Digits {
    value: u64,
    count: usize,
}

impl Digits {
    /// Takes the digits that `text` begins with, and says how many they are.
    #[inline]
    fn read(&mut self, text: &[u8]) -> usize {
        let mut at = 0;
        while let Some(eight) = text.get(at..).and_then(<[u8]>::first_chunk::<8>) {
            let (value, count) = up_to_eight_digits(*eight);
            self.value = self.value.wrapping_mul(TENS[count]).wrapping_add(value);
            if count < 8 {
                at += count;
                self.count += at;
                return at;
            }
            // A constant, so that the processor need not wait for `count` to go on.
            at += 8;
        }
        while let Some(digit @ b'0'..=b'9') = text.get(at) {
            let digit = u64::from(digit - b'0');
            self.value = self.value.wrapping_mul(10).wrapping_add(digit);
            at += 1;
        }
        self.count += at;
        at
    }

    /// These digits times a power of ten as an `f32`, where the short way is sure of it.
    #[inline]
    fn short_way(&self, exponent: i32) -> Option<f32> {
        if self.count > MOST_DIGITS {
            return None;
        }
        if self.value == 0 {
            return Some(0.0);
        }
        let power = *POWERS.get(usize::try_from(exponent.saturating_add(HIGHEST)).ok()?)?;
        let size = self.value as f64 * power;
        let in_range = (f64::from(f32::MIN_POSITIVE)..f64::from(f32::MAX)).contains(&size);
        let from_middle = (size.to_bits() & LOST_BITS).abs_diff(LOST_BITS / 2 + 1);
        (in_range && from_middle > NEAR).then_some(size as f32)
    }
}

/// The digits that eight characters begin with, as a number, and how many they are. No branch depends on how many.
#[inline]
fn up_to_eight_digits(characters: [u8; 8]) -> (u64, usize) {
    const UPPER: u64 = 0xf0f0_f0f0_f0f0_f0f0;
    const ZEROS: u64 = 0x3030_3030_3030_3030;
    let all = u64::from_le_bytes(characters);
    // `0` to `9` are 0x30 to 0x39: the upper half is 3, and still is when 6 is added. A carry only reaches what comes later.
    let carried = all.wrapping_add(0x0606_0606_0606_0606);
    let other = ((all & UPPER) ^ ZEROS) | ((carried & UPPER) ^ ZEROS);
    let bits = other.trailing_zeros() & !7;
    // The digits move up to the end; what moves in below reads as zeros before them.
    let ones = all.checked_shl(64 - bits).unwrap_or(0) & 0x0f0f_0f0f_0f0f_0f0f;
    // Neighbours are joined to pairs, pairs to fours, fours to eight.
    let pairs = (ones.wrapping_mul(10) + (ones >> 8)) & 0x00ff_00ff_00ff_00ff;
    let fours = (pairs.wrapping_mul(100) + (pairs >> 16)) & 0x0000_ffff_0000_ffff;
    let value = (fours.wrapping_mul(10_000) + (fours >> 32)) & 0xffff_ffff;
    (value, (bits / 8) as usize)
}

/// Base64 text decoded at once: whole groups of 4 characters that are whole numbers.
const BLOCK: usize = 4096;

/// Appends the little-endian `f32` that `text` holds.
pub(super) fn from_base64(text: &str, out: &mut Vec<f32>) -> Result<(), String> {
    out.reserve(base64::decoded_len_estimate(text.len()) / 4);
    let mut block = [0_u8; BLOCK / 4 * 3];
    let mut rest = text.as_bytes();
    while !rest.is_empty() {
        let (now, later) = rest.split_at(rest.len().min(BLOCK));
        rest = later;
        let decoded = STANDARD
            .decode_slice(now, &mut block)
            .map_err(|e| format!("the embedding is no base64: {e}"))?;
        let (numbers, left) = block[..decoded].as_chunks::<4>();
        if !left.is_empty() {
            return Err(format!(
                "the embedding's base64 is not whole 32-bit numbers ({} bytes too many)",
                left.len()
            ));
        }
        out.extend(numbers.iter().map(|n| f32::from_le_bytes(*n)));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::number;

    #[test]
    fn every_number_is_the_nearest_as_the_standard_library_reads_it() {
        let mut state = 7_u64;
        let mut random = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            state >> 16
        };
        let check = |text: &str| {
            let right: f32 = text.parse().unwrap();
            let read = number(text.as_bytes());
            let wanted = right.is_finite().then_some((right.to_bits(), text.len()));
            assert_eq!(
                read.map(|(n, length)| (n.to_bits(), length)),
                wanted,
                "{text}"
            );
        };
        for round in 0..60_000 {
            let float = f32::from_bits(random() as u32);
            if float.is_finite() {
                check(&format!("{float:e}"));
                check(&format!("{:e}", f64::from(float)));
                // The middle between two neighbours, where the short way must not decide.
                let next = f32::from_bits(float.to_bits() + 1);
                if next.is_finite() {
                    check(&format!(
                        "{:e}",
                        f64::midpoint(f64::from(float), f64::from(next))
                    ));
                }
            }
            let small = (random() % 2_000_000) as f64 / 1e6 - 1.0;
            check(&small.to_string());
            check(&format!("{:.*}", (round % 30) + 1, small / 7.0));
        }
        for text in [
            "0",
            "-0",
            "0.0",
            "1e0",
            "1E+38",
            "1e39",
            "1e-60",
            "1e999999999999",
            "123456789012345678901234567890",
        ] {
            check(text);
        }
    }

    #[test]
    fn what_is_no_json_number_is_none() {
        for text in [
            "", "-", "+1", ".5", "1.", "1.e3", "1e", "1e+", "01", "-01", "NaN", "Infinity", "null",
            "\"1\"", "[1]",
        ] {
            assert_eq!(number(text.as_bytes()), None, "{text}");
        }
        assert_eq!(number(b"12345678,9"), Some((12_345_678.0, 8)));
        assert_eq!(number(b"0.12345678]"), Some((0.123_456_78, 10)));
    }
}
