//! Plain answers of `generateContent`.

use antfly_providers::testing::{Reply, Server};
use antfly_providers::{FinishReason, Kind, Usage};
use serde_json::json;

use crate::support::*;

#[tokio::test]
async fn an_answer_gives_text_reasoning_usage_and_ids() {
    let server = Server::start([Reply::json(200, fixture!("generate.json"))]);
    let answer = gemini(&client(), &server, json!({}))
        .generate(ask())
        .await
        .unwrap();
    assert_eq!(answer.text, "Two and two are four.");
    assert_eq!(answer.reasoning.as_deref(), Some("Adding."));
    assert_eq!(answer.finish_reason, Some(FinishReason::Stop));
    assert_eq!(answer.raw_finish_reason.as_deref(), Some("STOP"));
    assert_eq!(answer.id.as_deref(), Some("resp-1"));
    assert_eq!(answer.model.as_deref(), Some("gemini-2.5-flash"));
    // Google counts thoughts beside the candidates: 6 and 11 were written.
    let usage = Usage {
        input_tokens: Some(8),
        output_tokens: Some(17),
        total_tokens: Some(25),
        cached_input_tokens: Some(2),
        reasoning_tokens: Some(11),
    };
    assert_eq!(answer.usage, Some(usage));

    let sent = &server.requests()[0];
    assert_eq!(sent.path, "/v1beta/models/gemini-2.5-flash:generateContent");
    assert_eq!(sent.header("x-goog-api-key"), Some(KEY));
    assert_eq!(sent.header("authorization"), None);
    assert_eq!(
        sent.json(),
        json!({"contents": [{"role": "user", "parts": [{"text": "hi"}]}]})
    );
}

#[tokio::test]
async fn c13_all_calls_of_an_answer_are_kept_in_order_and_carry_their_signature() {
    for api in Api::ALL {
        let server = Server::start([Reply::json(200, fixture!("generate_tools.json"))]);
        let answer = api
            .generator(&client(), &server, json!({}))
            .generate(ask())
            .await
            .unwrap();
        let calls: Vec<_> = answer
            .tool_calls
            .iter()
            .map(|call| (call.name.as_str(), call.arguments.as_str()))
            .collect();
        assert_eq!(
            calls,
            [
                ("weather", r#"{"city":"Oslo"}"#),
                ("weather", r#"{"city":"Rome"}"#)
            ]
        );
        assert_ne!(answer.tool_calls[0].id, answer.tool_calls[1].id);
        assert!(answer.tool_calls[0].id.ends_with("CsIBAXLI2nw+/sig=="));
        assert_eq!(answer.text, "Both at once.");
        // A model that wants tools called says STOP as well.
        assert_eq!(answer.finish_reason, Some(FinishReason::ToolCalls));
        assert_eq!(answer.raw_finish_reason.as_deref(), Some("STOP"));
    }
}

#[tokio::test]
async fn c09_a_blocked_prompt_is_told_with_reason_and_usage_and_not_retried() {
    for api in Api::ALL {
        let server = Server::start([Reply::json(200, fixture!("blocked_prompt.json"))]);
        let error = api
            .generator(&client(), &server, json!({}))
            .generate(ask())
            .await
            .unwrap_err();
        assert_eq!(
            (error.kind(), error.code(), error.attempts()),
            (Kind::ContentBlocked, Some("OTHER"), 1)
        );
        assert_eq!(error.request_id(), Some("resp-5"));
        for part in [
            "the prompt was blocked: OTHER",
            "HARM_CATEGORY_DANGEROUS_CONTENT",
            "9 tokens",
        ] {
            assert!(error.message().contains(part), "{error}");
        }
    }
}

#[tokio::test]
async fn c09_an_answer_blocked_whole_is_told_as_such_and_one_cut_short_keeps_its_text() {
    let cut = json!({"candidates": [{"content": {"parts": [{"text": "It is"}]}, "finishReason": "PROHIBITED_CONTENT"}]});
    for api in Api::ALL {
        let server = Server::start([
            Reply::json(200, fixture!("blocked_answer.json")),
            Reply::json(200, &cut),
        ]);
        let generator = api.generator(&client(), &server, json!({}));
        let error = generator.generate(ask()).await.unwrap_err();
        assert_eq!(
            (error.kind(), error.code(), error.attempts()),
            (Kind::ContentBlocked, Some("SAFETY"), 1)
        );
        assert!(error.message().contains("HARM_CATEGORY_DANGEROUS_CONTENT"));
        assert!(!error.message().contains("HATE_SPEECH"), "{error}");
        let answer = generator.generate(ask()).await.unwrap();
        assert_eq!(
            (answer.text.as_str(), answer.finish_reason),
            ("It is", Some(FinishReason::ContentFilter))
        );
    }
}

#[tokio::test]
async fn every_finish_reason_has_a_normal_form_and_keeps_its_word() {
    let answer = |word: &str| {
        Reply::json(
            200,
            json!({"candidates": [{"content": {"parts": [{"text": "a"}]}, "finishReason": word}]}),
        )
    };
    let expected = [
        ("STOP", FinishReason::Stop),
        ("MAX_TOKENS", FinishReason::Length),
        ("SAFETY", FinishReason::ContentFilter),
        ("RECITATION", FinishReason::ContentFilter),
        ("BLOCKLIST", FinishReason::ContentFilter),
        ("SPII", FinishReason::ContentFilter),
        (
            "MALFORMED_FUNCTION_CALL",
            FinishReason::Other("malformed_function_call".to_owned()),
        ),
        ("A_NEW_ONE", FinishReason::Other("a_new_one".to_owned())),
    ];
    let server = Server::start(expected.iter().map(|(word, _)| answer(word)));
    let generator = gemini(&client(), &server, json!({}));
    for (word, reason) in expected {
        let answer = generator.generate(ask()).await.unwrap();
        assert_eq!(answer.finish_reason, Some(reason));
        assert_eq!(answer.raw_finish_reason.as_deref(), Some(word));
    }
}

#[tokio::test]
async fn c08_c12_an_answer_without_candidates_is_a_typed_error() {
    for api in Api::ALL {
        for body in [
            json!({"candidates": null, "responseId": "r-9"}),
            json!({"candidates": [], "responseId": "r-9"}),
            json!({"responseId": "r-9", "promptFeedback": {}}),
        ] {
            let server = Server::start([Reply::json(200, &body)]);
            let error = api
                .generator(&client(), &server, json!({}))
                .generate(ask())
                .await
                .unwrap_err();
            assert_eq!(error.kind(), Kind::InvalidResponse, "{api:?}: {body}");
            assert_eq!((error.request_id(), error.attempts()), (Some("r-9"), 1));
        }
    }
}

#[tokio::test]
async fn unknown_parts_and_nulls_never_fail_an_answer() {
    let body = json!({"candidates": [{"content": {"parts": [
        {"executableCode": {"language": "PYTHON", "code": "1"}}, {"text": null}, {"text": "a", "thought": null},
        {"functionCall": {"name": "f", "args": null}}, {"functionCall": {"name": "g"}}]},
        "finishReason": "STOP", "safetyRatings": null, "groundingMetadata": {"x": []}}],
        "usageMetadata": {"promptTokenCount": null, "trafficType": "ON_DEMAND"}, "createTime": "2026-01-01T00:00:00Z"});
    let server = Server::start([Reply::json(200, body)]);
    let answer = gemini(&client(), &server, json!({}))
        .generate(ask())
        .await
        .unwrap();
    assert_eq!((answer.text.as_str(), answer.usage), ("a", None));
    assert_eq!(answer.tool_calls.len(), 2);
    assert!(answer.tool_calls.iter().all(|call| call.arguments == "{}"));
}
