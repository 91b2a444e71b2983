//! `tests/REPORTS_BY_ADAPTER.md` leaves no row and no cell out, and names no test and no check that isn't there.

use std::fs;
use std::path::{Path, PathBuf};

/// What a name of the table is looked for in, by what stands before its colon.
const PLACES: [(&str, &str); 16] = [
    ("reports", "tests/reports"),
    ("loop", "tests/loop"),
    ("antfly", "providers/tests/antfly"),
    ("bedrock", "providers/tests/bedrock"),
    ("google", "providers/tests/google"),
    ("in_process", "providers/tests/in_process"),
    ("generate", "providers/tests/in_process_generate"),
    ("openai-src", "providers/src/openai_wire"),
    ("bedrock-src", "providers/src/bedrock"),
    ("google-src", "providers/src/google"),
    ("vertex-src", "providers/src/vertex"),
    ("gemini-src", "providers/src/gemini"),
    ("in_process-src", "providers/src/in_process"),
    ("reranker-src", "antfly-reranker/src"),
    ("framework", "framework/src"),
    ("kit", "framework/src/testing/conformance/checks"),
];

/// Where each column's adapter runs the conformance kit.
const KITS: [&str; 7] = [
    "providers/tests/conformance/openai.rs",
    "providers/tests/conformance/antfly.rs",
    "antfly-reranker/tests/conformance.rs",
    "providers/tests/bedrock/conformance.rs",
    "providers/tests/conformance/vertex.rs",
    "providers/tests/conformance/gemini.rs",
    "providers/tests/conformance/in_process.rs",
];

fn at(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

/// A file's text, or that of all Rust files below a folder.
fn sources(path: &Path) -> String {
    if !path.is_dir() {
        return fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    }
    let mut all = String::new();
    for entry in fs::read_dir(path).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() || path.extension().is_some_and(|end| end == "rs") {
            all.push_str(&sources(&path));
            all.push('\n');
        }
    }
    all
}

/// The names of the functions that an attribute makes a test.
fn tests(source: &str) -> Vec<&str> {
    let mut names = Vec::new();
    let mut marked = false;
    for line in source.lines().map(str::trim) {
        if line.starts_with("#[") && line.contains("test") && !line.contains("cfg(") {
            marked = true;
        } else if let Some((_, rest)) = line.split_once("fn ")
            && marked
        {
            names.push(rest.split('(').next().unwrap_or(rest));
            marked = false;
        }
    }
    names
}

/// The lines of a table that begin with a row's id, cell by cell.
fn rows(text: &str) -> Vec<Vec<&str>> {
    text.lines()
        .filter_map(|line| line.strip_prefix('|')?.strip_suffix('|'))
        .map(|line| line.split('|').map(str::trim).collect::<Vec<_>>())
        .filter(|cells| is_id(cells[0]))
        .collect()
}

fn is_id(cell: &str) -> bool {
    let mut letters = cell.chars();
    cell.len() == 3
        && letters.next().is_some_and(|c| c.is_ascii_uppercase())
        && letters.all(|c| c.is_ascii_digit())
}

/// What is wrong with one name in the column of the adapter whose kit is at `kit`.
fn problem(name: &str, kit: &str) -> Option<String> {
    let (place, name) = name.split_once(':')?;
    let (key, file) = place.split_once('/').unwrap_or((place, ""));
    let Some((_, folder)) = PLACES.iter().find(|(known, _)| *known == key) else {
        return Some(format!("there is no place {key}"));
    };
    let path = match file {
        "" => at(folder),
        file => at(folder).join(format!("{file}.rs")),
    };
    if !path.exists() {
        return Some(format!("there is no {}", path.display()));
    }
    let source = sources(&path);
    if key == "kit" {
        if sources(&at(kit)).contains(&format!(".skip(\"{name}\"")) {
            return Some(format!("{kit} skips {name}"));
        }
        return (!source.contains(&format!("\"{name}\""))).then(|| format!("no check {name}"));
    }
    let found = tests(&source)
        .iter()
        .any(|test| *test == name || (name.ends_with('_') && test.starts_with(name)));
    (!found).then(|| format!("no test {name} in {}", path.display()))
}

fn ids(text: &str) -> Vec<&str> {
    rows(text).iter().map(|cells| cells[0]).collect()
}

#[test]
fn every_row_has_a_cell_for_every_adapter_and_every_test_it_names_exists() {
    let (reports, table) = (
        sources(&at("tests/REPORTS.md")),
        sources(&at("tests/REPORTS_BY_ADAPTER.md")),
    );
    assert!(ids(&reports).len() > 80, "the table of rows is not read");
    assert_eq!(ids(&reports), ids(&table));
    let mut problems = Vec::new();
    for row in rows(&table) {
        assert_eq!(row.len(), 1 + KITS.len(), "{row:?}");
        for (cell, kit) in row[1..].iter().zip(KITS) {
            if cell.is_empty() {
                problems.push(format!("{}: a cell is empty", row[0]));
            }
            // What stands between two marks: every second piece.
            for name in cell.split('`').skip(1).step_by(2) {
                let problem = problem(name, kit);
                problems.extend(problem.map(|what| format!("{}: {what}", row[0])));
            }
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn a_name_that_is_not_there_is_found_out() {
    let kit = KITS[4];
    for wrong in [
        "reports:a99_",
        "reports:every_split",
        "bedrock/nowhere:k01_",
        "elsewhere:a01_",
        "kit:stream.nothing",
        "kit:secret.echo",
    ] {
        assert!(problem(wrong, kit).is_some(), "{wrong}");
    }
    for right in ["reports:a01_", "google/streams:b01_", "kit:stream.cut"] {
        assert_eq!(problem(right, kit), None);
    }
}
