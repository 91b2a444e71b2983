use super::*;

fn head(status: u16, headers: &[(&'static str, &str)]) -> Head {
    let mut map = http::HeaderMap::new();
    for (name, value) in headers {
        map.insert(*name, http::HeaderValue::from_str(value).unwrap());
    }
    Head {
        status,
        headers: map,
    }
}

fn kind(status: u16, name: &str) -> (Kind, bool) {
    let e = classify(
        &head(status, &[("x-amzn-errortype", name)]),
        br#"{"message": "m"}"#,
    );
    assert_eq!(e.message(), "m");
    (e.kind(), e.is_retryable())
}

#[test]
fn every_exception_of_the_service_has_its_kind() {
    for (status, name, wanted, retry) in [
        (429, "ThrottlingException", Kind::RateLimited, true),
        (429, "ModelNotReadyException", Kind::Overloaded, true),
        (
            400,
            "ServiceQuotaExceededException",
            Kind::QuotaExhausted,
            false,
        ),
        (500, "InternalServerException", Kind::Server, true),
        (503, "ServiceUnavailableException", Kind::Overloaded, true),
        (408, "ModelTimeoutException", Kind::Server, true),
        (424, "ModelErrorException", Kind::Server, false),
        (424, "ModelStreamErrorException", Kind::Server, true),
        (403, "AccessDeniedException", Kind::Auth, false),
        (403, "UnrecognizedClientException", Kind::Auth, false),
        (404, "ResourceNotFoundException", Kind::NotFound, false),
        (400, "ValidationException", Kind::InvalidRequest, false),
        (413, "", Kind::RequestTooLarge, false),
        (418, "NeverHeardOfException", Kind::InvalidRequest, false),
    ] {
        assert_eq!(kind(status, name), (wanted, retry), "{status} {name}");
    }
}

#[test]
fn the_name_is_found_in_each_of_its_spellings() {
    for e in [
        classify(
            &head(
                400,
                &[("x-amzn-errortype", "ThrottlingException:http://internal/")],
            ),
            b"{}",
        ),
        classify(
            &head(400, &[]),
            br#"{"__type": "com.amazon.coral.availability#ThrottlingException"}"#,
        ),
        classify(&head(400, &[]), br#"{"code": "ThrottlingException"}"#),
        exception(Some("throttlingException"), b"{}", None),
    ] {
        assert_eq!(
            (e.kind(), e.code()),
            (Kind::RateLimited, Some("ThrottlingException"))
        );
    }
}

#[test]
fn k02_k11_only_credentials_that_expired_or_are_unknown_are_worth_a_refresh() {
    let stale = |name: &str, message: &str| {
        let body = serde_json::json!({ "message": message }).to_string();
        classify(&head(403, &[("x-amzn-errortype", name)]), body.as_bytes()).is_credential_expired()
    };
    assert!(stale("ExpiredTokenException", "x"));
    assert!(stale("ExpiredToken", "x"));
    assert!(stale(
        "UnrecognizedClientException",
        "The security token included in the request is invalid."
    ));
    assert!(stale(
        "InvalidSignatureException",
        "Signature expired: 20260101T000000Z is now earlier than"
    ));
    assert!(stale("AccessDeniedException", "Bearer Token has expired"));
    assert!(!stale("AccessDeniedException", "not allowed"));
    assert!(!stale(
        "InvalidSignatureException",
        "The request signature we calculated does not match"
    ));
    assert!(!stale("ValidationException", "expired"));
}

#[test]
fn e01_a_page_in_place_of_a_refusal_is_named_by_its_status() {
    let e = classify(
        &head(502, &[("content-type", "text/html")]),
        b"<html>bad gateway</html>",
    );
    assert_eq!((e.kind(), e.is_retryable()), (Kind::Server, true));
    assert!(e.message().contains("bad gateway"));
    assert!(classify(&head(503, &[]), b"").message().contains("503"));
}

#[test]
fn the_sdks_own_header_is_a_hint_in_milliseconds() {
    let e = classify(&head(429, &[("x-amz-retry-after", "1500")]), b"{}");
    assert_eq!(e.retry_after(), Some(Duration::from_millis(1500)));
    for odd in ["soon", "-1", "", "1e9"] {
        let e = classify(&head(429, &[("x-amz-retry-after", odd)]), b"{}");
        assert_eq!(e.retry_after(), None, "{odd}");
    }
}

#[test]
fn the_days_tokens_are_a_quota_and_the_minutes_a_rate() {
    let of = |message: &str| {
        exception(
            Some("throttlingException"),
            format!(r#"{{"message": "{message}"}}"#).as_bytes(),
            None,
        )
        .kind()
    };
    assert_eq!(
        of("Too many tokens per day, please wait before trying again."),
        Kind::QuotaExhausted
    );
    assert_eq!(
        of("Too many tokens, please wait before trying again."),
        Kind::RateLimited
    );
}

#[test]
fn every_row_says_why() {
    assert!(TABLE.iter().all(|row| row.why.len() > 10));
}

#[test]
fn a_code_is_one_short_word_whatever_stands_in_its_place() {
    let head = head(400, &[]);
    let body = serde_json::json!({"__type": "Bad\n\u{1b}[31mThing", "message": "no"});
    let e = classify(&head, body.to_string().as_bytes());
    assert_eq!(e.code(), Some("Bad"));
    let e = exception(Some("\n"), b"", None);
    assert_eq!((e.code(), e.kind()), (None, Kind::Server));
    let e = exception(Some(&"x".repeat(60_000)), b"", None);
    assert_eq!(e.code().unwrap().len(), 100);
}

#[test]
fn an_exception_in_the_place_of_an_answer_is_known_by_its_name() {
    let read = |headers: &[(&'static str, &str)], body: &str| {
        in_place_of_answer(&head(200, headers), body.as_bytes())
            .map(|e| (e.kind(), e.status(), e.is_retryable()))
    };
    let slow = Some((Kind::RateLimited, Some(200), true));
    assert_eq!(
        read(&[], r#"{"__type": "com.amazon#ThrottlingException"}"#),
        slow
    );
    assert_eq!(
        read(&[("x-amzn-errortype", "ThrottlingException:")], "{}"),
        slow
    );
    let coral = r#"{"Output": {"__type": "com.amazon.coral.service#UnknownOperationException"}, "Version": "1.0"}"#;
    assert_eq!(
        read(&[], coral),
        Some((Kind::InvalidRequest, Some(200), false))
    );
    assert_eq!(read(&[], r#"{"message": "hello"}"#), None);
}
