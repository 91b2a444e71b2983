//! Token endpoints that fail, break and lie; runtimes that go away; secrets that must not be seen.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use antfly_providers::testing::{Reply, Server};
use antfly_providers::{Env, Kind, Operation};
use serde_json::json;

use crate::google::*;
use crate::support::*;

/// Fails the first request for a token with `bad`, and gives tokens from then on.
fn failing_once(bad: Reply) -> Google {
    let asked = AtomicUsize::new(0);
    Google::answering(move |_, token| match asked.fetch_add(1, Ordering::SeqCst) {
        0 => bad.clone(),
        _ => answer(token, 3600),
    })
}

#[tokio::test]
async fn k07_a_token_endpoint_that_failed_is_asked_again_by_the_next_call() {
    let refused = json!({"error": "invalid_grant", "error_description": format!("Token {REFRESH_TOKEN} has been revoked.")});
    for (bad, kind) in [
        (Reply::json(400, refused), Kind::Auth),
        (
            Reply::json(503, json!({"error": "unavailable"})),
            Kind::Transport,
        ),
        (Reply::json(200, json!({"no": "token"})), Kind::Auth),
        (Reply::close(), Kind::Transport),
    ] {
        let google = failing_once(bad.clone());
        let server = model();
        let generator = google.generator(&server, json!({}));
        let error = soon(generator.generate(ask())).await.unwrap_err();
        assert_eq!((error.kind(), error.attempts()), (kind, 0), "{error}");
        let shown = format!("{error} {error:?}");
        for secret in [REFRESH_TOKEN, CLIENT_SECRET] {
            assert!(!shown.contains(secret), "{shown}");
        }
        assert!(server.requests().is_empty());
        assert_eq!(generator.scope_snapshot().counters.admitted, 0);
        soon(generator.generate(ask())).await.unwrap();
        assert_eq!(server.requests().len(), 1);
    }
}

#[tokio::test]
async fn k07_an_impersonated_token_that_came_expired_is_an_error_and_no_panic() {
    let expired = AtomicUsize::new(0);
    let google = Google::answering(move |request, token| {
        if request.path == "/token" || expired.fetch_add(1, Ordering::SeqCst) > 0 {
            return answer(token, 3600);
        }
        Reply::json(
            200,
            json!({"accessToken": token, "expireTime": "2001-01-01T00:00:00Z"}),
        )
    });
    let server = model();
    let generator = google.generator_of(&google.impersonated(&google.user()), &server, json!({}));
    let error = soon(generator.generate(ask())).await.unwrap_err();
    assert_eq!((error.kind(), error.attempts()), (Kind::Auth, 0));
    soon(generator.generate(ask())).await.unwrap();
}

#[tokio::test]
async fn a_file_that_becomes_another_kind_or_goes_away_is_an_auth_error_and_no_fallback() {
    let google = Google::start();
    let server = Server::start([good(), refused(), good()]);
    let path = google.file(&google.user());
    let generator = vertex(
        &client_of(Env::empty()),
        &server,
        with_file(&path, json!({})),
    );
    generator.generate(ask()).await.unwrap();
    google.file(&google.service_account());
    let error = generator.generate(ask()).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Auth);
    assert!(
        error.message().contains("is now of type service_account"),
        "{error}"
    );
    std::fs::remove_file(&path).unwrap();
    let error = generator.generate(ask()).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Auth);
    google.file(&google.user());
    generator.generate(ask()).await.unwrap();
}

#[test]
fn the_runtime_that_first_asked_may_go_away() {
    let runtime = || {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap()
    };
    let google = Arc::new(Google::start());
    let server = Server::start([good(), good(), refused(), good()]);
    let generator = google.generator(&server, json!({}));
    let first = runtime();
    first.block_on(generator.generate(ask())).unwrap();
    drop(first);
    let second = runtime();
    second.block_on(generator.generate(ask())).unwrap();
    drop(second);
    runtime().block_on(generator.generate(ask())).unwrap();
    assert_eq!(
        bearers(&server),
        ["token-1", "token-1", "token-1", "token-2"]
    );
}

#[tokio::test]
async fn a_token_that_is_echoed_is_not_shown() {
    let google = Google::answering(|_, _| answer("ya29.sentinel-token", 3600));
    let server = Server::start([Reply::json(
        403,
        json!({"error": {"code": 403, "status": "PERMISSION_DENIED", "message": "token ya29.sentinel-token may not"}}),
    )]);
    let generator = google.generator(&server, json!({}));
    let error = generator.generate(ask()).await.unwrap_err();
    let shown = format!("{error} {error:?} {generator:?}");
    assert!(!shown.contains("sentinel"), "{shown}");
}

#[tokio::test]
async fn a_quota_project_is_sent_and_is_part_of_the_scope_and_no_other_origin_sees_it() {
    let google = Google::start();
    let elsewhere = Server::start([good()]);
    let server = Server::start([
        good(),
        Reply::status(307).header("location", format!("{}/there", elsewhere.url())),
    ]);
    let mut user = google.user();
    user["quota_project_id"] = json!("payer-1");
    let generator = google.generator_of(&user, &server, json!({}));
    assert!(generator.scope().to_string().contains("payer-1"));
    generator.generate(ask()).await.unwrap();
    generator.generate(ask()).await.unwrap();
    for request in server.requests() {
        assert_eq!(request.header("x-goog-user-project"), Some("payer-1"));
    }
    let there = &elsewhere.requests()[0];
    assert_eq!(there.header("x-goog-user-project"), None);
    assert_eq!(there.header("authorization"), None);
}

#[tokio::test]
async fn j06_a_gemini_key_stays_at_its_origin() {
    let elsewhere = Server::start([good()]);
    let server =
        Server::start(
            [Reply::status(307).header("location", format!("{}/there", elsewhere.url()))],
        );
    let generator = gemini(&client(), &server, json!({}));
    generator.generate(ask()).await.unwrap();
    assert_eq!(server.requests()[0].header("x-goog-api-key"), Some(KEY));
    let there = &elsewhere.requests()[0];
    assert_eq!(there.header("x-goog-api-key"), None);
    assert!(!there.path.contains(KEY) && !there.text().contains(KEY));
}

#[tokio::test]
async fn j01_trailing_slashes_change_nothing() {
    let google = Google::start();
    let path = google.file(&google.user());
    for slashes in ["", "/", "//"] {
        let server = model();
        let url = format!("{}{slashes}", server.url());
        let mut extra = with_file(&path, json!({}));
        extra["url"] = json!(url);
        vertex(&client_of(Env::empty()), &server, extra)
            .generate(ask())
            .await
            .unwrap();
        let extra = json!({"url": url});
        gemini(&client(), &server, extra)
            .generate(ask())
            .await
            .unwrap();
        let paths: Vec<_> = server.requests().iter().map(|r| r.path.clone()).collect();
        assert_eq!(
            paths,
            [
                "/v1/projects/p-1/locations/us-central1/publishers/google/models/gemini-2.5-flash:generateContent",
                "/v1beta/models/gemini-2.5-flash:generateContent"
            ]
        );
    }
}

#[tokio::test]
async fn k11_handles_of_one_source_that_are_refused_one_token_replace_it_once() {
    let google = Google::start();
    let server =
        Server::with(
            |request| match request.header("authorization") == Some("Bearer token-1") {
                true => refused(),
                false => good(),
            },
        );
    let path = google.file(&google.user());
    let client = client_of(Env::empty());
    let open = |model: &str| {
        let fields = json!({"model": model, "retry": {"max_attempts": 1}});
        vertex(&client, &server, with_file(&path, fields))
    };
    let handles = [open("a"), open("b"), open("c")];
    for handle in &handles {
        soon(handle.generate(ask())).await.unwrap();
    }
    assert_eq!(google.given(), 2);
    assert_eq!(
        bearers(&server),
        ["token-1", "token-2", "token-2", "token-2"]
    );
}

#[tokio::test]
async fn k07_a_token_that_no_header_can_carry_costs_no_admission_and_is_not_kept() {
    for bad in ["", "a\nb", "a\u{e9}b", "a b"] {
        let google = failing_once(answer(bad, 3600));
        let server = model();
        let generator = google.generator(&server, json!({}));
        let error = soon(generator.generate(ask())).await.unwrap_err();
        assert_eq!((error.kind(), error.attempts()), (Kind::Auth, 0), "{bad:?}");
        assert_eq!(generator.scope_snapshot().counters.admitted, 0);
        soon(generator.generate(ask())).await.unwrap();
        assert_eq!(bearers(&server), ["token-2"]);
    }
}

#[tokio::test]
async fn a_subject_token_that_is_echoed_is_not_shown() {
    for echo in [
        "subject_token=subject-sentinel&subject_token_type=jwt",
        r#"{"subject_token": "subject-sentinel"}"#,
        "subject_token_type=jwt&subject_token=subject-sentinel",
    ] {
        let google = Google::answering(move |request, _| {
            assert!(request.text().contains("subject_token=subject-sentinel"));
            Reply::json(400, json!({"error": "e", "error_description": echo}))
        });
        let generator = google.generator_of(&google.federated(), &model(), json!({}));
        let error = soon(generator.generate(ask())).await.unwrap_err();
        let shown = format!("{error} {error:?}");
        assert!(!shown.contains("sentinel"), "{shown}");
        assert!(shown.contains("[redacted]"), "{shown}");
    }
}

#[tokio::test]
async fn a_quota_project_that_is_empty_is_none_and_one_that_no_header_can_carry_is_named() {
    let google = Google::start();
    let open = |quota: &str| {
        let mut user = google.user();
        user["quota_project_id"] = json!(quota);
        let fields = with_file(&google.file(&user), json!({}));
        let entry = try_entry(Operation::Generate, "vertex", "http://127.0.0.1:9", fields);
        client_of(Env::empty()).generator(&entry.unwrap())
    };
    assert!(!open("").unwrap().scope().to_string().contains("quota"));
    let error = open("a\nb").unwrap_err();
    assert_eq!(error.kind(), Kind::Config);
    let path = "generators.w.credentials_path: ";
    assert!(error.message().starts_with(path), "{error}");
}
