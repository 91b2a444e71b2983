//! Event-stream frames as Bedrock sends them, written out by hand: two lengths, a checksum, headers, a payload, a checksum.

use antfly_framework::testing::Reply;
use serde_json::{Value, json};

/// What an answer of frames is called.
pub(crate) const CONTENT_TYPE: &str = "application/vnd.amazon.eventstream";

/// An event of the stream.
pub(crate) fn event(name: &str, payload: Value) -> Vec<u8> {
    let headers = [
        (":message-type", "event"),
        (":event-type", name),
        (":content-type", "application/json"),
    ];
    frame(&headers, payload.to_string().as_bytes())
}

/// An exception that ends the stream.
pub(crate) fn exception(name: &str, message: &str) -> Vec<u8> {
    let headers = [
        (":message-type", "exception"),
        (":exception-type", name),
        (":content-type", "application/json"),
    ];
    frame(
        &headers,
        json!({ "message": message }).to_string().as_bytes(),
    )
}

pub(crate) fn frame(headers: &[(&str, &str)], payload: &[u8]) -> Vec<u8> {
    let mut head = Vec::new();
    for (name, value) in headers {
        head.push(u8::try_from(name.len()).unwrap());
        head.extend(name.as_bytes());
        head.push(7); // a string
        head.extend(u16::try_from(value.len()).unwrap().to_be_bytes());
        head.extend(value.as_bytes());
    }
    let whole = u32::try_from(12 + head.len() + payload.len() + 4).unwrap();
    let mut bytes = whole.to_be_bytes().to_vec();
    bytes.extend(u32::try_from(head.len()).unwrap().to_be_bytes());
    bytes.extend(crc32(&bytes).to_be_bytes());
    bytes.extend(head);
    bytes.extend(payload);
    bytes.extend(crc32(&bytes).to_be_bytes());
    bytes
}

/// The checksum of zip and ethernet, bit by bit.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |sum, byte| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| {
            (sum >> 1) ^ (0xEDB8_8320 & (sum & 1).wrapping_neg())
        })
    })
}

/// A text delta of block 0.
pub(crate) fn text(text: &str) -> Vec<u8> {
    event(
        "contentBlockDelta",
        json!({"contentBlockIndex": 0, "delta": {"text": text}}),
    )
}

pub(crate) fn stop(reason: &str) -> Vec<u8> {
    event("messageStop", json!({ "stopReason": reason }))
}

/// The frame that ends a whole stream.
pub(crate) fn usage(input: u32, output: u32) -> Vec<u8> {
    let usage =
        json!({"inputTokens": input, "outputTokens": output, "totalTokens": input + output});
    event(
        "metadata",
        json!({"usage": usage, "metrics": {"latencyMs": 1}}),
    )
}

/// A stream with one chunk a frame.
pub(crate) fn reply(frames: impl IntoIterator<Item = Vec<u8>>) -> Reply {
    frames
        .into_iter()
        .fold(Reply::stream(200, CONTENT_TYPE), |reply, frame| {
            reply.chunk(frame)
        })
}

/// A whole stream: these texts, `end_turn`, usage.
pub(crate) fn whole(texts: &[&str]) -> Reply {
    let start = event("messageStart", json!({"role": "assistant"}));
    let deltas = texts.iter().map(|t| text(t));
    let end = [
        event("contentBlockStop", json!({"contentBlockIndex": 0})),
        stop("end_turn"),
        usage(3, 2),
    ];
    reply([start].into_iter().chain(deltas).chain(end))
}
