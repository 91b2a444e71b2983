//! `embed`: order, batches, error items, round robin, attempts.

use antfly_framework::testing::{Gate, Reply, Server};
use serde_json::{Value, json};

use crate::support::{Folder, Running, config, inputs, json_lines, run, text, vectors, wait};

/// `count` lines whose texts have the lengths 1, 2, 3 ..
fn input(count: usize) -> String {
    let line =
        |n: usize| json!({"id": format!("t{n}"), "text": "x".repeat(n + 1)}).to_string() + "\n";
    (0..count).map(line).collect()
}

fn expected(count: usize) -> Vec<Value> {
    let line = |n: usize| json!({"id": format!("t{n}"), "embedding": [(n + 1) as f64, 0.5]});
    (0..count).map(line).collect()
}

#[test]
fn output_keeps_the_order_of_the_input_under_concurrency_and_batches() {
    for batch in ["1", "3", "7"] {
        // The first call is answered last: nothing may overtake it in the output.
        let gate = Gate::new();
        let opener = gate.clone();
        let calls = 40_usize.div_ceil(batch.parse().unwrap());
        let seen = std::sync::atomic::AtomicUsize::new(0);
        let server = Server::with(move |request| {
            if seen.fetch_add(1, std::sync::atomic::Ordering::SeqCst) + 1 == calls {
                opener.open();
            }
            let first = inputs(request)[0].len() == 1;
            if first {
                vectors(request).after(&gate)
            } else {
                vectors(request)
            }
        });
        let folder = Folder::new();
        let config = config(&folder, "embedders", &server, json!({"docs": {}}));
        let out = run(
            &[
                "embed",
                "--config",
                &config,
                "--concurrency",
                "8",
                "--batch",
                batch,
            ],
            &input(40),
        );
        assert_eq!(out.code, Some(0), "{}", out.stderr);
        assert_eq!(out.lines(), expected(40), "batch {batch}");
        assert_eq!(server.requests().len(), calls);
    }
}

#[test]
fn a_batch_is_exactly_as_full_as_asked_and_the_last_one_takes_the_rest() {
    let server = Server::with(vectors);
    let folder = Folder::new();
    let config = config(&folder, "embedders", &server, json!({"docs": {}}));
    let args = [
        "embed",
        "--config",
        &config,
        "--batch",
        "4",
        "--concurrency",
        "1",
    ];
    let out = run(&args, &input(10));
    assert_eq!(out.code, Some(0), "{}", out.stderr);
    let sizes: Vec<usize> = server.requests().iter().map(|r| inputs(r).len()).collect();
    assert_eq!(sizes, [4, 4, 2]);
}

#[test]
fn the_entrys_batch_size_counts_until_the_command_line_says_otherwise() {
    let server = Server::with(vectors);
    let folder = Folder::new();
    let config = config(
        &folder,
        "embedders",
        &server,
        json!({"docs": {"batch_size": 2}}),
    );
    let mut args = vec!["embed", "--config", &config, "--concurrency", "1"];
    run(&args, &input(5));
    args.extend(["--batch", "5"]);
    run(&args, &input(5));
    let sizes: Vec<usize> = server.requests().iter().map(|r| inputs(r).len()).collect();
    assert_eq!(sizes, [2, 2, 1, 5]);
}

#[test]
fn without_a_batch_the_providers_limit_gathers_lines_of_a_file() {
    let server = Server::with(vectors);
    let folder = Folder::new();
    let config = config(&folder, "embedders", &server, json!({"docs": {}}));
    let file = text(&folder.write("in.jsonl", input(50)));
    let out = run(&["embed", "--config", &config, "--input", &file], "");
    assert_eq!(out.code, Some(0), "{}", out.stderr);
    assert_eq!(out.lines(), expected(50));
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn a_pipe_that_pauses_gets_its_answers() {
    let server = Server::with(vectors);
    let folder = Folder::new();
    let config = config(&folder, "embedders", &server, json!({"docs": {}}));
    let mut running = Running::start(&["embed", "--config", &config]);
    running.send("\"one\"\n");
    assert_eq!(running.line(), json!({"id": 0, "embedding": [3.0, 0.5]}));
    running.send("\"four\"\n");
    assert_eq!(running.line(), json!({"id": 1, "embedding": [4.0, 0.5]}));
    assert_eq!(running.finish().code, Some(0));
}

#[test]
fn a_line_that_has_only_begun_holds_nothing_back() {
    let server = Server::with(vectors);
    let folder = Folder::new();
    let config = config(&folder, "embedders", &server, json!({"docs": {}}));
    let mut running = Running::start(&["embed", "--config", &config]);
    running.send("\"one\"\n\"three\"\n\"fo");
    assert_eq!(running.line(), json!({"id": 0, "embedding": [3.0, 0.5]}));
    assert_eq!(running.line(), json!({"id": 1, "embedding": [5.0, 0.5]}));
    running.send("ur\"\n\"x");
    assert_eq!(running.line(), json!({"id": 2, "embedding": [4.0, 0.5]}));
    assert_eq!(running.finish().code, Some(1), "the last line is broken");
}

#[test]
fn calls_queue_for_the_limit_in_the_order_of_the_input() {
    let server = Server::with(vectors);
    let folder = Folder::new();
    let limit = json!({"requests_per_minute": 3000, "burst": 1});
    let config = config(
        &folder,
        "embedders",
        &server,
        json!({"docs": {"rate_limit": limit}}),
    );
    let file = text(&folder.write("in.jsonl", input(12)));
    let args = [
        "embed",
        "--config",
        &config,
        "--input",
        &file,
        "--batch",
        "1",
        "--concurrency",
        "8",
    ];
    let attempts = text(&folder.path("attempts.jsonl"));
    let mut args = args.to_vec();
    args.extend(["--attempts", &attempts]);
    // An order that is left to chance is the right one in no run. A busy machine may hold a call up for longer than its
    // invitation lasts, and then the next one goes first: not in three runs of twelve, unless the order is left to chance.
    let in_order = |_: &usize| {
        let out = run(&args, "");
        assert_eq!(out.code, Some(0), "{}", out.stderr);
        let mut left = json_lines(&folder.read("attempts.jsonl"));
        // As they left; they may have overtaken each other on the way. A longer text costs more.
        left.sort_by(|a, b| {
            let at = |line: &Value| line["t_ms"].as_f64().unwrap();
            at(a).total_cmp(&at(b))
        });
        let costs: Vec<u64> = left.iter().map(|a| a["tokens"].as_u64().unwrap()).collect();
        assert_eq!(costs.len(), 12);
        costs.is_sorted_by(|a, b| a < b)
    };
    assert_eq!((0..12).filter(in_order).take(3).count(), 3);
}

#[test]
fn bad_items_are_errors_in_place_and_the_rest_goes_on() {
    let server = Server::with(vectors);
    let folder = Folder::new();
    let config = config(&folder, "embedders", &server, json!({"docs": {}}));
    let lines = [
        r#"{"id": "a", "text": "ab"}"#,
        "nonsense",
        r#"{"id": {"k": [1]}, "text": ""}"#,
        "",
        r#""bare""#,
        r#"{"id": "n", "text": 7}"#,
        r#"{"id": "i", "image": "data:image/png;base64,AA=="}"#,
        r#"{"text": "abc"}"#,
    ];
    let out = run(
        &["embed", "--config", &config, "--batch", "8"],
        &(lines.join("\n") + "\n\n"),
    );
    assert_eq!(out.code, Some(1), "{}", out.stderr);
    let got = out.lines();
    let ids: Vec<&Value> = got.iter().map(|line| &line["id"]).collect();
    assert_eq!(
        ids,
        [
            &json!("a"),
            &json!(1),
            &json!({"k": [1]}),
            &json!(3),
            &json!(4),
            &json!("n"),
            &json!("i"),
            &json!(7)
        ]
    );
    let kinds: Vec<&str> = got
        .iter()
        .map(|line| line["error"]["kind"].as_str().unwrap_or(""))
        .collect();
    let invalid = "invalid_request";
    assert_eq!(
        kinds,
        [
            "",
            invalid,
            invalid,
            invalid,
            "",
            invalid,
            "media_not_allowed",
            ""
        ]
    );
    assert_eq!(got[2]["error"]["message"], "text: it is empty");
    assert_eq!(got[7]["embedding"], json!([3.0, 0.5]));
    // The good ones still travelled together.
    assert_eq!(
        server.requests().iter().map(inputs).collect::<Vec<_>>(),
        [["ab", "bare", "abc"]]
    );
    assert!(
        out.stderr.contains("3 ok, 5 failed, 1 attempts"),
        "{}",
        out.stderr
    );
}

#[test]
fn a_failed_call_fails_its_own_items_only_and_says_what_is_known() {
    let server = Server::with(|request| {
        if inputs(request)[0] == "xxx" {
            let error = json!({"error": {"message": "no such thing", "type": "invalid_request_error", "code": "bad_thing"}});
            Reply::json(400, error).header("x-request-id", "req_1")
        } else {
            vectors(request)
        }
    });
    let folder = Folder::new();
    let config = config(&folder, "embedders", &server, json!({"docs": {}}));
    let out = run(&["embed", "--config", &config, "--batch", "2"], &input(6));
    assert_eq!(out.code, Some(1), "{}", out.stderr);
    let got = out.lines();
    for (n, line) in got.iter().enumerate() {
        if n == 2 || n == 3 {
            assert_eq!(line["id"], format!("t{n}"));
            let error = &line["error"];
            assert_eq!(error["kind"], "invalid_request");
            assert_eq!(error["status"], 400);
            assert_eq!(error["code"], "bad_thing");
            assert_eq!(error["request_id"], "req_1");
            assert_eq!(error["attempts"], 1);
            assert_eq!(error.get("retry_after_ms"), None);
        } else {
            assert_eq!(*line, expected(6)[n]);
        }
    }
}

#[test]
fn unordered_writes_each_line_as_it_becomes_final() {
    let gate = Gate::new();
    let held = gate.clone();
    let server = Server::with(move |request| {
        if inputs(request)[0] == "x" {
            vectors(request).after(&held)
        } else {
            vectors(request)
        }
    });
    let folder = Folder::new();
    let config = config(&folder, "embedders", &server, json!({"docs": {}}));
    let mut running =
        Running::start(&["embed", "--config", &config, "--batch", "1", "--unordered"]);
    running.send(&input(3));
    running.close_stdin();
    let mut early = [running.line()["id"].clone(), running.line()["id"].clone()];
    early.sort_by_key(Value::to_string);
    assert_eq!(early, ["t1", "t2"]);
    gate.open();
    let out = running.finish();
    assert_eq!(out.lines()[0]["id"], "t0");
    assert_eq!(out.code, Some(0));
}

#[test]
fn names_take_turns_call_by_call() {
    let server = Server::with(vectors);
    let folder = Folder::new();
    let config = config(
        &folder,
        "embedders",
        &server,
        json!({"a": {"model": "ma"}, "b": {"model": "mb"}, "unused": {"nonsense": 1}}),
    );
    let args = [
        "embed",
        "--config",
        &config,
        "--name",
        "a",
        "--name",
        "b",
        "--batch",
        "2",
        "--concurrency",
        "1",
    ];
    let out = run(&args, &input(8));
    assert_eq!(out.code, Some(0), "{}", out.stderr);
    assert_eq!(out.lines(), expected(8));
    let models: Vec<Value> = server
        .requests()
        .iter()
        .map(|r| r.json()["model"].clone())
        .collect();
    assert_eq!(models, ["ma", "mb", "ma", "mb"]);
}

#[test]
fn no_more_calls_are_in_flight_than_allowed() {
    let gate = Gate::new();
    let held = gate.clone();
    let server = Server::with(move |request| vectors(request).after(&held));
    let folder = Folder::new();
    let config = config(&folder, "embedders", &server, json!({"docs": {}}));
    let mut running = Running::start(&[
        "embed",
        "--config",
        &config,
        "--batch",
        "1",
        "--concurrency",
        "3",
    ]);
    running.send(&input(9));
    running.close_stdin();
    wait(server.wait_for_requests(3));
    gate.open();
    let out = running.finish();
    assert_eq!(out.lines(), expected(9));
    assert_eq!(server.peak_open_requests(), 3);
}

#[test]
fn every_attempt_gets_a_line() {
    let server = Server::with({
        let seen = std::sync::atomic::AtomicUsize::new(0);
        move |request| match seen.fetch_add(1, std::sync::atomic::Ordering::SeqCst) {
            0 => Reply::json(503, json!({"error": {"message": "later"}})),
            _ => vectors(request),
        }
    });
    let folder = Folder::new();
    let retry = json!({"initial_backoff_ms": 1});
    let config = config(
        &folder,
        "embedders",
        &server,
        json!({"docs": {"retry": retry}}),
    );
    let attempts = text(&folder.path("attempts.jsonl"));
    let out = run(
        &["embed", "--config", &config, "--attempts", &attempts],
        &input(1),
    );
    assert_eq!(out.code, Some(0), "{}", out.stderr);
    let rows = json_lines(&folder.read("attempts.jsonl"));
    assert_eq!(rows.len(), 2, "{rows:?}");
    for (n, row) in rows.iter().enumerate() {
        assert_eq!(row["entry"], "docs");
        assert_eq!(row["operation"], "embed");
        assert_eq!(row["attempt"], n + 1);
        assert_eq!(row["status"], [503, 200][n]);
        assert_eq!(row["outcome"], ["retry", "ok"][n]);
        assert!(
            row["scope"].as_str().unwrap().contains("model=small"),
            "{row}"
        );
        assert_eq!(row["tokens"], server.requests()[n].body.len());
        assert!(row["t_ms"].as_f64().unwrap() > 0.0);
        assert!(row["waited_ms"].as_f64().unwrap() >= 0.0);
    }
    assert!(rows[0]["t_ms"].as_f64() < rows[1]["t_ms"].as_f64());
    assert!(
        out.stderr.contains("1 ok, 0 failed, 2 attempts"),
        "{}",
        out.stderr
    );
}

#[test]
fn an_item_that_costs_too_much_alone_is_an_error_of_its_own() {
    let server = Server::with(vectors);
    let folder = Folder::new();
    let limit = json!({"tokens_per_minute": 4000});
    let config = config(
        &folder,
        "embedders",
        &server,
        json!({"docs": {"rate_limit": limit}}),
    );
    let big = json!({"id": "big", "text": "y".repeat(5000)}).to_string() + "\n";
    let out = run(
        &["embed", "--config", &config, "--batch", "10"],
        &(big + &input(2)),
    );
    assert_eq!(out.code, Some(1), "{}", out.stderr);
    let got = out.lines();
    assert_eq!(got[0]["error"]["kind"], "exceeds_token_budget");
    assert_eq!(got[1..], expected(2));
}

#[test]
fn the_calls_deadline_is_the_command_lines() {
    let server = Server::always(Reply::hang());
    let folder = Folder::new();
    let config = config(
        &folder,
        "embedders",
        &server,
        json!({"docs": {"timeout_ms": 600_000}}),
    );
    let out = run(
        &["embed", "--config", &config, "--timeout", "100ms"],
        &input(1),
    );
    assert_eq!(out.code, Some(1));
    let error = &out.lines()[0]["error"];
    assert_eq!(error["kind"], "deadline_exceeded");
    assert_eq!(
        (&error["deadline_ms"], &error["phase"]),
        (&json!(100), &json!("sending"))
    );
}

#[test]
fn files_are_read_and_written() {
    let server = Server::with(vectors);
    let folder = Folder::new();
    let config = config(&folder, "embedders", &server, json!({"docs": {}}));
    let from = text(&folder.write("in.jsonl", input(3)));
    let to = text(&folder.path("out.jsonl"));
    let out = run(
        &[
            "embed", "--config", &config, "--input", &from, "--output", &to, "--quiet",
        ],
        "",
    );
    assert_eq!(out.code, Some(0), "{}", out.stderr);
    assert_eq!(out.stdout, "");
    assert_eq!(json_lines(&folder.read("out.jsonl")), expected(3));
}

#[test]
fn the_configuration_can_come_from_standard_input() {
    let server = Server::with(vectors);
    let folder = Folder::new();
    let from = text(&folder.write("in.jsonl", input(1)));
    let entry = json!({"provider": "openai", "model": "small", "url": server.url()});
    let out = run(
        &["embed", "--config", "-", "--input", &from],
        &entry.to_string(),
    );
    assert_eq!(out.code, Some(0), "{}", out.stderr);
    assert_eq!(out.lines(), expected(1));
}

#[test]
fn no_input_is_no_output() {
    let server = Server::with(vectors);
    let folder = Folder::new();
    let config = config(&folder, "embedders", &server, json!({"docs": {}}));
    let out = run(&["embed", "--config", &config], "");
    assert_eq!((out.code, out.stdout.as_str()), (Some(0), ""));
    assert!(server.requests().is_empty());
}

#[test]
fn a_refusal_carries_all_that_the_provider_said() {
    let error = json!({"error": {"message": "slow down", "type": "requests", "code": "rate_limit_exceeded"}});
    let server = Server::always(
        Reply::json(429, error)
            .header("x-request-id", "req_1")
            .header("retry-after", "1.5"),
    );
    let folder = Folder::new();
    let entry = json!({"docs": {"retry": {"max_attempts": 1}}});
    let config = config(&folder, "embedders", &server, entry);
    let out = run(&["embed", "--config", &config], &input(1));
    assert_eq!(out.code, Some(1), "{}", out.stderr);
    let error = &out.lines()[0]["error"];
    assert_eq!(error["kind"], "rate_limited");
    assert_eq!(error["status"], 429);
    assert_eq!(error["code"], "rate_limit_exceeded");
    assert_eq!(error["request_id"], "req_1");
    assert_eq!(error["attempts"], 1);
    assert_eq!(error["retry_after_ms"], 1500);
}

#[test]
fn entries_of_one_scope_share_its_quota() {
    let server = Server::with(vectors);
    let folder = Folder::new();
    let limit = json!({"max_concurrency": 1});
    let entries = json!({"a": {"rate_limit": limit}, "b": {"rate_limit": limit}});
    let config = config(&folder, "embedders", &server, entries);
    let args = [
        "embed", "--config", &config, "--name", "a", "--name", "b", "--batch", "1",
    ];
    let out = run(&args, &input(20));
    assert_eq!(out.code, Some(0), "{}", out.stderr);
    assert_eq!(out.lines(), expected(20));
    assert_eq!(server.peak_open_requests(), 1);
}
