//! Streamed answers. Section B of the field reports, on Google's wire.

use antfly_providers::testing::{Reply, Server};
use antfly_providers::{FinishReason, Kind, StreamEvent};
use serde_json::json;

use crate::support::*;

#[tokio::test]
async fn a_stream_gives_its_deltas_usage_and_finish() {
    let server = Server::start([sse(fixture!("stream_text.sse"))]);
    let generator = gemini(&client(), &server, json!({}));
    let (events, error) = read(&generator).await;
    assert!(error.is_none(), "{error:?}");
    assert_eq!(texts(&events), ["Two and two ", "are four."]);
    assert_eq!(
        events.last(),
        Some(&StreamEvent::Finish {
            reason: FinishReason::Stop,
            raw: "STOP".to_owned()
        })
    );
    let usage = events.iter().rev().find_map(|e| match e {
        StreamEvent::Usage(usage) => Some(*usage),
        _ => None,
    });
    let usage = usage.unwrap();
    assert_eq!(
        (usage.output_tokens, usage.reasoning_tokens),
        (Some(17), Some(11))
    );
    assert_eq!(
        server.requests()[0].path,
        "/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse"
    );
}

#[tokio::test]
async fn c13_two_calls_in_one_chunk_are_both_kept_around_the_text_between_them() {
    for api in Api::ALL {
        let server = Server::start([sse(fixture!("stream_tools.sse"))]);
        let generator = api.generator(&client(), &server, json!({}));
        let (events, error) = read(&generator).await;
        assert!(error.is_none(), "{api:?}: {error:?}");
        let seen: Vec<String> = events
            .iter()
            .filter_map(|event| match event {
                StreamEvent::ToolCall(call) => Some(format!(
                    "{} {} {}",
                    call.index,
                    call.id.as_deref().unwrap(),
                    call.arguments
                )),
                StreamEvent::Text(text) => Some(text.clone()),
                StreamEvent::Finish { reason, .. } => Some(reason.as_str().to_owned()),
                _ => None,
            })
            .collect();
        assert_eq!(
            seen,
            [
                r#"0 fc-1~thought~CsIBAXLI2nw= {"city":"Oslo"}"#,
                "Both at once.",
                r#"1 fc-2 {"city":"Rome"}"#,
                "tool_calls"
            ]
        );
    }
}

#[tokio::test]
async fn b01_a_clean_end_before_a_finish_reason_is_an_error_after_the_deltas() {
    let two: Vec<&str> = fixture!("stream_text.sse").lines().take(2).collect();
    for api in Api::ALL {
        let server = Server::start([Reply::sse(&two)]);
        let (events, error) = read(&api.generator(&client(), &server, json!({}))).await;
        assert_eq!(texts(&events), ["Two and two ", "are four."]);
        let error = error.unwrap();
        assert_eq!(error.kind(), Kind::StreamInterrupted);
        assert_eq!(error.request_id(), Some("resp-3"));
        assert_eq!(server.requests().len(), 1);
    }
}

#[tokio::test]
async fn b01_wherever_the_body_is_cut_it_is_never_a_success() {
    let body: String = fixture!("stream_text.sse")
        .lines()
        .map(|line| format!("data: {line}\r\n\r\n"))
        .collect();
    let finish = body.find("finishReason").unwrap();
    // Every place that matters would be hundreds; these are the ones where a line, an event or a word is cut.
    let cuts: Vec<usize> = (0..finish).step_by(29).collect();
    for api in Api::ALL {
        let server = Server::start(cuts.iter().map(|at| {
            Reply::stream(200, "text/event-stream")
                .chunk(body.as_bytes()[..*at].to_vec())
                .then_close()
        }));
        let once = json!({"retry": {"max_attempts": 1}});
        let generator = api.generator(&client(), &server, once);
        for at in &cuts {
            let kind = read(&generator).await.1.unwrap().kind();
            assert_eq!(kind, Kind::StreamInterrupted, "{api:?} at {at}");
        }
    }
}

#[tokio::test]
async fn b01_a_connection_that_breaks_after_a_finish_reason_is_an_error_as_text_may_follow_it() {
    // Some models say STOP in every chunk: only the body's end says that the answer is whole.
    let all: Vec<&str> = fixture!("stream_text.sse").lines().collect();
    for api in Api::ALL {
        let server = Server::start([Reply::sse(&all).then_abandon()]);
        let (events, error) = read(&api.generator(&client(), &server, json!({}))).await;
        assert_eq!(texts(&events), ["Two and two ", "are four."]);
        assert_eq!(error.unwrap().kind(), Kind::StreamInterrupted, "{api:?}");
        assert_eq!(server.requests().len(), 1);
    }
}

#[tokio::test]
async fn b03_nothing_after_the_finish_makes_an_error() {
    let late = json!({"usageMetadata": {"promptTokenCount": 8, "candidatesTokenCount": 6, "totalTokenCount": 14}});
    let whole = || sse(fixture!("stream_text.sse"));
    // Google has no end mark; a gateway's ends the stream whatever comes then.
    let marked = || whole().event(&late.to_string()).event("[DONE]");
    let replies = [
        whole().then_close(),
        whole().until_close(),
        whole().event(&late.to_string()),
        marked().then_abandon(),
        marked().then_reset(),
        marked().then_hang(),
        marked().event(fixture!("error_overloaded.json").replace('\n', "").as_str()),
        marked().event("{broken"),
    ];
    for api in Api::ALL {
        let server = Server::start(replies.clone());
        let generator = api.generator(&client(), &server, json!({}));
        for number in 0..replies.len() {
            let (events, error) = soon(read(&generator)).await;
            assert!(error.is_none(), "{api:?}, {number}: {error:?}");
            assert_eq!(texts(&events), ["Two and two ", "are four."], "{number}");
        }
        assert_eq!(server.requests().len(), replies.len(), "{api:?}");
    }
}

#[tokio::test]
async fn b05_an_error_inside_the_stream_ends_it_as_the_error_it_is() {
    let first = fixture!("stream_text.sse").lines().next().unwrap();
    let overloaded: serde_json::Value =
        serde_json::from_str(fixture!("error_overloaded.json")).unwrap();
    for api in Api::ALL {
        let server = Server::start([Reply::sse([first.to_owned(), overloaded.to_string()])]);
        let (events, error) = read(&api.generator(&client(), &server, json!({}))).await;
        assert_eq!(texts(&events), ["Two and two "]);
        let error = error.unwrap();
        assert_eq!(
            (error.kind(), error.code()),
            (Kind::Overloaded, Some("UNAVAILABLE"))
        );
        assert_eq!(
            server.requests().len(),
            1,
            "{api:?}: it was asked for again"
        );
    }
}

#[tokio::test]
async fn b12_a_rate_limit_as_the_only_chunk_fails_the_open_and_cools_the_scope() {
    let limited: serde_json::Value = serde_json::from_str(fixture!("error_rate.json")).unwrap();
    for api in Api::ALL {
        let (client, _clock) = manual();
        let server = Server::start([Reply::sse([limited.to_string()])]);
        let one = json!({"retry": {"max_attempts": 1}});
        let generator = api.generator(&client, &server, one);
        let (events, error) = read(&generator).await;
        assert!(events.is_empty());
        let error = error.unwrap();
        assert_eq!((error.kind(), error.attempts()), (Kind::RateLimited, 1));
        assert_eq!(
            generator.scope_snapshot().cooldown_remaining,
            Some(ms(2500))
        );
    }
}

#[tokio::test]
async fn b18_an_error_body_is_read_for_a_stream_as_for_a_plain_call() {
    let key = fixture!("error_key.json");
    let (a, b) = key.split_at(40);
    for api in Api::ALL {
        let server = Server::start([Reply::stream(400, "application/json")
            .chunk(a.to_owned())
            .chunk(b.to_owned())]);
        let (_, error) = read(&api.generator(&client(), &server, json!({}))).await;
        let error = error.unwrap();
        assert_eq!(
            (error.kind(), error.code()),
            (Kind::Auth, Some("API_KEY_INVALID"))
        );
    }
}

#[tokio::test]
async fn c01_a_chunk_that_only_counts_gives_usage_and_no_delta() {
    let count = json!({"usageMetadata": {"promptTokenCount": 3, "totalTokenCount": 3}});
    for api in Api::ALL {
        let lines = fixture!("stream_text.sse").lines().map(str::to_owned);
        let server = Server::start([Reply::sse([count.to_string()].into_iter().chain(lines))]);
        let (events, error) = read(&api.generator(&client(), &server, json!({}))).await;
        assert!(error.is_none(), "{api:?}: {error:?}");
        assert!(matches!(&events[0], StreamEvent::Usage(u) if u.input_tokens == Some(3)));
        assert_eq!(texts(&events), ["Two and two ", "are four."]);
    }
}

#[tokio::test]
async fn c02_a_first_chunk_without_candidates_is_ignored() {
    for api in Api::ALL {
        for candidates in [json!(null), json!([]), json!([{"index": 0}])] {
            let mut first =
                json!({"promptFeedback": {"safetyRatings": []}, "candidates": candidates});
            if candidates.is_null() {
                first.as_object_mut().unwrap().remove("candidates");
            }
            let lines = fixture!("stream_text.sse").lines().map(str::to_owned);
            let server = Server::start([Reply::sse([first.to_string()].into_iter().chain(lines))]);
            let (events, error) = read(&api.generator(&client(), &server, json!({}))).await;
            assert!(error.is_none(), "{api:?}, {first}: {error:?}");
            assert_eq!(texts(&events), ["Two and two ", "are four."], "{first}");
        }
    }
}

#[tokio::test]
async fn c09_a_blocked_prompt_fails_the_open_and_a_late_block_keeps_what_was_said() {
    let one_line = |text: &str| -> String {
        serde_json::from_str::<serde_json::Value>(text)
            .unwrap()
            .to_string()
    };
    let first = fixture!("stream_text.sse").lines().next().unwrap();
    for api in Api::ALL {
        let server = Server::start([
            Reply::sse([one_line(fixture!("blocked_prompt.json"))]),
            Reply::sse([one_line(fixture!("blocked_answer.json"))]),
            Reply::sse([first.to_owned(), one_line(fixture!("blocked_answer.json"))]),
        ]);
        let generator = api.generator(&client(), &server, json!({}));
        for reason in ["OTHER", "SAFETY"] {
            let (events, error) = read(&generator).await;
            let error = error.unwrap();
            assert_eq!(
                (error.kind(), error.code()),
                (Kind::ContentBlocked, Some(reason))
            );
            assert!(!events.iter().any(StreamEvent::is_item), "{events:?}");
        }
        let (events, error) = read(&generator).await;
        assert!(error.is_none(), "{api:?}: {error:?}");
        assert_eq!(texts(&events), ["Two and two "]);
        assert!(
            matches!(events.last(), Some(StreamEvent::Finish { reason: FinishReason::ContentFilter, raw }) if raw == "SAFETY")
        );
        assert_eq!(server.requests().len(), 3);
    }
}

#[tokio::test]
async fn a_finish_reason_in_every_chunk_is_the_last_ones_and_comes_last() {
    let said = |text: &str, finish: &str| {
        json!({"candidates": [{"content": {"parts": [{"text": text}]}, "finishReason": finish}]})
            .to_string()
    };
    let call = json!({"candidates": [{"content": {"parts": [{"functionCall": {"name": "f"}}]}, "finishReason": "STOP"}]});
    for (chunks, reason, raw) in [
        (
            [said("a", "STOP"), said("b", "MAX_TOKENS")],
            FinishReason::Length,
            "MAX_TOKENS",
        ),
        (
            [said("a", "STOP"), call.to_string()],
            FinishReason::ToolCalls,
            "STOP",
        ),
        (
            [said("a", "FINISH_REASON_UNSPECIFIED"), said("b", "STOP")],
            FinishReason::Stop,
            "STOP",
        ),
        (
            [said("a", "STOP"), said("", "SAFETY")],
            FinishReason::ContentFilter,
            "SAFETY",
        ),
    ] {
        let server = Server::start([Reply::sse(chunks)]);
        let (events, error) = read(&gemini(&client(), &server, json!({}))).await;
        assert!(error.is_none(), "{error:?}");
        let ends = events
            .iter()
            .filter(|event| matches!(event, StreamEvent::Finish { .. }));
        assert_eq!(ends.count(), 1, "{events:?}");
        let raw = raw.to_owned();
        assert_eq!(events.last(), Some(&StreamEvent::Finish { reason, raw }));
    }
}

#[tokio::test]
async fn c09_a_blocked_prompt_with_a_candidate_in_name_only_is_blocked() {
    let body = json!({"candidates": [{"index": 0}], "promptFeedback": {"blockReason": "SAFETY"}});
    for api in Api::ALL {
        let server = Server::start([
            Reply::sse([body.to_string()]),
            Reply::json(200, &body),
            Reply::json(200, json!({"candidates": [{"index": 0}]})),
        ]);
        let generator = api.generator(&client(), &server, json!({}));
        let streamed = read(&generator).await.1.unwrap();
        let plain = generator.generate(ask()).await.unwrap_err();
        for error in [streamed, plain] {
            assert_eq!(
                (error.kind(), error.code()),
                (Kind::ContentBlocked, Some("SAFETY"))
            );
        }
        let nothing = generator.generate(ask()).await.unwrap_err();
        assert_eq!(nothing.kind(), Kind::InvalidResponse, "{nothing}");
    }
}
