use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::json;

use super::*;

fn head(status: u16, headers: &[(&'static str, &str)]) -> Head {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        map.insert(
            HeaderName::from_static(name),
            HeaderValue::from_str(value).unwrap(),
        );
    }
    Head {
        status,
        headers: map,
    }
}

fn told(status: u16, body: &str) -> Error {
    classify(&head(status, &[]), body.as_bytes())
}

#[test]
fn every_row_has_a_reason() {
    assert!(TABLE.iter().all(|row| row.why.len() > 10));
}

#[test]
fn every_word_is_written_in_lower_case_and_once() {
    let mut seen = std::collections::HashSet::new();
    for row in TABLE {
        if let Words(words) | Vague(words) = row.seen {
            for word in words {
                assert_eq!(*word, word.to_ascii_lowercase());
                assert!(seen.insert(*word), "{word}");
            }
        }
    }
}

#[test]
fn f11_insufficient_quota_is_spend_and_not_retried() {
    let e = told(429, include_str!("fixtures/error_quota.json"));
    assert_eq!((e.kind(), e.is_retryable()), (Kind::QuotaExhausted, false));
    assert_eq!(
        (e.code(), e.retry_after()),
        (Some("insufficient_quota"), None)
    );
    // An older form: the word stands in `type` alone.
    let e = told(
        429,
        r#"{"error":{"message":"m","type":"insufficient_quota","param":null,"code":null}}"#,
    );
    assert_eq!(e.kind(), Kind::QuotaExhausted);
    // No header brings money back.
    let e = classify(
        &head(429, &[("x-should-retry", "true")]),
        include_bytes!("fixtures/error_quota.json"),
    );
    assert!(!e.is_retryable());
}

#[test]
fn a_rate_is_waited_for() {
    let e = told(429, include_str!("fixtures/error_rate.json"));
    assert_eq!((e.kind(), e.is_retryable()), (Kind::RateLimited, true));
    assert!(e.message().starts_with("Rate limit reached for gpt-4o"));
    assert_eq!(told(429, "").kind(), Kind::RateLimited);
}

#[test]
fn f10_googles_retry_info_is_read_from_the_body() {
    let e = told(429, include_str!("fixtures/error_google.json"));
    assert_eq!(e.kind(), Kind::RateLimited);
    assert_eq!(e.retry_after(), Some(Duration::from_nanos(45_837_906_927)));
    let without = r#"{"error":{"code":429,"message":"m","status":"RESOURCE_EXHAUSTED"}}"#;
    assert_eq!(told(429, without).retry_after(), None);
    for odd in ["22", "s", "-1s", "NaNs", "soon", ""] {
        let body = json!({"error": {"details": [
            {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": odd}]}});
        assert_eq!(told(429, &body.to_string()).retry_after(), None, "{odd}");
    }
}

#[test]
fn openrouters_reset_is_a_time_in_milliseconds() {
    let body = include_bytes!("fixtures/error_openrouter.json");
    let dated = |date| classify(&head(429, &[("date", date)]), body).retry_after();
    assert_eq!(
        dated("Sun, 06 Nov 1994 08:49:37 GMT"),
        Some(Duration::from_secs(60))
    );
    assert_eq!(
        dated("Sun, 06 Nov 1994 09:49:37 GMT"),
        None,
        "a past reset is no hint"
    );
    assert_eq!(
        dated("Sun, 06 Nov 1993 08:49:37 GMT"),
        None,
        "a year is no hint"
    );
}

#[test]
fn statuses_mean_what_the_table_says() {
    for (status, kind, retry) in [
        (400, Kind::InvalidRequest, false),
        (401, Kind::Auth, false),
        (402, Kind::QuotaExhausted, false),
        (403, Kind::Auth, false),
        (404, Kind::NotFound, false),
        (408, Kind::Server, true),
        (409, Kind::InvalidRequest, false),
        (413, Kind::RequestTooLarge, false),
        (422, Kind::InvalidRequest, false),
        (429, Kind::RateLimited, true),
        (500, Kind::Server, true),
        (501, Kind::Server, false),
        (502, Kind::Server, true),
        (503, Kind::Overloaded, true),
        (504, Kind::Server, true),
        (520, Kind::Server, false),
        (529, Kind::Overloaded, true),
    ] {
        let e = told(status, r#"{"error":{"message":"m"}}"#);
        assert_eq!((e.kind(), e.is_retryable()), (kind, retry), "{status}");
    }
}

#[test]
fn words_say_more_than_the_status() {
    for (status, word, kind) in [
        (400, "context_length_exceeded", Kind::InvalidRequest),
        (400, "content_policy_violation", Kind::ContentBlocked),
        (400, "content_filter", Kind::ContentBlocked),
        (429, "billing_hard_limit_reached", Kind::QuotaExhausted),
        (400, "invalid_api_key", Kind::Auth),
        (400, "model_not_found", Kind::NotFound),
        (500, "overloaded_error", Kind::Overloaded),
        (503, "slow_down", Kind::Overloaded),
    ] {
        let body =
            json!({"error": {"message": "m", "type": "invalid_request_error", "code": word}});
        assert_eq!(told(status, &body.to_string()).kind(), kind, "{word}");
    }
    let vague = r#"{"error":{"message":"m","type":"invalid_request_error","code":null}}"#;
    assert_eq!(told(401, vague).kind(), Kind::Auth);
    assert_eq!(told(503, vague).kind(), Kind::Overloaded);
}

#[test]
fn azures_inner_code_and_openrouters_moderation_are_blocked_content() {
    let azure = r#"{"error":{"message":"m","code":null,"innererror":{"code":"ResponsibleAIPolicyViolation"}}}"#;
    assert_eq!(told(400, azure).kind(), Kind::ContentBlocked);
    let moderated =
        r#"{"error":{"code":403,"message":"m","metadata":{"reasons":["x"],"flagged_input":"y"}}}"#;
    assert_eq!(told(403, moderated).kind(), Kind::ContentBlocked);
}

#[test]
fn k02_an_expired_credential_is_marked_only_where_it_is_one() {
    let expired = r#"{"error":{"message":"The token has expired."}}"#;
    assert!(told(401, expired).is_credential_expired());
    assert!(told(403, expired).is_credential_expired());
    assert!(!told(400, expired).is_credential_expired());
    assert!(!told(401, r#"{"error":{"message":"Incorrect API key"}}"#).is_credential_expired());
}

#[test]
fn a_header_may_say_whether_to_retry() {
    let e = classify(&head(500, &[("x-should-retry", "false")]), b"");
    assert!(!e.is_retryable());
    let e = classify(&head(409, &[("x-should-retry", "true")]), b"");
    assert!(e.is_retryable());
}

#[test]
fn e09_the_message_is_found_in_every_form() {
    for (body, message) in [
        (
            r#"{"error":{"message":"input must not be empty"}}"#,
            "input must not be empty",
        ),
        (
            r#"{"error":{"message":"bad","param":"input"}}"#,
            "bad (parameter input)",
        ),
        (r#"{"error":"text"}"#, "text"),
        (r#"{"message":"text"}"#, "text"),
        (r#"{"detail":"text"}"#, "text"),
        (
            r#"{"detail":[{"loc":["body","input",0],"msg":"field required"}]}"#,
            "body.input.0: field required",
        ),
        (r#"[{"error":{"message":"text"}}]"#, "text"),
        (r#""text""#, "text"),
        ("text", "text"),
        ("", "the provider answered status 400 and did not say why"),
        (
            r#"{"error":{}}"#,
            "the provider answered status 400 and did not say why",
        ),
    ] {
        assert_eq!(told(400, body).message(), message, "{body}");
    }
}

#[test]
fn e09_a_long_message_is_bounded() {
    let long = "wörd ".repeat(2_000_000);
    let e = told(400, &json!({"error": {"message": long}}).to_string());
    assert!(e.message().len() <= 4100);
    assert!(told(400, &long).message().len() <= 4100);
}

#[test]
fn e02_a_proxys_page_does_not_hide_the_status() {
    let page = b"<html><head><title>502 Bad Gateway</title></head><body>nginx</body></html>";
    for status in [502, 503, 504] {
        let e = classify(&head(status, &[("content-type", "text/html")]), page);
        assert!(e.is_retryable());
        assert_eq!(
            e.message(),
            "an HTML page came instead of an answer: 502 Bad Gateway"
        );
    }
}

#[test]
fn h21_a_plain_text_413_is_too_large() {
    let e = classify(
        &head(413, &[("content-type", "text/plain")]),
        b"length limit exceeded",
    );
    assert_eq!((e.kind(), e.is_retryable()), (Kind::RequestTooLarge, false));
    assert_eq!(e.message(), "length limit exceeded");
}

#[test]
fn h20_a_server_error_is_surfaced() {
    let e = told(
        500,
        r#"{"error":"failed to encode response: json: unsupported value: NaN"}"#,
    );
    assert_eq!((e.kind(), e.is_retryable()), (Kind::Server, true));
    assert!(e.message().contains("NaN"));
}

#[test]
fn e06_a_number_in_an_error_inside_a_success_is_its_status() {
    let ok = head(200, &[]);
    for code in [json!(429), json!("429")] {
        let e = in_band(&ok, &json!({"code": code, "message": "slow"}));
        assert_eq!((e.kind(), e.is_retryable()), (Kind::RateLimited, true));
        assert_eq!(e.code(), Some("429"));
    }
    let e = in_band(&ok, &json!({"code": 200, "message": "odd"}));
    assert_eq!(e.kind(), Kind::Server);
}

#[test]
fn b12_the_code_says_more_than_the_type() {
    let e = in_band(
        &head(200, &[]),
        &json!({"type": "server_error", "code": "rate_limit_exceeded"}),
    );
    assert_eq!(e.kind(), Kind::RateLimited);
}

#[test]
fn e01_what_does_not_parse_names_status_type_and_a_sample() {
    let page = head(200, &[("content-type", "text/html; charset=utf-8")]);
    let e = unreadable(&page, b"<html>hello</html>", "expected value");
    assert_eq!((e.kind(), e.status()), (Kind::InvalidResponse, Some(200)));
    for part in ["status 200", "text/html", "<html>hello"] {
        assert!(e.message().contains(part), "{e}");
    }
    let e = unreadable(&head(200, &[]), b"<html>", "expected value");
    assert!(e.message().contains("no content type"));
}

#[test]
fn a_clipped_text_ends_between_words() {
    use crate::refusal::clip;
    assert_eq!(clip("short", 10), "short");
    assert_eq!(clip("bad key sk-1234567890", 14), "bad key ...");
}
