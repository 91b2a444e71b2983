//! Embed calls in more than one request: split by count, by the entry's and the call's own size, by bytes, by price.

use serde_json::json;

use super::answers::judge;
use super::cost::paid;
use super::{Check, check};
use crate::client::CallOptions;
use crate::error::Error;
use crate::provider::{BatchLimits, Operation};
use crate::testing::conformance::bench::{Bench, Context, Step};
use crate::testing::conformance::call::{Ask, Told, Way, vector_of};
use crate::testing::conformance::verdict::{Verdict, fail, holds, refused, same, skip, worked};

pub(super) const CHECKS: &[Check] = &[
    check!(
        "request.batches",
        "more inputs than one request carries are split in order, each part admitted",
        batches
    ),
    check!(
        "request.batch_size",
        "the entry's batch_size, and before it the call's, is the most inputs of a request; a refusal of too many is told as it is",
        batch_size
    ),
    check!(
        "request.bytes",
        "inputs too large for one request are split by size, and one that is too large alone fails alone",
        bytes
    ),
    check!(
        "request.price",
        "inputs that cost more than the token budget together are split, each part paid for",
        price
    ),
];

/// The limits of a request; skips what does not embed, or not more than one input at once.
fn limits(cx: &Context) -> Verdict<BatchLimits> {
    cx.wire()?;
    if cx.subject.operation != Operation::Embed {
        return skip("only embed calls are split");
    }
    let b = cx.bench(Way::Embed, json!({}), vec![])?;
    let limits = b.asker.embedder().map(crate::Embedder::batch_limits);
    match limits {
        Some(limits) if limits.max_items > 1 => Ok(limits),
        _ => skip("a request carries one input"),
    }
}

async fn batches(cx: &Context) -> Verdict {
    let wire = cx.wire()?;
    if cx.subject.operation != Operation::Embed {
        return skip("only embed calls are split");
    }
    let b = cx.bench(Way::Embed, json!({}), vec![])?;
    let limits = b.asker.embedder().map(|e| e.batch_limits().max_items);
    let Some(limit) = limits.filter(|n| *n <= 5000) else {
        return skip("one request carries more than 5000 inputs");
    };
    let ask = Ask::of(2 * limit + 1);
    let told = worked("an embed call of many", b.ask(ask.clone()).await?)?;
    let Told::Vectors(vectors) = told else {
        return fail("vectors", format!("{told:?}"));
    };
    same("vectors", ask.texts.len(), vectors.len())?;
    let wrong = (0..ask.texts.len())
        .find(|i| vectors.get(*i) != Some(vector_of(&ask.texts[*i]).as_slice()));
    same("the first input with another's vector", None, wrong)?;
    let requests = b.requests();
    let mut all = Vec::new();
    for request in &requests {
        let texts = wire.texts(request);
        holds(
            &format!("a request carries at most {limit} inputs"),
            texts.len() <= limit,
        )?;
        all.extend(texts);
    }
    all.sort();
    let mut asked = ask.texts.clone();
    asked.sort();
    same("every input is sent once", asked, all)?;
    same(
        "requests admitted",
        requests.len() as u64,
        b.asker.snapshot().counters.admitted,
    )
}

/// The call worked, each input has its own vector, and each request is admitted and within its bounds.
fn split(
    b: &Bench<'_>,
    what: &str,
    ask: &Ask,
    told: Result<Told, Error>,
    most: impl Fn(&[String]) -> bool,
) -> Verdict<usize> {
    judge(ask, &worked(what, told)?)?;
    let requests = b.requests();
    let mut sent = Vec::new();
    for request in &requests {
        let texts = b.wire()?.texts(request);
        holds(
            &format!("{what}: each request is within its bound"),
            most(&texts),
        )?;
        sent.extend(texts);
    }
    let mut asked = ask.texts.clone();
    asked.sort();
    sent.sort();
    same(&format!("{what}: every input is sent once"), asked, sent)?;
    let admitted = b.asker.snapshot().counters.admitted;
    same(
        &format!("{what}: admitted"),
        requests.len() as u64,
        admitted,
    )?;
    Ok(requests.len())
}

async fn batch_size(cx: &Context) -> Verdict {
    limits(cx)?;
    let ask = Ask::of(5);
    let two = json!({"batch_size": 2});
    let b = cx.bench(Way::Embed, two.clone(), vec![])?;
    let told = b.ask(ask.clone()).await?;
    let requests = split(&b, "batch_size 2", &ask, told, |texts| texts.len() <= 2)?;
    same("requests of 5 inputs with batch_size 2", 3, requests)?;
    let b = cx.bench(Way::Embed, two, vec![])?;
    let Some(embedder) = b.asker.embedder() else {
        return skip("not an embedder");
    };
    let own = ask.embed_request().with_batch_size(1);
    let told = b.drive(embedder.embed(own)).await?.map(Told::Vectors);
    let what = "a call's own batch size 1";
    let requests = split(&b, what, &ask, told, |texts| texts.len() == 1)?;
    same("requests of 5 inputs with a batch size of 1", 5, requests)?;
    // Without either the server's own word says what is wrong.
    let wire = cx.wire()?;
    let refusal = wire.error(400, "5 texts, the limit is 2");
    let b = cx.bench(
        Way::Embed,
        json!({"batch_size": 5}),
        vec![Step::Say(refusal)],
    )?;
    let e = refused("status 400", wire.kind_of(400), b.ask(ask).await?)?;
    holds(
        &format!("the server's words are in the message: {e}"),
        e.message().contains("5 texts, the limit is 2"),
    )?;
    same("requests at the server", 1, b.requests().len())
}

async fn bytes(cx: &Context) -> Verdict {
    let limit = limits(cx)?.max_bytes;
    if limit > 2 << 20 {
        return skip("one request carries more than 2 MiB");
    }
    let sum = |texts: &[String]| texts.iter().map(String::len).sum::<usize>();
    let mut ask = Ask::of(7);
    for text in &mut ask.texts {
        text.extend(std::iter::repeat_n('x', limit * 2 / 5));
    }
    let b = cx.bench(Way::Embed, json!({}), vec![])?;
    let told = b.ask(ask.clone()).await?;
    let what = format!("7 inputs of two fifths of {limit} bytes");
    let requests = split(&b, &what, &ask, told, |texts| sum(texts) <= limit)?;
    same(&format!("{what}: requests"), 4, requests)?;
    // The server takes no more than its bound: what is larger alone is refused alone, here or there.
    let mut ask = Ask::of(4);
    ask.texts[2].extend(std::iter::repeat_n('x', limit));
    let wire = cx.wire()?;
    let steps = (0..4).map(|_| {
        let wire = std::sync::Arc::clone(wire);
        Step::make(move |request, good| match wire.texts(request) {
            texts if texts.iter().map(String::len).sum::<usize>() > limit => {
                wire.error(400, "too large")
            }
            _ => good,
        })
    });
    let b = cx.bench(Way::Embed, json!({}), steps.collect())?;
    let Some(embedder) = b.asker.embedder() else {
        return skip("not an embedder");
    };
    let parts = embedder.embed_parts(ask.embed_request(), CallOptions::default());
    let parts = worked("the parts", b.drive(parts).await?)?;
    let mut seen = 0;
    for part in parts {
        let items = part.items;
        same("the first input of the next part", seen, items.start)?;
        seen = items.end;
        let what = format!("the part of inputs {items:?}");
        if items.contains(&2) {
            same("the part of the large input", 2..3, items)?;
            let Err(e) = part.result else {
                return fail("the large input's own error", "vectors");
            };
            same("the input that the error names", Some(2), e.item())?;
        } else {
            let vectors = worked(&what, part.result)?;
            for (row, text) in ask.texts[items].iter().enumerate() {
                let vector = vectors.get(row).unwrap_or_default().to_vec();
                same(&what, vector_of(text), vector)?;
            }
        }
    }
    same("inputs in all parts", 4, seen)
}

async fn price(cx: &Context) -> Verdict {
    let count = limits(cx)?.max_items.min(5);
    let mut ask = Ask::of(count);
    for text in &mut ask.texts {
        text.extend(std::iter::repeat_n('x', 1000));
    }
    let wide = json!({"rate_limit": {"tokens_per_minute": 4_000_000_000_u64}});
    let (whole, ..) = paid(cx, Way::Embed, ask.clone(), wide).await?;
    let budget = whole * 9 / 10; // Either half fits, and the second waits a few seconds at most.
    let b = cx.bench(
        Way::Embed,
        json!({"rate_limit": {"tokens_per_minute": budget}}),
        vec![],
    )?;
    let told = b.ask(ask.clone()).await?;
    let what = format!("{count} inputs that cost {whole} tokens under a budget of {budget}");
    let requests = split(&b, &what, &ask, told, |texts| texts.len() < count)?;
    same(&format!("{what}: requests"), 2, requests)?;
    b.free(&what).await?;
    let dearest = b.records().iter().map(|r| r.tokens).max();
    holds(
        &format!("{what}: no part costs more than the budget: {dearest:?}"),
        dearest.is_some_and(|tokens| tokens <= budget),
    )
}
