//! The checks, one file a subject, and the loop that runs them.

mod answers;
mod attempts;
mod batches;
mod bodies;
mod bounds;
mod cooldown;
mod cost;
mod declares;
mod errors;
mod framing;
mod local;
mod long_streams;
mod media;
mod permits;
mod requests;
mod secrets;
mod settings;
mod streams;
mod waits;

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::LocalBoxFuture;

use super::bench::{Context, Kind};
use super::log::Log;
use super::report::{Outcome, Report, Status};
use super::subject::Subject;
use super::verdict::{Stop, Verdict};
use super::wire::Wire;

/// One check: its name, what it checks, and how.
struct Check {
    name: &'static str,
    checks: &'static str,
    run: for<'a> fn(&'a Context) -> LocalBoxFuture<'a, Verdict>,
}

macro_rules! check {
    ($name:literal, $checks:literal, $run:path) => {
        $crate::testing::conformance::checks::Check {
            name: $name,
            checks: $checks,
            run: |cx| Box::pin($run(cx)),
        }
    };
}
use check;

/// What every adapter with a server is checked for, in this order.
fn wire_checks() -> impl Iterator<Item = &'static Check> {
    [
        declares::CHECKS,
        settings::CHECKS,
        requests::CHECKS,
        batches::CHECKS,
        answers::CHECKS,
        bodies::CHECKS,
        streams::CHECKS,
        framing::CHECKS,
        long_streams::CHECKS,
        errors::CHECKS,
        attempts::CHECKS,
        cooldown::CHECKS,
        waits::CHECKS,
        permits::CHECKS,
        bounds::CHECKS,
        cost::CHECKS,
        media::CHECKS,
        secrets::CHECKS,
    ]
    .into_iter()
    .flatten()
}

fn local_checks() -> impl Iterator<Item = &'static Check> {
    [
        declares::CHECKS,
        settings::CHECKS,
        local::CHECKS,
        media::CHECKS,
        secrets::CHECKS,
    ]
    .into_iter()
    .flatten()
}

pub(super) fn run_wire(subject: Subject, wire: Arc<dyn Wire>) -> Report {
    run(subject, Some(wire), &wire_checks().collect::<Vec<_>>())
}

pub(super) fn run_local(subject: Subject) -> Report {
    run(subject, None, &local_checks().collect::<Vec<_>>())
}

fn run(subject: Subject, wire: Option<Arc<dyn Wire>>, checks: &[&'static Check]) -> Report {
    let log = Log::default();
    let mut report = Report {
        provider: subject.plugin.name.to_owned(),
        operation: subject.operation.as_str(),
        outcomes: Vec::new(),
        partial: subject.only.is_some(),
    };
    let guard = tracing::subscriber::set_default(log.subscriber());
    let (skips, only) = (subject.skips.clone(), subject.only.clone());
    let known = |name: &str| checks.iter().any(|c| c.name == name);
    for (name, _) in skips.iter().filter(|(name, _)| !known(name)) {
        report.outcomes.push(Outcome {
            name,
            checks: "a skip names a check",
            status: Status::Failed {
                expected: "the name of a check".to_owned(),
                seen: format!("{name:?}"),
            },
        });
    }
    match std::panic::catch_unwind(AssertUnwindSafe(|| prepare(subject, wire, &log))) {
        Ok(Ok((runtime, context))) => {
            for check in checks {
                let wanted = only
                    .as_ref()
                    .is_none_or(|only| only.iter().any(|o| check.name.starts_with(o.as_str())));
                if !wanted {
                    continue;
                }
                let status = match skips.iter().find(|(name, _)| *name == check.name) {
                    Some((_, why)) => Status::Skipped(why.clone()),
                    None => runtime.block_on(one(check, &context)),
                };
                report.outcomes.push(Outcome {
                    name: check.name,
                    checks: check.checks,
                    status,
                });
            }
        }
        Ok(Err(stop)) => report.outcomes.push(broken(stop)),
        Err(panic) => report.outcomes.push(broken(panicked(&log, &*panic))),
    }
    drop(guard);
    report
}

fn prepare(
    subject: Subject,
    wire: Option<Arc<dyn Wire>>,
    log: &Log,
) -> Verdict<(tokio::runtime::Runtime, Context)> {
    let has_wire = wire.is_some();
    let context = Context::new(subject, wire, log.clone())?;
    match (context.route, has_wire) {
        (Kind::Local, true) => {
            return super::verdict::fail(
                "`check_local`",
                "`check` on an adapter of the local route",
            );
        }
        (Kind::Http | Kind::Engine, false) => {
            return super::verdict::fail(
                "`check` with a wire",
                "`check_local` on an adapter that has a server",
            );
        }
        _ => {}
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    match runtime {
        Ok(runtime) => Ok((runtime, context)),
        Err(e) => super::verdict::fail("a runtime", e.to_string()),
    }
}

async fn one(check: &Check, context: &Context) -> Status {
    let run = AssertUnwindSafe((check.run)(context)).catch_unwind();
    match run.await {
        Ok(Ok(())) => Status::Passed,
        Ok(Err(stop)) => status(stop),
        Err(panic) => status(panicked(&context.log, &*panic)),
    }
}

fn status(stop: Stop) -> Status {
    match stop {
        Stop::Skip(why) => Status::Skipped(why),
        Stop::Fail { expected, seen } => Status::Failed { expected, seen },
    }
}

fn broken(stop: Stop) -> Outcome {
    Outcome {
        name: "subject",
        checks: "the plugin resolves the entry",
        status: match status(stop) {
            Status::Skipped(seen) => Status::Failed {
                expected: "something to check".to_owned(),
                seen,
            },
            status => status,
        },
    }
}

fn panicked(log: &Log, panic: &(dyn Any + Send)) -> Stop {
    let said = panic
        .downcast_ref::<String>()
        .cloned()
        .or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned()))
        .unwrap_or_else(|| "something that is no text".to_owned());
    log.note(&said);
    Stop::Fail {
        expected: "no panic".to_owned(),
        seen: format!("it panicked: {said}"),
    }
}
