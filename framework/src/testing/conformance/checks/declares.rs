//! What the adapter says it is.

use serde_json::json;

use super::{Check, check};
use crate::config::Env;
use crate::content::MediaSupport;
use crate::provider::{Declared, Operation};
use crate::testing::conformance::bench::{Context, Kind, entry, try_entry, try_resolve};
use crate::testing::conformance::subject::KEY;
use crate::testing::conformance::verdict::{Verdict, fail, holds, same, skip, worked};
use crate::testing::{Reply, Server};

pub(super) const CHECKS: &[Check] = &[
    check!(
        "declares.scope",
        "the scope has exactly the fields that decide whose quota it is",
        scope
    ),
    check!(
        "declares.identity",
        "another model is another scope; limits, retries, timeouts and headers are not",
        identity
    ),
    check!(
        "declares.credential",
        "another key is another scope, and the source is no secret",
        credential
    ),
    check!(
        "declares.blank_key",
        "a blank key is a config error that names the field",
        blank_key
    ),
    check!(
        "declares.media",
        "the media declared are those the model takes",
        media
    ),
    check!(
        "declares.output_cap",
        "a generator declares its default output cap",
        output_cap
    ),
    check!(
        "declares.opens_nothing",
        "resolving an entry opens no connection",
        opens_nothing
    ),
    check!(
        "declares.operation",
        "the adapter translates for the operation it declares",
        operation
    ),
];

const URL: &str = "http://127.0.0.1:9";

fn declared(cx: &Context, url: &str, extra: serde_json::Value) -> Verdict<Declared> {
    let env = Env::from_pairs((cx.subject.environment)(url));
    let entry = entry(&cx.subject, url, &extra, cx.route != Kind::Local)?;
    let provider = worked(
        "the plugin resolves",
        try_resolve(&cx.subject, &entry, &env),
    )?;
    Ok(provider.declare().clone())
}

async fn scope(cx: &Context) -> Verdict {
    let Some(expected) = &cx.subject.scope else {
        return fail(
            "Subject::scope, with every field of the scope",
            format!(
                "none was given; the adapter declares {:?}",
                cx.declared.fields()
            ),
        );
    };
    let fields = declared(cx, URL, json!({}))?.fields();
    let expected = expected(URL);
    let matches = |(en, ev): &(&str, String), (sn, sv): &(&str, String)| {
        let value = match ev.strip_suffix('*') {
            Some(start) => sv.starts_with(start),
            None => ev == sv,
        };
        en == sn && value
    };
    let right =
        expected.len() == fields.len() && expected.iter().zip(&fields).all(|(e, s)| matches(e, s));
    if right {
        return Ok(());
    }
    fail(format!("scope fields {expected:?}"), format!("{fields:?}"))
}

async fn identity(cx: &Context) -> Verdict {
    let plain = declared(cx, URL, json!({}))?.scope();
    if cx.route != Kind::Local {
        let other = declared(cx, URL, json!({"model": "another-model"}))?.scope();
        holds("another model is another scope", plain != other)?;
    }
    for extra in [
        json!({"timeout_ms": 1000}),
        json!({"retry": {"max_attempts": 1}}),
        json!({"headers": {"x-team": "a"}}),
        json!({"rate_limit": {}}),
    ] {
        let what = format!("{extra} is no part of the scope");
        // An adapter may refuse what it has no use for.
        let env = Env::from_pairs((cx.subject.environment)(URL));
        let made = try_entry(&cx.subject, URL, &extra, cx.route != Kind::Local)
            .and_then(|entry| try_resolve(&cx.subject, &entry, &env));
        if made.is_err() {
            continue;
        }
        same(
            &what,
            plain.to_string(),
            declared(cx, URL, extra)?.scope().to_string(),
        )?;
    }
    Ok(())
}

async fn credential(cx: &Context) -> Verdict {
    let source = cx.declared.credential.to_string();
    for secret in &cx.subject.secrets {
        holds(
            "the credential source holds no secret",
            !source.contains(secret),
        )?;
    }
    if !source.starts_with("literal:") {
        return skip(format!(
            "the entry has no literal key; its source is {source:?}"
        ));
    }
    let other = declared(cx, URL, json!({"api_key": "another-key-0123456789"}))?;
    holds(
        "another literal key is another scope",
        other.scope() != cx.declared.scope(),
    )?;
    let again = declared(cx, URL, json!({"api_key": KEY}))?;
    holds(
        "the same literal key is the same scope",
        again.scope() == cx.declared.scope(),
    )
}

async fn blank_key(cx: &Context) -> Verdict {
    if (cx.subject.entry)(URL).get("api_key").is_none() {
        return skip("the entry has no api_key");
    }
    for blank in ["", "  ", "\t\n"] {
        let extra = json!({ "api_key": blank });
        let made = try_entry(&cx.subject, URL, &extra, true).and_then(|entry| {
            let env = Env::from_pairs((cx.subject.environment)(URL));
            try_resolve(&cx.subject, &entry, &env).map(drop)
        });
        let e = crate::testing::conformance::verdict::refused(
            &format!("api_key {blank:?}"),
            crate::Kind::Config,
            made,
        )?;
        holds("the error names api_key", e.to_string().contains("api_key"))?;
    }
    Ok(())
}

async fn media(cx: &Context) -> Verdict {
    let kinds = |support: MediaSupport| match support {
        MediaSupport::None => Vec::new(),
        MediaSupport::Kinds(kinds) => {
            let mut names: Vec<_> = kinds.iter().map(|k| format!("{k:?}")).collect();
            names.sort();
            names
        }
    };
    same(
        "Subject::media",
        kinds(cx.subject.media),
        kinds(cx.declared.media),
    )
}

async fn output_cap(cx: &Context) -> Verdict {
    if cx.subject.operation != Operation::Generate {
        return skip("only generators have one");
    }
    same(
        "Subject::default_output_cap",
        cx.subject.output_cap,
        cx.declared.default_output_cap,
    )
}

async fn opens_nothing(cx: &Context) -> Verdict {
    let server = Server::always(Reply::status(204));
    declared(cx, &server.url(), json!({}))?;
    // Connections are accepted in the order they were made: once this one is there, an earlier one would be too.
    let knocked = std::net::TcpStream::connect(server.address()).and_then(|mut stream| {
        use std::io::Write as _;
        stream.write_all(b"GET / HTTP/1.1\r\n\r\n")?;
        Ok(stream)
    });
    if let Err(e) = &knocked {
        return fail("a server to knock at", e.to_string());
    }
    server.wait_for_requests(1).await;
    same(
        "connections beside the kit's own",
        0,
        server.connections() - 1,
    )
}

async fn operation(cx: &Context) -> Verdict {
    same(
        "the declared operation",
        cx.subject.operation,
        cx.declared.identity.operation,
    )?;
    same(
        "the declared provider",
        cx.subject.plugin.name,
        cx.declared.identity.provider.as_str(),
    )?;
    holds(
        "the plugin lists the operation",
        cx.subject.plugin.operations.contains(&cx.subject.operation),
    )
}
