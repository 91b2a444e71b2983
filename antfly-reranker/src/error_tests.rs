use http::{HeaderMap, HeaderValue};
use serde_json::json;

use super::*;

fn told(status: u16, body: &str) -> Error {
    let headers = HeaderMap::new();
    classify(&Head { status, headers }, body.as_bytes())
}

#[test]
fn statuses_mean_what_the_table_says() {
    assert!(TABLE.iter().all(|(.., why)| why.len() > 10));
    for (status, kind, retry) in [
        (400, Kind::InvalidRequest, false),
        (401, Kind::Auth, false),
        (404, Kind::NotFound, false),
        (413, Kind::RequestTooLarge, false),
        (429, Kind::RateLimited, true),
        (500, Kind::Server, true),
        (501, Kind::Unsupported, false),
        (503, Kind::Overloaded, true),
        (507, Kind::Server, false),
    ] {
        let e = told(status, r#"{"error":"text"}"#);
        assert_eq!(
            (e.kind(), e.is_retryable(), e.message()),
            (kind, retry, "text"),
            "{status}"
        );
    }
}

#[test]
fn i12_the_servers_own_message_is_surfaced() {
    let e = told(400, r#"{"error":"document 3 is longer than 512 tokens"}"#);
    assert_eq!(
        (e.is_retryable(), e.message()),
        (false, "document 3 is longer than 512 tokens")
    );
}

#[test]
fn messages_are_found_in_every_form_and_bounded() {
    for (body, message) in [
        (r#"{"error":{"message":"text"}}"#, "text"),
        (r#"{"message":"text"}"#, "text"),
        (r#""text""#, "text"),
        ("text", "text"),
        ("<html></html>", "an HTML page came instead of an answer"),
        ("", "the server answered status 400 and did not say why"),
    ] {
        assert_eq!(told(400, body).message(), message);
    }
    assert!(told(400, &"word ".repeat(1_000_000)).message().len() < 4200);
}

#[test]
fn an_expired_credential_is_marked() {
    assert!(told(401, r#"{"error":"token expired"}"#).is_credential_expired());
    assert!(!told(401, r#"{"error":"no token"}"#).is_credential_expired());
    assert!(!told(400, r#"{"error":"token expired"}"#).is_credential_expired());
}

#[test]
fn what_does_not_parse_names_status_type_and_a_sample() {
    let mut headers = HeaderMap::new();
    headers.insert("content-type", HeaderValue::from_static("text/html"));
    let e = unreadable(
        &Head {
            status: 200,
            headers,
        },
        b"<html>",
        "expected value",
    );
    assert_eq!((e.kind(), e.status()), (Kind::InvalidResponse, Some(200)));
    assert!(e.message().contains("text/html") && e.message().contains("<html>"));
    assert!(is_error(&json!("x")) && !is_error(&json!(null)) && !is_error(&json!("")));
}
