use super::super::tiny;
use super::bytes::{byte, letters};
use super::control::{Guard, Literals, Piece};
use super::{Nature, Tokenizer, splits};

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

/// Every kind of vocabulary, against llama.cpp: `tests/in_process_generate/tokens.py`.
#[test]
fn texts_become_the_tokens_that_llama_cpp_makes() {
    let fixture = include_str!("../../../../tests/in_process_generate/fixtures/tokens.json");
    let fixture: serde_json::Value = serde_json::from_str(fixture).unwrap();
    let texts: Vec<String> = serde_json::from_value(fixture["texts"].clone()).unwrap();
    let cases = fixture["cases"].as_array().unwrap();
    let mut checked = Vec::new();
    let mut wrong = Vec::new();
    for case in cases {
        let at = usize::try_from(case["vocabulary"].as_u64().unwrap()).unwrap();
        let pre = case["pre"].as_str();
        let tokenizer = tokenizer(&fixture["vocabularies"][at], pre, &case["add_space_prefix"]);
        let all: Vec<Vec<u32>> = serde_json::from_value(case["ids"].clone()).unwrap();
        assert_eq!(all.len(), texts.len());
        for (text, ids) in texts.iter().zip(all) {
            let guard = tokenizer.guard([]);
            let ours = tokenizer.encode(text, &guard).unwrap();
            // llama.cpp puts a token that begins a text before the template's own as well. One is what a template means.
            let theirs = match ids.as_slice() {
                [first, rest @ ..] if rest.first() == Some(first) && text.starts_with("<|a|>") => {
                    rest
                }
                all => all,
            };
            if ours != theirs {
                wrong.push(format!("{pre:?} {text:?}: {ours:?}, not {theirs:?}"));
            }
            let said: Vec<u8> = ours
                .iter()
                .flat_map(|id| tokenizer.said(*id))
                .copied()
                .collect();
            let plain = text.replace("<|a|>", "").replace("<|b|>", "");
            let said = String::from_utf8(said).unwrap();
            if pre.is_some() && said != plain {
                wrong.push(format!("{pre:?} {text:?} is said as {said:?}"));
            }
        }
        checked.extend(pre);
    }
    assert!(wrong.is_empty(), "{}: {wrong:#?}", wrong.len());
    for name in splits::KNOWN.split('"').skip(1).step_by(2) {
        assert!(checked.contains(&name), "{name} is not checked");
    }
    assert_eq!(
        cases.len() - checked.len(),
        3,
        "SentencePiece, with a blank before a text and without, and with the scores of unigrams"
    );
}

/// A tokenizer of a file that holds nothing else.
fn tokenizer(of: &serde_json::Value, pre: Option<&str>, blank: &serde_json::Value) -> Tokenizer {
    use tiny::Meta;
    let mut file = tiny::File {
        meta: Vec::new(),
        tensors: Vec::new(),
    };
    let tokens: Vec<String> = serde_json::from_value(of["tokens"].clone()).unwrap();
    let types = serde_json::from_value(of["types"].clone()).unwrap();
    let begin = if pre.is_some() { "<|a|>" } else { "<s>" };
    let begin = tokens.iter().position(|t| t == begin).unwrap();
    let begin = u32::try_from(begin).unwrap();
    file.set(
        "tokenizer.ggml.model",
        Meta::text(of["model"].as_str().unwrap()),
    );
    file.set("tokenizer.ggml.tokens", Meta::Texts(tokens));
    file.set("tokenizer.ggml.token_type", Meta::Ints(types));
    file.set("tokenizer.ggml.bos_token_id", Meta::U32(begin));
    file.set("tokenizer.ggml.eos_token_id", Meta::U32(begin + 1));
    if let Some(pre) = pre {
        let merges = serde_json::from_value(of["merges"].clone()).unwrap();
        file.set("tokenizer.ggml.pre", Meta::text(pre));
        file.set("tokenizer.ggml.merges", Meta::Texts(merges));
    } else {
        let scores = serde_json::from_value(of["scores"].clone()).unwrap();
        file.set("tokenizer.ggml.scores", Meta::Floats(scores));
        file.set("tokenizer.ggml.unknown_token_id", Meta::U32(0));
    }
    if let Some(blank) = blank.as_bool() {
        file.set("tokenizer.ggml.add_space_prefix", Meta::Flag(blank));
    }
    let bytes = std::io::Cursor::new(file.bytes());
    let file = super::super::gguf::Gguf::read("tokens.gguf".into(), bytes).unwrap();
    Tokenizer::load(&file).unwrap()
}
