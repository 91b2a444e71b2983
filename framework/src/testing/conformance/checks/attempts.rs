//! Every request is an attempt that was admitted: first tries, retries, redirect hops.

use serde_json::json;

use super::answers::judge as answers_judge;
use super::{Check, check};
use crate::error::Kind;
use crate::http::is_credential_header;
use crate::testing::conformance::bench::{Context, Kind as Leaves, Step};
use crate::testing::conformance::call::Ask;
use crate::testing::conformance::subject::KEY;
use crate::testing::conformance::verdict::{Verdict, holds, refused, same, skip, worked};
use crate::testing::{Reply, Server};

pub(super) const CHECKS: &[Check] = &[
    check!(
        "attempt.counted",
        "the requests a server sees are the attempts admitted, reported and named in errors",
        counted
    ),
    check!(
        "attempt.same_body",
        "a retry sends the very same body",
        same_body
    ),
    check!(
        "attempt.spaced",
        "each retry waits for admission like any other attempt",
        spaced
    ),
    check!(
        "attempt.expired",
        "a credential called expired is loaded anew once, for one more attempt; a literal key is not, nor none",
        expired
    ),
    check!(
        "attempt.redirect",
        "a 307 or 308 is followed as an attempt of its own, with the same body",
        redirect
    ),
    check!(
        "attempt.redirect_away",
        "a hop to another origin carries no credential",
        redirect_away
    ),
    check!(
        "attempt.redirect_refused",
        "a 302 is a redirect error and is not followed",
        redirect_refused
    ),
];

async fn counted(cx: &Context) -> Verdict {
    let wire = cx.wire()?;
    for way in cx.ways() {
        let fail = |status| Step::Say(wire.error(status, "no"));
        let plans = [
            ("an answer at once", vec![], 1),
            ("500, then an answer", vec![fail(500)], 2),
            (
                "503, a reset, then an answer",
                vec![fail(503), Step::Say(Reply::reset())],
                3,
            ),
            ("429 twice, then an answer", vec![fail(429), fail(429)], 3),
        ];
        for (what, steps, expected) in plans {
            let b = cx.bench(way, json!({}), steps)?;
            let ask = Ask::of(1);
            let told = worked(what, b.ask(ask.clone()).await?)?;
            answers_judge(&ask, &told)?;
            b.free(what).await?;
            let what = format!("{way:?}, {what}");
            same(
                &format!("{what}: requests at the server"),
                expected,
                b.requests().len(),
            )?;
            let admitted = b.asker.snapshot().counters.admitted;
            same(&format!("{what}: admitted"), expected as u64, admitted)?;
            let records = b.records();
            same(
                &format!("{what}: attempts reported"),
                expected,
                records.len(),
            )?;
            let numbers: Vec<_> = records.iter().map(|r| r.attempt as usize).collect();
            same(
                &format!("{what}: their numbers"),
                (1..=expected).collect(),
                numbers,
            )?;
        }
    }
    Ok(())
}

async fn same_body(cx: &Context) -> Verdict {
    let wire = cx.wire()?;
    for way in cx.ways() {
        let steps = vec![
            Step::Say(wire.error(500, "no")),
            Step::Say(wire.error(429, "no")),
        ];
        let b = cx.bench(way, json!({}), steps)?;
        worked("a call", b.ask(Ask::of(1)).await?)?;
        let requests = b.requests();
        for request in &requests {
            same("the body", requests[0].text(), request.text())?;
            same("the path", requests[0].path.as_str(), request.path.as_str())?;
        }
    }
    Ok(())
}

async fn spaced(cx: &Context) -> Verdict {
    let wire = cx.wire()?;
    let way = cx.way()?;
    // Six a minute: a slot every ten seconds, whatever the backoff is.
    let steps = vec![
        Step::Say(wire.error(500, "no")),
        Step::Say(wire.error(500, "no")),
    ];
    let b = cx.bench(
        way,
        json!({"rate_limit": {"requests_per_minute": 6}}),
        steps,
    )?;
    let start = b.clock.now();
    worked("a call", b.ask(Ask::of(1)).await?)?;
    same("requests at the server", 3, b.requests().len())?;
    let took = b.clock.now().saturating_duration_since(start).as_secs();
    same("seconds that three attempts at six a minute take", 20, took)
}

async fn expired(cx: &Context) -> Verdict {
    let Some(reply) = cx.wire()?.expired() else {
        return skip("the wire has no word for it (Wire::expired)");
    };
    // Neither can be had anew.
    let source = cx.declared.credential.as_str();
    let fixed = source.starts_with("literal:") || source == "anonymous";
    let once = json!({"retry": {"max_attempts": 1}});
    for way in cx.ways() {
        let steps = vec![Step::Say(reply.clone())];
        let b = cx.bench(way, once.clone(), steps)?;
        let told = b.ask(Ask::of(1)).await?;
        if fixed {
            refused("an expired key that can't be had anew", Kind::Auth, told)?;
            same("requests at the server", 1, b.requests().len())?;
            continue;
        }
        worked("the attempt with a new credential", told)?;
        same("requests at the server", 2, b.requests().len())?;
        same("admitted", 2, b.asker.snapshot().counters.admitted)?;
        let steps = (0..3).map(|_| Step::Say(reply.clone())).collect();
        let b = cx.bench(way, once.clone(), steps)?;
        let told = b.ask(Ask::of(1)).await?;
        refused("a credential that stays expired", Kind::Auth, told)?;
        same("requests at the server", 2, b.requests().len())?;
    }
    Ok(())
}

fn followed(cx: &Context) -> Verdict {
    cx.wire()?;
    if cx.route == Leaves::Engine {
        return skip("an engine's redirects are errors");
    }
    Ok(())
}

async fn redirect(cx: &Context) -> Verdict {
    followed(cx)?;
    let wire = cx.wire()?;
    for way in cx.ways() {
        let steps = [307, 308]
            .map(|status| Step::Say(Reply::status(status).header("location", "/moved/here")));
        let b = cx.bench(way, json!({}), steps.into())?;
        let ask = Ask::of(1);
        let told = worked("a call through two redirects", b.ask(ask.clone()).await?)?;
        answers_judge(&ask, &told)?;
        let requests = b.requests();
        same("requests at the server", 3, requests.len())?;
        same("admitted", 3, b.asker.snapshot().counters.admitted)?;
        for hop in &requests[1..] {
            same("the hop's path", "/moved/here", hop.path.as_str())?;
            same("the hop's method", "POST", hop.method.as_str())?;
            same("the hop's body", requests[0].text(), hop.text())?;
            if cx.declared.credential.as_str() != "anonymous" {
                holds(
                    "inside the origin the credential goes on",
                    wire.authorized(hop),
                )?;
            }
        }
    }
    Ok(())
}

async fn redirect_away(cx: &Context) -> Verdict {
    followed(cx)?;
    let way = cx.way()?;
    let away = Server::always(Reply::text(400, "elsewhere"));
    let hop = Reply::status(307).header("location", format!("{}/away", away.url()));
    let b = cx.bench(
        way,
        json!({"headers": {"x-team": "blue"}}),
        vec![Step::Say(hop)],
    )?;
    let result = b.ask(Ask::of(1)).await?;
    holds("the other origin's refusal is the call's", result.is_err())?;
    same("requests at the other origin", 1, away.requests().len())?;
    same("admitted", 2, b.asker.snapshot().counters.admitted)?;
    for request in away.requests() {
        let kept: Vec<_> = request
            .headers
            .iter()
            .filter(|(name, value)| {
                is_credential_header(name)
                    || *name == "x-team"
                    || String::from_utf8_lossy(value.as_bytes()).contains(KEY)
            })
            .map(|(name, _)| name.to_string())
            .collect();
        same("headers that must stay at home", Vec::<String>::new(), kept)?;
        holds("the key is nowhere in it", !request.text().contains(KEY))?;
    }
    Ok(())
}

async fn redirect_refused(cx: &Context) -> Verdict {
    cx.wire()?;
    let statuses: &[u16] = match cx.route {
        Leaves::Engine => &[302, 307, 308],
        _ => &[301, 302, 303],
    };
    for status in statuses {
        let hop = Reply::status(*status).header("location", "/moved/here");
        let b = cx.bench(cx.way()?, json!({}), vec![Step::Say(hop)])?;
        let result = b.ask(Ask::of(1)).await?;
        refused(&format!("status {status}"), Kind::Redirect, result)?;
        same("requests at the server", 1, b.requests().len())?;
    }
    Ok(())
}
