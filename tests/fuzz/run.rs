//! Runs a target over its seeds and over inputs made of them.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::mutate::{Rng, input};
use crate::targets::Target;

/// Inputs of a bounded run.
const CASES: u64 = 1000;

/// # Panics
/// With the input, when the target does.
pub(crate) fn target(target: &Target) {
    let seeds = corpus(target.name);
    for (number, data) in seeds.iter().enumerate() {
        one(target, data, &format!("seed {number} of its corpus"));
    }
    let seed = number("FUZZ_SEED").unwrap_or(1);
    let until = number("FUZZ_SECONDS").map(|s| Instant::now() + Duration::from_secs(s));
    let mut rng = Rng::new(seed);
    let mut case = 0;
    while until.map_or(case < CASES, |until| Instant::now() < until) {
        let data = input(&mut rng, &seeds, target.words);
        one(target, &data, &format!("case {case}, FUZZ_SEED={seed}"));
        case += 1;
    }
}

fn one(target: &Target, data: &[u8], which: &str) {
    let Err(panic) = catch_unwind(AssertUnwindSafe(|| (target.check)(data))) else {
        return;
    };
    let said = panic
        .downcast_ref::<String>()
        .cloned()
        .or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned()))
        .unwrap_or_default();
    panic!(
        "{} broke at {which}: {said}\ninput: b\"{}\"\nkeep it: printf '%b' '...' > tests/fuzz/corpus/{}/NAME",
        target.name,
        data.escape_ascii(),
        target.name
    );
}

/// The seeds of a target, sorted by name.
fn corpus(name: &str) -> Vec<Vec<u8>> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("fuzz/corpus")
        .join(name);
    let Ok(files) = std::fs::read_dir(&folder) else {
        assert_eq!(name, "broken", "no corpus at {}", folder.display());
        return Vec::new();
    };
    let mut paths: Vec<_> = files.map(|f| f.unwrap().path()).collect();
    paths.sort();
    paths.iter().map(|p| std::fs::read(p).unwrap()).collect()
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}
