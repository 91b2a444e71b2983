use antfly_framework::content::Media;
use serde_json::json;

use super::*;

fn written(inputs: &[EmbedInput]) -> Value {
    serde_json::to_value(input(inputs).unwrap()).unwrap()
}

fn refused(inputs: &[EmbedInput]) -> Error {
    match input(inputs) {
        Ok(_) => panic!("not refused"),
        Err(e) => e,
    }
}

#[test]
fn texts_travel_as_texts_and_text_in_parts_is_joined() {
    let inputs = [
        EmbedInput::from("a"),
        EmbedInput::Parts(vec![Part::text("b"), Part::text("c")]),
    ];
    assert_eq!(written(&inputs), json!(["a", "b\nc"]));
    assert!(!is_joined(&inputs[1]));
}

#[test]
fn with_media_every_input_is_a_part() {
    let inputs = [
        EmbedInput::from("a"),
        EmbedInput::Parts(vec![Part::image_url("https://h/x.png")]),
        EmbedInput::Parts(vec![Part::image_url("data:image/png;base64,AA==")]),
        EmbedInput::Parts(vec![Part::media(vec![1, 2, 3], "audio/wav")]),
    ];
    assert_eq!(
        written(&inputs),
        json!([
            {"type": "text", "text": "a"},
            {"type": "image_url", "image_url": {"url": "https://h/x.png"}},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}},
            {"type": "media", "data": "AQID", "mime_type": "audio/wav"},
        ])
    );
    assert!(inputs.iter().all(|input| !is_joined(input)));
}

#[test]
fn an_input_of_several_parts_with_media_has_a_request_to_itself() {
    let joined = EmbedInput::Parts(vec![
        Part::text("a"),
        Part::media(vec![1, 2, 3], "image/png"),
    ]);
    assert!(is_joined(&joined));
    assert_eq!(
        written(&[joined]),
        json!([
            {"type": "text", "text": "a"},
            {"type": "media", "data": "AQID", "mime_type": "image/png"},
        ])
    );
}

#[test]
fn media_without_a_wire_form_is_refused_by_item() {
    for (kind, source) in [
        (
            MediaKind::Audio,
            MediaSource::Url("https://h/x.wav".to_owned()),
        ),
        (MediaKind::Image, MediaSource::FileId("f".to_owned())),
    ] {
        let media = EmbedInput::Parts(vec![Part::Media(Media { kind, source })]);
        let e = refused(&[EmbedInput::from("a"), media]);
        assert_eq!((e.kind(), e.item()), (Kind::MediaNotAllowed, Some(1)));
    }
}

#[test]
fn tasks_have_googles_names() {
    for (name, task) in [
        ("search_query", "RETRIEVAL_QUERY"),
        ("query", "RETRIEVAL_QUERY"),
        ("search_document", "RETRIEVAL_DOCUMENT"),
        ("document", "RETRIEVAL_DOCUMENT"),
        ("classification", "CLASSIFICATION"),
        ("clustering", "CLUSTERING"),
        ("RETRIEVAL_QUERY", "RETRIEVAL_QUERY"),
        ("SEMANTIC_SIMILARITY", "SEMANTIC_SIMILARITY"),
    ] {
        assert_eq!(task_type(name), task);
    }
}
