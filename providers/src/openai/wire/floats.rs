//! Numbers of one vector from base64.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Base64 text decoded at once: whole groups of 4 characters that are whole numbers.
const BLOCK: usize = 4096;

/// Appends the little-endian `f32` that `text` holds.
pub(super) fn from_base64(text: &str, out: &mut Vec<f32>) -> Result<(), String> {
    let bytes = base64::decoded_len_estimate(text.len());
    out.reserve(bytes / 4);
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
