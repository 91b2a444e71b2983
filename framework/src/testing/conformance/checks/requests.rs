//! What leaves.

use serde_json::json;

use super::{Check, check};
use crate::config::Env;
use crate::error::Kind;
use crate::testing::conformance::bench::{Context, Kind as Leaves, Step, try_entry, try_resolve};
use crate::testing::conformance::call::{Ask, QUERY, Told, Way, score_of};
use crate::testing::conformance::verdict::{Verdict, holds, refused, same, skip, worked};

pub(super) const CHECKS: &[Check] = &[
    check!(
        "request.sent",
        "one POST with what was asked for, and the credential",
        sent
    ),
    check!(
        "request.extra_body",
        "extra_body is merged into the body",
        extra_body
    ),
    check!(
        "request.owned",
        "a field the adapter itself writes is refused in extra_body, by name",
        owned
    ),
    check!(
        "request.headers",
        "the entry's extra headers go with it",
        headers
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
    if let Err(e) = resolves(cx, &extra) {
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

async fn owned(cx: &Context) -> Verdict {
    cx.wire()?;
    if resolves(cx, &json!({"extra_body": {"x_conformance": 1}})).is_err() {
        return skip("the adapter refuses extra_body");
    }
    for way in cx.ways() {
        let b = cx.bench(way, json!({}), vec![])?;
        worked(&format!("{way:?}"), b.ask(Ask::of(1).cap(9)).await?)?;
        for request in b.requests() {
            for name in request
                .json()
                .as_object()
                .into_iter()
                .flat_map(|o| o.keys())
            {
                let what = format!("extra_body.{name}, which the adapter writes");
                let result = resolves(cx, &json!({"extra_body": {name: "mine"}}));
                let e = refused(&what, Kind::Config, result)?;
                holds(
                    &format!("{what}: the error names it"),
                    e.message().contains(name),
                )?;
            }
        }
    }
    Ok(())
}

/// Whether an entry with `extra` in it resolves.
fn resolves(cx: &Context, extra: &serde_json::Value) -> Result<(), crate::Error> {
    let at = "http://127.0.0.1:9";
    let entry = try_entry(&cx.subject, at, extra, true)?;
    let env = Env::from_pairs((cx.subject.environment)(at));
    try_resolve(&cx.subject, &entry, &env).map(drop)
}

async fn headers(cx: &Context) -> Verdict {
    cx.wire()?;
    if cx.route == Leaves::Engine {
        return skip("an engine's SDK makes its own head");
    }
    let b = cx.bench(cx.way()?, json!({"headers": {"x-team": "blue"}}), vec![])?;
    worked("a call", b.ask(Ask::of(1)).await?)?;
    for request in b.requests() {
        same("the header x-team", Some("blue"), request.header("x-team"))?;
    }
    Ok(())
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
