//! SentencePiece's unigram vocabularies, as XLM-R and its kin have them, against tokenizers in Python (`reference.py`).

use serde_json::Value;

use super::*;

const LONGEST: usize = 128;

#[test]
fn texts_become_the_unigrams_that_tokenizers_makes() {
    let fixture = include_str!("../../../tests/in_process/unigram.json");
    let fixture: Value = serde_json::from_str(fixture).unwrap();
    let texts: Vec<String> = serde_json::from_value(fixture["texts"].clone()).unwrap();
    assert!(texts.iter().any(|t| t.split(' ').count() == 600));
    let kinds = fixture["tokenizers"].as_object().unwrap();
    assert_eq!(kinds.len(), 3);
    let path = std::env::temp_dir().join(format!("antfly-unigram-{}", std::process::id()));
    std::fs::create_dir_all(&path).unwrap();
    let mut wrong = Vec::new();
    for (name, kind) in kinds {
        let mut file = kind["file"].clone();
        file["model"]["vocab"] = fixture["vocabulary"].clone();
        std::fs::write(path.join(TOKENIZER), file.to_string()).unwrap();
        let made = Texts::load(&Folder::new(&path), LONGEST, false).unwrap();
        let expected =
            |key: &str| -> Vec<Vec<u32>> { serde_json::from_value(kind[key].clone()).unwrap() };
        let (alone, pairs) = (expected("ids"), expected("pairs"));
        assert_eq!((alone.len(), pairs.len()), (texts.len(), texts.len()));
        for ((text, alone), pair) in texts.iter().zip(alone).zip(pairs) {
            let ours = made.text(text, Cut::End).unwrap().ids;
            if ours != alone {
                wrong.push(format!("{name}, {text:?}: {ours:?} is not {alone:?}"));
            }
            let ours = made.pair(&texts[0], text).unwrap().ids;
            if ours != pair {
                wrong.push(format!(
                    "{name}, a pair with {text:?}: {ours:?} is not {pair:?}"
                ));
            }
        }
    }
    drop(std::fs::remove_dir_all(&path));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_is_cut_off_is_not_carried_along() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = folder.join("tests/in_process/tiny/bert-classifier");
    let made = Texts::load(&Folder::new(&folder), 10, false).unwrap();
    let long = || made.encode(&"the ".repeat(200)).unwrap();
    for cut in [Cut::End, Cut::Start] {
        let (alone, _) = made.cut(long(), None, cut).unwrap();
        assert!(alone.len() < 10 && alone.get_overflowing().is_empty());
        let (first, second) = made.cut(long(), Some(long()), cut).unwrap();
        let second = second.unwrap();
        assert!(first.len() + second.len() < 10);
        assert!(first.get_overflowing().is_empty() && second.get_overflowing().is_empty());
    }
}
