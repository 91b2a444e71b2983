//! What comes back: order, count, and what is no answer at all.

use serde_json::json;

use super::{Check, check};
use crate::error::Kind;
use crate::provider::Operation;
use crate::testing::conformance::bench::{Bench, Context, Step, rows};
use crate::testing::conformance::call::{Ask, Told, Way, said, score_of, vector_of};
use crate::testing::conformance::verdict::{Verdict, fail, holds, refused, same, skip, worked};
use crate::testing::conformance::wire::{Row, Score};
use crate::testing::{Received, Reply};

pub(super) const CHECKS: &[Check] = &[
    check!(
        "answer.right",
        "each input gets its own answer, in input order",
        right
    ),
    check!(
        "answer.shuffled",
        "an answer in another order is put in order by index",
        shuffled
    ),
    check!(
        "answer.count",
        "too few or too many answers are invalid_response",
        count
    ),
    check!(
        "answer.index",
        "an index that comes twice or is out of range is invalid_response",
        index
    ),
    check!(
        "answer.finite",
        "a number that is not finite is invalid_response",
        finite
    ),
    check!(
        "answer.unreadable",
        "a success that does not parse is invalid_response, is not asked for again, and panics nowhere",
        unreadable
    ),
    check!(
        "answer.extra",
        "a field this adapter doesn't know fails no answer",
        extra
    ),
];

pub(super) fn judge(ask: &Ask, told: &Told) -> Verdict {
    match told {
        Told::Vectors(vectors) => {
            same("vectors", ask.texts.len(), vectors.len())?;
            for (i, text) in ask.texts.iter().enumerate() {
                let seen = vectors.get(i).unwrap_or_default().to_vec();
                same(&format!("the vector of input {i}"), vector_of(text), seen)?;
            }
        }
        Told::Scores(ranking) => {
            same("scores", ask.texts.len(), ranking.results.len())?;
            for r in &ranking.results {
                let text = ask.texts.get(r.index).map_or("", String::as_str);
                let off = (score_of(text) - r.score).abs();
                if off > 1e-6 {
                    return fail(
                        format!("the score of document {}: {}", r.index, score_of(text)),
                        r.score.to_string(),
                    );
                }
            }
            holds(
                "best first",
                ranking.results.is_sorted_by(|a, b| a.score >= b.score),
            )?;
        }
        Told::Text(whole) => {
            same("the text", said(), whole.text.clone())?;
            same(
                "the finish reason",
                Some(crate::FinishReason::Stop),
                whole.finish_reason.clone(),
            )?;
        }
    }
    Ok(())
}

async fn right(cx: &Context) -> Verdict {
    cx.wire()?;
    for way in cx.ways() {
        let b = cx.bench(way, json!({}), vec![])?;
        let ask = Ask::of(5);
        let told = worked(&format!("{way:?}"), b.ask(ask.clone()).await?)?;
        judge(&ask, &told)?;
    }
    Ok(())
}

/// One call of `count` inputs in one request, the good answer's items changed by `change`; skipped where there are no items.
async fn changed<'a>(
    cx: &'a Context,
    change: impl Fn(&mut Vec<(usize, Vec<f32>, f64)>) + Send + Sync + 'static,
) -> Verdict<(Bench<'a>, Ask, Result<Told, crate::Error>)> {
    let wire = cx.wire()?.clone();
    let way = match cx.subject.operation {
        Operation::Embed => Way::Embed,
        Operation::Rerank => Way::Rerank,
        Operation::Generate => return skip("a generation is one answer"),
    };
    let make = move |request: &Received, _: Reply| {
        let mut items: Vec<_> = wire
            .texts(request)
            .iter()
            .enumerate()
            .map(|(i, t)| (i, vector_of(t), score_of(t)))
            .collect();
        change(&mut items);
        let reply = match way {
            Way::Embed => wire.embeddings(
                &items
                    .iter()
                    .map(|(index, vector, _)| Row {
                        index: *index,
                        vector,
                    })
                    .collect::<Vec<_>>(),
            ),
            _ => wire.ranking(
                &items
                    .iter()
                    .map(|(index, _, score)| Score {
                        index: *index,
                        score: *score,
                    })
                    .collect::<Vec<_>>(),
            ),
        };
        reply.unwrap_or_else(|| Reply::text(599, "the wire has no good answer"))
    };
    let b = cx.bench(way, json!({}), vec![Step::make(make)])?;
    let most = b
        .asker
        .embedder()
        .map_or(4, |e| e.batch_limits().max_items.min(4));
    let ask = Ask::of(most);
    let told = b.ask(ask.clone()).await?;
    Ok((b, ask, told))
}

async fn shuffled(cx: &Context) -> Verdict {
    let wire = cx.wire()?;
    if cx.subject.operation == Operation::Generate {
        return skip("a generation is one answer");
    }
    if !wire.indexed() {
        return skip("answers have no index on this wire");
    }
    let (_, ask, told) = changed(cx, |items| {
        items.reverse();
        items.rotate_left(1);
    })
    .await?;
    judge(&ask, &worked("an answer in another order", told)?)
}

async fn count(cx: &Context) -> Verdict {
    let few = changed(cx, |items| {
        items.pop();
    })
    .await?;
    bad("one answer too few", few)?;
    let many = changed(cx, |items| {
        let next = items.len();
        items.push((next, vector_of("more"), score_of("more")));
    })
    .await?;
    bad("one answer too many", many)?;
    let none = changed(cx, |items| items.clear()).await?;
    bad("no answer at all", none)
}

async fn index(cx: &Context) -> Verdict {
    let wire = cx.wire()?;
    if !wire.indexed() {
        return skip("answers have no index on this wire");
    }
    let many = |cx: &Context| cx.subject.operation != Operation::Generate;
    if !many(cx) {
        return skip("a generation is one answer");
    }
    let (b, ask, told) = changed(cx, |items| {
        let first = items.first().map_or(0, |i| i.0);
        if let Some(last) = items.last_mut() {
            last.0 = first;
        }
    })
    .await?;
    if ask.texts.len() > 1 {
        bad("an index twice", (b, ask, told))?;
    }
    let far = changed(cx, |items| {
        if let Some(last) = items.last_mut() {
            last.0 = 1_000_000;
        }
    })
    .await?;
    bad("an index out of range", far)
}

async fn finite(cx: &Context) -> Verdict {
    let nan = changed(cx, |items| {
        if let Some(last) = items.last_mut() {
            last.1[1] = f32::NAN;
            last.2 = f64::NAN;
        }
    })
    .await?;
    bad("not a number (null in JSON)", nan)
}

fn bad(what: &str, (b, _, told): (Bench<'_>, Ask, Result<Told, crate::Error>)) -> Verdict {
    refused(what, Kind::InvalidResponse, told)?;
    same("requests at the server", 1, b.requests().len())
}

async fn unreadable(cx: &Context) -> Verdict {
    cx.wire()?;
    for way in cx.ways().into_iter().filter(|w| *w != Way::Stream) {
        let garbage: [(&str, Reply); 6] = [
            ("no body", Reply::json(200, "")),
            (
                "a page",
                Reply::bytes(200, "text/html", "<html>login</html>"),
            ),
            ("null", Reply::json(200, "null")),
            ("a list of nothing", Reply::json(200, "[]")),
            (
                "no UTF-8",
                Reply::bytes(200, "application/json", vec![0xff, 0xfe, b'{']),
            ),
            ("an empty object", Reply::json(200, "{}")),
        ];
        for (what, reply) in garbage {
            if what == "an empty object" && way == Way::Generate {
                // Some wires leave out what is empty; an answer without content may be one.
                continue;
            }
            let b = cx.bench(way, json!({}), vec![Step::Say(reply)])?;
            let result = b.ask(Ask::of(1)).await?;
            refused(what, Kind::InvalidResponse, result)?;
            same(
                &format!("requests at the server after {what}"),
                1,
                b.requests().len(),
            )?;
        }
        // The good answer, cut at every byte but announced whole: never a success.
        let whole = {
            let b = cx.bench(way, json!({}), vec![])?;
            worked("a good answer", b.ask(Ask::of(1)).await?)?;
            b.requests()
                .first()
                .map_or_else(Vec::new, |r| good_body(cx, way, r))
        };
        let step = (whole.len() / 64).max(1);
        for cut in (0..whole.len().saturating_sub(1)).step_by(step) {
            let make = move |_: &Received, good: Reply| {
                let body = good.body();
                good.with_body(body[..cut.min(body.len())].to_vec())
            };
            let b = cx.bench(way, json!({}), vec![Step::make(make)])?;
            let result = b.ask(Ask::of(1)).await?;
            let rest = String::from_utf8_lossy(&whole[cut..]).trim().to_owned();
            if !rest.is_empty() {
                refused(
                    &format!("the good answer cut after {cut} of {} bytes", whole.len()),
                    Kind::InvalidResponse,
                    result,
                )?;
            }
        }
    }
    Ok(())
}

fn good_body(cx: &Context, way: Way, request: &Received) -> Vec<u8> {
    let Some(wire) = &cx.wire else {
        return Vec::new();
    };
    let vectors: Vec<_> = wire.texts(request).iter().map(|t| vector_of(t)).collect();
    let scores: Vec<_> = wire
        .texts(request)
        .iter()
        .enumerate()
        .map(|(index, t)| Score {
            index,
            score: score_of(t),
        })
        .collect();
    let reply = match way {
        Way::Embed => wire.embeddings(&rows(&vectors)),
        Way::Rerank => wire.ranking(&scores),
        _ => wire.generation(&said()),
    };
    reply.map(|r| r.body()).unwrap_or_default()
}

async fn extra(cx: &Context) -> Verdict {
    cx.wire()?;
    for way in cx.ways().into_iter().filter(|w| *w != Way::Stream) {
        let make = |_: &Received, good: Reply| {
            let mut value: serde_json::Value =
                serde_json::from_slice(&good.body()).unwrap_or_default();
            if let Some(fields) = value.as_object_mut() {
                fields.insert("x_unknown".to_owned(), json!({"a": [1, null, "b"]}));
            }
            let body = if value.is_object() {
                value.to_string().into_bytes()
            } else {
                good.body()
            };
            good.with_body(body)
        };
        let b = cx.bench(way, json!({}), vec![Step::make(make)])?;
        let ask = Ask::of(1);
        judge(
            &ask,
            &worked("an answer with a field more", b.ask(ask.clone()).await?)?,
        )?;
    }
    Ok(())
}
