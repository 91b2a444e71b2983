//! Secrets: nowhere in what people and programs can read. These run last, over what all checks have left behind.

use serde_json::json;

use super::{Check, check};
use crate::config::Env;
use crate::testing::conformance::bench::{Context, Kind as Leaves, Step, entry, try_resolve};
use crate::testing::conformance::call::Ask;
use crate::testing::conformance::subject::KEY;
use crate::testing::conformance::verdict::{Verdict, fail, holds, same, skip, worked};

pub(super) const CHECKS: &[Check] = &[
    check!(
        "secret.echo",
        "a key that the provider repeats in its refusal is taken out of the error",
        echo
    ),
    check!("secret.url", "no key is in a URL", url),
    check!(
        "secret.debug",
        "no key is in the Debug of the adapter, its declarations, its entry or what it prepares",
        debug
    ),
    check!(
        "secret.nowhere",
        "no key is in any error, Debug, log, span, panic or snapshot of all these checks",
        nowhere
    ),
];

async fn echo(cx: &Context) -> Verdict {
    let wire = cx.wire()?;
    for way in cx.ways() {
        for status in [400, 401, 403, 404, 429, 500] {
            for secret in &cx.subject.secrets {
                let mut reply = wire.error(status, &format!("bad key {secret} (Bearer {secret})"));
                if let Some(header) = wire.request_id_header() {
                    reply = reply.header(header, secret);
                }
                let extra = json!({"retry": {"max_attempts": 1}});
                let b = cx.bench(way, extra, vec![Step::Say(reply)])?;
                let Err(e) = b.ask(Ask::of(1)).await? else {
                    return fail(format!("status {status}: an error"), "an answer");
                };
                if *secret == KEY || wire.authorized(&b.requests()[0]) {
                    let shown = format!("{e} {e:?} {:?} {:?}", e.code(), e.request_id());
                    holds(
                        &format!("status {status}: the error keeps the key to itself"),
                        !shown.contains(secret.as_str()),
                    )?;
                }
            }
        }
    }
    Ok(())
}

async fn url(cx: &Context) -> Verdict {
    cx.wire()?;
    for way in cx.ways() {
        let b = cx.bench(way, json!({}), vec![])?;
        worked("a call", b.ask(Ask::of(1)).await?)?;
        for request in b.requests() {
            for secret in &cx.subject.secrets {
                if request.path.contains(secret.as_str()) {
                    let path = request.path.replace(secret.as_str(), "<the key>");
                    return fail("a request target without the key", path);
                }
            }
        }
        same("requests at the server", 1, b.requests().len())?;
    }
    Ok(())
}

async fn debug(cx: &Context) -> Verdict {
    let at = "http://127.0.0.1:9";
    let env = Env::from_pairs((cx.subject.environment)(at));
    let entry = entry(&cx.subject, at, &json!({}), cx.route != Leaves::Local)?;
    let provider = worked(
        "the plugin resolves",
        try_resolve(&cx.subject, &entry, &env),
    )?;
    for (what, shown) in [
        ("the adapter", format!("{provider:?} {provider:#?}")),
        ("its declarations", format!("{:?}", provider.declare())),
        ("its scope", provider.declare().scope().to_string()),
        ("the entry", format!("{entry:?} {entry:#?}")),
        ("the environment", format!("{env:?}")),
    ] {
        search(cx, what, &shown)?;
    }
    Ok(())
}

async fn nowhere(cx: &Context) -> Verdict {
    let text = cx.log.text();
    if cx.route != Leaves::Local && !text.contains("attempt ended") {
        return skip("nothing was logged: this build or process leaves logs out");
    }
    search(cx, "what the checks left behind", &text)
}

fn search(cx: &Context, what: &str, text: &str) -> Verdict {
    for secret in &cx.subject.secrets {
        if let Some(at) = text.find(secret.as_str()) {
            let from = text.floor_char_boundary(at.saturating_sub(160));
            let around = text[from..at].replace(secret.as_str(), "<the key>");
            return fail(
                format!("no key in {what}"),
                format!("...{around}<the key>..."),
            );
        }
    }
    Ok(())
}
