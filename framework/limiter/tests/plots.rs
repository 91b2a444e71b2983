//! The plots of `docs/limits.md` show what the limiter does now.
#![cfg(not(antfly_loom))]
#![allow(clippy::unwrap_used)] // A test fails by panicking.

#[path = "../examples/plots/scenes.rs"]
mod scenes;
#[path = "../examples/plots/sim.rs"]
mod sim;
#[path = "../examples/plots/svg.rs"]
mod svg;

use std::path::Path;

use antfly_limiter::{Pacing, Policy};
use sim::{Call, End};

#[test]
fn the_committed_plots_are_these() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/plots");
    let page = std::fs::read_to_string(folder.join("../limits.md")).unwrap();
    for (name, plot) in scenes::all() {
        let committed =
            std::fs::read_to_string(folder.join(format!("{name}.svg"))).unwrap_or_default();
        assert!(
            committed == plot,
            "docs/plots/{name}.svg is stale; draw it anew: cargo run -p antfly-limiter --example plots"
        );
        assert!(
            page.contains(&format!("plots/{name}.svg")),
            "docs/limits.md shows no {name}"
        );
    }
}

#[test]
fn the_simulation_says_when_calls_start_and_end() {
    let call = |at, takes, within| Call {
        at,
        cost: 0,
        takes,
        within,
    };
    let paced = Policy::builder()
        .requests_per_minute(30)
        .pacing(Pacing::Completion)
        .build()
        .unwrap();
    let calls = [
        call(0.0, 1.0, None),
        call(0.5, 0.5, None),
        call(0.5, 1.0, Some(3.0)),
    ];
    let ends = sim::run(paced, &calls, &[]);
    assert_eq!(ends[..2], [End::Done(0.0, 1.0), End::Done(3.0, 3.5)]);
    assert_eq!(
        ends[2],
        End::Refused(3.0),
        "certain as soon as another goes first"
    );
    let cooled = sim::run(paced, &calls[2..], &[(0.0, 9.0)]);
    assert_eq!(cooled, [End::Refused(0.5)], "it is told at once");
}
