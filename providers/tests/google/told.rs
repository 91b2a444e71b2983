//! What is made of Google's refusals.

use antfly_providers::testing::{Reply, Server};
use antfly_providers::{EmbedRequest, Kind};
use serde_json::json;

use crate::support::*;

#[tokio::test]
async fn f10_a_retry_delay_in_the_body_opens_the_scopes_cooldown() {
    let (client, _clock) = manual();
    let server = Server::start([Reply::json(429, fixture!("error_rate.json"))]);
    let generator = gemini(&client, &server, json!({"retry": {"max_attempts": 1}}));
    let error = generator.generate(ask()).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.code(), error.retry_after()),
        (
            Kind::RateLimited,
            Some("RESOURCE_EXHAUSTED"),
            Some(ms(2500))
        )
    );
    // Another handle of the scope waits as well.
    let other = gemini(&client, &server, json!({"retry": {"max_attempts": 2}}));
    assert_eq!(other.scope_snapshot().cooldown_remaining, Some(ms(2500)));
}

#[tokio::test]
async fn f10_the_retry_leaves_when_the_delay_is_over_and_not_before() {
    let (client, clock) = manual();
    let server = Server::start([
        Reply::json(429, fixture!("error_rate.json")),
        Reply::json(200, fixture!("generate.json")),
    ]);
    let generator = gemini(&client, &server, json!({}));
    let call = tokio::spawn(async move { generator.generate(ask()).await });
    let told = clock.now().saturating_add(ms(2500));
    until("the wait", || clock.next_alarm() == Some(told)).await;
    assert_eq!(server.requests().len(), 1);
    clock.advance(ms(2499));
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert_eq!(server.requests().len(), 1);
    clock.advance(ms(1));
    assert!(soon(call).await.unwrap().is_ok());
    assert_eq!(server.requests().len(), 2);
}

#[tokio::test]
async fn f10_without_a_hint_only_the_caller_backs_off() {
    let server = Server::start([
        Reply::json(429, fixture!("error_shared.json")),
        Reply::json(200, fixture!("generate.json")),
    ]);
    let generator = gemini(&client(), &server, json!({"retry": {"max_attempts": 1}}));
    let error = generator.generate(ask()).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.retry_after()),
        (Kind::RateLimited, None)
    );
    assert_eq!(generator.scope_snapshot().cooldown_until, None);
    generator.generate(ask()).await.unwrap();
}

#[tokio::test]
async fn f11_a_quota_of_the_day_is_used_up_and_not_retried() {
    let (client, _clock) = manual();
    let server = Server::start([Reply::json(429, fixture!("error_day.json"))]);
    let generator = gemini(&client, &server, json!({}));
    let error = generator.generate(ask()).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.attempts(), error.is_retryable()),
        (Kind::QuotaExhausted, 1, false)
    );
    // The hint beside it is heeded by the scope.
    assert_eq!(
        generator.scope_snapshot().cooldown_remaining,
        Some(ms(22_000))
    );
}

#[tokio::test]
async fn a_wrong_key_is_auth_though_the_status_is_400_and_is_not_shown() {
    let server = Server::start([
        Reply::json(400, fixture!("error_key.json")),
        Reply::json(
            403,
            json!({"error": {"code": 403, "status": "PERMISSION_DENIED", "message": format!("key {KEY} is blocked")}}),
        ),
    ]);
    let embedder = gemini_embedder(&client(), &server, json!({}));
    for _ in 0..2 {
        let error = embedder
            .embed(EmbedRequest::texts(["a"]))
            .await
            .unwrap_err();
        assert_eq!((error.kind(), error.attempts()), (Kind::Auth, 1));
        assert!(!format!("{error} {error:?}").contains(KEY), "{error}");
    }
}

#[tokio::test]
async fn e02_a_page_is_classified_by_its_status_and_told_by_its_title() {
    let page = "<!DOCTYPE html><html><title>Error 404 (Not Found)!!1</title></html>";
    let server = Server::start([
        Reply::bytes(404, "text/html; charset=UTF-8", page),
        Reply::bytes(200, "text/html", page),
    ]);
    let generator = gemini(&client(), &server, json!({}));
    let error = generator.generate(ask()).await.unwrap_err();
    assert_eq!(error.kind(), Kind::NotFound);
    assert!(error.message().contains("Error 404"), "{error}");
    let error = generator.generate(ask()).await.unwrap_err();
    assert_eq!(error.kind(), Kind::InvalidResponse);
}

#[tokio::test]
async fn e06_an_error_inside_a_200_is_the_error_it_is_also_wrapped_in_a_list() {
    let limited: serde_json::Value = serde_json::from_str(fixture!("error_rate.json")).unwrap();
    for body in [limited.clone(), json!([limited])] {
        let (client, _clock) = manual();
        let server = Server::start([Reply::json(200, &body)]);
        let generator = gemini(&client, &server, json!({"retry": {"max_attempts": 1}}));
        let error = generator.generate(ask()).await.unwrap_err();
        assert_eq!(error.kind(), Kind::RateLimited);
        assert_eq!(
            generator.scope_snapshot().cooldown_remaining,
            Some(ms(2500))
        );
    }
}

#[tokio::test]
async fn an_overloaded_model_is_tried_again_and_its_words_are_kept() {
    let server = Server::always(Reply::json(503, fixture!("error_overloaded.json")));
    let generator = gemini(&client(), &server, json!({}));
    let error = generator.generate(ask()).await.unwrap_err();
    assert_eq!((error.kind(), error.attempts()), (Kind::Overloaded, 3));
    assert!(error.message().contains("overloaded"));
    assert_eq!(server.requests().len(), 3);
}

#[tokio::test]
async fn f10_a_429_is_one_whatever_word_its_body_has() {
    let body = json!({"error": {"code": 429, "status": "UNAVAILABLE", "message": "busy",
        "details": [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "4s"}]}});
    let (client, _clock) = manual();
    let server = Server::start([Reply::json(429, body)]);
    let generator = gemini(&client, &server, json!({"retry": {"max_attempts": 1}}));
    let error = generator.generate(ask()).await.unwrap_err();
    assert_eq!(error.kind(), Kind::RateLimited);
    assert_eq!(
        generator.scope_snapshot().cooldown_remaining,
        Some(ms(4000))
    );
}
