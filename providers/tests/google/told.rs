//! What is made of Google's refusals.

use antfly_providers::testing::{Reply, Server};
use antfly_providers::{CallOptions, EmbedRequest, Kind};
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
    for api in Api::ALL {
        for (status, kind, requests) in [
            (404, Kind::NotFound, 1),
            (502, Kind::Server, 3),
            (503, Kind::Overloaded, 3),
            (504, Kind::Server, 3),
        ] {
            let html = Reply::bytes(status, "text/html; charset=UTF-8", page);
            let server = Server::always(html);
            let generator = api.generator(&client(), &server, json!({}));
            let error = generator.generate(ask()).await.unwrap_err();
            assert_eq!(
                (error.kind(), error.status()),
                (kind, Some(status)),
                "{api:?}"
            );
            assert!(error.message().contains("Error 404"), "{error}");
            assert_eq!(server.requests().len(), requests, "{api:?} {status}");
        }
        let server = Server::always(Reply::bytes(200, "text/html", page));
        let generator = api.generator(&client(), &server, json!({}));
        let error = generator.generate(ask()).await.unwrap_err();
        assert_eq!(error.kind(), Kind::InvalidResponse, "{api:?}");
    }
}

#[tokio::test]
async fn e09_the_message_of_a_4xx_is_surfaced_in_whatever_form_and_bounded() {
    let words = "input must not be empty";
    let google = json!({"error": {"code": 400, "status": "INVALID_ARGUMENT", "message": words}});
    let bodies = [
        google.to_string(),
        json!([google]).to_string(),
        json!({"error": words}).to_string(),
        json!(words).to_string(),
        words.to_owned(),
    ];
    let huge = format!("it is {}", "so ".repeat(3_500_000));
    for api in Api::ALL {
        for body in &bodies {
            let server = Server::always(Reply::json(400, body));
            let generator = api.generator(&client(), &server, json!({}));
            for error in [
                generator.generate(ask()).await.unwrap_err(),
                read(&generator).await.1.unwrap(),
            ] {
                assert_eq!(error.kind(), Kind::InvalidRequest, "{api:?} {body}");
                assert_eq!(error.message(), words, "{api:?} {body}");
            }
            assert_eq!(server.requests().len(), 2, "{api:?} {body}");
        }
        let long = json!({"error": {"code": 400, "message": huge}}).to_string();
        for body in [long, huge.clone()] {
            let server = Server::always(Reply::json(400, body));
            let generator = api.generator(&client(), &server, json!({}));
            let error = generator.generate(ask()).await.unwrap_err();
            assert_eq!(error.kind(), Kind::InvalidRequest, "{api:?}");
            assert!(error.message().contains("it is so"), "{api:?}");
            let shown = error.to_string().len() + format!("{error:?}").len();
            assert!(shown < 11_000, "{api:?}: {shown} bytes");
        }
    }
}

#[tokio::test]
async fn e09_a_secret_that_is_echoed_is_not_shown() {
    for api in Api::ALL {
        let secret = match api {
            Api::Gemini => KEY,
            Api::Vertex => TOKEN,
        };
        for body in [
            json!({"error": {"code": 403, "status": secret, "message": format!("no: {secret}")}})
                .to_string(),
            format!("no: {secret}"),
        ] {
            let server = Server::always(Reply::json(403, body));
            let generator = api.generator(&client(), &server, json!({}));
            let error = generator.generate(ask()).await.unwrap_err();
            assert_eq!(error.kind(), Kind::Auth, "{api:?}");
            let shown = format!("{error} {error:?} {generator:?}");
            assert!(!shown.contains("0123456789"), "{api:?}: {shown}");
            let sent = &server.requests()[0];
            let header = sent.header("x-goog-api-key");
            let header = header.or(sent.header("authorization")).unwrap();
            assert!(header.ends_with(secret), "{api:?} sent another");
        }
    }
}

#[tokio::test]
async fn h20_an_input_the_server_fails_on_ends_after_bounded_tries_and_costs_only_its_batch() {
    let words = "failed to encode response: json: unsupported value: NaN";
    for api in Api::ALL {
        let server = Server::with(move |request| {
            let texts = api.texts(request);
            if texts.iter().any(|text| text == "3") {
                return Reply::json(
                    500,
                    json!({"error": {"code": 500, "status": "INTERNAL", "message": words}}),
                );
            }
            let numbers: Vec<f32> = texts.iter().map(|text| text.parse().unwrap()).collect();
            api.vectors(&numbers)
        });
        let embedder = api.embedder(&client(), &server, json!({}));
        let texts = (0..6).map(|n| n.to_string());
        let request = EmbedRequest::texts(texts).with_batch_size(2);
        let parts = embedder.embed_parts(request, CallOptions::default());
        let parts = parts.await.unwrap();
        assert_eq!(parts.len(), 3, "{api:?}");
        for part in parts {
            if part.items == (2..4) {
                let error = part.result.unwrap_err();
                assert_eq!((error.kind(), error.attempts()), (Kind::Server, 3));
                assert_eq!(error.message(), words, "{api:?}");
            } else {
                let expected: Vec<f32> = part.items.map(|n| n as f32).collect();
                assert_eq!(part.result.unwrap().as_flat(), expected, "{api:?}");
            }
        }
        assert_eq!(server.requests().len(), 5, "{api:?}");
    }
}

#[tokio::test]
async fn h21_413_is_a_request_too_large_and_not_tried_again() {
    for api in Api::ALL {
        let server = Server::always(Reply::text(413, "length limit exceeded"));
        let embedder = api.embedder(&client(), &server, json!({}));
        let embed = embedder.embed(EmbedRequest::texts(["a"])).await;
        let generator = api.generator(&client(), &server, json!({}));
        let generate = generator.generate(ask()).await;
        for error in [embed.unwrap_err(), generate.unwrap_err()] {
            assert_eq!(error.kind(), Kind::RequestTooLarge, "{api:?}");
            assert_eq!(error.message(), "length limit exceeded", "{api:?}");
            assert!(!error.is_retryable(), "{api:?}");
        }
        assert_eq!(server.requests().len(), 2, "{api:?}");
    }
}

#[tokio::test]
async fn e06_an_error_inside_a_200_is_the_error_it_is_also_wrapped_in_a_list() {
    let limited: serde_json::Value = serde_json::from_str(fixture!("error_rate.json")).unwrap();
    for api in Api::ALL {
        for body in [limited.clone(), json!([limited])] {
            let (client, _clock) = manual();
            let server = Server::start([Reply::json(200, &body)]);
            let generator = api.generator(&client, &server, json!({"retry": {"max_attempts": 1}}));
            let error = generator.generate(ask()).await.unwrap_err();
            assert_eq!(error.kind(), Kind::RateLimited);
            assert_eq!(
                generator.scope_snapshot().cooldown_remaining,
                Some(ms(2500))
            );
        }
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
