//! What is refused before anything is sent: exit 2, one line on standard error, nothing on standard output.

use antfly_framework::testing::Server;
use serde_json::json;

use crate::support::{Folder, Running, config, run, text, vectors};

/// Runs `embed` with these arguments against a server that must see nothing.
fn refused(entries: serde_json::Value, args: impl Fn(&Folder) -> Vec<String>) -> String {
    let server = Server::with(vectors);
    let folder = Folder::new();
    let config = config(&folder, "embedders", &server, entries);
    let args = args(&folder);
    let mut all = vec!["embed", "--config", &config];
    all.extend(args.iter().map(String::as_str));
    let out = run(&all, "\"x\"\n");
    assert_eq!(out.code, Some(2), "{all:?} {}", out.stderr);
    assert_eq!(out.stdout, "", "{all:?}");
    assert!(server.requests().is_empty());
    out.stderr
}

fn one_line(stderr: &str, part: &str) {
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    assert!(stderr.contains(part), "{stderr} lacks {part}");
}

#[test]
fn bad_options() {
    for args in [
        ["--timeout", "soon"],
        ["--timeout", "0s"],
        ["--batch", "0"],
        ["--concurrency", "-1"],
        ["--attempts", "-"],
        ["--bath", "3"],
    ] {
        let stderr = refused(json!({"docs": {}}), |_| args.map(str::to_owned).to_vec());
        assert!(stderr.contains(args[0]), "{stderr}");
    }
    assert_eq!(run(&[], "").code, Some(2));
    assert_eq!(run(&["embed"], "").code, Some(2));
}

#[test]
fn entries_that_are_not_there() {
    let two = json!({"docs": {}, "other": {}});
    one_line(&refused(two.clone(), |_| vec![]), "docs, other");
    let named = |_: &Folder| vec!["--name".to_owned(), "dosc".to_owned()];
    one_line(&refused(two, named), "docs");
    one_line(&refused(json!({}), |_| vec![]), "embed");
}

#[test]
fn bad_entries() {
    let bad = json!({"docs": {"rate_limit": {"requests_per_minute": 0}}});
    one_line(
        &refused(bad, |_| vec![]),
        "embedders.docs.rate_limit.requests_per_minute",
    );
    let bad = json!({"docs": {"provider": "nobody"}});
    one_line(&refused(bad, |_| vec![]), "nobody");
    let bad = json!({"docs": {"modle": "x"}});
    one_line(&refused(bad, |_| vec![]), "modle");
}

#[test]
fn files_that_can_not_be_opened() {
    let docs = || json!({"docs": {}});
    let missing = |folder: &Folder| vec!["--input".to_owned(), text(&folder.path("none.jsonl"))];
    one_line(&refused(docs(), missing), "none.jsonl");
    let nowhere = |option: &'static str| {
        move |folder: &Folder| {
            vec![
                option.to_owned(),
                text(&folder.path("no/such/folder.jsonl")),
            ]
        }
    };
    one_line(&refused(docs(), nowhere("--output")), "folder.jsonl");
    one_line(&refused(docs(), nowhere("--attempts")), "folder.jsonl");
    let folder_as_input = |folder: &Folder| vec!["--input".to_owned(), text(&folder.path(""))];
    one_line(&refused(docs(), folder_as_input), "folder");
}

#[test]
fn a_file_in_use_is_not_overwritten() {
    let stderr = refused(json!({"docs": {}}), |folder| {
        let path = text(&folder.write("same.jsonl", "\"x\"\n"));
        vec![
            "--input".to_owned(),
            path.clone(),
            "--output".to_owned(),
            path,
        ]
    });
    one_line(&stderr, "overwritten");
    let stderr = refused(json!({"docs": {}}), |folder| {
        let path = text(&folder.path("new.jsonl"));
        vec![
            "--attempts".to_owned(),
            path.clone(),
            "--output".to_owned(),
            path,
        ]
    });
    one_line(&stderr, "overwritten");
}

#[test]
fn standard_input_can_not_be_both() {
    let out = run(&["embed", "--config", "-"], "{}");
    assert_eq!(out.code, Some(2));
    one_line(&out.stderr, "standard input");
}

#[test]
fn a_configuration_that_is_none() {
    let folder = Folder::new();
    for (name, content) in [("broken.json", "{"), ("list.json", "[]")] {
        let config = text(&folder.write(name, content));
        let out = run(&["check", "--config", &config], "");
        assert_eq!(out.code, Some(2), "{name}");
        one_line(&out.stderr, name);
    }
    let out = run(&["check", "--config", &text(&folder.path("none.json"))], "");
    assert_eq!(out.code, Some(2));
    one_line(&out.stderr, "none.json");
}

#[test]
fn a_reader_that_leaves_ends_the_run_quietly() {
    let server = Server::with(vectors);
    let folder = Folder::new();
    let config = config(&folder, "embedders", &server, json!({"docs": {}}));
    let mut running = Running::start(&["embed", "--config", &config, "--batch", "1"]);
    running.send("\"x\"\n");
    running.line();
    running.close_stdout();
    // Standard input stays open: the run ends because nobody reads.
    running.send("\"x\"\n");
    let out = running.finish_with_open_stdin();
    assert_eq!(out.code, Some(1));
    assert_eq!(out.stderr, "");
}
