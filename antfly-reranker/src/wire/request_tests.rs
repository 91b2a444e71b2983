use serde_json::json;

use super::*;

fn texts(documents: &[Document], field: Option<&str>) -> Value {
    serde_json::to_value(Texts::new("m", "q", documents, field, &Map::new())).unwrap()
}

#[test]
fn texts_are_prompts() {
    let extra = [("truncate".to_owned(), json!(true))].into_iter().collect();
    let documents = [
        Document::from("a"),
        Document::Parts(vec![Part::text("b"), Part::text("c")]),
    ];
    assert_eq!(
        serde_json::to_value(Texts::new("m", "q", &documents, None, &extra)).unwrap(),
        json!({"model": "m", "query": "q", "prompts": ["a", "b\nc"], "truncate": true})
    );
}

#[test]
fn a_field_picks_its_text_out_of_json_objects_only() {
    let documents = [
        Document::from(r#"{"title": "t", "body": "b"}"#),
        Document::from(r#" {"body": {"x": 1}}"#),
        Document::from(r#"{"title": "t"}"#),
        Document::from("plain"),
        Document::from("{not json"),
        Document::from(r#"["body"]"#),
    ];
    assert_eq!(
        texts(&documents, Some("body"))["prompts"],
        json!([
            "b",
            r#"{"x":1}"#,
            r#"{"title": "t"}"#,
            "plain",
            "{not json",
            r#"["body"]"#
        ])
    );
    assert_eq!(
        texts(&documents[..1], None)["prompts"],
        json!([r#"{"title": "t", "body": "b"}"#])
    );
}

#[test]
fn media_makes_documents_of_parts() {
    let documents = [
        Document::from("a"),
        Document::Parts(vec![
            Part::text("b"),
            Part::image_url("https://h/x.png"),
            Part::media(vec![1, 2, 3], "image/png"),
        ]),
    ];
    assert_eq!(
        serde_json::to_value(Multimodal::new("m", "q", &documents, None, &Map::new()).unwrap())
            .unwrap(),
        json!({"model": "m", "query": "q", "documents": [
            {"content": "a"},
            {"content": [
                {"type": "text", "text": "b"},
                {"type": "image_url", "image_url": {"url": "https://h/x.png"}},
                {"type": "media", "data": "AQID", "mime_type": "image/png"},
            ]},
        ]})
    );
}

#[test]
fn media_without_a_wire_form_is_refused_by_document() {
    for (kind, source) in [
        (
            MediaKind::Audio,
            MediaSource::Url("https://h/x.wav".to_owned()),
        ),
        (MediaKind::Image, MediaSource::FileId("f".to_owned())),
    ] {
        let documents = [
            Document::from("a"),
            Document::Parts(vec![Part::Media(Media { kind, source })]),
        ];
        let e = Multimodal::new("m", "q", &documents, None, &Map::new())
            .err()
            .unwrap();
        assert_eq!((e.kind(), e.item()), (Kind::MediaNotAllowed, Some(1)));
    }
}
