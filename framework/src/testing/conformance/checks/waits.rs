//! How long a call waits for what it was told: not shorter, not longer, and never for ever.

use std::time::Duration;

use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::cost::paid;
use super::{Check, check};
use crate::client::CallOptions;
use crate::error::Kind;
use crate::testing::conformance::bench::{Bench, Context, Step};
use crate::testing::conformance::call::Ask;
use crate::testing::conformance::verdict::{Verdict, fail, holds, refused, same, worked};

pub(super) const CHECKS: &[Check] = &[
    check!(
        "wait.boundary",
        "a wait that ends at the deadline is still within it, and no margin counts against it",
        boundary
    ),
    check!(
        "wait.bounded",
        "a caller without a deadline does not wait an hour, and its cancellation ends any wait at once",
        bounded
    ),
    check!(
        "wait.rates",
        "many 429s change no configured rate: what comes after waits as long as the budget says",
        rates
    ),
    check!(
        "wait.backoff",
        "the backoff saturates at any number of attempts",
        backoff
    ),
];

const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

async fn boundary(cx: &Context) -> Verdict {
    let wire = cx.wire()?;
    for way in cx.ways() {
        for (deadline, what) in [
            (
                Duration::from_millis(10_001),
                "a millisecond before the deadline",
            ),
            (secs(10), "at the deadline"),
        ] {
            let told = wire.error(429, "slow down").header("retry-after", 10);
            let b = cx.bench(way, json!({}), vec![Step::Say(told)])?;
            let ask = Ask::of(1).with(CallOptions::default().with_timeout(deadline));
            let what = format!("{way:?}, a wait that ends {what}");
            let mut call = std::pin::pin!(b.asker.ask(way, ask));
            b.until(call.as_mut(), &what, |b| waits(b, secs(10), 0))
                .await?;
            b.clock.advance(secs(10));
            let result = b.stand_still(call).await?;
            // At the very deadline either may come first: the answer, or the end of the time. Not the refusal.
            match result {
                Err(e) if deadline > secs(10) || e.kind() != Kind::DeadlineExceeded => {
                    return fail(format!("{what}: a second attempt"), e.to_string());
                }
                _ => {}
            }
            let admitted = b.asker.snapshot().counters.admitted;
            same(&format!("{what}: admitted"), 2, admitted)?;
        }
    }
    Ok(())
}

async fn bounded(cx: &Context) -> Verdict {
    let wire = cx.wire()?;
    for way in cx.ways() {
        let told = wire.error(429, "slow down").header("retry-after", 3600);
        let b = cx.bench(way, json!({}), vec![Step::Say(told)])?;
        let start = b.clock.now();
        let told = b.stand_still(b.asker.ask(way, Ask::of(1))).await?;
        let what = format!("{way:?}, an hour to wait and no deadline");
        let e = refused(&what, Kind::RateLimited, told)?;
        same(
            &format!("{what}: what the error says"),
            Some(secs(3600)),
            e.retry_after(),
        )?;
        same(&format!("{what}: the clock"), start, b.clock.now())?;
        same(
            &format!("{what}: the cooldown"),
            Some(secs(3600)),
            cooldown(&b),
        )?;
        cancelled(cx, way).await?;
    }
    Ok(())
}

/// After one request the call waits so long without a permit, in line or not.
fn waits(b: &Bench<'_>, wait: Duration, queued: usize) -> bool {
    let scope = b.asker.snapshot();
    b.clock.next_alarm() == Some(b.clock.now().saturating_add(wait))
        && (scope.active, scope.queued) == (0, queued)
        && b.requests().len() == 1
}

fn cooldown(b: &Bench<'_>) -> Option<Duration> {
    b.asker.snapshot().cooldown_remaining
}

/// A wait of 100 seconds, in the backoff of the call that was told so and in the line behind it, ends with the cancellation.
async fn cancelled(cx: &Context, way: crate::testing::conformance::call::Way) -> Verdict {
    let told = cx
        .wire()?
        .error(429, "slow down")
        .header("retry-after", 100);
    let b = cx.bench(way, json!({}), vec![Step::Say(told)])?;
    for (what, queued) in [("in its backoff", 0), ("in line", 1)] {
        let token = CancellationToken::new();
        let options = CallOptions::default().with_cancel(token.clone());
        let mut call = std::pin::pin!(b.asker.ask(way, Ask::of(1).with(options)));
        let what = format!("{way:?}, a call that waits {what}");
        b.until(call.as_mut(), &what, |b| waits(b, secs(100), queued))
            .await?;
        token.cancel();
        refused(&what, Kind::Cancelled, b.stand_still(call).await?)?;
        b.free(&what).await?;
        same(
            &format!("{what}: the cooldown that stays"),
            Some(secs(100)),
            cooldown(&b),
        )?;
    }
    same("requests at the server", 1, b.requests().len())
}

async fn rates(cx: &Context) -> Verdict {
    const REFUSED: u64 = 20;
    let wire = cx.wire()?;
    let way = cx.way()?;
    let mut large = Ask::of(1);
    large.texts[0] = "large ".repeat(400);
    let wide = || json!({"rate_limit": {"tokens_per_minute": 4_000_000_000_u64}});
    let (small_cost, ..) = paid(cx, way, Ask::of(1), wide()).await?;
    let (large_cost, ..) = paid(cx, way, large.clone(), wide()).await?;
    // When the refused ones have paid, the large one lacks a twelfth of a minute's tokens.
    let budget = (REFUSED * small_cost + large_cost) * 12 / 13;
    holds("the large request fits the budget", large_cost <= budget)?;
    let limits = json!({
        "retry": {"max_attempts": 1},
        "rate_limit": {"requests_per_minute": 600, "burst": 50, "tokens_per_minute": budget},
    });
    let steps = (0..REFUSED).map(|_| Step::Say(wire.error(429, "slow down")));
    let b = cx.bench(way, limits, steps.collect())?;
    let (policy, start) = (b.asker.snapshot().policy, b.clock.now());
    for number in 1..=REFUSED {
        let what = format!("429 number {number}");
        refused(&what, Kind::RateLimited, b.ask(Ask::of(1)).await?)?;
        same(
            &format!("{what}, which says no time to wait: the cooldown"),
            None,
            cooldown(&b),
        )?;
    }
    same("the scope's policy", policy, b.asker.snapshot().policy)?;
    same("the clock", start, b.clock.now())?;
    worked("a large request", b.ask(large).await?)?;
    let took = b.clock.now().saturating_duration_since(start).as_secs_f64();
    holds(
        &format!("the large request waits for a twelfth of a minute's tokens, 5 s: {took} s"),
        (4.5..5.5).contains(&took),
    )
}

async fn backoff(cx: &Context) -> Verdict {
    // Ten thousand times as long 80 times over is more than any type holds.
    const TRIES: u32 = 80;
    let refusal = cx.wire()?.error(500, "no");
    let patient = json!({
        "timeout_ms": 3_600_000,
        "retry": {
            "max_attempts": TRIES, "initial_backoff_ms": 1000, "max_backoff_ms": 5000,
            "backoff_multiplier": 10_000,
        },
    });
    let steps = (0..TRIES).map(|_| Step::Say(refusal.clone())).collect();
    let b = cx.bench(cx.way()?, patient, steps)?;
    let e = refused(
        "80 times status 500",
        cx.wire()?.kind_of(500),
        b.ask(Ask::of(1)).await?,
    )?;
    same("attempts of the error", TRIES, e.attempts())?;
    same("requests at the server", TRIES as usize, b.requests().len())?;
    let records = b.records();
    let gaps = records
        .windows(2)
        .map(|w| w[1].at.saturating_duration_since(w[0].at));
    let longest = gaps.max().unwrap_or_default();
    holds(
        &format!("no backoff is longer than max_backoff_ms, 5 s: {longest:?}"),
        longest <= secs(5) && longest > secs(1),
    )
}
