//! An interrupt writes what is finished, also behind a gap, and nothing for the rest.

use antfly_framework::testing::{Gate, Reply, Server};
use serde_json::{Value, json};

use crate::support::{
    Folder, Running, completion, config, delta, inputs, json_lines, said, text, vectors, wait,
};

/// Answers all but the first item, which hangs; interrupts; gives the ids that were written.
fn interrupted_with(signal: &str) -> Vec<Value> {
    let server = Server::with(|request| {
        if said(request) == "a" {
            Reply::hang()
        } else {
            completion("ok")
        }
    });
    let folder = Folder::new();
    let config = config(&folder, "generators", &server, json!({"writer": {}}));
    let attempts = text(&folder.path("attempts.jsonl"));
    let args = [
        "generate",
        "--config",
        &config,
        "--concurrency",
        "2",
        "--attempts",
        &attempts,
    ];
    let mut running = Running::start(&args);
    running.send("{\"id\": \"a\", \"prompt\": \"a\"}\n{\"id\": \"b\", \"prompt\": \"b\"}\n{\"id\": \"c\", \"prompt\": \"c\"}\n{\"id\": \"d\"\n");
    // The connection that served b and c is free again and c's attempt is written down: both are answered.
    while std::fs::read_to_string(&attempts)
        .unwrap_or_default()
        .lines()
        .count()
        < 2
    {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    running.signal(signal);
    let out = running.finish_with_open_stdin();
    assert_eq!(out.code, Some(130), "{}", out.stderr);
    assert!(out.stderr.contains("interrupted: "), "{}", out.stderr);
    // The attempt that was cut short is in the file as well.
    let outcomes: Vec<Value> = json_lines(&folder.read("attempts.jsonl"))
        .iter()
        .map(|row| row["outcome"].clone())
        .collect();
    assert_eq!(outcomes, ["ok", "ok", "error"]);
    out.lines().iter().map(|line| line["id"].clone()).collect()
}

#[test]
fn what_is_finished_behind_a_gap_is_written() {
    let ids = interrupted_with("-INT");
    // c's answer may have been read a moment too late; b's was read before c was sent on the one free slot.
    assert!(ids.starts_with(&["b".into()]), "{ids:?}");
    assert!(!ids.contains(&"a".into()));
}

#[test]
fn a_termination_is_an_interrupt() {
    let ids = interrupted_with("-TERM");
    assert!(ids.starts_with(&["b".into()]), "{ids:?}");
}

#[test]
fn a_stream_that_is_cut_short_gets_no_last_line() {
    let gate = Gate::new();
    let held = gate.clone();
    let server = Server::with(move |_| {
        Reply::stream(200, "text/event-stream")
            .event(&delta(json!({"content": "half"}), None))
            .pause(&held)
    });
    let folder = Folder::new();
    let config = config(&folder, "generators", &server, json!({"writer": {}}));
    let mut running = Running::start(&["generate", "--config", &config, "--stream"]);
    running.send("\"a\"\n");
    assert_eq!(running.line(), json!({"id": 0, "delta": "half"}));
    running.signal("-INT");
    let out = running.finish_with_open_stdin();
    assert_eq!(out.code, Some(130), "{}", out.stderr);
    assert_eq!(out.stdout, "");
    gate.open();
}

#[test]
fn items_that_were_only_gathered_get_no_line() {
    let server = Server::with(vectors);
    let folder = Folder::new();
    let config = config(&folder, "embedders", &server, json!({"docs": {}}));
    let mut running = Running::start(&["embed", "--config", &config, "--batch", "2"]);
    running.send("\"a\"\n\"b\"\n\"c\"\n");
    assert_eq!(running.line()["id"], 0);
    assert_eq!(running.line()["id"], 1);
    running.signal("-INT");
    let out = running.finish_with_open_stdin();
    assert_eq!(out.code, Some(130), "{}", out.stderr);
    assert_eq!(out.stdout, "");
    assert_eq!(
        server
            .requests()
            .iter()
            .map(|r| inputs(r).len())
            .collect::<Vec<_>>(),
        [2]
    );
}

#[test]
fn an_output_that_nobody_takes_holds_no_interrupt_up_for_long() {
    let server = Server::with(vectors);
    let folder = Folder::new();
    let config = config(&folder, "embedders", &server, json!({"docs": {}}));
    let mut running = Running::start(&["embed", "--config", &config, "--batch", "1"]);
    let count = 20;
    for _ in 0..count {
        running.send(&(json!({"id": "i".repeat(20_000), "text": "x"}).to_string() + "\n"));
    }
    wait(server.wait_for_requests(count));
    running.signal("-INT");
    let began = std::time::Instant::now();
    assert_eq!(running.code(), Some(130));
    let took = began.elapsed();
    assert!(took < std::time::Duration::from_secs(8), "{took:?}");
}

#[test]
fn a_second_interrupt_waits_for_nobody() {
    let server = Server::with(vectors);
    let folder = Folder::new();
    let config = config(&folder, "embedders", &server, json!({"docs": {}}));
    let mut running = Running::start(&["embed", "--config", &config, "--batch", "1"]);
    // More than a pipe holds, and nobody reads it: the last line can't be written.
    let count = 20;
    for _ in 0..count {
        running.send(&(json!({"id": "i".repeat(20_000), "text": "x"}).to_string() + "\n"));
    }
    wait(server.wait_for_requests(count));
    while running.is_running() {
        running.signal("-INT");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    assert_eq!(running.code(), Some(130));
}
