use super::bytes::{byte, letters};
use super::control::{Guard, Literals, Piece};
use super::{Nature, splits};

#[test]
fn every_byte_has_a_letter_and_every_letter_its_byte() {
    let letters = letters();
    for (number, letter) in (0u8..=255).zip(letters) {
        assert_eq!(byte(letter), Some(number));
        assert!(!letter.is_whitespace() && !letter.is_control());
    }
    assert_eq!(
        (letters[32], letters[10], letters[0xad]),
        ('Ġ', 'Ċ', '\u{143}')
    );
    assert_eq!((byte(' '), byte('\u{144}'), byte('日')), (None, None, None));
}

fn literals() -> Literals {
    let tokens = ["<|a|>", "<|a|>x", "[fixed]", "plain"].map(str::to_owned);
    let natures = [
        Nature::Control,
        Nature::Control,
        Nature::Fixed,
        Nature::Normal,
    ];
    Literals::new(&tokens, &natures)
}

#[test]
fn the_longest_literal_is_taken() {
    let pieces = literals()
        .split("é<|a|>x<|a|>y[fixed]plain<|a")
        .into_iter()
        .map(|p| match p {
            Piece::Token(id) => id.to_string(),
            Piece::Text(text) => text.to_owned(),
        })
        .collect::<Vec<_>>();
    assert_eq!(pieces, ["é", "1", "0", "y", "2", "plain<|a"]);
}

#[test]
fn a_guard_keeps_control_tokens_out_and_gives_the_text_back() {
    let literals = literals();
    let texts = ["<|a|>x and \u{100000}<|a|>", "[fixed] plain"];
    let guard = Guard::new(&literals, texts);
    for text in texts {
        let guarded = guard.protect(text);
        let pieces = literals.split(&guarded);
        assert!(!pieces.contains(&Piece::Token(0)) && !pieces.contains(&Piece::Token(1)));
        let released: String = pieces
            .into_iter()
            .map(|p| match p {
                Piece::Text(text) => guard.release(text).into_owned(),
                Piece::Token(id) => literals.text(id).to_owned(),
            })
            .collect();
        assert_eq!(released, text);
    }
}

#[test]
fn every_supported_split_is_a_pattern() {
    for name in [
        "gpt-2",
        "smollm",
        "starcoder",
        "refact",
        "command-r",
        "codeshell",
        "llama-bpe",
        "qwen2",
    ] {
        let splits = splits::of(name).unwrap();
        for pattern in splits.patterns {
            tokenizers::utils::SysRegex::new(pattern).unwrap();
        }
        assert!(splits::KNOWN.contains(name));
    }
    assert!(splits::of("default").is_none());
}
