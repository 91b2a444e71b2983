use super::*;

fn redactor(secret: &str) -> Redactor {
    Redactor::new([secret])
}

#[test]
fn e09_a_secret_is_scrubbed_in_every_spelling() {
    let secret = "pa/ss\"wo+rd\u{e9}?";
    let redactor = redactor(secret);
    for spelling in [
        secret.to_owned(),
        base64::engine::general_purpose::STANDARD.encode(secret),
        URL_SAFE_NO_PAD.encode(secret),
        "pa%2Fss%22wo%2Brd%C3%A9%3F".to_owned(),
        "pa/ss\\\"wo+rd\u{e9}?".to_owned(),
    ] {
        let out = redactor.scrub(&format!("bad key {spelling}!"));
        assert!(
            out.starts_with("bad key [redacted]") && out.ends_with('!'),
            "{out}"
        );
    }
    assert!(!format!("{redactor:?}").contains("pa"));
}

#[test]
fn short_secrets_are_not_looked_for() {
    assert_eq!(redactor("abc").scrub("abcdef"), "abcdef");
    assert_eq!(redactor("").scrub("text"), "text");
}

#[test]
fn what_looks_like_a_credential_is_masked() {
    for (text, expected) in [
        (
            "Authorization: Bearer abc.def.12345",
            "Authorization: Bearer [redacted]",
        ),
        (
            "authorization=Basic dXNlcjpwYXNz1234==",
            "authorization=Basic [redacted]==",
        ),
        (
            "Incorrect API key provided: sk-proj-****abcd. You can",
            "Incorrect API key provided: [redacted]. You can",
        ),
        (
            "{\"x-api-key\": \"abcd1234efgh\"}",
            "{\"x-api-key\": \"[redacted]\"}",
        ),
        (
            "x-api-key: abcd1234efgh, next",
            "x-api-key: [redacted], next",
        ),
        (
            "GET /v1?key=AIzaSyA1234567890&x=1",
            "GET /v1?key=[redacted]&x=1",
        ),
        ("user AKIAIOSFODNN7EXAMPLE is not", "user [redacted] is not"),
        ("jwt eyJhbGciOiJ.eyJzdWIiOiI.c2lnbmF0", "jwt [redacted]"),
        (
            "\u{e9} sk-1234567890 \u{1f600}",
            "\u{e9} [redacted] \u{1f600}",
        ),
    ] {
        assert_eq!(mask(text), expected);
    }
}

#[test]
fn ordinary_messages_are_left_alone() {
    for text in [
        "",
        "Bearer authentication is required",
        "the token is missing",
        "input must not be empty",
        "model text-embedding-3-small not found; task sk-learn",
        "rate limit of 120000 tokens reached for gpt-4o-mini-2024-07-18",
        "invalid api key",
        "req_0123456789abcdef",
    ] {
        assert_eq!(mask(text), text);
        assert!(matches!(mask(text), Cow::Borrowed(_)));
    }
}

#[test]
fn e09_a_long_message_is_clipped_between_characters() {
    let long = "\u{1f600}".repeat(10_000);
    let out = Redactor::default().scrub(&long);
    assert!(out.len() <= MAX_MESSAGE_BYTES && out.ends_with('\u{2026}'));
    for max in 0..12 {
        assert!(clip("\u{1f600}a\u{e9}\u{1f600}", max).len() <= max);
    }
    assert_eq!(clip("abc", 3), "abc");
}

#[test]
fn a_secret_at_the_cut_leaves_no_half_behind() {
    let text = format!("{}hunter2hunter2", "x".repeat(MAX_MESSAGE_BYTES - 8));
    assert!(!redactor("hunter2hunter2").scrub(&text).contains("hunter"));
}

#[test]
fn j06_credential_and_framing_headers_are_known() {
    for name in [
        "authorization",
        "x-api-key",
        "api-key",
        "x-goog-api-key",
        "x-amz-security-token",
        "x-amz-date",
        "x-amz-content-sha256",
        "amz-sdk-invocation-id",
        "amz-sdk-request",
        "cookie",
        "proxy-authorization",
    ] {
        assert!(
            is_credential_header(&HeaderName::from_static(name)),
            "{name}"
        );
    }
    for name in [
        "host",
        "content-length",
        "accept-encoding",
        "transfer-encoding",
        "connection",
        "content-type",
        "te",
        "upgrade",
        "expect",
        "trailer",
    ] {
        assert!(is_framing_header(&HeaderName::from_static(name)), "{name}");
    }
    for name in [
        "x-title",
        "http-referer",
        "anthropic-version",
        "openai-organization",
        "user-agent",
        "accept",
    ] {
        let name = HeaderName::from_static(name);
        assert!(
            !is_credential_header(&name) && !is_framing_header(&name),
            "{name}"
        );
    }
}

#[test]
fn a_short_secret_goes_where_it_stands_alone() {
    let r = Redactor::new(["abc"]);
    assert_eq!(
        r.scrub("key abc, \"abc\" and fabcd"),
        "key [redacted], \"[redacted]\" and fabcd"
    );
    assert_eq!(r.scrub("abc"), "[redacted]");
}
