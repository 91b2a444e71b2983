//! Bodies that are not what was asked for: encoded, or without end.

use bytes::Bytes;
use serde_json::json;

use super::answers::judge;
use super::{Check, check};
use crate::error::{Error, Kind};
use crate::testing::conformance::bench::{Bench, Context, Step};
use crate::testing::conformance::call::{Ask, Told, Way};
use crate::testing::conformance::verdict::{Verdict, holds, refused, same, skip, worked};
use crate::testing::{Received, Reply};

pub(super) const CHECKS: &[Check] = &[
    check!(
        "answer.encoding",
        "an answer in a content encoding that was not offered is invalid_response that names it; a refusal in one keeps its kind",
        answer_encoding
    ),
    check!(
        "stream.encoding",
        "a stream in a content encoding that was not offered is invalid_response that names it, never an empty success",
        stream_encoding
    ),
    check!(
        "answer.bound",
        "an answer beyond max_response_bytes is invalid_response, announced or not, and is not asked for again",
        bound
    ),
];

async fn answer_encoding(cx: &Context) -> Verdict {
    let wire = cx.wire()?;
    let plain: Vec<_> = cx
        .ways()
        .into_iter()
        .filter(|w| *w != Way::Stream)
        .collect();
    for way in &plain {
        encoded(cx, *way).await?;
    }
    let Some(way) = plain.first() else {
        return skip("the wire has streams only");
    };
    let refusal = wire.error(503, "no");
    let body = gzip(&refusal.body());
    let refusal = refusal.with_body(body).header("content-encoding", "gzip");
    let once = json!({"retry": {"max_attempts": 1}});
    let b = cx.bench(*way, once, vec![Step::Say(refusal)])?;
    let what = "status 503 with a body in gzip";
    let e = refused(what, wire.kind_of(503), b.ask(Ask::of(1)).await?)?;
    same(&format!("{what}: its status"), Some(503), e.status())
}

async fn stream_encoding(cx: &Context) -> Verdict {
    cx.wire()?;
    if !cx.ways().contains(&Way::Stream) {
        return skip("nothing is streamed");
    }
    encoded(cx, Way::Stream).await
}

/// The good answer, under each encoding's name.
async fn encoded(cx: &Context, way: Way) -> Verdict {
    let ask = Ask::of(1);
    for encoding in ["gzip", "br", "x-unheard-of"] {
        let make = move |_: &Received, good: Reply| {
            let body = match encoding {
                "gzip" => gzip(&good.body()),
                // As it is: whoever passes the name over reads it.
                _ => Bytes::from(good.body()),
            };
            good.with_body(body).header("content-encoding", encoding)
        };
        let b = cx.bench(way, json!({}), vec![Step::make(make)])?;
        let told = b.ask(ask.clone()).await?;
        let what = format!("{way:?} with content-encoding {encoding}");
        if offered(&b, encoding) && encoding == "gzip" {
            judge(&ask, &worked(&what, told)?)?;
            continue;
        }
        let e = refused(&what, Kind::InvalidResponse, told)?;
        holds(
            &format!("{what}: the error names it: {e}"),
            e.message().contains(encoding),
        )?;
        same(
            &format!("{what}: requests at the server"),
            1,
            b.requests().len(),
        )?;
        b.free(&what).await?;
    }
    let make = |_: &Received, good: Reply| good.header("content-encoding", "identity");
    let b = cx.bench(way, json!({}), vec![Step::make(make)])?;
    let told: Result<Told, Error> = b.ask(ask.clone()).await?;
    judge(&ask, &worked("content-encoding identity", told)?)
}

fn offered(b: &Bench<'_>, encoding: &str) -> bool {
    b.requests().iter().any(|r| {
        let offers = r.header("accept-encoding").unwrap_or("");
        offers
            .split(',')
            .any(|o| o.split(';').next().unwrap_or("").trim() == encoding)
    })
}

/// A gzip member that stores its bytes as they are (RFC 1952, RFC 1951 section 3.2.4).
fn gzip(body: &[u8]) -> Bytes {
    let mut out = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
    let mut left = body.chunks(0xffff).peekable();
    if body.is_empty() {
        out.extend([1, 0, 0, 0xff, 0xff]);
    }
    while let Some(block) = left.next() {
        let length = block.len() as u16;
        out.push(u8::from(left.peek().is_none()));
        out.extend(length.to_le_bytes());
        out.extend((!length).to_le_bytes());
        out.extend(block);
    }
    let sum = !body.iter().fold(!0_u32, |sum, byte| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| {
            (sum >> 1) ^ (0xedb8_8320 & (sum & 1).wrapping_neg())
        })
    });
    out.extend(sum.to_le_bytes());
    out.extend((body.len() as u32).to_le_bytes());
    Bytes::from(out)
}

async fn bound(cx: &Context) -> Verdict {
    cx.wire()?;
    for way in cx.ways().into_iter().filter(|w| *w != Way::Stream) {
        let blanks = || vec![b' '; 600];
        let forms = [
            ("announced", Reply::json(200, " ".repeat(2000))),
            (
                "not announced, and without end",
                Reply::stream(200, "application/json")
                    .chunk(blanks())
                    .chunk(blanks())
                    .then_hang(),
            ),
        ];
        for (what, reply) in forms {
            let bounds = json!({"max_response_bytes": 1000});
            let b = cx.bench(way, bounds, vec![Step::Say(reply)])?;
            let what = format!("{way:?}, an answer beyond the bound, {what}");
            let e = refused(&what, Kind::InvalidResponse, b.ask(Ask::of(1)).await?)?;
            holds(
                &format!("{what}: the error names max_response_bytes: {e}"),
                e.message().contains("max_response_bytes"),
            )?;
            same(
                &format!("{what}: requests at the server"),
                1,
                b.requests().len(),
            )?;
            b.free(&what).await?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gzip_stores_bytes_in_blocks_between_its_head_and_their_sum() {
        let head = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
        let block = [&[1, 5, 0, 0xfa, 0xff][..], b"hello"].concat();
        let sum = [0x86, 0xa6, 0x10, 0x36, 5, 0, 0, 0];
        assert_eq!(gzip(b"hello"), [&head[..], &block, &sum].concat());
        assert_eq!(gzip(&[])[10..15], [1, 0, 0, 0xff, 0xff]);
        // Two blocks, the last marked so.
        let long = gzip(&[b'x'; 0x1_0000]);
        let second = 10 + 5 + 0xffff;
        assert_eq!((long[10], long[second], long[second + 1]), (0, 1, 1));
    }
}
