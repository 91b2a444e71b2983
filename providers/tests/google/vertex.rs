//! `generateContent` of Vertex AI: the wire is the Gemini API's; place, credentials and media are its own.

use antfly_providers::testing::{Reply, Server};
use antfly_providers::{Env, GenerateRequest, Kind, Message, Part};
use serde_json::json;

use crate::google::*;
use crate::support::*;

#[tokio::test]
async fn it_generates_whole_and_streamed_under_its_project_and_location() {
    let google = Google::start();
    let server = Server::start([good(), sse(fixture!("stream_tools.sse"))]);
    let path = google.file(&google.user());
    let extra = with_file(&path, json!({"location": "global", "max_tokens": 64}));
    let generator = vertex(&client_of(Env::empty()), &server, extra);
    let answer = generator.generate(ask()).await.unwrap();
    assert_eq!(answer.text, "Two and two are four.");
    assert_eq!(answer.usage.unwrap().reasoning_tokens, Some(11));
    let stream = generator.stream(ask()).await.unwrap();
    let streamed = stream.collect_generation().await.unwrap();
    assert_eq!(streamed.tool_calls.len(), 2);
    let sent = server.requests();
    let model = "/v1/projects/p-1/locations/global/publishers/google/models/gemini-2.5-flash";
    assert_eq!(sent[0].path, format!("{model}:generateContent"));
    assert_eq!(
        sent[1].path,
        format!("{model}:streamGenerateContent?alt=sse")
    );
    assert_eq!(bearers(&server), ["token-1", "token-1"]);
    assert_eq!(
        sent[0].json(),
        json!({"contents": [{"role": "user", "parts": [{"text": "hi"}]}], "generationConfig": {"maxOutputTokens": 64}})
    );
    assert!(
        sent.iter()
            .all(|r| r.header("x-goog-user-project").is_none())
    );
}

#[tokio::test]
async fn j13_a_full_resource_name_decides_where_it_goes() {
    let google = Google::start();
    let server = model();
    let path = google.file(&google.user());
    let name = "projects/p-2/locations/europe-west4/endpoints/77";
    let extra = json!({"credentials_path": path, "model": name});
    let generator = vertex(&client_of(Env::empty()), &server, extra);
    generator.generate(ask()).await.unwrap();
    assert_eq!(
        server.requests()[0].path,
        format!("/v1/{name}:generateContent")
    );
    let scope = generator.scope().to_string();
    for part in ["p-2", "europe-west4", "endpoints/77"] {
        assert!(scope.contains(part), "{scope}");
    }
}

#[tokio::test]
async fn files_need_a_mime_type_and_come_from_cloud_storage_or_the_web() {
    let google = Google::start();
    let server = model();
    let generator = google.generator(&server, json!({}));
    let with = |url: &str| {
        let mut message = Message::user("what is it?");
        message.content.push(Part::image_url(url));
        GenerateRequest::messages([message])
    };
    generator.generate(with("gs://b/cat.png")).await.unwrap();
    assert_eq!(
        server.requests()[0].json()["contents"][0]["parts"][1],
        json!({"fileData": {"mimeType": "image/png", "fileUri": "gs://b/cat.png"}})
    );
    let error = generator.generate(with("gs://b/cat")).await.unwrap_err();
    assert_eq!((error.kind(), error.attempts()), (Kind::MediaNotAllowed, 0));
}

#[tokio::test]
async fn g10_the_server_sees_as_many_requests_as_there_are_attempts() {
    let google = Google::start();
    let path = google.file(&google.user());
    for (status, body) in [
        (503, fixture!("error_overloaded.json")),
        (429, fixture!("error_shared.json")),
    ] {
        let server = Server::always(Reply::json(status, body));
        let generator = vertex(
            &client_of(Env::empty()),
            &server,
            with_file(&path, json!({})),
        );
        let error = generator.generate(ask()).await.unwrap_err();
        assert_eq!(error.attempts(), 3);
        assert_eq!(server.requests().len(), 3);
        assert_eq!(generator.scope_snapshot().counters.admitted, 3);
    }
}

#[tokio::test]
async fn media_under_a_token_budget_are_refused_before_any_token_is_asked_for() {
    let google = Google::start();
    let server = Server::start([]);
    let limits = json!({"rate_limit": {"tokens_per_minute": 100_000}});
    let generator = google.generator(&server, limits);
    for part in [
        Part::image_url("gs://b/cat.png"),
        Part::image_url("data:image/png;base64,AQI="),
        Part::media(vec![1], "audio/wav"),
    ] {
        let mut message = Message::user("what is it?");
        message.content.push(part);
        let error = generator
            .generate(GenerateRequest::messages([message]))
            .await
            .unwrap_err();
        assert_eq!(error.kind(), Kind::MediaNotAllowed);
    }
    assert!(google.server.requests().is_empty());
}
