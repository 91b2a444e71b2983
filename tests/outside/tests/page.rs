//! What `docs/write-a-provider.md` shows of the proof's output is what the proof says.

#[path = "conformance.rs"]
mod conformance;

/// This binary once more, with the proof alone: what a reader of the page sees when it runs.
#[test]
fn the_walk_shows_the_count_that_the_proof_prints() {
    let proof = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["conformance::the_parrot_conforms", "--exact", "--nocapture"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&proof.stdout);
    assert!(proof.status.success(), "{said}");
    let count = said.lines().find(|line| line.ends_with(" failed"));
    let count = count.unwrap_or_else(|| panic!("no count in {said}"));
    let page = include_str!("../../../docs/write-a-provider.md");
    assert!(
        page.lines().any(|line| line == count),
        "docs/write-a-provider.md shows another count than {count:?}"
    );
}
