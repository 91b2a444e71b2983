use super::Text;

/// Everything handed out, by the bytes' pieces.
fn out(stops: &[&str], pieces: &[&[u8]]) -> (Vec<String>, String, bool) {
    let mut text = Text::new(stops.iter().map(|s| (*s).to_owned()).collect());
    let each = pieces.iter().map(|p| text.push(p)).collect();
    let stopped = text.stopped();
    (each, text.finish(), stopped)
}

#[test]
fn however_bytes_are_cut_the_text_is_the_same() {
    let bytes = "aé日😀 ST\u{fffd}OP".as_bytes();
    let mut broken = bytes.to_vec();
    broken.insert(3, 0xe6);
    broken.push(0xf0);
    for (bytes, stops) in [
        (bytes, &["\u{fffd}O"][..]),
        (bytes, &["never", "ST"]),
        (bytes, &[]),
        (&broken, &["日"]),
        (&broken, &["OPQ", "P!"]),
    ] {
        let (whole, held, _) = out(stops, &[bytes]);
        let whole = whole.concat() + &held;
        for size in 1..bytes.len() {
            let pieces: Vec<&[u8]> = bytes.chunks(size).collect();
            let (parts, held, _) = out(stops, &pieces);
            assert_eq!(parts.concat() + &held, whole, "{size} {stops:?}");
        }
    }
}

#[test]
fn bytes_that_never_become_a_character_show_as_one_and_a_begun_one_at_the_end_does_not() {
    assert_eq!(out(&[], &[b"a\xffb"]).0, ["a\u{fffd}b"]);
    assert_eq!(out(&[], &[b"\xe6", b"b"]).0, ["", "\u{fffd}b"]);
    assert_eq!(
        out(&[], &[b"a\xf0\x9f"]),
        (vec!["a".to_owned()], String::new(), false)
    );
}

#[test]
fn of_several_stop_sequences_the_first_to_end_counts_and_the_longest_of_those() {
    assert_eq!(
        out(&["ab", "xabc"], &[b"xabc"]),
        (vec!["x".to_owned()], String::new(), true)
    );
    assert_eq!(
        out(&["c", "abc"], &[b"1abc2"]),
        (vec!["1".to_owned()], String::new(), true)
    );
}

#[test]
fn a_stop_sequence_that_overlaps_its_own_beginning_is_found() {
    assert_eq!(
        out(&["aab"], &[b"a", b"a", b"a", b"b", b"c"]).0.concat(),
        "a"
    );
}

#[test]
fn what_may_become_a_stop_sequence_is_held_back_and_no_more() {
    let (parts, held, stopped) = out(&["END"], &[b"xE", b"N", b"ENd", b"EN"]);
    assert_eq!(parts, ["x", "", "ENENd", ""]);
    assert_eq!((held.as_str(), stopped), ("EN", false));
}
