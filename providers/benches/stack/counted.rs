//! Instructions by callgrind: repeatable, whatever else the machine does.

use std::process::{Command, Stdio};

/// Ours over bare, or a dash where valgrind is missing.
pub fn ratio(ours: &str, bare: &str, url: &str, quick: bool) -> String {
    match (per_round(ours, url, quick), per_round(bare, url, quick)) {
        (Some(ours), Some(bare)) => format!("{:.2}x", ours as f64 / bare as f64),
        _ => "-".to_owned(),
    }
}

/// Instructions of one round: a long run less a short one, over the rounds between them.
fn per_round(case: &str, url: &str, quick: bool) -> Option<u64> {
    let (short, more) = match (case.split('-').next().unwrap_or(case), quick) {
        ("floats" | "base64" | "stream", true) => (1, 1),
        ("floats" | "base64" | "stream", false) => (1, 4),
        (_, true) => (10, 50),
        (_, false) => (20, 400),
    };
    let long = instructions(case, url, short + more)?;
    Some((long - instructions(case, url, short)?) / more)
}

fn instructions(case: &str, url: &str, rounds: u64) -> Option<u64> {
    let run = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(std::env::current_exe().ok()?)
        .args(["run", case, url, &rounds.to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&run.stderr);
    let line = text.lines().find(|line| line.contains("Collected"))?;
    line.rsplit(' ').next()?.parse().ok()
}
