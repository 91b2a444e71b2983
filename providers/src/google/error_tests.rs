use super::*;
use antfly_framework::Kind;
use http::HeaderMap;
use serde_json::json;

fn head(status: u16) -> Head {
    Head {
        status,
        headers: HeaderMap::new(),
    }
}

fn kind(status: u16, body: Value) -> (Kind, bool) {
    let error = classify(&head(status), body.to_string().as_bytes());
    (error.kind(), error.is_retryable())
}

#[test]
fn every_row_says_why() {
    assert!(TABLE.iter().all(|row| row.why.len() > 8));
}

#[test]
fn the_reason_counts_before_the_word_and_the_word_before_the_status() {
    let status = |status: u16, word: &str, reason: Option<&str>| {
        let mut error = json!({"code": status, "status": word, "message": "m"});
        if let Some(reason) = reason {
            error["details"] =
                json!([{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason}]);
        }
        kind(status, json!({"error": error}))
    };
    assert_eq!(
        status(400, "INVALID_ARGUMENT", None),
        (Kind::InvalidRequest, false)
    );
    assert_eq!(
        status(400, "INVALID_ARGUMENT", Some("API_KEY_INVALID")),
        (Kind::Auth, false)
    );
    assert_eq!(
        status(403, "PERMISSION_DENIED", Some("SERVICE_DISABLED")),
        (Kind::Auth, false)
    );
    assert_eq!(
        status(400, "FAILED_PRECONDITION", None),
        (Kind::InvalidRequest, false)
    );
    assert_eq!(
        status(429, "RESOURCE_EXHAUSTED", Some("RATE_LIMIT_EXCEEDED")),
        (Kind::RateLimited, true)
    );
    assert_eq!(status(503, "UNAVAILABLE", None), (Kind::Overloaded, true));
    assert_eq!(status(500, "INTERNAL", None), (Kind::Server, true));
    assert_eq!(status(504, "DEADLINE_EXCEEDED", None), (Kind::Server, true));
    assert_eq!(status(501, "UNIMPLEMENTED", None), (Kind::Server, false));
    assert_eq!(status(404, "NOT_FOUND", None), (Kind::NotFound, false));
    assert_eq!(
        status(418, "A_NEW_ONE", None),
        (Kind::InvalidRequest, false)
    );
}

#[test]
fn bodies_that_are_no_status_are_classified_by_the_number() {
    for (status, kind) in [
        (401, Kind::Auth),
        (403, Kind::Auth),
        (408, Kind::Server),
        (413, Kind::RequestTooLarge),
        (429, Kind::RateLimited),
        (502, Kind::Server),
    ] {
        for body in ["", "nonsense", "[]", "null", "{\"error\":3}", "<html>"] {
            let error = classify(&head(status), body.as_bytes());
            assert_eq!(error.kind(), kind, "{status} {body}");
            assert!(!error.message().is_empty());
        }
    }
}

#[test]
fn f10_malformed_delays_count_as_absent_and_the_longest_counts() {
    let delays = |delays: &[Value]| {
        let details: Vec<Value> = delays
            .iter()
            .map(|delay| json!({"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay}))
            .collect();
        let body =
            json!({"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "details": details}});
        classify(&head(429), body.to_string().as_bytes())
            .retry_after()
            .map(|wait| wait.as_millis())
    };
    assert_eq!(delays(&[json!("34.4s")]), Some(34_400));
    assert_eq!(delays(&[json!("1s"), json!("3s"), json!("2s")]), Some(3000));
    assert_eq!(delays(&[json!("0s")]), Some(0));
    for bad in [
        json!("soon"),
        json!("-1s"),
        json!(5),
        json!(null),
        json!("5"),
        json!("NaNs"),
    ] {
        assert_eq!(delays(&[bad]), None);
    }
}

#[test]
fn a_quota_of_the_day_is_known_by_its_id_or_its_limit() {
    let detail = |detail: Value| {
        kind(
            429,
            json!({"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "details": [detail]}}),
        )
    };
    let day = (Kind::QuotaExhausted, false);
    assert_eq!(
        detail(
            json!({"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [{"quotaId": "RequestsPerDayPerProject"}]})
        ),
        day
    );
    assert_eq!(
        detail(
            json!({"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "RATE_LIMIT_EXCEEDED",
            "metadata": {"quota_limit": "GenerateContentRequestsPerDayPerProject"}})
        ),
        day
    );
    assert_eq!(
        detail(
            json!({"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [{"quotaId": "RequestsPerMinute"}]})
        ),
        (Kind::RateLimited, true)
    );
}

#[test]
fn fields_and_ids_of_the_details_are_told() {
    let body = json!({"error": {"code": 400, "status": "INVALID_ARGUMENT", "message": "bad", "details": [
        {"@type": "type.googleapis.com/google.rpc.BadRequest", "fieldViolations": [{"field": "generation_config.top_k"}]},
        {"@type": "type.googleapis.com/google.rpc.RequestInfo", "requestId": "r-1"}]}});
    let error = classify(&head(400), body.to_string().as_bytes());
    assert_eq!(error.message(), "bad (fields: generation_config.top_k)");
    assert_eq!(error.request_id(), Some("r-1"));
    assert_eq!(error.code(), Some("INVALID_ARGUMENT"));
}
