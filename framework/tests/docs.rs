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
