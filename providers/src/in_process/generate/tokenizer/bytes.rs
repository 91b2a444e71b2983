//! The letters that byte-level vocabularies write bytes with: a printable byte is itself, the others follow from U+0100 on.

/// Whether a byte is written as the character of its own number.
const fn printable(byte: u8) -> bool {
    matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff)
}

/// The letter of every byte.
pub(super) fn letters() -> [char; 256] {
    let mut next = 0x100;
    let mut letters = ['\0'; 256];
    for (byte, letter) in (0u8..=255).zip(&mut letters) {
        *letter = if printable(byte) {
            char::from(byte)
        } else {
            next += 1;
            char::from_u32(next - 1).unwrap_or('\0')
        };
    }
    letters
}

/// The byte of a letter.
pub(super) fn byte(letter: char) -> Option<u8> {
    let number = u32::from(letter);
    if let Ok(byte) = u8::try_from(number) {
        return printable(byte).then_some(byte);
    }
    let hidden = (0u8..=255).filter(|byte| !printable(*byte));
    let at = usize::try_from(number.checked_sub(0x100)?).ok()?;
    hidden.skip(at).take(1).next()
}
