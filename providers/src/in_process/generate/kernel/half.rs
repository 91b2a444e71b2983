//! Half-precision numbers as a file holds them.

/// 2^112: moves a half's exponent, put into a single's place, to where it belongs.
pub(super) const RESCALE: f32 = f32::from_bits(0x7780_0000);

/// A half-precision number. Infinities and NaN come out as large numbers: no weight is one.
pub(super) fn to_f32(bits: u16) -> f32 {
    let sign = u32::from(bits & 0x8000) << 16;
    let rest = u32::from(bits & 0x7fff) << 13;
    f32::from_bits((f32::from_bits(rest) * RESCALE).to_bits() | sign)
}
