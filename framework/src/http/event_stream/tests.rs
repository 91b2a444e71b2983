use super::*;

fn parse(input: &[u8], cuts: &[usize]) -> Vec<Frame> {
    let mut parser = EventStreamParser::new(1 << 20);
    let mut out = Vec::new();
    let mut from = 0;
    for cut in cuts.iter().copied().chain([input.len()]) {
        parser.push(&input[from..cut], &mut out).unwrap();
        from = cut;
    }
    parser.finish(&mut out).unwrap();
    out
}

/// Parses whole, cut at every single place, and byte by byte; all must agree.
fn everywhere(input: &[u8]) -> Vec<Frame> {
    let whole = parse(input, &[]);
    for cut in 0..=input.len() {
        assert_eq!(parse(input, &[cut]), whole, "cut at {cut}");
    }
    let all: Vec<usize> = (0..input.len()).collect();
    assert_eq!(parse(input, &all), whole, "byte by byte");
    whole
}

fn data(events: &[Frame]) -> Vec<&str> {
    events.iter().map(|event| event.data.as_str()).collect()
}

const STREAM: &str = ": hi\n\nevent: delta\nid: 7\ndata: {\"a\":\ndata: \"\u{e9}\u{4e2d}\u{1f600}\"}\n\ndata:{\"b\":1}\n\ndata: [DONE]\n\n";

#[test]
fn a01_crlf_and_cr_streams_give_what_the_lf_stream_gives() {
    let lf = everywhere(STREAM.as_bytes());
    assert_eq!(
        lf[0],
        Frame {
            event: Some("delta".into()),
            data: "{\"a\":\n\"\u{e9}\u{4e2d}\u{1f600}\"}".into(),
        }
    );
    assert_eq!(data(&lf)[1..], ["{\"b\":1}", "[DONE]"]);
    assert_eq!(everywhere(STREAM.replace('\n', "\r\n").as_bytes()), lf);
    assert_eq!(everywhere(STREAM.replace('\n', "\r").as_bytes()), lf);
}

#[test]
fn a_lone_cr_ends_a_line_at_once_and_does_not_wait_for_the_next_chunk() {
    let mut parser = EventStreamParser::new(100);
    let mut out = Vec::new();
    parser.push(b"data: x\r\r", &mut out).unwrap();
    assert_eq!(data(&out), ["x"]);
    parser.push(b"\n", &mut out).unwrap();
    parser.push(b"data: y\n\n", &mut out).unwrap();
    assert_eq!(data(&out), ["x", "y"]);
}

#[test]
fn a04_characters_cut_between_chunks_survive_in_lines_too() {
    let input = "{\"t\":\"\u{44c}\u{4e2d}\u{1f600}\"}\r\n\n{\"t\":2}\n".as_bytes();
    for cut in 0..=input.len() {
        let mut lines = LineParser::new(100);
        let mut out = Vec::new();
        lines.push(&input[..cut], &mut out).unwrap();
        lines.push(&input[cut..], &mut out).unwrap();
        lines.finish(&mut out).unwrap();
        assert_eq!(
            data(&out),
            ["{\"t\":\"\u{44c}\u{4e2d}\u{1f600}\"}", "{\"t\":2}"]
        );
    }
}

#[test]
fn a06_unicode_line_separators_stay_in_the_text() {
    let text = "{\"t\":\"a\u{2028}b\u{2029}c\u{85}d\u{b}e\u{c}f\"}";
    assert_eq!(
        data(&everywhere(format!("data: {text}\n\n").as_bytes())),
        [text]
    );
    let mut lines = LineParser::new(100);
    let mut out = Vec::new();
    lines
        .push(format!("{text}\n").as_bytes(), &mut out)
        .unwrap();
    assert_eq!(data(&out), [text]);
}

#[test]
fn a09_data_without_a_space_parses_and_a_line_without_a_field_is_ignored() {
    assert_eq!(
        data(&everywhere(
            b"data:\n {\"a\":1}\n\ndata:{\"b\":2}\n\ndata\n\n"
        )),
        ["{\"b\":2}"]
    );
    assert_eq!(data(&everywhere(b"data:  x\n\n")), [" x"]);
}

#[test]
fn a11_comments_yield_nothing() {
    let input = b": OPENROUTER PROCESSING\n\n: OPENROUTER PROCESSING\n\ndata: 1\n\n:\n\n:x\ndata: 2\n:y\n\n";
    assert_eq!(data(&everywhere(input)), ["1", "2"]);
}

#[test]
fn a13_events_with_empty_data_are_skipped() {
    let events =
        everywhere(b"event: ping\ndata:\n\nevent: other\ndata: \n\nevent: z\n\ndata: 1\n\n");
    assert_eq!(data(&events), ["1"]);
    assert_eq!(
        events[0].event, None,
        "a skipped event leaves no name behind"
    );
}

#[test]
fn a15_comments_in_the_block_of_the_end_mark_do_not_hide_it() {
    assert_eq!(
        data(&everywhere(b": x-meta=1\n: x-meta=2\ndata: [DONE]\n\n")),
        ["[DONE]"]
    );
}

#[test]
fn a17_several_lines_in_one_chunk_and_a_last_one_without_newline() {
    let mut lines = LineParser::new(100);
    let mut out = Vec::new();
    lines
        .push(b"\xef\xbb\xbf{\"a\":1}\n{\"b\":2}\n{\"c\":3}", &mut out)
        .unwrap();
    assert_eq!(data(&out), ["{\"a\":1}", "{\"b\":2}"]);
    lines.finish(&mut out).unwrap();
    assert_eq!(out[2].data, "{\"c\":3}");
    let mut cut = LineParser::new(100);
    cut.push(b"{\"a\":", &mut out).unwrap();
    cut.finish(&mut out).unwrap();
    assert_eq!(out.len(), 3, "a line that was cut off is dropped");
}

#[test]
fn b03_an_end_mark_without_its_blank_line_is_handed_out_at_the_end() {
    for end in [
        "data: [DONE]",
        "data: [DONE]\n",
        "data: [DONE]\r\n",
        "data: {\"a\":1}",
    ] {
        assert_eq!(
            everywhere(format!("data: x\n\n{end}").as_bytes()).len(),
            2,
            "{end:?}"
        );
    }
    assert_eq!(data(&everywhere(b"data: x\n\ndata: {\"a\":")), ["x"]);
    assert_eq!(data(&everywhere(b"data: x\n\ndata: [DON")), ["x"]);
}

#[test]
fn a_byte_order_mark_is_taken_off_at_the_very_start_only() {
    assert_eq!(
        data(&everywhere(
            b"\xef\xbb\xbfdata: 1\n\n\xef\xbb\xbfdata: 2\n\ndata: 3\n\n"
        )),
        ["1", "3"]
    );
}

#[test]
fn invalid_utf8_is_a_typed_error_after_the_events_before_it() {
    let mut parser = EventStreamParser::new(100);
    let mut out = Vec::new();
    let error = parser
        .push(b"data: 1\n\ndata: \xff\n\n", &mut out)
        .unwrap_err();
    assert_eq!(error.kind(), Kind::InvalidResponse);
    assert_eq!(data(&out), ["1"]);
    assert!(parser.push(b"data: 2\n\n", &mut out).is_err());
    assert!(LineParser::new(9).push(b"\xff\n", &mut Vec::new()).is_err());
}

#[test]
fn d05_an_event_that_never_ends_is_refused_at_the_bound() {
    for endless in [&b"x"[..], b"data: abc\n", b":", b"foo: x\n", b"data\n"] {
        let mut parser = EventStreamParser::new(1000);
        let mut out = Vec::new();
        let mut sent = 0;
        let error = loop {
            sent += endless.len();
            match parser.push(endless, &mut out) {
                Ok(()) => assert!(sent <= 2000, "{endless:?} never refused"),
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), Kind::InvalidResponse);
        assert!(error.message().contains("event too large"), "{error}");
        assert!(error.message().contains("1000"), "{error}");
        assert!(parser.partial.len() + parser.data.len() <= 1000);
    }
    let error = LineParser::new(1000)
        .push(&[b'x'; 1001], &mut Vec::new())
        .unwrap_err();
    assert!(error.message().contains("line too large"));
}

#[test]
fn d05_the_bound_is_the_same_however_the_stream_is_cut() {
    let exact = b"event: e\ndata: 12345\n\n"; // 8 + 11 bytes of lines
    for cut in 0..exact.len() {
        for (bound, fits) in [(19, true), (18, false)] {
            let mut parser = EventStreamParser::new(bound);
            let mut out = Vec::new();
            let result = parser
                .push(&exact[..cut], &mut out)
                .and_then(|()| parser.push(&exact[cut..], &mut out));
            assert_eq!(result.is_ok(), fits, "cut at {cut}, bound {bound}");
        }
    }
}

#[test]
fn d07_a_long_stream_of_small_events_takes_flat_memory() {
    let mut parser = EventStreamParser::new(64);
    let mut out = Vec::new();
    for _ in 0..20_000 {
        parser
            .push(b": comment\n\ndata: {\"a\":1}\r\n\r\nda", &mut out)
            .unwrap();
        parser.push(b"ta: {\"a\":2}\n\n", &mut out).unwrap();
        assert_eq!(out.len(), 2);
        out.clear();
    }
    assert!(parser.partial.capacity() + parser.data.capacity() < 256);
}

#[test]
fn arbitrary_bytes_never_panic_and_never_depend_on_the_cuts() {
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    };
    let alphabet = [
        &b"data: "[..],
        b"event:",
        b"id:x",
        b"\n",
        b"\r",
        b"\r\n",
        b":",
        b" ",
        b"{}",
        "\u{e9}".as_bytes(),
    ];
    for _ in 0..300 {
        let mut input = Vec::new();
        for _ in 0..(next() % 24) {
            input.extend_from_slice(alphabet[(next() % alphabet.len() as u64) as usize]);
        }
        everywhere(&input);
    }
}
