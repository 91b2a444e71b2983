//! The conformance kit, tested: an adapter that is right passes, and each fault is found by the check that is there for it.
#![allow(clippy::unwrap_used)] // A test fails by panicking.

use antfly_framework::provider::Operation;
use antfly_framework::testing::conformance::sample::{self, Fault, LineScript, Script};
use antfly_framework::testing::conformance::{KEY, Report, Status, Subject};

const HTTP: bool = false;
const ENGINE: bool = true;

/// The sample with its key behind a secret reference, which can be asked again.
fn by_reference(model: &'static str) -> Subject {
    Subject::new(sample::PLUGIN, Operation::Embed, move |server| {
        serde_json::json!({"provider": "sample", "model": model, "url": server, "api_key": "${secret:kit.key}"})
    })
    .environment(|_| [("KIT_KEY", KEY)])
    .scope(move |server| {
        vec![
            ("provider", "sample".to_owned()),
            ("endpoint", server.to_owned()),
            ("operation", "embed".to_owned()),
            ("model", model.to_owned()),
            ("credential", "secret:env:KIT_KEY".to_owned()),
            ("project", "none".to_owned()),
        ]
    })
}

#[test]
fn a_key_behind_a_reference_is_loaded_anew_when_it_is_called_expired() {
    by_reference("tiny").check(Script).assert();
    let report = by_reference("DeafToExpiry").only(["attempt"]).check(Script);
    let failed: Vec<_> = report.failed().map(|o| o.name).collect();
    assert_eq!(failed, ["attempt.expired"], "{report}");
}

fn run(operation: Operation, by_engine: bool, model: &str) -> Report {
    sample::subject(operation, by_engine, model).check(Script)
}

/// A report of an adapter that is right: all passed but for these skips.
fn passes(report: &Report, skips: &[&str]) {
    report.assert();
    let skipped: Vec<_> = report.skipped().map(|o| o.name).collect();
    assert_eq!(skipped, skips, "{report}");
    assert!(report.passed().count() >= 35, "{report}");
}

#[test]
fn an_embedder_that_is_right_passes() {
    passes(
        &run(Operation::Embed, HTTP, "tiny"),
        &[
            "declares.output_cap",
            "stream.encoding",
            "stream.whole",
            "stream.split",
            "stream.cut",
            "stream.broken",
            "stream.no_mark",
            "stream.error_first",
            "stream.error_later",
            "stream.idle",
            "framing.line_ends",
            "framing.separators",
            "framing.fields",
            "framing.comments",
            "framing.pings",
            "framing.keep_alive",
            "framing.lines",
            "stream.long",
            "stream.bound",
            "stream.small",
            "stream.unread",
            "permit.stream",
            "permit.stream_dropped",
            "bounds.credential",
            "bounds.stream",
            "cost.default_cap",
            "media.sent",
        ],
    );
}

#[test]
fn a_generator_that_is_right_passes() {
    let skips = [
        "request.batches",
        "request.batch_size",
        "request.bytes",
        "request.price",
        "answer.shuffled",
        "answer.count",
        "answer.index",
        "answer.finite",
        "framing.lines",
        "bounds.credential",
    ];
    passes(&run(Operation::Generate, HTTP, "tiny"), &skips);
}

#[test]
fn lines_of_json_are_checked_and_an_adapter_that_takes_them_for_events_is_found() {
    let lines = |model| sample::subject(Operation::Generate, HTTP, model);
    lines("lines").check(LineScript).assert();
    let report = lines("tiny").only(["framing.lines"]).check(LineScript);
    let failed: Vec<_> = report.failed().map(|o| o.name).collect();
    assert_eq!(failed, ["framing.lines"], "{report}");
    // Of the forms these alone are tried on lines.
    let report = lines("lines").only(["framing"]).check(LineScript);
    let ran: Vec<_> = report.passed().map(|o| o.name).collect();
    assert_eq!(ran, ["framing.lines"], "{report}");
}

#[test]
fn a_reranker_that_is_right_passes() {
    let report = run(Operation::Rerank, HTTP, "tiny");
    report.assert();
}

#[test]
fn an_engine_that_is_right_passes() {
    for operation in [Operation::Embed, Operation::Generate, Operation::Rerank] {
        run(operation, ENGINE, "tiny").assert();
    }
}

#[test]
fn what_was_only_looked_at_in_part_or_skipped_by_mistake_proves_nothing() {
    let some = sample::subject(Operation::Embed, HTTP, "tiny").only(["declares"]);
    let report = some.check(Script);
    assert_eq!(report.failed().count(), 0, "{report}");
    assert!(std::panic::catch_unwind(|| report.assert()).is_err());

    let skipped = sample::subject(Operation::Embed, HTTP, "tiny")
        .only(["declares"])
        .skip("declares.scope", "for this test")
        .skip("declares.scoop", "a typing error");
    let report = skipped.check(Script);
    let shown = report.to_string();
    assert!(
        shown.contains("skip  declares.scope: for this test"),
        "{shown}"
    );
    let failed: Vec<_> = report.failed().map(|o| o.name).collect();
    assert_eq!(failed, ["declares.scoop"], "{shown}");
}

#[test]
fn an_entry_that_does_not_resolve_is_a_failure_and_no_empty_success() {
    let broken = Subject::new(
        sample::PLUGIN,
        Operation::Embed,
        |_| serde_json::json!({"provider": "sample"}),
    );
    let report = broken.check(Script);
    let failed: Vec<_> = report.failed().map(|o| o.name).collect();
    assert_eq!(failed, ["subject"], "{report}");
    assert!(std::panic::catch_unwind(|| report.assert()).is_err());
}

#[test]
fn a_model_in_this_process_that_is_right_passes() {
    for operation in [Operation::Embed, Operation::Generate, Operation::Rerank] {
        let report = sample::local_subject(operation, "tiny").check_local();
        report.assert();
        assert!(report.passed().count() >= 14, "{report}");
    }
}

#[test]
fn each_fault_of_a_model_in_this_process_is_found() {
    use Operation::{Embed, Generate};
    for (fault, operation, check) in [
        (Fault::SortsInputs, Embed, "local.answers"),
        (Fault::IgnoresCap, Generate, "local.cap"),
        (Fault::KeepsSlot, Generate, "local.drop"),
        (Fault::EndlessQueue, Embed, "local.queue"),
    ] {
        let subject = sample::local_subject(operation, &fault.model());
        let report = subject.only([check]).check_local();
        let failed: Vec<_> = report.failed().map(|o| o.name).collect();
        assert_eq!(failed, [check], "{fault:?}: {report}");
    }
}

#[test]
fn the_wrong_way_to_check_is_said() {
    for report in [
        sample::local_subject(Operation::Embed, "tiny").check(Script),
        sample::subject(Operation::Embed, HTTP, "tiny").check_local(),
    ] {
        let failed: Vec<_> = report.failed().map(|o| o.name).collect();
        assert_eq!(failed, ["subject"], "{report}");
    }
}

/// Which checks must find a fault, where, and on which route.
fn found_by(fault: Fault) -> Option<(Operation, bool, &'static [&'static str])> {
    use Operation::{Embed, Generate};
    Some(match fault {
        Fault::WrongOrder => (Embed, HTTP, &["answer.shuffled"]),
        Fault::LosesItem => (
            Embed,
            HTTP,
            &[
                "request.sent",
                "request.batch_size",
                "request.bytes",
                "request.price",
            ],
        ),
        Fault::OwnedFieldTaken => (Generate, HTTP, &["request.owned"]),
        Fault::NullIsZero => (Embed, HTTP, &["answer.finite"]),
        Fault::TakesAnything => (Generate, HTTP, &["answer.unreadable"]),
        Fault::LeaksKeyInDebug => (Embed, HTTP, &["secret.debug"]),
        Fault::LogsKey => (Embed, HTTP, &["secret.nowhere"]),
        Fault::KeyInUrl => (Generate, HTTP, &["secret.url"]),
        Fault::NoCredential => (Embed, HTTP, &["request.sent"]),
        Fault::OneCredential => (Embed, HTTP, &["declares.credential"]),
        Fault::MissingScopeField => (Embed, HTTP, &["declares.scope"]),
        Fault::OpensSocket => (Embed, HTTP, &["declares.opens_nothing"]),
        Fault::IgnoresBodyHint => (Generate, HTTP, &["cooldown.body"]),
        Fault::WrongKind => (Embed, HTTP, &["error.status"]),
        Fault::PanicsOnBody => (Embed, HTTP, &["error.any_body"]),
        Fault::UnderDeclaresCost => (Generate, HTTP, &["cost.wire"]),
        Fault::DropsMedia => (Generate, HTTP, &["media.sent"]),
        Fault::StreamEndIsSuccess => (Generate, HTTP, &["stream.cut"]),
        Fault::SwallowsStreamError => (Generate, HTTP, &["stream.error_later"]),
        Fault::LosesDelta => (Generate, HTTP, &["stream.whole"]),
        Fault::DropsQuery => (Generate, HTTP, &["settings.url"]),
        Fault::TakesAnyKey => (Generate, HTTP, &["settings.key"]),
        Fault::SendsTwice => (
            Embed,
            ENGINE,
            &["attempt.counted", "permit.completion", "wait.backoff"],
        ),
        Fault::FetchesTokenInside => (Embed, ENGINE, &["bounds.credential"]),
        Fault::LeavesWorkBehind => (Embed, ENGINE, &["bounds.drop"]),
        Fault::IgnoresRetryAfter => (Embed, ENGINE, &["cooldown.shared"]),
        Fault::RetriesItself => (Embed, ENGINE, &["error.transport"]),
        Fault::OnlyKnowsLf => (Generate, ENGINE, &["framing.line_ends"]),
        Fault::SplitsAtSeparators => (Generate, ENGINE, &["framing.separators"]),
        Fault::WantsASpace => (Generate, ENGINE, &["framing.fields"]),
        Fault::ReadsComments => (Generate, ENGINE, &["framing.comments"]),
        Fault::DiesOfPings => (Generate, ENGINE, &["framing.pings"]),
        Fault::EndsLongStreams => (Generate, ENGINE, &["stream.long"]),
        Fault::NoEventBound => (Generate, ENGINE, &["stream.bound"]),
        Fault::BoundsWholeStream => (Generate, ENGINE, &["stream.small"]),
        Fault::Hoards => (Generate, ENGINE, &["stream.unread"]),
        Fault::NoBodyBound => (Embed, ENGINE, &["answer.bound"]),
        Fault::IgnoresEncoding => (Generate, ENGINE, &["answer.encoding", "stream.encoding"]),
        Fault::AddsMargin => (Embed, ENGINE, &["wait.boundary", "wait.bounded"]),
        Fault::AdaptsRate => (Embed, ENGINE, &["wait.rates"]),
        // In tests of their own, above.
        Fault::DeafToExpiry
        | Fault::SortsInputs
        | Fault::IgnoresCap
        | Fault::KeepsSlot
        | Fault::EndlessQueue => {
            return None;
        }
        other => panic!("no check is named for {other:?}"),
    })
}

#[test]
fn each_fault_is_found_by_the_checks_that_are_there_for_it() {
    for fault in Fault::ALL {
        let Some((operation, by_engine, checks)) = found_by(fault) else {
            continue;
        };
        // One check is enough: each sets up anew what it needs. Only the search for secrets needs something to search.
        let some = checks.iter().map(|check| match *check {
            "secret.nowhere" => "secret",
            check => check,
        });
        let report = sample::subject(operation, by_engine, &fault.model())
            .only(some)
            .check(Script);
        let failed: Vec<_> = report.failed().map(|o| o.name).collect();
        for check in checks {
            assert!(failed.contains(check), "{fault:?}, {check}: {report}");
            assert!(
                report.to_string().contains(&format!("FAIL  {check}: ")),
                "{report}"
            );
        }
        for outcome in report.failed() {
            let Status::Failed { expected, seen } = &outcome.status else {
                panic!("{outcome:?}");
            };
            assert!(!expected.is_empty() && !seen.is_empty(), "{outcome:?}");
            let all = format!("{expected}{seen}");
            assert!(
                !all.contains("SENTINEL"),
                "the report itself leaks the key: {outcome:?}"
            );
        }
    }
}
