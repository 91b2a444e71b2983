//! Refusals: every status and every error of the provider's own to its kind.

use serde_json::json;

use super::{Check, check};
use crate::error::Kind;
use crate::testing::Reply;
use crate::testing::conformance::bench::{Context, Step};
use crate::testing::conformance::call::{Ask, Way};
use crate::testing::conformance::verdict::{Verdict, fail, holds, refused, same, skip};

pub(super) const CHECKS: &[Check] = &[
    check!(
        "error.status",
        "each status is an error of its kind, keeps the provider's words, and is retried only where that can help",
        status
    ),
    check!(
        "error.any_body",
        "a status keeps its kind whatever its body is: none, a page, no UTF-8, deep or endless JSON",
        any_body
    ),
    check!(
        "error.refusals",
        "each refusal of the provider's own (Wire::refusals) is an error of its kind",
        refusals
    ),
    check!(
        "error.request_id",
        "an error carries the provider's id of the request",
        request_id
    ),
    check!(
        "error.transport",
        "a connection that fails is transport: tried again before the first byte, not after it",
        transport
    ),
];

/// The statuses whose meaning the kit knows.
pub(super) const STATUSES: [u16; 14] = [
    400, 401, 403, 404, 408, 409, 413, 422, 429, 500, 502, 503, 504, 529,
];

fn retried(status: u16) -> bool {
    matches!(status, 408 | 429 | 500 | 502 | 503 | 504 | 529)
}

async fn status(cx: &Context) -> Verdict {
    let wire = cx.wire()?;
    for way in cx.ways() {
        for status in STATUSES {
            let reply = wire.error(status, "kit-words");
            if reply.status_code() != Some(status) {
                return fail(
                    format!("Wire::error gives a reply with status {status}"),
                    format!("{:?}", reply.status_code()),
                );
            }
            let steps = (0..3).map(|_| Step::Say(reply.clone())).collect();
            let b = cx.bench(way, json!({}), steps)?;
            let what = format!("{way:?}, status {status}");
            let kind = wire.kind_of(status);
            let e = refused(&what, kind, b.ask(Ask::of(1)).await?)?;
            same(
                &format!("{what}: the error's status"),
                Some(status),
                e.status(),
            )?;
            holds(
                &format!(
                    "{what}: the provider's words are in the message ({})",
                    e.message()
                ),
                e.message().contains("kit-words"),
            )?;
            let tries = if retried(status) && kind.default_retryable() {
                3
            } else {
                1
            };
            same(
                &format!("{what}: requests at the server"),
                tries,
                b.requests().len(),
            )?;
            same(
                &format!("{what}: attempts of the error"),
                tries as u32,
                e.attempts(),
            )?;
        }
    }
    Ok(())
}

async fn any_body(cx: &Context) -> Verdict {
    let wire = cx.wire()?;
    let way = cx.way()?;
    for status in STATUSES {
        for (what, reply) in bodies(status) {
            let b = cx.bench(
                way,
                json!({"retry": {"max_attempts": 1}}),
                vec![Step::Say(reply)],
            )?;
            let what = format!("status {status} with {what}");
            let e = refused(&what, wire.kind_of(status), b.ask(Ask::of(1)).await?)?;
            let shown = e.to_string();
            holds(&format!("{what}: one line"), !shown.contains(['\n', '\r']))?;
            holds(&format!("{what}: not endless"), shown.len() < 20_000)?;
            same(&format!("{what}: attempts"), 1, e.attempts())?;
        }
    }
    Ok(())
}

fn bodies(status: u16) -> Vec<(&'static str, Reply)> {
    let deep = "[".repeat(2000);
    vec![
        ("no body", Reply::status(status)),
        (
            "a page",
            Reply::bytes(status, "text/html", "<html>\n<b>no</b>\n</html>"),
        ),
        ("plain text", Reply::text(status, "no\nmore")),
        (
            "no UTF-8",
            Reply::bytes(status, "application/json", vec![0xff, 0xfe, 0x00, 0x80]),
        ),
        (
            "half of a JSON object",
            Reply::json(status, "{\"error\": {\"message\": \"a"),
        ),
        ("null", Reply::json(status, "null")),
        (
            "an error that is a number",
            Reply::json(status, r#"{"error": 7, "message": [1]}"#),
        ),
        ("deep JSON", Reply::bytes(status, "application/json", deep)),
        (
            "a body of 300 KiB",
            Reply::text(status, "x ".repeat(150 << 10)),
        ),
    ]
}

async fn refusals(cx: &Context) -> Verdict {
    let refusals = cx.wire()?.refusals();
    if refusals.is_empty() {
        return skip("the wire gives none (Wire::refusals)");
    }
    for way in cx.ways() {
        for refusal in &refusals {
            let steps = (0..3).map(|_| Step::Say(refusal.reply.clone())).collect();
            let b = cx.bench(way, json!({}), steps)?;
            let what = format!("{way:?}, {}", refusal.name);
            let e = refused(&what, refusal.kind, b.ask(Ask::of(1)).await?)?;
            if let Some(retried) = refusal.retried {
                let tries = if retried { 3 } else { 1 };
                same(
                    &format!("{what}: requests at the server"),
                    tries,
                    b.requests().len(),
                )?;
            }
            if let Some(code) = &refusal.code {
                same(&format!("{what}: the code"), Some(code.as_str()), e.code())?;
            }
            if let Some(wait) = refusal.wait {
                same(
                    &format!("{what}: what it asks to wait"),
                    Some(wait),
                    e.retry_after(),
                )?;
            }
        }
    }
    Ok(())
}

async fn request_id(cx: &Context) -> Verdict {
    let wire = cx.wire()?;
    let Some(header) = wire.request_id_header() else {
        return skip("the wire names no header for it (Wire::request_id_header)");
    };
    let reply = wire.error(400, "no").header(header, "req-kit-1");
    let b = cx.bench(cx.way()?, json!({}), vec![Step::Say(reply)])?;
    let e = refused("status 400", wire.kind_of(400), b.ask(Ask::of(1)).await?)?;
    same("the error's request id", Some("req-kit-1"), e.request_id())
}

async fn transport(cx: &Context) -> Verdict {
    cx.wire()?;
    for way in cx.ways() {
        let reset = (0..3).map(|_| Step::Say(Reply::reset())).collect();
        let b = cx.bench(way, json!({}), reset)?;
        let e = refused(
            "a connection that is reset",
            Kind::Transport,
            b.ask(Ask::of(1)).await?,
        )?;
        same("requests at the server", 3, b.requests().len())?;
        same("attempts of the error", 3, e.attempts())?;
        b.free("after a reset").await?;
        if way == Way::Stream {
            continue;
        }
        let cut = Step::make(|_, good| {
            let half = good.body().len() / 2;
            good.cut_after(half)
        });
        let b = cx.bench(way, json!({}), vec![cut])?;
        refused(
            "a body that breaks off",
            Kind::Transport,
            b.ask(Ask::of(1)).await?,
        )?;
        same(
            "requests at the server after a body that broke off",
            1,
            b.requests().len(),
        )?;
        b.free("after a body that broke off").await?;
    }
    Ok(())
}
