//! What an attempt costs: the bytes of its body plus the output cap, as they go on the wire.

use serde_json::json;

use super::{Check, check};
use crate::error::Kind;
use crate::provider::{Operation, TokenCost};
use crate::testing::conformance::bench::{Context, Step};
use crate::testing::conformance::call::{Ask, Way};
use crate::testing::conformance::verdict::{Verdict, fail, holds, refused, same, skip, worked};

pub(super) const CHECKS: &[Check] = &[
    check!(
        "cost.wire",
        "an attempt costs its body's bytes plus the output cap on the wire",
        wire
    ),
    check!(
        "cost.default_cap",
        "under a token budget an omitted output cap is the declared default, on the wire and in the price",
        default_cap
    ),
    check!("cost.retries", "every attempt pays again", retries),
    check!(
        "cost.budget",
        "what costs more than the budget is refused before anything leaves; what costs as much passes",
        budget
    ),
];

/// Tokens paid for one call, bytes of its body, its cap on the wire.
pub(super) async fn paid(
    cx: &Context,
    way: Way,
    ask: Ask,
    extra: serde_json::Value,
) -> Verdict<(u64, u64, u64)> {
    let wire = cx.wire()?;
    let b = cx.bench(way, extra, vec![])?;
    worked(&format!("{way:?}"), b.ask(ask).await?)?;
    b.free("after the call").await?;
    let (requests, records) = (b.requests(), b.records());
    let ([request], [record]) = (requests.as_slice(), records.as_slice()) else {
        return fail(
            "one request and one attempt",
            format!("{} and {}", requests.len(), records.len()),
        );
    };
    let cap = wire.output_cap(request).unwrap_or(0);
    Ok((record.tokens, request.body.len() as u64, cap))
}

fn priced(cx: &Context, what: &str, (tokens, bytes, cap): (u64, u64, u64)) -> Verdict {
    match cx.declared.cost {
        TokenCost::Text => same(
            &format!("{what}: {bytes} bytes of body plus an output cap of {cap}"),
            bytes + cap,
            tokens,
        ),
        TokenCost::AtLeast(_) => holds(
            &format!("{what}: {tokens} tokens are at least {bytes} bytes of body plus {cap}"),
            tokens >= bytes + cap,
        ),
    }
}

async fn wire(cx: &Context) -> Verdict {
    cx.wire()?;
    for way in cx.ways() {
        let what = format!("{way:?}");
        priced(cx, &what, paid(cx, way, Ask::of(2), json!({})).await?)?;
        if cx.subject.operation == Operation::Generate {
            let seen = paid(cx, way, Ask::of(1).cap(77), json!({})).await?;
            same(
                &format!("{what}: the output cap on the wire (Wire::output_cap)"),
                77,
                seen.2,
            )?;
            priced(cx, &format!("{what} with a cap of 77"), seen)?;
        }
    }
    Ok(())
}

async fn default_cap(cx: &Context) -> Verdict {
    cx.wire()?;
    if cx.subject.operation != Operation::Generate {
        return skip("only generators have one");
    }
    for way in cx.ways() {
        let budget = json!({"rate_limit": {"tokens_per_minute": 1_000_000}});
        let seen = paid(cx, way, Ask::of(1), budget).await?;
        same(
            &format!("{way:?}: the output cap on the wire (Wire::output_cap)"),
            u64::from(cx.declared.default_output_cap),
            seen.2,
        )?;
        priced(cx, &format!("{way:?}"), seen)?;
    }
    Ok(())
}

async fn retries(cx: &Context) -> Verdict {
    let wire = cx.wire()?;
    let way = cx.way()?;
    let steps = vec![
        Step::Say(wire.error(500, "no")),
        Step::Say(wire.error(429, "no")),
    ];
    let b = cx.bench(
        way,
        json!({"rate_limit": {"tokens_per_minute": 1_000_000}}),
        steps,
    )?;
    worked("a call of three attempts", b.ask(Ask::of(1)).await?)?;
    b.free("after the call").await?;
    let records = b.records();
    let one = records.first().map_or(0, |r| r.tokens);
    same("attempts", 3, records.len())?;
    let all = b.asker.snapshot().counters.tokens_admitted;
    same("tokens of three attempts", 3 * one, all)
}

async fn budget(cx: &Context) -> Verdict {
    cx.wire()?;
    for way in cx.ways() {
        let wide = json!({"rate_limit": {"tokens_per_minute": 4_000_000_000_u64}});
        let (tokens, ..) = paid(cx, way, Ask::of(1), wide).await?;
        let limit = |tokens: u64| json!({"rate_limit": {"tokens_per_minute": tokens}});
        let b = cx.bench(way, limit(tokens - 1), vec![])?;
        refused(
            &format!("{way:?}: a cost of {tokens} under a budget of one less"),
            Kind::ExceedsTokenBudget,
            b.ask(Ask::of(1)).await?,
        )?;
        same("requests at the server", 0, b.requests().len())?;
        same(
            "tokens reserved",
            0,
            b.asker.snapshot().counters.tokens_admitted,
        )?;
        let b = cx.bench(way, limit(tokens), vec![])?;
        worked(
            &format!("{way:?}: a cost of {tokens} under a budget of as much"),
            b.ask(Ask::of(1)).await?,
        )?;
    }
    Ok(())
}
