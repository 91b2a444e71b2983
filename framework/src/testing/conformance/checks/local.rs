//! The local route: its own admission, no credential, and answers like anyone's.

use serde_json::json;

use super::{Check, check};
use crate::client::CallOptions;
use crate::error::Kind;
use crate::testing::conformance::bench::{Context, Step};
use crate::testing::conformance::call::{Ask, Told, Way};
use crate::testing::conformance::verdict::{Verdict, fail, holds, refused, same, skip, worked};

pub(super) const CHECKS: &[Check] = &[
    check!(
        "local.limits",
        "an enabled rate_limit and the flat limits are config errors that name the key",
        limits
    ),
    check!(
        "local.answers",
        "each input gets its own answer: alone, together and in another order the same",
        answers
    ),
    check!("local.empty", "nothing to do is refused", empty),
    check!(
        "local.stream",
        "a stream says what the plain answer says",
        stream
    ),
    check!(
        "local.cap",
        "a generation is no longer than its output cap",
        cap
    ),
    check!(
        "local.cancel",
        "a cancelled call is cancelled, and the next call still works",
        cancel
    ),
    check!(
        "local.drop",
        "a stream dropped after its first event leaves room for the next call",
        dropped
    ),
    check!(
        "local.queue",
        "a full queue is refused at once as overloaded",
        queue
    ),
    check!("local.scope", "nothing is admitted against a quota", scope),
];

async fn limits(cx: &Context) -> Verdict {
    let mut tries = vec![("rate_limit", json!({"rate_limit": {"max_concurrency": 2}}))];
    if cx.subject.operation == crate::Operation::Embed {
        tries.push(("requests_per_minute", json!({"requests_per_minute": 5})));
    }
    for (key, extra) in tries {
        let made = super::settings::accepted(cx, "http://127.0.0.1:9", &extra);
        let e = refused(key, Kind::Config, made)?;
        holds(
            &format!("the error names {key}: {e}"),
            e.message().contains(key),
        )?;
    }
    Ok(())
}

async fn asked(cx: &Context, ask: Ask) -> Verdict<Told> {
    let b = cx.bench(cx.way()?, json!({}), Vec::<Step>::new())?;
    worked("a call", b.ask(ask).await?)
}

/// What most calls ask. A generator's are short: its model may be one that never ends by itself.
fn short(texts: usize) -> Ask {
    Ask::of(texts).cap(8)
}

async fn answers(cx: &Context) -> Verdict {
    let ask = short(3);
    let mut turned = ask.clone();
    turned.texts.reverse();
    match (asked(cx, ask.clone()).await?, asked(cx, turned).await?) {
        (Told::Vectors(a), Told::Vectors(b)) => {
            same("vectors", 3, a.len())?;
            for i in 0..3 {
                let (x, y) = (
                    a.get(i).unwrap_or_default(),
                    b.get(2 - i).unwrap_or_default(),
                );
                near(&format!("the vector of text {i} in another order"), x, y)?;
            }
            let distinct = a.get(0) != a.get(1);
            holds("different texts have different vectors", distinct)
        }
        (Told::Scores(a), Told::Scores(b)) => {
            same("scores", 3, a.results.len())?;
            for r in &a.results {
                let other = b.results.iter().find(|o| o.index == 2 - r.index);
                let score = [r.score as f32];
                let other = [other.map_or(f32::NAN, |o| o.score as f32)];
                near(
                    &format!("the score of document {} in another order", r.index),
                    &score,
                    &other,
                )?;
            }
            Ok(())
        }
        (Told::Text(a), Told::Text(_)) => {
            holds("a finish reason", a.finish_reason.is_some())?;
            let again = asked(cx, ask).await?;
            match again {
                Told::Text(b) if a.text == b.text => Ok(()),
                _ => skip("the model samples: its answers can't be compared"),
            }
        }
        (a, _) => fail("an answer of the operation", format!("{a:?}")),
    }
}

fn near(what: &str, a: &[f32], b: &[f32]) -> Verdict {
    let close = a.len() == b.len() && a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-3);
    if close {
        Ok(())
    } else {
        fail(format!("{what}: {a:?}"), format!("{b:?}"))
    }
}

async fn empty(cx: &Context) -> Verdict {
    let b = cx.bench(cx.way()?, json!({}), vec![])?;
    let mut ask = Ask::of(1);
    ask.texts[0].clear();
    let result = match b.asker.generator() {
        Some(generator) => {
            let none = crate::GenerateRequest::default();
            b.drive(generator.generate(none)).await?.map(drop)
        }
        None => b.ask(ask).await?.map(drop),
    };
    refused("nothing to do", Kind::InvalidRequest, result).map(drop)
}

async fn stream(cx: &Context) -> Verdict {
    if cx.subject.operation != crate::Operation::Generate {
        return skip("only generators stream");
    }
    let mut texts = Vec::new();
    for way in [Way::Generate, Way::Stream, Way::Generate] {
        let b = cx.bench(way, json!({}), vec![])?;
        match worked("a call", b.ask(short(1)).await?)? {
            Told::Text(whole) => texts.push((whole.text, whole.finish_reason)),
            other => return fail("text", format!("{other:?}")),
        }
    }
    if texts[0] != texts[2] {
        return skip("the model samples: its answers can't be compared");
    }
    same("the streamed answer", &texts[0], &texts[1])
}

async fn cap(cx: &Context) -> Verdict {
    if cx.subject.operation != crate::Operation::Generate {
        return skip("only generators have an output cap");
    }
    let b = cx.bench(Way::Generate, json!({}), vec![])?;
    match worked("a call", b.ask(Ask::of(1).cap(2)).await?)? {
        Told::Text(whole) => {
            let written = whole.usage.and_then(|u| u.output_tokens);
            holds(
                &format!("at most 2 tokens were written: {written:?}"),
                written.is_none_or(|n| n <= 2),
            )
        }
        other => fail("text", format!("{other:?}")),
    }
}

async fn cancel(cx: &Context) -> Verdict {
    let b = cx.bench(cx.way()?, json!({}), vec![])?;
    let token = crate::CancellationToken::new();
    token.cancel();
    let ask = short(1).with(CallOptions::default().with_cancel(token));
    refused("a cancelled call", Kind::Cancelled, b.ask(ask).await?)?;
    worked("the next call", b.ask(short(1)).await?).map(drop)
}

async fn dropped(cx: &Context) -> Verdict {
    if cx.subject.operation != crate::Operation::Generate {
        return skip("only generators stream");
    }
    let b = cx.bench(
        Way::Stream,
        json!({"admission": {"max_concurrency": 1, "max_queue": 1}}),
        vec![],
    )?;
    let Some(generator) = b.asker.generator() else {
        return skip("not a generator");
    };
    // As long as the entry lets it be: the longer, the more a run that goes on stands in the next call's way.
    let opened = b
        .drive(generator.stream(Ask::of(1).generate_request()))
        .await?;
    let mut stream = worked("the stream opens", opened)?;
    b.drive(stream.next()).await?;
    drop(stream);
    let next = b.asker.ask(b.way, Ask::of(1).cap(2));
    worked("the next call", b.stand_still(next).await?).map(drop)
}

async fn queue(cx: &Context) -> Verdict {
    let b = cx.bench(
        cx.way()?,
        json!({"admission": {"max_concurrency": 1, "max_queue": 1}}),
        vec![],
    )?;
    let calls = (0..8).map(|_| b.asker.ask(b.way, short(3)));
    let told = b.drive(futures::future::join_all(calls)).await?;
    let mut refusals = 0;
    for result in told {
        match result {
            Ok(_) => {}
            Err(e) if e.kind() == Kind::Overloaded => refusals += 1,
            Err(e) => return fail("an answer or overloaded", e.to_string()),
        }
    }
    holds(
        &format!("of 8 calls at once, with room for 2, some are refused ({refusals})"),
        refusals > 0 && refusals < 8,
    )
}

async fn scope(cx: &Context) -> Verdict {
    let b = cx.bench(cx.way()?, json!({}), vec![])?;
    worked("a call", b.ask(short(1)).await?)?;
    same("admitted", 0, b.asker.snapshot().counters.admitted)?;
    same("attempts reported", 0, b.records().len())?;
    same(
        "the credential source",
        "anonymous",
        cx.declared.credential.as_str(),
    )
}
