//! `tests/REPORTS_BY_ADAPTER.md` names checks of the kit as an adapter's tests: each must have run and passed, and not been skipped.

use std::collections::BTreeSet;

use antfly_framework::testing::conformance::Report;

/// Holds one adapter's column of the table to what was proved of it.
pub(crate) fn holds(column: &str, reports: &[&Report]) {
    let table = include_str!("../../../tests/REPORTS_BY_ADAPTER.md");
    let rows = table
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |"));
    let rows: Vec<Vec<&str>> = rows.map(|row| row.split(" | ").collect()).collect();
    let head = rows.iter().find(|cells| cells[0] == "row").unwrap();
    let name = format!("`{column}`");
    let at = head.iter().position(|cell| *cell == name).unwrap();
    // What stands between two marks: every second piece.
    let named: BTreeSet<_> = rows
        .iter()
        .filter_map(|cells| cells.get(at))
        .flat_map(|cell| cell.split('`').skip(1).step_by(2))
        .filter_map(|name| name.strip_prefix("kit:"))
        .collect();
    assert!(!named.is_empty(), "no check of the kit in {column}");
    let passed: BTreeSet<_> = reports
        .iter()
        .flat_map(|report| report.passed())
        .map(|outcome| outcome.name)
        .collect();
    let missing: Vec<_> = named.difference(&passed).collect();
    assert!(
        missing.is_empty(),
        "the table names checks that {column} has not passed: {missing:?}"
    );
}
