//! The pages under `docs/` speak of what there is.
#![allow(clippy::unwrap_used)] // A test fails by panicking.

use antfly_framework::Kind;

#[test]
fn every_kind_of_error_has_its_section_in_the_order_of_their_declaration() {
    let page = include_str!("../../docs/troubleshooting.md");
    let sections: Vec<&str> = page
        .lines()
        .filter_map(|line| line.strip_prefix("## `")?.strip_suffix('`'))
        .collect();
    let kinds: Vec<&str> = Kind::ALL.iter().map(|k| k.as_str()).collect();
    assert_eq!(sections, kinds);
    for section in page.split("\n## ").skip(1) {
        assert!(section.len() > 60, "a section that helps nobody: {section}");
    }
}

/// The Rust of a page, block by block.
fn blocks(page: &str) -> Vec<&str> {
    let fenced = page.split("```").skip(1).step_by(2);
    fenced.filter_map(|b| b.strip_prefix("rust\n")).collect()
}

#[test]
fn the_walk_to_a_provider_is_the_source_of_the_crate_that_is_proved() {
    let page = include_str!("../../docs/write-a-provider.md");
    let mut blocks = blocks(page);
    let proof = blocks.pop().unwrap();
    let source = include_str!("../../tests/outside/src/lib.rs");
    let from = source.find("use std::fmt;").unwrap();
    assert_eq!(
        blocks.join("\n"),
        source[from..],
        "docs/write-a-provider.md or tests/outside/src/lib.rs is stale"
    );
    let test = include_str!("../../tests/outside/tests/conformance.rs");
    let (_, test) = test.split_once('\n').unwrap();
    assert_eq!(
        proof.trim(),
        test.trim(),
        "docs/write-a-provider.md or tests/outside/tests is stale"
    );
}
