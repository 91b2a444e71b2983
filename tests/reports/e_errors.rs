//! E. Plain bodies and what errors become.

use antfly_framework::Kind;
use antfly_framework::testing::{Reply, Server};
use serde_json::json;

use crate::support::{Way, answer, ask, client, generator, manual, ms, secs};

const PAGE: &str = "<html><head><title>Sign in</title></head><body>please</body></html>";

/// A page as the answer to each of these ways to ask.
async fn page_instead(ways: &[Way]) {
    for way in ways.iter().copied() {
        for content_type in [
            Some("text/html; charset=utf-8"),
            None,
            Some("application/json"),
        ] {
            let mut reply = Reply::status(200).chunk(PAGE);
            if let Some(value) = content_type {
                reply = reply.header("content-type", value);
            }
            let server = Server::always(reply);
            let asker = way.open(&client(), &server, json!({}));
            let error = asker.ask().await.unwrap_err();
            let about = format!("{way:?} {content_type:?}: {error}");
            assert_eq!(error.kind(), Kind::InvalidResponse, "{about}");
            assert_eq!(error.status(), Some(200), "{about}");
            let named = content_type.map_or("no content type", |t| t.split(';').next().unwrap());
            assert!(error.message().contains(named), "{about}");
            assert!(error.message().contains("<html>"), "{about}");
            assert!(error.message().len() < 1000, "{about}");
            assert_eq!(server.requests().len(), 1, "{about}");
        }
    }
}

#[tokio::test]
async fn e01_a_page_with_status_200_is_an_invalid_response() {
    page_instead(&[Way::Generate, Way::Embed, Way::Rerank]).await;
}

#[tokio::test]
async fn e01_so_it_is_where_a_stream_was_asked_for() {
    page_instead(&[Way::Stream]).await;
}

#[tokio::test]
async fn e01_a_body_cut_off_inside_its_json_is_one_too() {
    for way in [Way::Generate, Way::Embed, Way::Rerank] {
        let server = Server::always(Reply::json(200, "{\"data\": [{\"ind"));
        let asker = way.open(&client(), &server, json!({}));
        let error = asker.ask().await.unwrap_err();
        assert_eq!(error.kind(), Kind::InvalidResponse, "{way:?}");
        assert_eq!(server.requests().len(), 1, "{way:?}");
    }
}

#[tokio::test]
async fn e02_a_page_with_an_error_status_is_classified_by_the_status() {
    for way in Way::ALL {
        for (status, kind) in [
            (502, Kind::Server),
            (503, Kind::Overloaded),
            (504, Kind::Server),
        ] {
            let page = format!("<html><title>{status}</title>{}</html>", "x".repeat(50_000));
            let server = Server::always(Reply::bytes(status, "text/html", page));
            let asker = way.open(&client(), &server, json!({}));
            let error = asker.ask().await.unwrap_err();
            assert_eq!(error.kind(), kind, "{way:?}");
            assert_eq!(error.status(), Some(status));
            assert!(error.is_retryable());
            assert!(error.message().len() < 5000);
            assert_eq!(server.requests().len(), 3, "{way:?} {status}");
        }
    }
}

#[tokio::test]
async fn e06_a_rate_limit_inside_a_200_is_retried_as_a_429() {
    let limited = json!({"error": {"code": 429, "message": "slow down"}});
    for way in [Way::Generate, Way::Embed] {
        let server = Server::start([Reply::json(200, &limited), way.good()]);
        let asker = way.open(&client(), &server, json!({}));
        asker.ask().await.unwrap();
        assert_eq!(server.requests().len(), 2, "{way:?}");

        let server = Server::always(Reply::json(200, &limited));
        let asker = way.open(&client(), &server, json!({}));
        let error = asker.ask().await.unwrap_err();
        assert_eq!(error.kind(), Kind::RateLimited, "{way:?}");
        assert_eq!(error.message(), "slow down");
        assert_eq!((error.code(), error.attempts()), (Some("429"), 3));
    }
}

#[tokio::test]
async fn e06_its_hint_cools_the_scope() {
    for way in [Way::Generate, Way::Stream, Way::Embed] {
        let (client, _clock) = manual();
        let limited = Reply::json(200, json!({"error": {"code": 429, "message": "slow down"}}))
            .header("retry-after", "3");
        let server = Server::start([limited]);
        let asker = way.open(&client, &server, json!({"retry": {"max_attempts": 1}}));
        let error = asker.ask().await.unwrap_err();
        assert_eq!(error.kind(), Kind::RateLimited, "{way:?}");
        assert_eq!(error.retry_after(), Some(secs(3)), "{way:?}");
        assert_eq!(
            asker.snapshot().cooldown_remaining,
            Some(secs(3)),
            "{way:?}"
        );
    }
}

#[tokio::test]
async fn e08_the_last_error_is_the_providers_own() {
    for way in Way::ALL {
        let server = Server::always(
            Reply::json(
                429,
                json!({"error": {"message": "too fast for this plan", "code": "rate_limit_exceeded"}}),
            )
            .header("x-request-id", "r9"),
        );
        let asker = way.open(&client(), &server, json!({}));
        let error = asker.ask().await.unwrap_err();
        assert_eq!(error.kind(), Kind::RateLimited, "{way:?}");
        assert_eq!(error.status(), Some(429));
        assert_eq!(error.message(), "too fast for this plan");
        assert_eq!(error.request_id(), Some("r9"), "{way:?}");
        assert_eq!(error.attempts(), 3);
        if way != Way::Rerank {
            assert_eq!(error.code(), Some("rate_limit_exceeded"));
        }
        assert_eq!(server.requests().len(), 3);
    }
}

#[tokio::test]
async fn e08_attempts_are_counted_when_they_end_for_different_reasons() {
    let server = Server::start([
        Reply::json(429, json!({"error": {"message": "first"}})),
        Reply::status(503),
        Reply::json(400, json!({"error": {"message": "last"}})),
    ]);
    let error = generator(&client(), &server, json!({}))
        .generate(ask())
        .await
        .unwrap_err();
    assert_eq!(error.kind(), Kind::InvalidRequest);
    assert_eq!((error.message(), error.attempts()), ("last", 3));
}

#[tokio::test]
async fn e09_the_message_of_a_4xx_is_surfaced() {
    for way in Way::ALL {
        for body in [
            json!({"error": {"message": "input must not be empty"}}).to_string(),
            json!("input must not be empty").to_string(),
            json!({"error": "input must not be empty"}).to_string(),
            "input must not be empty".to_owned(),
        ] {
            let server = Server::always(Reply::json(400, &body));
            let asker = way.open(&client(), &server, json!({}));
            let error = asker.ask().await.unwrap_err();
            assert_eq!(error.kind(), Kind::InvalidRequest, "{way:?}");
            assert_eq!(error.message(), "input must not be empty", "{way:?} {body}");
            assert_eq!(server.requests().len(), 1);
        }
    }
}

#[tokio::test]
async fn e09_a_huge_message_is_bounded() {
    for way in [Way::Generate, Way::Stream, Way::Rerank] {
        let huge = format!(
            "{{\"error\": {{\"message\": \"it is {}",
            "so ".repeat(3_500_000)
        );
        let server = Server::always(Reply::json(400, huge));
        let asker = way.open(&client(), &server, json!({}));
        let error = asker.ask().await.unwrap_err();
        assert_eq!(error.kind(), Kind::InvalidRequest, "{way:?}");
        assert!(error.message().contains("it is so"), "{way:?}");
        assert!(error.to_string().len() < 5000, "{way:?}");
        assert!(format!("{error:?}").len() < 6000, "{way:?}");
    }
}

#[tokio::test]
async fn e09_a_secret_that_is_echoed_is_not_shown() {
    let key = "sk-hunter2hunter2hunter2";
    for way in Way::ALL {
        for body in [
            json!({"error": {"message": format!("bad key {key} in Bearer {key}"), "code": key}})
                .to_string(),
            format!("no: {key}"),
        ] {
            let server = Server::always(Reply::json(401, body).header("x-request-id", key));
            let asker = way.open(&client(), &server, json!({"api_key": key}));
            let error = asker.ask().await.unwrap_err();
            assert_eq!(error.kind(), Kind::Auth, "{way:?}");
            let shown = format!("{error} {error:?} {asker:?}");
            assert!(!shown.contains("hunter2"), "{way:?}: {shown}");
            let sent = &server.requests()[0];
            assert_eq!(
                sent.header("authorization"),
                Some(&*format!("Bearer {key}"))
            );
        }
    }
}

#[tokio::test]
async fn e10_class_and_delay_survive_the_streaming_path() {
    for (reply, kind, wait, retryable) in [
        (Reply::status(401), Kind::Auth, None, false),
        (
            Reply::status(429).header("retry-after", "7"),
            Kind::RateLimited,
            Some(secs(7)),
            true,
        ),
        (Reply::status(503), Kind::Overloaded, None, true),
        (
            Reply::status(503).header("retry-after-ms", "1500"),
            Kind::Overloaded,
            Some(ms(1500)),
            true,
        ),
    ] {
        let (client, _clock) = manual();
        let server = Server::always(reply);
        let generator = generator(&client, &server, json!({"retry": {"max_attempts": 1}}));
        let streamed = generator.stream(ask()).await.unwrap_err();
        assert_eq!(streamed.kind(), kind);
        assert_eq!(streamed.retry_after(), wait);
        assert_eq!(streamed.is_retryable(), retryable);
        generator.clear_cooldown();
        let plain = generator.generate(ask()).await.unwrap_err();
        assert_eq!(plain.to_string(), streamed.to_string());
    }
}

#[tokio::test]
async fn e13_a_kept_connection_that_closes_unanswered_is_retried_with_a_new_admission() {
    for gone in [Reply::close(), Reply::reset()] {
        let server = Server::start([answer("one"), gone, answer("two")]);
        let generator = generator(&client(), &server, json!({}));
        generator.generate(ask()).await.unwrap();
        let second = generator.generate(ask()).await.unwrap();
        assert_eq!(second.text, "two");
        let requests = server.requests();
        assert_eq!(requests.len(), 3);
        assert_eq!(
            requests[0].connection, requests[1].connection,
            "the kept connection was used"
        );
        assert_eq!(generator.scope_snapshot().counters.admitted, 3);
    }
}

#[tokio::test]
async fn e13_the_transport_error_is_typed_when_tries_are_over() {
    let server = Server::always(Reply::close());
    let generator = generator(
        &client(),
        &server,
        json!({"retry": {"max_attempts": 2, "initial_backoff_ms": 1}}),
    );
    let error = generator.generate(ask()).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Transport);
    assert!(error.is_retryable());
    assert_eq!((error.status(), error.attempts()), (None, 2));
    assert_eq!(server.requests().len(), 2);
    assert_eq!(generator.scope_snapshot().counters.admitted, 2);
    assert_eq!(generator.scope_snapshot().active, 0);
}

#[tokio::test]
async fn e13_an_answer_that_had_begun_is_not_asked_for_again() {
    for way in Way::ALL {
        let server = Server::start([Reply::json(200, "x".repeat(100)).cut_after(10), way.good()]);
        let asker = way.open(&client(), &server, json!({}));
        let error = asker.ask().await.unwrap_err();
        assert_eq!(error.kind(), Kind::Transport, "{way:?}: {error}");
        assert!(!error.is_retryable(), "{way:?}");
        assert_eq!(error.status(), Some(200), "{way:?}");
        assert_eq!(server.requests().len(), 1, "{way:?}");
    }
}
