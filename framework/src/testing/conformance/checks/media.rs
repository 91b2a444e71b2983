//! Media: refused under a token budget and where it can't be taken, sent where it can.

use serde_json::json;

use super::{Check, check};
use crate::content::{MediaKind, MediaSupport, Part};
use crate::error::Kind;
use crate::testing::conformance::bench::{Context, Kind as Leaves};
use crate::testing::conformance::call::Ask;
use crate::testing::conformance::verdict::{Verdict, fail, refused, same, skip};

pub(super) const CHECKS: &[Check] = &[
    check!(
        "media.undeclared",
        "media the adapter does not declare is refused before anything leaves",
        undeclared
    ),
    check!(
        "media.budget",
        "under a token budget media is refused, in whatever encoding, before anything leaves",
        budget
    ),
    check!(
        "media.sent",
        "declared media is in the body, or refused by the adapter itself; it is never left out in silence",
        sent
    ),
];

const ALL: [(MediaKind, &str); 4] = [
    (MediaKind::Image, "image/png"),
    (MediaKind::Audio, "audio/wav"),
    (MediaKind::Video, "video/mp4"),
    (MediaKind::File, "application/pdf"),
];

/// `AAECAwQF` in base64.
const BYTES: [u8; 6] = [0, 1, 2, 3, 4, 5];
const ENCODED: &str = "AAECAwQF";

fn part(mime: &str) -> Part {
    Part::media(BYTES.to_vec(), mime)
}

async fn undeclared(cx: &Context) -> Verdict {
    let way = cx.way()?;
    let mut tried = 0;
    for (kind, mime) in ALL {
        if cx.declared.media.accepts(kind) {
            continue;
        }
        tried += 1;
        let b = cx.bench(way, json!({}), vec![])?;
        let result = b.ask(Ask::of(1).media(part(mime))).await?;
        refused(mime, Kind::MediaNotAllowed, result)?;
        same("requests at the server", 0, b.requests().len())?;
        same("admitted", 0, b.asker.snapshot().counters.admitted)?;
    }
    if tried == 0 {
        return skip("the adapter takes every kind of media");
    }
    Ok(())
}

async fn budget(cx: &Context) -> Verdict {
    if cx.route == Leaves::Local {
        return skip("the local route takes no outbound limit");
    }
    for way in cx.ways() {
        let media = ALL.map(|(_, mime)| part(mime)).into_iter().chain([
            Part::image_url("https://example.com/a.png"),
            Part::image_url(format!("data:image/png;base64,{ENCODED}")),
        ]);
        for part in media {
            let what = format!("{part:?}");
            let b = cx.bench(
                way,
                json!({"rate_limit": {"tokens_per_minute": 1_000_000}}),
                vec![],
            )?;
            let result = b.ask(Ask::of(1).media(part)).await?;
            refused(&what, Kind::MediaNotAllowed, result)?;
            same("requests at the server", 0, b.requests().len())?;
        }
    }
    Ok(())
}

async fn sent(cx: &Context) -> Verdict {
    if cx.route == Leaves::Local {
        return skip("nothing leaves the process");
    }
    if cx.declared.media == MediaSupport::None {
        return skip("the adapter takes no media");
    }
    let way = cx.way()?;
    let mut arrived = 0;
    let mut refusals = Vec::new();
    for (kind, mime) in ALL {
        if !cx.declared.media.accepts(kind) {
            continue;
        }
        let b = cx.bench(way, json!({}), vec![])?;
        let result = b.ask(Ask::of(1).media(part(mime))).await?;
        match b.requests().first() {
            Some(request) if request.text().contains(ENCODED) => arrived += 1,
            Some(request) => {
                let body: String = request.text().chars().take(200).collect();
                return fail(format!("{mime} in the body, as base64"), body);
            }
            None => match result {
                Err(e)
                    if matches!(
                        e.kind(),
                        Kind::MediaNotAllowed | Kind::Unsupported | Kind::InvalidRequest
                    ) =>
                {
                    refusals.push(e.to_string());
                }
                other => return fail(format!("{mime} is sent or refused"), format!("{other:?}")),
            },
        }
    }
    if arrived == 0 {
        return fail(
            "at least one declared kind of media is sent",
            refusals.join("; "),
        );
    }
    Ok(())
}
