//! A. Framing of streams: line ends, characters cut in two, comments, pings. Each stream is also split at every byte.

use antfly_framework::http::LineParser;
use antfly_framework::provider::Frame;
use antfly_framework::testing::{Gate, Reply, Server};
use antfly_framework::{FinishReason, Kind, StreamEvent};
use bytes::Bytes;
use serde_json::json;

use crate::support::{
    every_split, finish, generator, manual, ms, own, read, says, soon, texts, until_alarm_in,
};

fn whole(parts: &[&str]) -> Vec<StreamEvent> {
    let mut events = vec![StreamEvent::Meta {
        id: Some("c1".to_owned()),
        model: None,
    }];
    events.extend(parts.iter().map(|t| StreamEvent::Text((*t).to_owned())));
    events.push(StreamEvent::Finish {
        reason: FinishReason::Stop,
        raw: "stop".to_owned(),
    });
    events
}

async fn always_gives(body: &[u8], parts: &[&str]) {
    let expected = whole(parts);
    every_split(body, |events, error| {
        assert!(error.is_none(), "{error:?}");
        assert_eq!(events, expected);
    })
    .await;
}

fn plain(parts: &[&str]) -> String {
    let mut body: String = parts
        .iter()
        .map(|text| format!("data: {}\n\n", says(text)))
        .collect();
    body.push_str(&format!("data: {}\n\ndata: [DONE]\n\n", finish("stop")));
    body
}

#[tokio::test]
async fn a01_crlf_gives_the_same_output_as_lf() {
    let lf = plain(&["one", "two"]);
    for end in ["\n", "\r\n", "\r"] {
        always_gives(lf.replace('\n', end).as_bytes(), &["one", "two"]).await;
    }
}

#[tokio::test]
async fn a01_line_ends_may_be_mixed_in_one_stream() {
    let body = format!(
        "data: {}\r\n\ndata: {}\r\r\ndata: {}\n\r\ndata: [DONE]\r\n\r\n",
        says("one"),
        says("two"),
        finish("stop")
    );
    always_gives(body.as_bytes(), &["one", "two"]).await;
}

#[tokio::test]
async fn a04_characters_cut_between_chunks_stay_whole() {
    let text = "\u{44c}\u{20ac}\u{1f980}";
    let body = plain(&[text]);
    assert!(body.contains(text), "the wire must carry them raw");
    always_gives(body.as_bytes(), &[text]).await;
}

#[test]
fn a04_lines_of_json_keep_characters_cut_between_chunks() {
    let body = "{\"r\":\"\u{44c}\u{20ac}\u{1f980}\"}\n{\"r\":\"\u{2028}\"}\r\n".as_bytes();
    let expected = lines(&[body]);
    assert_eq!(expected.len(), 2);
    for at in 1..body.len() {
        let (a, b) = body.split_at(at);
        assert_eq!(lines(&[a, b]), expected, "cut at {at}");
    }
}

#[tokio::test]
async fn a06_only_cr_and_lf_end_a_line() {
    let text = "a\u{2028}b\u{2029}c\u{85}d\u{b}e\u{c}f";
    // `serde_json` escapes what JSON must escape; the three separators go raw.
    let body = plain(&[text]);
    for separator in ['\u{2028}', '\u{2029}', '\u{85}'] {
        assert!(body.contains(separator));
    }
    always_gives(body.as_bytes(), &[text]).await;
}

#[tokio::test]
async fn a09_data_without_a_space_parses_and_a_line_without_a_field_name_is_ignored() {
    let tight = plain(&["one"]).replace("data: ", "data:");
    always_gives(tight.as_bytes(), &["one"]).await;
    let body = format!(
        "data:\n {}\n\ndata:{}\n\ndata:{}\n\ndata:[DONE]\n\n",
        says("lost"),
        says("kept"),
        finish("stop")
    );
    always_gives(body.as_bytes(), &["kept"]).await;
}

#[tokio::test]
async fn a09_nothing_but_such_lines_is_an_error_and_no_wait() {
    let body = format!("data:\n {}\n\ndata: [DONE]\n\n", says("lost"));
    every_split(body.as_bytes(), |events, error| {
        assert!(events.is_empty());
        assert_eq!(error.unwrap().kind(), Kind::InvalidResponse);
    })
    .await;
}

#[tokio::test]
async fn a11_comments_yield_nothing() {
    let comment = ": OPENROUTER PROCESSING\n\n";
    let body = format!(
        "{comment}{comment}data: {}\n\n{comment}:\n:{{not json\ndata: {}\n{comment}data: {}\n\n{comment}data: [DONE]\n\n{comment}",
        says("one"),
        says("two"),
        finish("stop")
    );
    always_gives(body.as_bytes(), &["one", "two"]).await;
}

#[tokio::test]
async fn a11_comments_count_as_activity_for_the_idle_timer() {
    let (client, clock) = manual();
    let (comment, rest) = (Gate::new(), Gate::new());
    let server = Server::start([Reply::stream(200, "text/event-stream")
        .event(&says("one"))
        .pause(&comment)
        .chunk(": still here\n\n")
        .pause(&rest)
        .event(&finish("stop"))
        .event("[DONE]")]);
    let generator = generator(&client, &server, json!({"stream_idle_timeout_ms": 1000}));
    let reader = tokio::spawn(async move { read(&generator).await });
    server.wait_for_requests(1).await;
    until_alarm_in(&clock, ms(1000)).await;
    clock.advance(ms(900));
    comment.open();
    // Had the comment not counted, the alarm would stay 100 ms away.
    until_alarm_in(&clock, ms(1000)).await;
    clock.advance(ms(900));
    rest.open();
    let (events, error) = soon(reader).await.unwrap();
    assert!(error.is_none(), "{error:?}");
    assert_eq!(texts(&events), ["one"]);
}

#[tokio::test]
async fn a13_pings_and_empty_data_are_skipped() {
    let body = format!(
        "event: ping\ndata:\n\nevent: ping\ndata: {{\"type\":\"ping\"}}\n\ndata: {}\n\ndata: {{\"type\":\"ping\"}}\n\n\
         data:\n\ndata: \n\nevent: message\ndata:\n\nevent: message\n\ndata: {}\n\ndata: {}\n\ndata: [DONE]\n\n",
        says("one"),
        says("two"),
        finish("stop")
    );
    always_gives(body.as_bytes(), &["one", "two"]).await;
}

#[tokio::test]
async fn a15_comments_in_the_block_of_the_end_mark_do_not_hide_it() {
    let body = format!(
        "data: {}\n\ndata: {}\n\n: x-a=1\n: x-b=2\ndata: [DONE]\n\n",
        says("one"),
        finish("stop")
    );
    always_gives(body.as_bytes(), &["one"]).await;
    // Without the finish reason the end mark alone tells that all is well.
    let body = format!(
        "data: {}\n\n: x-a=1\n: x-b=2\ndata: [DONE]\n\n",
        says("one")
    );
    every_split(body.as_bytes(), |events, error| {
        assert!(error.is_none(), "{error:?}");
        assert_eq!(texts(events), ["one"]);
    })
    .await;
}

fn lines(chunks: &[&[u8]]) -> Vec<Frame> {
    let mut parser = LineParser::new(1000);
    let mut out = Vec::new();
    for chunk in chunks {
        parser.push(chunk, &mut out).unwrap();
    }
    parser.finish(&mut out).unwrap();
    out
}

#[test]
fn a17_lines_in_one_read_are_parsed_one_by_one_and_the_last_needs_no_newline() {
    let body = b"{\"a\":1}\n{\"b\":2}\n\n{\"c\":3}";
    let data = |chunks: &[&[u8]]| -> Vec<String> {
        lines(chunks).into_iter().map(|frame| frame.data).collect()
    };
    let expected = ["{\"a\":1}", "{\"b\":2}", "{\"c\":3}"];
    assert_eq!(data(&[body]), expected);
    for at in 1..body.len() {
        let (a, b) = body.split_at(at);
        assert_eq!(data(&[a, b]), expected, "cut at {at}");
    }
    // Cut off inside its JSON the last line is not an object.
    assert_eq!(data(&[&body[..body.len() - 1]]), expected[..2]);
}

/// A stream of lines, from a provider whose wire is that.
fn line_stream(chunks: Vec<Bytes>) -> Reply {
    chunks
        .into_iter()
        .fold(Reply::stream(200, "application/x-ndjson"), Reply::chunk)
}

#[tokio::test]
async fn a18_the_adapters_wire_decides_the_parser_wherever_lines_are_cut() {
    // A line may even begin as an event's would; a last one needs no newline.
    let body = Bytes::from_static(
        b"{\"text\":\"\xd1\x8c\"}\n{\"text\":\"data: x\"}\r\n\n{\"text\":\"\xf0\x9f\xa6\x80\"}\n{\"done\":true}",
    );
    let mut replies = vec![line_stream(vec![body.clone()])];
    replies.extend((1..body.len()).map(|at| line_stream(vec![body.slice(..at), body.slice(at..)])));
    replies.push(line_stream(
        (0..body.len()).map(|at| body.slice(at..=at)).collect(),
    ));
    let count = replies.len();
    let server = Server::start(replies);
    let generator = own::generator(&server, json!({}));
    for number in 0..count {
        let (events, error) = read(&generator).await;
        assert!(error.is_none(), "{number}: {error:?}");
        assert_eq!(
            texts(&events),
            ["\u{44c}", "data: x", "\u{1f980}"],
            "{number}"
        );
    }
}

#[tokio::test]
async fn a17_two_lines_in_one_write_are_two_events() {
    let body = Bytes::from_static(b"{\"text\":\"one\"}\n{\"text\":\"two\"}\n{\"done\":true}\n");
    let server = Server::start([line_stream(vec![body])]);
    let (events, error) = read(&own::generator(&server, json!({}))).await;
    assert!(error.is_none(), "{error:?}");
    assert_eq!(texts(&events), ["one", "two"]);
}
