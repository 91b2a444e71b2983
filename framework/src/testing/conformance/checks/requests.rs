//! What leaves.

use serde_json::json;

use super::{Check, check};
use crate::error::Kind;
use crate::provider::Operation;
use crate::testing::conformance::bench::{Context, Step};
use crate::testing::conformance::call::{Ask, QUERY, Told, Way, score_of, vector_of};
use crate::testing::conformance::verdict::{Verdict, fail, holds, refused, same, skip, worked};

pub(super) const CHECKS: &[Check] = &[
    check!(
        "request.sent",
        "one POST with what was asked for, and the credential",
        sent
    ),
    check!(
        "request.extra_body",
        "extra_body is merged into the body, and a field the adapter owns is refused",
        extra_body
    ),
    check!(
        "request.headers",
        "the entry's extra headers go with it",
        headers
    ),
    check!(
        "request.batches",
        "more inputs than one request carries are split in order, each part admitted",
        batches
    ),
    check!(
        "request.empty",
        "nothing to ask is refused before anything leaves",
        empty
    ),
];

async fn sent(cx: &Context) -> Verdict {
    let wire = cx.wire()?;
    let ways = cx.ways();
    holds("the wire has a good answer", !ways.is_empty())?;
    for way in ways {
        let b = cx.bench(way, json!({}), vec![])?;
        let count = b
            .asker
            .embedder()
            .map_or(3, |e| e.batch_limits().max_items.min(3));
        let ask = Ask::of(count);
        let told = worked(&format!("{way:?}"), b.ask(ask.clone()).await?)?;
        let requests = b.requests();
        same("requests at the server", 1, requests.len())?;
        let request = &requests[0];
        same("the method", "POST", request.method.as_str())?;
        let body = request.json();
        holds("the body is JSON", !body.is_null())?;
        holds(
            "the content type is JSON",
            request
                .header("content-type")
                .is_some_and(|t| t.contains("json")),
        )?;
        if cx.declared.credential.as_str() != "anonymous" {
            holds(
                "the credential goes with the request (Wire::authorized)",
                wire.authorized(request),
            )?;
        }
        let text = strings(&body);
        match &told {
            Told::Text(_) => {
                holds("the prompt is in the body", text.contains(&ask.texts[0]))?;
            }
            Told::Vectors(_) => same(
                "the texts the server reads (Wire::texts)",
                ask.texts.clone(),
                wire.texts(request),
            )?,
            Told::Scores(_) => {
                holds("the query is in the body", text.iter().any(|t| t == QUERY))?;
                same(
                    "the documents the server reads (Wire::texts)",
                    ask.texts.clone(),
                    wire.texts(request),
                )?;
            }
        }
    }
    Ok(())
}

/// Every string in a JSON value.
fn strings(value: &serde_json::Value) -> Vec<String> {
    use serde_json::Value;
    let mut found = Vec::new();
    let mut left = vec![value];
    while let Some(value) = left.pop() {
        match value {
            Value::String(text) => found.push(text.clone()),
            Value::Array(items) => left.extend(items),
            Value::Object(fields) => left.extend(fields.values()),
            _ => {}
        }
    }
    found
}

async fn extra_body(cx: &Context) -> Verdict {
    cx.wire()?;
    let extra = json!({"extra_body": {"x_conformance": {"deep": [1, "two"]}}});
    let entry = crate::testing::conformance::bench::try_entry(
        &cx.subject,
        "http://127.0.0.1:9",
        &extra,
        true,
    );
    let env = crate::config::Env::from_pairs((cx.subject.environment)("http://127.0.0.1:9"));
    let takes =
        entry.and_then(|e| crate::testing::conformance::bench::try_resolve(&cx.subject, &e, &env));
    if let Err(e) = takes {
        return skip(format!("the adapter refuses extra_body: {}", e.message()));
    }
    for way in cx.ways() {
        let b = cx.bench(way, extra.clone(), vec![])?;
        worked(&format!("{way:?}"), b.ask(Ask::of(1)).await?)?;
        for request in b.requests() {
            let text = request.text();
            holds(
                "the body has the entry's extra_body",
                text.contains("x_conformance") && text.contains("two"),
            )?;
        }
    }
    Ok(())
}

async fn headers(cx: &Context) -> Verdict {
    cx.wire()?;
    if cx.route == crate::testing::conformance::bench::Kind::Engine {
        return skip("an engine's SDK makes its own head");
    }
    let b = cx.bench(cx.way()?, json!({"headers": {"x-team": "blue"}}), vec![])?;
    worked("a call", b.ask(Ask::of(1)).await?)?;
    for request in b.requests() {
        same("the header x-team", Some("blue"), request.header("x-team"))?;
    }
    Ok(())
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

async fn empty(cx: &Context) -> Verdict {
    cx.wire()?;
    for way in cx.ways() {
        let b = cx.bench(way, json!({}), vec![Step::Good])?;
        let mut ask = Ask::of(1);
        ask.texts[0].clear();
        if matches!(way, Way::Generate | Way::Stream) {
            // An empty turn may mean something to a provider; no turn at all does not.
            let Some(generator) = b.asker.generator() else {
                continue;
            };
            let none = crate::generate::GenerateRequest::default();
            let result = b.drive(generator.generate(none)).await?;
            refused("no messages", Kind::InvalidRequest, result)?;
        } else {
            refused("an empty text", Kind::InvalidRequest, b.ask(ask).await?)?;
        }
        same("requests at the server", 0, b.requests().len())?;
        same("admitted", 0, b.asker.snapshot().counters.admitted)?;
    }
    // The right answers of two texts differ, or order could not be seen.
    holds("the kit's texts differ", score_of("a") != score_of("b"))
}
