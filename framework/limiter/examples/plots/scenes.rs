//! What is drawn.

use antfly_limiter::{Pacing, Policy, PolicyBuilder};

use crate::sim::{Call, End, run};
use crate::svg::Plot;

const AT_ONCE: Call = Call {
    at: 0.0,
    cost: 0,
    takes: 0.4,
    within: None,
};

/// Every plot: its name and its text.
pub(crate) fn all() -> [(&'static str, String); 4] {
    [
        ("token_bucket", token_bucket()),
        ("completion", completion()),
        ("cooldown", cooldown()),
        ("fail_fast", fail_fast()),
    ]
}

fn policy(build: impl Fn(PolicyBuilder) -> PolicyBuilder) -> Policy {
    // What is written here is valid; a test would see an unlimited one.
    build(Policy::builder())
        .build()
        .unwrap_or(Policy::UNLIMITED)
}

fn scene(
    plot: Plot,
    title: &str,
    policy: Policy,
    calls: &[Call],
    cooldowns: &[(f64, f64)],
) -> Plot {
    let ends = run(policy, calls, cooldowns);
    plot.panel(title, calls, &ends, cooldowns)
}

fn token_bucket() -> String {
    let calls = [AT_ONCE; 9];
    let slow = [Call {
        takes: 2.6,
        ..AT_ONCE
    }; 9];
    let costly = [Call {
        cost: 3000,
        ..AT_ONCE
    }; 9];
    let bucket = policy(|b| b.requests_per_minute(60).burst(3));
    let narrow = policy(|b| b.requests_per_minute(60).burst(3).max_concurrency(2));
    let tokens = policy(|b| b.tokens_per_minute(12_000));
    let plot = Plot::new(26.0);
    let plot = scene(
        plot,
        "60 requests a minute, burst 3: three at once, then one a second",
        bucket,
        &calls,
        &[],
    );
    let plot = scene(
        plot,
        "the same with max_concurrency 2 and slow answers: two in flight at most",
        narrow,
        &slow,
        &[],
    );
    let plot = scene(
        plot,
        "12000 tokens a minute, 3000 a call: four from the full bucket, then one every 15 s",
        tokens,
        &costly[..5],
        &[],
    );
    plot.finish("Token-bucket pacing")
}

fn completion() -> String {
    let takes = [0.4, 3.0, 0.4, 1.5, 0.4];
    let calls: Vec<Call> = takes
        .iter()
        .map(|takes| Call {
            takes: *takes,
            ..AT_ONCE
        })
        .collect();
    let bucket = policy(|b| b.requests_per_minute(30));
    let paced = policy(|b| b.requests_per_minute(30).pacing(Pacing::Completion));
    let plot = Plot::new(16.0);
    let plot = scene(
        plot,
        "token_bucket, 30 a minute: a start every 2 s, however long an answer takes",
        bucket,
        &calls,
        &[],
    );
    let plot = scene(
        plot,
        "completion, 30 a minute: the next starts 2 s after the last has finished",
        paced,
        &calls,
        &[],
    );
    plot.finish("Completion pacing")
}

fn cooldown() -> String {
    let calls: Vec<Call> = (0..14)
        .map(|i| Call {
            at: f64::from(i) * 0.5,
            ..AT_ONCE
        })
        .collect();
    let crowd = [Call {
        at: 2.5,
        takes: 0.2,
        ..AT_ONCE
    }; 12];
    let bucket = policy(|b| b.requests_per_minute(120).burst(4));
    let told = [(2.2, 5.0)];
    let plot = Plot::new(12.0);
    let plot = scene(
        plot,
        "120 a minute, burst 4: one call is told 429; all wait, then leave through the bucket",
        bucket,
        &calls,
        &told,
    );
    let plot = scene(
        plot,
        "no limit but the cooldown: it restarts with one, then 2, 4, 8 ... every 100 ms",
        Policy::UNLIMITED,
        &crowd,
        &told,
    );
    plot.finish("A cooldown shared by all callers of a scope")
}

fn fail_fast() -> String {
    let within = [1.5, 3.0, 4.5, 6.0, 9.0, 12.0];
    let calls: Vec<Call> = within
        .iter()
        .map(|w| Call {
            at: 1.0,
            within: Some(*w),
            ..AT_ONCE
        })
        .collect();
    let paced = policy(|b| b.requests_per_minute(30));
    let told = [(2.0, 6.0)];
    let ends = run(paced, &calls, &told);
    debug_assert!(ends.iter().any(|e| matches!(e, End::Refused(_))));
    Plot::new(16.0)
        .panel(
            "30 a minute: deadlines (from second 1) that a cooldown outlasts fail at once",
            &calls,
            &ends,
            &told,
        )
        .finish("Fail-fast: what can't meet its deadline is told so at once")
}
