//! Settings that can't be meant are refused by name when an entry becomes a handle, and never by a hang or a panic later.

use serde_json::{Value, json};

use super::{Check, check};
use crate::client::Client;
use crate::config::Env;
use crate::error::{Error, Kind};
use crate::provider::{Freshness, Operation, Route};
use crate::registry::Registry;
use crate::testing::conformance::bench::{Context, Kind as Leaves, try_entry, try_resolve};
use crate::testing::conformance::call::Ask;
use crate::testing::conformance::subject::KEY;
use crate::testing::conformance::verdict::{Verdict, holds, refused, same, skip, worked};

pub(super) const CHECKS: &[Check] = &[
    check!(
        "settings.zeros",
        "a zero where nothing could ever be sent is a config error that names the field",
        zeros
    ),
    check!(
        "settings.url",
        "a URL with a query, a fragment or a password is a config error that hides it",
        url
    ),
    check!(
        "settings.key",
        "white space around a key is trimmed; a key that no header can carry is a config error that names the setting and hides it",
        key
    ),
];

const URL: &str = "http://127.0.0.1:9";

/// Whether an entry can become a handle, with these fields and this URL.
pub(super) fn accepted(cx: &Context, url: &str, extra: &Value) -> Result<(), Error> {
    let entry = try_entry(&cx.subject, url, extra, cx.route != Leaves::Local)?;
    let mut registry = Registry::new();
    registry.register(cx.subject.plugin)?;
    let mut builder = Client::builder()
        .registry(registry)
        .time(antfly_limiter::Time::manual().0)
        .env(Env::from_pairs((cx.subject.environment)(URL)));
    if let Some(engine) = &cx.subject.engine {
        builder = builder.engine(std::sync::Arc::clone(engine));
    }
    builder.build()?.check(&entry).map(drop)
}

/// It is refused as a setting, by this name.
fn names(what: &str, field: &str, made: Result<(), Error>) -> Verdict<Error> {
    let e = refused(what, Kind::Config, made)?;
    holds(
        &format!("{what}: the error names {field}: {e}"),
        e.message().contains(field),
    )?;
    Ok(e)
}

async fn zeros(cx: &Context) -> Verdict {
    for field in [
        "max_concurrency",
        "requests_per_minute",
        "burst",
        "tokens_per_minute",
    ] {
        let mut limit = json!({"requests_per_minute": 10});
        limit[field] = json!(0);
        let made = accepted(cx, URL, &json!({ "rate_limit": limit }));
        let path = format!("rate_limit.{field}");
        names(&format!("{path}: 0"), &path, made)?;
    }
    let mut fields = vec![
        "timeout_ms",
        "stream_idle_timeout_ms",
        "max_response_bytes",
        "max_event_bytes",
    ];
    match cx.subject.operation {
        Operation::Embed => {
            fields.extend(["requests_per_minute", "burst", "batch_size", "dimensions"]);
        }
        Operation::Generate => fields.push("max_tokens"),
        Operation::Rerank => fields.push("top_n"),
    }
    for field in fields {
        let made = accepted(cx, URL, &json!({ field: 0 }));
        names(&format!("{field}: 0"), field, made)?;
    }
    let made = accepted(cx, URL, &json!({"retry": {"max_attempts": 0}}));
    names("retry.max_attempts: 0", "max_attempts", made).map(drop)
}

async fn url(cx: &Context) -> Verdict {
    const HIDDEN: &str = "hunter2";
    for url in [
        "http://127.0.0.1:9/a/b?key=hunter2",
        "http://127.0.0.1:9/a#hunter2",
        "http://user:hunter2@127.0.0.1:9/a",
    ] {
        if !(cx.subject.entry)(url).to_string().contains(HIDDEN) {
            return skip("the entry has no URL");
        }
        let what = url.replace(HIDDEN, "...");
        let e = names(&what, "url", accepted(cx, url, &json!({})))?;
        let shown = format!("{e} {e:?}");
        holds(
            &format!("{what}: the error hides what it held"),
            !shown.contains(HIDDEN),
        )?;
    }
    Ok(())
}

async fn key(cx: &Context) -> Verdict {
    if (cx.subject.entry)(URL).get("api_key").is_none() {
        return skip("the entry has no api_key");
    }
    for around in [["", "\n"], ["", "\r\n"], ["  ", "\t"], ["\n", ""]] {
        let padded = around.join(KEY);
        let b = cx.bench(cx.way()?, json!({ "api_key": padded }), vec![])?;
        worked("a key with white space around it", b.ask(Ask::of(1)).await?)?;
        for request in b.requests() {
            let sent = cx.wire()?.authorized(&request);
            holds("the key goes with the request (Wire::authorized)", sent)?;
        }
        same("requests at the server", 1, b.requests().len())?;
    }
    for bad in [
        "sk-hunter\n2two",
        "sk-hunter\r\n2two",
        "sk-hunter\u{0}2two",
        "sk-hunter\u{7f}2two",
        "sk\u{2014}hunter2two",
        "sk-hunter2two\u{201d}",
    ] {
        let in_entry = accepted(cx, URL, &json!({ "api_key": bad }));
        let behind = loaded(cx, bad).await;
        for (place, made) in [("in the entry", in_entry), ("behind a reference", behind)] {
            let what = format!(
                "a key {place} like {:?}",
                bad.replace(char::is_alphanumeric, "x")
            );
            let e = names(&what, "api_key", made)?;
            let shown = format!("{e} {e:?}");
            let hides = !shown.contains("hunter") && !shown.contains("2two");
            holds(&format!("{what}: the error hides it"), hides)?;
        }
    }
    Ok(())
}

/// Loads a key that a reference of the entry's stands for, as an attempt would.
async fn loaded(cx: &Context, key: &str) -> Result<(), Error> {
    let extra = json!({"api_key": "${secret:conformance.bad}"});
    let entry = try_entry(&cx.subject, URL, &extra, true)?;
    let given = (cx.subject.environment)(URL).into_iter();
    let pair = ("CONFORMANCE_BAD".to_owned(), key.to_owned());
    let provider = try_resolve(&cx.subject, &entry, &Env::from_pairs(given.chain([pair])))?;
    match provider.route() {
        Route::Http(http) => http.credential(Freshness::Cached).await.map(drop),
        Route::Engine(engine) => engine.credential(Freshness::Cached).await.map(drop),
        Route::Local(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // A test fails by panicking.

    use super::*;

    /// The framework refuses zeros before an adapter sees them, so no sample can have this fault: the judgement is tried itself.
    #[test]
    fn a_zero_that_is_let_through_or_refused_without_its_name_is_found() {
        let judged = |made| names("burst: 0", "burst", made);
        assert!(judged(Ok(())).is_err());
        assert!(judged(Err(Error::new(Kind::InvalidRequest, "burst"))).is_err());
        assert!(judged(Err(Error::config("e.other", "a number"))).is_err());
        judged(Err(Error::config("e.burst", "a number"))).unwrap();
    }
}
