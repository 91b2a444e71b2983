//! Deadline, cancellation and drop at every await.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use antfly_limiter::Permit;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::permits::gone;
use super::{Check, check};
use crate::client::CallOptions;
use crate::error::Kind;
use crate::testing::Gate;
use crate::testing::conformance::bench::{Bench, Context, Step};
use crate::testing::conformance::call::{Ask, Way};
use crate::testing::conformance::verdict::{Verdict, fail, refused, same, skip, worked};

pub(super) const CHECKS: &[Check] = &[
    check!(
        "bounds.deadline",
        "a deadline that passes ends the call at whatever it waits for, and gives everything back",
        deadline
    ),
    check!(
        "bounds.cancel",
        "a cancellation ends the call at whatever it waits for, and gives everything back",
        cancel
    ),
    check!(
        "bounds.drop",
        "a call dropped at whatever it waits for gives everything back",
        dropped
    ),
    check!(
        "bounds.credential",
        "while a credential is loaded no permit is held, and deadline, cancellation and drop end the call",
        credential
    ),
    check!(
        "bounds.stream",
        "the caller's deadline and cancellation end a stream between two events",
        stream
    ),
];

/// What a call can wait for.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Stage {
    /// Admission: the only permit is taken.
    Queue,
    /// Admission: the scope cools down.
    Cooldown,
    /// The head of the answer.
    Head,
    /// The rest of the body.
    Body,
    /// Its next try.
    Backoff,
}

const STAGES: [Stage; 5] = [
    Stage::Queue,
    Stage::Cooldown,
    Stage::Head,
    Stage::Body,
    Stage::Backoff,
];

impl Stage {
    fn extra(self) -> Value {
        match self {
            Stage::Queue => json!({"rate_limit": {"max_concurrency": 1}}),
            Stage::Backoff => json!({"retry": {
                "max_attempts": 3, "initial_backoff_ms": 100_000, "max_backoff_ms": 100_000,
            }}),
            _ => json!({}),
        }
    }

    fn steps(self, cx: &Context, gate: &Gate) -> Verdict<Vec<Step>> {
        let gate = gate.clone();
        Ok(match self {
            Stage::Queue | Stage::Cooldown => vec![],
            Stage::Head => vec![Step::make(move |_, good| good.after(&gate))],
            Stage::Body => vec![Step::make(move |_, good| good.halfway(&gate))],
            Stage::Backoff => vec![Step::Say(cx.wire()?.error(500, "no"))],
        })
    }

    /// Puts the scope into the state that makes a call wait.
    fn arrange(self, b: &Bench<'_>) -> Verdict<Option<Permit>> {
        match self {
            Stage::Queue => match b.asker.lease().try_admit(1) {
                Ok(permit) => Ok(Some(permit)),
                Err(e) => fail("a free scope", e.to_string()),
            },
            Stage::Cooldown => {
                b.asker.lease().cool_for(Duration::from_secs(60));
                Ok(None)
            }
            _ => Ok(None),
        }
    }

    async fn reached<F: Future>(self, b: &Bench<'_>, call: Pin<&mut F>) -> Verdict {
        let what = format!("the call waits ({self:?})");
        b.until(call, &what, |b| {
            let scope = b.asker.snapshot();
            match self {
                Stage::Queue | Stage::Cooldown => scope.queued == 1,
                Stage::Head | Stage::Body => {
                    b.requests().len() == 1 && b.server.open_requests() == 1
                }
                Stage::Backoff => b.requests().len() == 1 && scope.active == 0,
            }
        })
        .await
    }

    /// After the call has ended: nothing is held, nothing was sent again.
    async fn left(self, b: &Bench<'_>, permit: Option<Permit>) -> Verdict {
        drop(permit);
        b.free(&format!("{self:?}")).await?;
        let sent = match self {
            Stage::Queue | Stage::Cooldown => 0,
            _ => 1,
        };
        same(
            &format!("{self:?}: requests at the server"),
            sent,
            b.requests().len(),
        )?;
        if matches!(self, Stage::Head | Stage::Body) {
            gone(b, 1).await?;
        }
        Ok(())
    }
}

async fn deadline(cx: &Context) -> Verdict {
    cx.wire()?;
    for way in cx.ways() {
        // A backoff or a cooldown past the deadline fails at once: there is nothing to wait for.
        for stage in [Stage::Queue, Stage::Head, Stage::Body] {
            if (way, stage) == (Way::Stream, Stage::Body) {
                continue; // `bounds.stream`
            }
            let gate = Gate::new();
            let b = cx.bench(way, stage.extra(), stage.steps(cx, &gate)?)?;
            let permit = stage.arrange(&b)?;
            let options = CallOptions::default().with_timeout(Duration::from_secs(40));
            let mut call = std::pin::pin!(b.asker.ask(way, Ask::of(1).with(options)));
            stage.reached(&b, call.as_mut()).await?;
            b.clock.advance(Duration::from_millis(39_999));
            stage.reached(&b, call.as_mut()).await?;
            b.clock.advance(Duration::from_millis(1));
            let result = b.drive(call).await?;
            let what = format!("{way:?}, the deadline at {stage:?}");
            b.keep(&refused(&what, Kind::DeadlineExceeded, result)?);
            stage.left(&b, permit).await?;
        }
    }
    Ok(())
}

async fn cancel(cx: &Context) -> Verdict {
    cx.wire()?;
    for way in cx.ways() {
        for stage in STAGES {
            if (way, stage) == (Way::Stream, Stage::Body) {
                continue;
            }
            let gate = Gate::new();
            let b = cx.bench(way, stage.extra(), stage.steps(cx, &gate)?)?;
            let permit = stage.arrange(&b)?;
            let token = CancellationToken::new();
            let options = CallOptions::default().with_cancel(token.clone());
            let mut call = std::pin::pin!(b.asker.ask(way, Ask::of(1).with(options)));
            stage.reached(&b, call.as_mut()).await?;
            token.cancel();
            let result = b.stand_still(call).await?;
            let what = format!("{way:?}, cancelled at {stage:?}");
            b.keep(&refused(&what, Kind::Cancelled, result)?);
            stage.left(&b, permit).await?;
        }
    }
    Ok(())
}

async fn dropped(cx: &Context) -> Verdict {
    cx.wire()?;
    for way in cx.ways() {
        for stage in STAGES {
            let gate = Gate::new();
            let b = cx.bench(way, stage.extra(), stage.steps(cx, &gate)?)?;
            let permit = stage.arrange(&b)?;
            let mut call = Box::pin(b.asker.ask(way, Ask::of(1)));
            stage.reached(&b, call.as_mut()).await?;
            drop(call);
            stage.left(&b, permit).await?;
        }
    }
    Ok(())
}

async fn credential(cx: &Context) -> Verdict {
    cx.wire()?;
    let way = cx.way()?;
    let asks = {
        let b = cx.bench(way, json!({}), vec![])?;
        worked("a call", b.ask(Ask::of(1)).await?)?;
        b.server.requests().len() > b.requests().len()
    };
    if !asks {
        return skip("no credential comes from the server (Wire::auxiliary)");
    }
    for how in ["deadline", "cancellation", "drop"] {
        let gate = Gate::new();
        let b = cx.bench_behind(Some(gate.clone()), way, json!({}), vec![])?;
        let token = CancellationToken::new();
        let options = CallOptions::default()
            .with_timeout(Duration::from_secs(40))
            .with_cancel(token.clone());
        let mut call = Box::pin(b.asker.ask(way, Ask::of(1).with(options)));
        b.until(call.as_mut(), "the credential is asked for", |b| {
            b.server.open_requests() >= 1
        })
        .await?;
        let scope = b.asker.snapshot();
        let held = (scope.active, scope.queued, scope.counters.admitted);
        same(
            "permits, places in line and admissions meanwhile",
            (0, 0, 0),
            held,
        )?;
        match how {
            "deadline" => {
                b.clock.advance(Duration::from_secs(40));
                let result = b.stand_still(call).await?;
                b.keep(&refused(how, Kind::DeadlineExceeded, result)?);
            }
            "cancellation" => {
                token.cancel();
                let result = b.stand_still(call).await?;
                b.keep(&refused(how, Kind::Cancelled, result)?);
            }
            _ => drop(call),
        }
        b.free(how).await?;
        same("requests of the model", 0, b.requests().len())?;
        gate.open();
        worked("the next call", b.ask(Ask::of(1)).await?)?;
    }
    Ok(())
}

async fn stream(cx: &Context) -> Verdict {
    let Some(script) = cx.wire()?.stream(&["one "]) else {
        return skip("the wire has no streams");
    };
    for by_deadline in [true, false] {
        let some = script.opening.iter().chain(&script.deltas).cloned();
        let b = cx.bench(
            Way::Stream,
            json!({}),
            vec![Step::Say(script.reply(some).then_hang())],
        )?;
        let Some(generator) = b.asker.generator() else {
            return skip("not a generator");
        };
        let token = CancellationToken::new();
        let options = CallOptions::default()
            .with_timeout(Duration::from_secs(25))
            .with_cancel(token.clone());
        let opened = b
            .drive(generator.stream_with(Ask::of(1).generate_request(), options))
            .await?;
        let mut stream = worked("the stream opens", opened)?;
        loop {
            let mut next = Box::pin(stream.next());
            match futures::poll!(next.as_mut()) {
                std::task::Poll::Ready(Some(Ok(_))) => continue,
                std::task::Poll::Ready(other) => {
                    return fail("a stream that waits", format!("{other:?}"));
                }
                std::task::Poll::Pending => {}
            }
            let kind = if by_deadline {
                b.clock.advance(Duration::from_secs(25));
                Kind::DeadlineExceeded
            } else {
                token.cancel();
                Kind::Cancelled
            };
            match b.stand_still(next).await? {
                Some(Ok(_)) => continue,
                Some(Err(e)) => {
                    same("the stream's error", kind, e.kind())?;
                    break;
                }
                None => return fail(format!("an error of kind {kind}"), "the end of the stream"),
            }
        }
        b.free("a stream that was ended").await?;
        gone(&b, 1).await?;
    }
    Ok(())
}
