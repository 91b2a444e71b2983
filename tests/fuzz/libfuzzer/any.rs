//! One binary for every target; the variable `TARGET` says which.
#![no_main]

#[path = "../targets.rs"]
mod targets;

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;

static TARGET: LazyLock<&targets::Target> = LazyLock::new(|| {
    let name = std::env::var("TARGET").unwrap_or_default();
    let names: Vec<_> = targets::ALL.iter().map(|t| t.name).collect();
    let found = targets::ALL.iter().find(|t| t.name == name);
    found.unwrap_or_else(|| panic!("TARGET is {name:?}; one of {names:?} is allowed"))
});

fuzz_target!(|data: &[u8]| (TARGET.check)(data));
