//! What a 429 does to everyone who shares the quota.

use std::time::Duration;

use serde_json::json;

use super::{Check, check};
use crate::client::CallOptions;
use crate::error::Kind;
use crate::testing::Reply;
use crate::testing::conformance::bench::{Context, Step, open};
use crate::testing::conformance::call::Ask;
use crate::testing::conformance::verdict::{Verdict, holds, refused, same, skip, worked};

pub(super) const CHECKS: &[Check] = &[
    check!(
        "cooldown.shared",
        "a 429's Retry-After holds every caller of the scope back, on another handle too",
        shared
    ),
    check!(
        "cooldown.forms",
        "Retry-After counts as seconds, fractions, milliseconds and HTTP date; what is malformed counts as absent",
        forms
    ),
    check!(
        "cooldown.body",
        "a hint in a 429's body counts like one in its head",
        body
    ),
    check!(
        "cooldown.deadline",
        "a wait that does not fit the deadline fails now, with what was told, and the cooldown stays",
        deadline
    ),
    check!(
        "cooldown.busy",
        "a 503's Retry-After delays this call's retry and not the scope",
        busy
    ),
];

const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

async fn shared(cx: &Context) -> Verdict {
    let wire = cx.wire()?;
    for way in cx.ways() {
        let told = wire.error(429, "slow down").header("retry-after", 7);
        let b = cx.bench(
            way,
            json!({"retry": {"max_attempts": 1}}),
            vec![Step::Say(told)],
        )?;
        let start = b.clock.now();
        let e = refused("status 429", Kind::RateLimited, b.ask(Ask::of(1)).await?)?;
        same(
            "what the error says to wait",
            Some(secs(7)),
            e.retry_after(),
        )?;
        let left = b.asker.snapshot().cooldown_remaining;
        same("the scope's cooldown", Some(secs(7)), left)?;
        let other = worked("a second handle", open(&b.client, &b.entry))?;
        let mut call = std::pin::pin!(other.ask(way, Ask::of(1)));
        b.until(call.as_mut(), "the other handle's call is queued", |b| {
            b.asker.snapshot().queued == 1
        })
        .await?;
        b.clock.advance(Duration::from_millis(6_999));
        b.until(call.as_mut(), "it still waits just before the end", |b| {
            b.asker.snapshot().queued == 1
        })
        .await?;
        same(
            "requests at the server during the cooldown",
            1,
            b.requests().len(),
        )?;
        worked("the call after the cooldown", b.drive(call).await?)?;
        let took = b.clock.now().saturating_duration_since(start);
        holds("it left no earlier than told", took >= secs(7))?;
    }
    Ok(())
}

async fn forms(cx: &Context) -> Verdict {
    let wire = cx.wire()?;
    let date = "Sun, 06 Nov 1994 08:49:37 GMT";
    let forms: [(&str, &str, Option<Duration>); 8] = [
        ("retry-after", "3", Some(secs(3))),
        ("retry-after", "1.5", Some(Duration::from_millis(1500))),
        ("retry-after-ms", "250", Some(Duration::from_millis(250))),
        (
            "retry-after",
            "Sun, 06 Nov 1994 08:49:42 GMT",
            Some(secs(5)),
        ),
        (
            "retry-after",
            "Sunday, 06-Nov-94 08:49:42 GMT",
            Some(secs(5)),
        ),
        ("retry-after", "soon", None),
        ("retry-after", "-1", None),
        ("retry-after", "99999999999999999999", Some(secs(u64::MAX))),
    ];
    let way = cx.way()?;
    for (name, value, expected) in forms {
        let told = wire
            .error(429, "slow down")
            .header("date", date)
            .header(name, value);
        let b = cx.bench(
            way,
            json!({"retry": {"max_attempts": 1}}),
            vec![Step::Say(told)],
        )?;
        let what = format!("{name}: {value}");
        refused(&what, Kind::RateLimited, b.ask(Ask::of(1)).await?)?;
        let left = b.asker.snapshot().cooldown_remaining;
        match expected {
            Some(wait) if wait > secs(1 << 40) => {
                holds(
                    &format!("{what}: a cooldown without end"),
                    left > Some(secs(1 << 30)),
                )?;
            }
            expected => same(&format!("{what}: the cooldown"), expected, left)?,
        }
    }
    Ok(())
}

async fn body(cx: &Context) -> Verdict {
    let hints: Vec<_> = cx
        .wire()?
        .refusals()
        .into_iter()
        .filter_map(|r| Some((r.wait?, r)))
        .collect();
    if hints.is_empty() {
        return skip("no refusal of the wire's has a hint in its body (Refusal::waits)");
    }
    for (wait, refusal) in hints {
        let steps = vec![Step::Say(refusal.reply.clone())];
        let b = cx.bench(cx.way()?, json!({"retry": {"max_attempts": 1}}), steps)?;
        refused(&refusal.name, refusal.kind, b.ask(Ask::of(1)).await?)?;
        let left = b.asker.snapshot().cooldown_remaining;
        same(&format!("{}: the cooldown", refusal.name), Some(wait), left)?;
    }
    Ok(())
}

async fn deadline(cx: &Context) -> Verdict {
    let wire = cx.wire()?;
    for way in cx.ways() {
        let told = wire.error(429, "slow down").header("retry-after", 15);
        let b = cx.bench(way, json!({}), vec![Step::Say(told)])?;
        let start = b.clock.now();
        let ask = Ask::of(1).with(CallOptions::default().with_timeout(secs(10)));
        // The clock stands still: a sleep would hang here and not pass for free.
        let told = b.stand_still(b.asker.ask(way, ask.clone())).await?;
        let e = refused("a wait past the deadline", Kind::RateLimited, told)?;
        same(
            "what the error says to wait",
            Some(secs(15)),
            e.retry_after(),
        )?;
        same("the clock", start, b.clock.now())?;
        let told = b.stand_still(b.asker.ask(way, ask)).await?;
        let e = refused("a second call", Kind::DeadlineExceeded, told)?;
        same(
            "what the second says to wait",
            Some(secs(15)),
            e.retry_after(),
        )?;
        same("requests at the server", 1, b.requests().len())?;
        let left = b.asker.snapshot().cooldown_remaining;
        same("the cooldown that stays", Some(secs(15)), left)?;
        b.free("after the refusals").await?;
    }
    Ok(())
}

async fn busy(cx: &Context) -> Verdict {
    let wire = cx.wire()?;
    let way = cx.way()?;
    let told: Reply = wire.error(503, "busy").header("retry-after", 4);
    let b = cx.bench(way, json!({}), vec![Step::Say(told)])?;
    let start = b.clock.now();
    let mut call = std::pin::pin!(b.asker.ask(way, Ask::of(1)));
    b.until(call.as_mut(), "the refused call waits", |b| {
        b.requests().len() == 1 && b.asker.snapshot().active == 0
    })
    .await?;
    same(
        "the scope's cooldown",
        None,
        b.asker.snapshot().cooldown_remaining,
    )?;
    let other = b.stand_still(b.asker.ask(way, Ask::of(1))).await?;
    worked("another call meanwhile", other)?;
    same("the clock", start, b.clock.now())?;
    worked("the refused call's retry", b.drive(call).await?)?;
    let took = b.clock.now().saturating_duration_since(start);
    holds("its retry left no earlier than told", took >= secs(4))
}
