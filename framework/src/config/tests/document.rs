use super::refused;
use crate::config::Document;
use crate::provider::Operation;

const WHOLE: &str = r#"{
  "embedders":  { "zebra": { "provider": "openai", "model": "a" },
                  "ant":   { "provider": "openai", "model": "b",
                             "rate_limit": { "requests_per_minute": 120, "burst": 2,
                                             "max_concurrency": 4, "tokens_per_minute": 120000 } },
                  "mole":  { "provider": "gemini", "model": "c" } },
  "generators": { "writer": { "provider": "bedrock", "model": "anthropic.claude-sonnet-4-5-20250929-v1:0",
                              "region": "us-east-1", "max_tokens": 512 } },
  "rerankers":  { "ranker": { "provider": "antfly", "model": "mixedbread-ai/mxbai-rerank-base-v1",
                              "url": "http://127.0.0.1:8082", "api_key": "${secret:antfly.api_key}" } },
  "secrets":    { "file": "secrets.json" }
}"#;

#[test]
fn entries_keep_the_order_and_the_names_of_the_document() {
    let document = Document::parse(WHOLE).unwrap();
    let paths: Vec<_> = document.entries.iter().map(|e| e.path.as_str()).collect();
    assert_eq!(
        paths,
        [
            "embedders.zebra",
            "embedders.ant",
            "embedders.mole",
            "generators.writer",
            "rerankers.ranker"
        ]
    );
    let ant = document.entry(Operation::Embed, "ant").unwrap();
    assert_eq!((ant.name.as_str(), ant.model.as_str()), ("ant", "b"));
    assert_eq!(ant.rate_limit.unwrap().tokens_per_minute(), Some(120_000));
    assert!(document.entry(Operation::Generate, "ant").is_none());
    assert_eq!(document.of(Operation::Embed).count(), 3);
    assert_eq!(document.secrets_file.as_deref(), Some("secrets.json"));
}

#[test]
fn a_name_may_hold_dots() {
    let text = r#"{"embedders": {"a.b.c": {"provider": "p", "model": "m"}}}"#;
    let document = Document::parse(text).unwrap();
    assert_eq!(document.entries[0].name, "a.b.c");
    assert_eq!(document.entries[0].path, "embedders.a.b.c");
}

#[test]
fn an_unknown_section_is_refused_with_the_nearest_one() {
    let message = refused(Document::parse(r#"{"embeders": {}}"#));
    assert!(message.starts_with("embeders: "), "{message}");
    assert!(message.contains("\"embedders\""), "{message}");
    let message = refused(Document::parse(r#"{"secrets": {"fil": "x"}}"#));
    assert!(message.starts_with("secrets.fil: "), "{message}");
}

#[test]
fn the_name_of_a_schema_is_a_text_and_changes_nothing() {
    let entry = r#""embedders": {"a": {"provider": "p", "model": "m"}}"#;
    let named = format!(r#"{{"$schema": "https://example.com/config.schema.json", {entry}}}"#);
    let document = Document::parse(&named).unwrap();
    let plain = Document::parse(&format!("{{{entry}}}")).unwrap();
    assert_eq!(format!("{document:?}"), format!("{plain:?}"));
    let message = refused(Document::parse(r#"{"$schema": ["x"], "embedders": {}}"#));
    assert!(
        message.starts_with("$schema: a list is not allowed; a text is"),
        "{message}"
    );
    for inside in [
        r#"{"embedders": {"$schema": "x"}}"#,
        r#"{"embedders": {"a": {"provider": "p", "model": "m", "$schema": "x"}}}"#,
        r#"{"embedders": {"a": {"provider": "p", "model": "m", "rate_limit": {"$schema": "x"}}}}"#,
        r#"{"secrets": {"$schema": "x"}}"#,
        r#"{"$schema": "x", "$schema": "x"}"#,
    ] {
        let message = refused(Document::parse(inside));
        assert!(message.contains("$schema: "), "{message}");
    }
}

#[test]
fn a_document_that_is_one_entry_is_taken_where_one_operation_is_needed() {
    let text = r#"{"provider": "openai", "model": "m", "rate_limit": {"burst": 0}}"#;
    let one = |text: &str| Document::parse_for(Operation::Embed, text, |_| true);
    assert!(refused(one(text)).starts_with("rate_limit.burst: 0 "));
    let text = r#"{"provider": "openai", "model": "m"}"#;
    let document = one(text).unwrap();
    assert_eq!(document.entries.len(), 1);
    assert_eq!(document.entries[0].operation, Operation::Embed);
    assert_eq!(document.entries[0].field("model"), "model");
    refused(Document::parse(text));
}

#[test]
fn entries_that_are_not_used_are_not_looked_at() {
    let text = r#"{"embedders": {"good": {"provider": "p", "model": "m"}, "bad": {"nonsense": 1}},
                   "rerankers": {"worse": 7}}"#;
    let document = Document::parse_for(Operation::Embed, text, |name| name == "good").unwrap();
    assert_eq!(document.entries.len(), 1);
    refused(Document::parse(text));
}

#[test]
fn a_key_that_stands_twice_is_refused_at_any_depth_with_its_path() {
    for (text, path) in [
        (r#"{"embedders": {}, "embedders": {}}"#, "embedders"),
        (
            r#"{"embedders": {"a": {}, "b": {}, "a": {}}}"#,
            "embedders.a",
        ),
        (
            r#"{"embedders": {"a": {"rate_limit": {"burst": 1}, "rate_limit": {}}}}"#,
            "embedders.a.rate_limit",
        ),
        (
            r#"{"embedders": {"a": {"rate_limit": {"burst": 1, "\u0062urst": 2}}}}"#,
            "embedders.a.rate_limit.burst",
        ),
        (
            r#"{"generators": {"a": {"tools": [{}, {"x": 1, "x": 1}]}}}"#,
            "generators.a.tools[1].x",
        ),
    ] {
        let message = refused(Document::parse(text));
        assert!(message.starts_with(&format!("{path}: ")), "{message}");
    }
}

#[test]
fn text_that_is_not_json_is_refused_with_the_path_it_broke_at() {
    let message = refused(Document::parse(
        r#"{"embedders": {"docs": {"rate_limit": {"burst": 1e999}}}}"#,
    ));
    assert!(
        message.starts_with("embedders.docs.rate_limit.burst: "),
        "{message}"
    );
    for text in [
        "",
        "nonsense",
        "[]",
        "7",
        "{} {}",
        r#"{"embedders": {"a": {"#,
    ] {
        refused(Document::parse(text));
    }
    let deep = format!(
        "{{\"embedders\": {}1{}}}",
        "[".repeat(5000),
        "]".repeat(5000)
    );
    refused(Document::parse(&deep));
}

#[test]
fn bytes_are_utf_8_with_or_without_a_mark() {
    assert!(
        Document::from_slice(b"\xef\xbb\xbf{}")
            .unwrap()
            .entries
            .is_empty()
    );
    refused(Document::from_slice(b"{\"embedders\xff\": {}}"));
}

#[test]
fn nothing_at_all_is_a_document_without_entries() {
    let document = Document::parse(r#"{"embedders": null, "secrets": null}"#).unwrap();
    assert!(document.entries.is_empty() && document.secrets_file.is_none());
    refused(Document::parse(
        r#"{"embedders": {"": {"provider": "p", "model": "m"}}}"#,
    ));
    refused(Document::parse(r#"{"embedders": {"a": null}}"#));
}
