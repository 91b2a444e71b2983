use antfly_framework::generate::{Accumulator, Generation, ToolCallDelta};
use http::HeaderMap;

use super::*;

fn decoder() -> Decoder {
    Decoder::new(&Head {
        status: 200,
        headers: HeaderMap::new(),
    })
}

fn frame(data: &str) -> Frame {
    Frame {
        event: None,
        data: data.to_owned(),
    }
}

/// The events of these frames, to the end mark or the end of the body.
fn events(frames: &str) -> (Vec<StreamEvent>, Result<()>) {
    let (mut decoder, mut out) = (decoder(), Vec::new());
    for data in frames.lines().filter(|line| !line.is_empty()) {
        match decoder.push(frame(data), &mut out) {
            Ok(Flow::Continue) => {}
            Ok(Flow::Done) => return (out, Ok(())),
            Err(e) => return (out, Err(e)),
        }
    }
    let ended = decoder.end(&mut out);
    (out, ended)
}

fn whole(frames: &str) -> Generation {
    let (events, ended) = events(frames);
    ended.unwrap();
    let mut all = Accumulator::default();
    events.iter().for_each(|event| all.push(event));
    all.finish()
}

fn items(events: &[StreamEvent]) -> usize {
    events.iter().filter(|event| event.is_item()).count()
}

#[test]
fn the_specified_stream_is_read() {
    let (events, ended) = events(include_str!("fixtures/stream_text.sse"));
    ended.unwrap();
    assert_eq!(
        items(&events),
        3,
        "two texts and the end; the role-only chunk is none: {events:?}"
    );
    let g = whole(include_str!("fixtures/stream_text.sse"));
    assert_eq!(
        (g.text.as_str(), g.finish_reason),
        ("Hello", Some(FinishReason::Stop))
    );
    assert_eq!(
        (g.id.as_deref(), g.model.as_deref()),
        (Some("chatcmpl-123"), Some("gpt-4o-mini"))
    );
    assert_eq!(g.usage.unwrap().total_tokens, Some(11));
}

#[test]
fn tool_calls_are_put_together_by_number() {
    let g = whole(include_str!("fixtures/stream_tools.sse"));
    assert_eq!(g.finish_reason, Some(FinishReason::ToolCalls));
    assert_eq!(g.tool_calls.len(), 2);
    assert_eq!(g.tool_calls[0].arguments, r#"{"place":"Bern"}"#);
    assert_eq!(
        (g.tool_calls[1].id.as_str(), g.tool_calls[1].name.as_str()),
        ("call_2", "time")
    );
}

#[test]
fn b01_an_end_before_any_finish_reason_is_an_error_after_the_text() {
    let (events, ended) = events(r#"{"choices":[{"index":0,"delta":{"content":"a"}}]}"#);
    assert_eq!(items(&events), 1);
    assert_eq!(ended.unwrap_err().kind(), Kind::StreamInterrupted);
    assert_eq!(
        self::events("").1.unwrap_err().kind(),
        Kind::StreamInterrupted
    );
}

#[test]
fn an_end_without_the_mark_is_fine_once_a_finish_reason_was_seen() {
    let g = whole(r#"{"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]}"#);
    assert_eq!(g.text, "a");
}

#[test]
fn b05_b08_an_error_inside_the_stream_is_an_error() {
    let (events, ended) = events(
        r#"{"choices":[{"index":0,"delta":{"content":"a"}}]}
{"id":"gen","error":{"code":"server_error","message":"Provider disconnected"},"choices":[{"index":0,"delta":{"content":""},"finish_reason":"error"}]}
[DONE]"#,
    );
    assert_eq!(items(&events), 1);
    let e = ended.unwrap_err();
    assert_eq!(
        (e.kind(), e.message()),
        (Kind::Server, "Provider disconnected")
    );
}

#[test]
fn b08_a_finish_reason_of_error_is_never_a_success() {
    let (events, ended) = events(r#"{"choices":[{"delta":{},"finish_reason":"error"}]}"#);
    assert_eq!(
        (items(&events), ended.unwrap_err().kind()),
        (0, Kind::Server)
    );
    let own =
        r#"{"choices":[{"delta":{},"error":{"code":502,"message":"m"},"finish_reason":"error"}]}"#;
    assert_eq!(self::events(own).1.unwrap_err().message(), "m");
}

#[test]
fn b12_a_rate_limit_as_the_only_chunk_is_one() {
    let (events, ended) = events(
        r#"{"error":{"message":"slow","type":"server_error","code":"rate_limit_exceeded"}}"#,
    );
    assert!(events.is_empty());
    assert_eq!(ended.unwrap_err().kind(), Kind::RateLimited);
}

#[test]
fn b05_an_error_event_is_an_error_whatever_its_data() {
    for (data, kind) in [
        (
            r#"{"type":"error","error":{"type":"overloaded_error","message":"m"}}"#,
            Kind::Overloaded,
        ),
        (r#"{"message":"m","code":429}"#, Kind::RateLimited),
        ("something broke", Kind::Server),
    ] {
        let named = Frame {
            event: Some("error".to_owned()),
            data: data.to_owned(),
        };
        let e = decoder().push(named, &mut Vec::new()).unwrap_err();
        assert_eq!(e.kind(), kind, "{data}");
    }
    // The same without a name.
    let e = events(r#"{"type":"error","error":{"type":"overloaded_error","message":"m"}}"#).1;
    assert_eq!(e.unwrap_err().kind(), Kind::Overloaded);
    let e = events(r#"{"object":"error","message":"m","code":400}"#).1;
    assert_eq!(e.unwrap_err().kind(), Kind::InvalidRequest);
}

#[test]
fn c01_chunks_without_choices_carry_usage_and_nothing_else() {
    for chunk in [
        r#"{"choices":[],"usage":{"prompt_tokens":1}}"#,
        r#"{"usage":{"prompt_tokens":1}}"#,
        r#"{"choices":null,"usage":{"prompt_tokens":1,"completion_tokens":null}}"#,
    ] {
        let mut out = Vec::new();
        assert_eq!(
            decoder().push(frame(chunk), &mut out).unwrap(),
            Flow::Continue
        );
        assert!(
            matches!(out.as_slice(), [StreamEvent::Usage(u)] if u.input_tokens == Some(1)),
            "{out:?}"
        );
    }
}

#[test]
fn c02_a_first_chunk_without_choices_is_ignored() {
    let g = whole(include_str!("fixtures/stream_filter_first.sse"));
    assert_eq!(
        (g.text.as_str(), g.id.as_deref()),
        ("Hi", Some("chatcmpl-9"))
    );
}

#[test]
fn a13_pings_are_ignored() {
    let mut out = Vec::new();
    let mut d = decoder();
    assert_eq!(
        d.push(frame(r#"{"type":"ping"}"#), &mut out).unwrap(),
        Flow::Continue
    );
    let named = Frame {
        event: Some("ping".to_owned()),
        data: "x".to_owned(),
    };
    assert_eq!(d.push(named, &mut out).unwrap(), Flow::Continue);
    assert!(out.is_empty());
}

/// The calls that these `tool_calls` lists, one a chunk, come to.
fn calls(deltas: &[&str]) -> Vec<(String, String, String)> {
    let mut frames: Vec<String> = deltas
        .iter()
        .map(|calls| format!(r#"{{"choices":[{{"delta":{{"tool_calls":{calls}}}}}]}}"#))
        .collect();
    frames.push(r#"{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}"#.to_owned());
    whole(&frames.join("\n"))
        .tool_calls
        .into_iter()
        .map(|c| (c.id, c.name, c.arguments))
        .collect()
}

fn call(id: &str, name: &str, arguments: &str) -> (String, String, String) {
    (id.to_owned(), name.to_owned(), arguments.to_owned())
}

#[test]
fn c06_one_call_without_a_number_is_inferred() {
    let got = calls(&[
        r#"[{"id":"a","function":{"name":"f","arguments":"{\"x\""}}]"#,
        r#"[{"function":{"arguments":":1}"}}]"#,
    ]);
    assert_eq!(got, [call("a", "f", r#"{"x":1}"#)]);
}

#[test]
fn c06_several_calls_without_numbers_are_never_merged() {
    let two = [call("a", "f", "{1}"), call("b", "g", "{2}")];
    // In one chunk, in two, with the id repeated.
    let one_chunk = calls(&[
        r#"[{"id":"a","function":{"name":"f","arguments":"{1}"}},{"id":"b","function":{"name":"g","arguments":"{2}"}}]"#,
    ]);
    assert_eq!(one_chunk, two);
    let interleaved = calls(&[
        r#"[{"id":"a","function":{"name":"f","arguments":"{"}}]"#,
        r#"[{"id":"b","function":{"name":"g","arguments":"{"}}]"#,
        r#"[{"id":"a","function":{"arguments":"1}"}}]"#,
        r#"[{"id":"b","function":{"arguments":"2}"}}]"#,
    ]);
    assert_eq!(interleaved, two);
    let by_position = calls(&[
        r#"[{"function":{"name":"f","arguments":"{"}},{"function":{"name":"g","arguments":"{"}}]"#,
        r#"[{"function":{"arguments":"1}"}},{"function":{"arguments":"2}"}}]"#,
    ]);
    assert_eq!(by_position, [call("", "f", "{1}"), call("", "g", "{2}")]);
}

#[test]
fn c06_the_same_number_under_another_id_is_another_call() {
    let got = calls(&[
        r#"[{"index":0,"id":"a","function":{"name":"f","arguments":"{1}"}}]"#,
        r#"[{"index":0,"id":"b","function":{"name":"g","arguments":"{"}}]"#,
        r#"[{"index":0,"function":{"arguments":"2}"}}]"#,
    ]);
    assert_eq!(got, [call("a", "f", "{1}"), call("b", "g", "{2}")]);
}

#[test]
fn the_id_and_the_name_go_out_once() {
    let (events, _) = events(
        r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"x"}}]}}]}
{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"y"}}]}}]}"#,
    );
    let second = StreamEvent::ToolCall(ToolCallDelta {
        index: 0,
        id: None,
        name: None,
        arguments: "y".to_owned(),
    });
    assert_eq!(events[1], second);
}

#[test]
fn arguments_that_are_an_object_become_their_json() {
    let got = calls(&[r#"[{"id":"a","function":{"name":"f","arguments":{"x":1}}}]"#]);
    assert_eq!(got, [call("a", "f", r#"{"x":1}"#)]);
}

#[test]
fn reasoning_comes_apart_from_text() {
    let g = whole(
        r#"{"choices":[{"delta":{"reasoning_content":"hm","content":null}}]}
{"choices":[{"delta":{"reasoning":"m","content":"a"}}]}
{"choices":[{"delta":{},"finish_reason":"stop"}]}"#,
    );
    assert_eq!(
        (g.reasoning.as_deref(), g.text.as_str()),
        (Some("hmm"), "a")
    );
}

#[test]
fn a_refusal_is_blocked_content() {
    let (events, ended) = events(
        r#"{"choices":[{"delta":{"refusal":"I can't"}}]}
{"choices":[{"delta":{"refusal":" help."},"finish_reason":null}]}
{"choices":[{"delta":{},"finish_reason":"stop"}]}"#,
    );
    assert_eq!(items(&events), 0);
    let e = ended.unwrap_err();
    assert_eq!(e.kind(), Kind::ContentBlocked);
    assert!(e.message().contains("I can't help."));
}

#[test]
fn e01_what_is_no_json_is_an_invalid_answer() {
    let e = events("<html>").1.unwrap_err();
    assert_eq!((e.kind(), e.is_retryable()), (Kind::InvalidResponse, false));
    assert_eq!(
        events("[DONE]").1.unwrap_err().kind(),
        Kind::InvalidResponse
    );
}

#[test]
fn odd_types_never_fail_a_chunk() {
    let g = whole(
        r#"{"id":7,"model":null,"created":"x","choices":[{"index":null,"delta":{"role":null,"content":["a",{"type":"text","text":"b"}],"tool_calls":null},"logprobs":{},"finish_reason":""}],"usage":{"prompt_tokens":1.0,"total_tokens":"x"},"error":null}
{"choices":[{"delta":null,"finish_reason":"Weird_Word"}]}"#,
    );
    assert_eq!(g.text, "ab");
    assert_eq!(
        g.finish_reason,
        Some(FinishReason::Other("weird_word".to_owned()))
    );
    assert_eq!(g.raw_finish_reason.as_deref(), Some("Weird_Word"));
    assert_eq!(g.usage.unwrap().input_tokens, Some(1));
}

#[test]
fn a_second_choice_is_not_mixed_in() {
    let g = whole(
        r#"{"choices":[{"index":0,"delta":{"content":"a"}},{"index":1,"delta":{"content":"b"}}]}
{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#,
    );
    assert_eq!(g.text, "a");
}

#[test]
fn a_delta_that_is_no_text_is_an_error() {
    let (_, ended) = events(r#"{"choices":[{"delta":{"content":5}}]}"#);
    assert_eq!(ended.unwrap_err().kind(), Kind::InvalidResponse);
}
