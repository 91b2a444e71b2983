//! How long a run lasts: to its end, to its caller's deadline, or until nobody listens.

use std::path::PathBuf;
use std::time::Duration;

use antfly_framework::provider::{InferenceEngine as _, LocalAnswer, LocalRequest};
use antfly_framework::testing::ManualClock;
use antfly_providers::generate::Tool;
use antfly_providers::in_process::Engine;
use antfly_providers::{
    CallOptions, Client, Env, GenerateRequest, Generator, Kind, Limiter, StreamEvent, Time,
};

use futures::StreamExt as _;
use serde_json::json;

use crate::answers::greedy;
use crate::tiny::{self, Meta};
use crate::{entry, generator};

/// A model that never ends, in a file of its own.
fn endless(name: &str) -> PathBuf {
    let mut file = tiny::scripted(&[], |t| vec![if t == "a" { "b" } else { "a" }.to_owned()]);
    file.set("llama.context_length", Meta::U32(1_000_000_000));
    file.write(name)
}

fn of(tokens: u32) -> GenerateRequest {
    let mut request = greedy();
    request.max_tokens = Some(tokens);
    request
}

/// On a clock that moves only when told.
fn timed(model: &std::path::Path, timeout: Duration) -> (Generator, ManualClock) {
    let (time, clock) = Time::manual();
    let client = Client::builder()
        .registry(antfly_providers::registry().unwrap())
        .limiter(Limiter::new(time))
        .env(Env::empty())
        .build()
        .unwrap();
    let mut entry = entry(model);
    (entry.timeout, entry.stream_idle_timeout) = (timeout, Duration::from_secs(3600));
    (client.generator(&entry).unwrap(), clock)
}

#[tokio::test]
async fn d01_a_stream_outlives_the_entrys_timeout_while_its_run_goes_on() {
    let (generator, clock) = timed(&endless("outlives"), Duration::from_millis(600));
    let mut stream = generator.stream(of(1_000_000_000)).await.unwrap();
    for _ in 0..50 {
        let event = stream.next().await.unwrap();
        assert!(matches!(event, Ok(StreamEvent::Text(_))), "{event:?}");
        clock.advance(Duration::from_millis(900));
    }
    drop(stream);
    // And one that is read late to its end.
    let mut stream = generator.stream(of(20)).await.unwrap();
    let mut text = String::new();
    while let Some(event) = stream.next().await {
        if let StreamEvent::Text(more) = event.unwrap() {
            text.push_str(&more);
        }
        clock.advance(Duration::from_millis(900));
    }
    assert_eq!(text.len(), 20);
}

#[tokio::test]
async fn d01_a_callers_own_deadline_ends_a_stream_and_its_run() {
    let (generator, clock) = timed(&endless("own-deadline"), Duration::from_secs(600));
    let options = CallOptions::default().with_timeout(Duration::from_secs(3));
    let mut stream = generator
        .stream_with(of(1_000_000_000), options)
        .await
        .unwrap();
    stream.next().await.unwrap().unwrap();
    clock.advance(Duration::from_secs(3));
    // What the model had said by then may still come.
    let e = loop {
        if let Err(e) = stream.next().await.unwrap() {
            break e;
        }
    };
    assert_eq!(e.kind(), Kind::DeadlineExceeded, "{e}");
    assert!(stream.next().await.is_none());
    // The stream is kept, and the one slot is free all the same.
    let answer = generator.generate(of(3)).await.unwrap();
    assert_eq!(answer.text.len(), 3);
    drop(stream);
}

#[tokio::test]
async fn d12_a_run_that_holds_a_tool_call_back_is_not_silent() {
    let call = [
        r#"{"name": "#,
        r#""clock", "#,
        r#""arguments": "#,
        "{}",
        "}",
    ];
    let parts = [&["<tool_call>"][..], &call, &["</tool_call>"]].concat();
    let mut file = tiny::saying(&parts, "<|im_end|>");
    let template = "{% if tools %}{{ tools | tojson }}<tool_call>{% endif %}{% for m in messages %}{{ m['content'] }}\n{% endfor %}";
    file.set("tokenizer.chat_template", Meta::text(template));
    let path = file.write("held-back");
    let mut request = greedy();
    request.tools = vec![Tool::from_json(&json!({"name": "clock"})).unwrap()];

    let local = Engine::new("/nowhere").open(&entry(&path)).unwrap();
    let answer = local.run(LocalRequest::Stream(request.clone())).await;
    let Ok(LocalAnswer::Stream(events)) = answer else {
        panic!("no stream");
    };
    let events: Vec<_> = events.map(Result::unwrap).collect().await;
    let calls = |e: &&StreamEvent| matches!(e, StreamEvent::ToolCall(_));
    let first = events.iter().position(|e| calls(&e)).unwrap();
    // The call's own token shows the call; each one before it, that the model works.
    assert_eq!(first, parts.len() - 1, "{events:?}");

    // None of this reaches the caller.
    let mut stream = generator(&path).stream(request).await.unwrap();
    let mut told = Vec::new();
    while let Some(event) = stream.next().await {
        told.push(event.unwrap());
    }
    assert_eq!(told.iter().filter(calls).count(), 1);
    assert!(
        !told.iter().any(|e| matches!(e, StreamEvent::Meta { .. })),
        "{told:?}"
    );
}

#[tokio::test]
async fn a_stream_that_is_dropped_stops_its_run() {
    let mut file = tiny::scripted(&[], |t| vec![if t == "a" { "b" } else { "a" }.to_owned()]);
    file.set("llama.context_length", Meta::U32(1_000_000_000));
    let generator = generator(&file.write("forever"));
    let mut request = greedy();
    request.max_tokens = Some(1_000_000_000);
    let mut stream = generator.stream(request.clone()).await.unwrap();
    for _ in 0..3 {
        assert!(matches!(
            stream.next().await,
            Some(Ok(StreamEvent::Text(_)))
        ));
    }
    drop(stream);
    // The one slot is free again: this would wait for ever behind the other.
    let mut short = greedy();
    short.max_tokens = Some(3);
    let answer = generator.generate(short).await.unwrap();
    assert_eq!(answer.text.len(), 3);
    // And so it is after a call that ran out of time.
    let hurried = CallOptions::default().with_timeout(Duration::from_millis(50));
    let error = generator.generate_with(request, hurried).await.unwrap_err();
    assert_eq!(error.kind(), Kind::DeadlineExceeded);
    generator
        .generate({
            let mut r = greedy();
            r.max_tokens = Some(1);
            r
        })
        .await
        .unwrap();
}
