//! `generate`, whole and streamed.

use antfly_framework::testing::{Gate, Reply, Server};
use serde_json::{Value, json};

use crate::support::{Folder, Running, completion, config, delta, run, said};

fn prompts(texts: &[&str]) -> String {
    let line = |text: &&str| json!({"id": text, "prompt": text}).to_string() + "\n";
    texts.iter().map(line).collect()
}

#[test]
fn answers_come_in_the_order_of_the_input() {
    let server = Server::with(|request| completion(&said(request).to_uppercase()));
    let folder = Folder::new();
    let config = config(&folder, "generators", &server, json!({"writer": {}}));
    let out = run(
        &["generate", "--config", &config],
        &prompts(&["a", "b", "c"]),
    );
    assert_eq!(out.code, Some(0), "{}", out.stderr);
    let usage = json!({"input_tokens": 9, "output_tokens": 2, "total_tokens": 11});
    let line = |id: &str| json!({"id": id, "text": id.to_uppercase(), "finish_reason": "stop", "usage": usage});
    assert_eq!(out.lines(), [line("a"), line("b"), line("c")]);
}

#[test]
fn a_line_that_has_only_begun_holds_nothing_back() {
    let server = Server::with(|request| completion(&said(request)));
    let folder = Folder::new();
    let config = config(&folder, "generators", &server, json!({"writer": {}}));
    let mut running = Running::start(&["generate", "--config", &config]);
    running.send("\"one\"\n\"tw");
    assert_eq!(running.line()["text"], "one");
    running.send("o\"\n");
    assert_eq!(running.line()["text"], "two");
    assert_eq!(running.finish().code, Some(0));
}

#[test]
fn a_conversation_goes_out_as_it_is_and_a_bad_one_is_an_error_item() {
    let server = Server::with(|_| completion("ok"));
    let folder = Folder::new();
    let config = config(&folder, "generators", &server, json!({"writer": {}}));
    let lines = [
        json!({"id": 1, "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}], "max_tokens": 64}),
        json!({"id": 2, "prompt": "p", "temprature": 0.5}),
        json!({"id": 3, "prompt": ""}),
        json!({"id": 4, "messages": [{"role": "user", "content": [{"type": "text", "text": ""}]}]}),
    ];
    let input: String = lines.iter().map(|line| line.to_string() + "\n").collect();
    let out = run(&["generate", "--config", &config], &input);
    assert_eq!(out.code, Some(1), "{}", out.stderr);
    let got = out.lines();
    assert_eq!(got[0]["text"], "ok");
    let message = "temprature: unknown field; did you mean \"temperature\"?";
    assert_eq!(
        got[1],
        json!({"id": 2, "error": {"kind": "invalid_request", "message": message}})
    );
    assert_eq!(got[2]["error"]["message"], "prompt: it is empty");
    let message = "messages[0].content: it is empty";
    assert_eq!(
        got[3],
        json!({"id": 4, "error": {"kind": "invalid_request", "message": message}})
    );
    let requests = server.requests();
    assert_eq!(requests.len(), 1);
    let body = requests[0].json();
    assert_eq!(body["messages"].as_array().map(Vec::len), Some(2));
    // OpenAI's own name for the cap belongs to OpenAI's own endpoint.
    assert_eq!(body["max_tokens"], 64);
}

#[test]
fn tool_calls_are_written_with_their_arguments_as_text() {
    let call = json!({"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{\"at\": 1}"}});
    let message = json!({"role": "assistant", "content": null, "tool_calls": [call]});
    let choice = json!({"index": 0, "message": message, "finish_reason": "tool_calls"});
    let server = Server::always(Reply::json(
        200,
        json!({"id": "x", "model": "small", "choices": [choice]}),
    ));
    let folder = Folder::new();
    let config = config(&folder, "generators", &server, json!({"writer": {}}));
    let tool = json!({"name": "look", "parameters": {"type": "object"}});
    let input = json!({"prompt": "p", "tools": [tool]}).to_string();
    let out = run(&["generate", "--config", &config], &input);
    assert_eq!(out.code, Some(0), "{}", out.stderr);
    let calls = json!([{"id": "c1", "name": "look", "arguments": "{\"at\": 1}"}]);
    assert_eq!(
        out.lines(),
        [json!({"id": 0, "text": "", "tool_calls": calls, "finish_reason": "tool_calls"})]
    );
    assert_eq!(
        server.requests()[0].json()["tools"][0]["function"]["name"],
        "look"
    );
}

/// A streamed answer of two deltas, with a gate between them.
fn two_deltas(word: &str, gate: &Gate) -> Reply {
    Reply::stream(200, "text/event-stream")
        .event(&delta(json!({"role": "assistant", "content": ""}), None))
        .event(&delta(json!({"content": format!("{word}1")}), None))
        .pause(gate)
        .event(&delta(json!({"content": format!("{word}2")}), None))
        .event(&delta(json!({}), Some("stop")))
        .event("[DONE]")
}

#[test]
fn deltas_are_written_as_they_arrive() {
    let gate = Gate::new();
    let held = gate.clone();
    let server = Server::with(move |request| two_deltas(&said(request), &held));
    let folder = Folder::new();
    let config = config(&folder, "generators", &server, json!({"writer": {}}));
    let mut running = Running::start(&["generate", "--config", &config, "--stream"]);
    running.send(&prompts(&["a"]));
    running.close_stdin();
    // The rest of the answer waits for this line.
    assert_eq!(running.line(), json!({"id": "a", "delta": "a1"}));
    gate.open();
    let out = running.finish();
    assert_eq!(out.code, Some(0), "{}", out.stderr);
    let last = json!({"id": "a", "text": "a1a2", "finish_reason": "stop"});
    assert_eq!(out.lines(), [json!({"id": "a", "delta": "a2"}), last]);
}

#[test]
fn deltas_of_later_items_wait_for_their_turn() {
    let gate = Gate::new();
    let open = Gate::new();
    open.open();
    let held = gate.clone();
    let server = Server::with(move |request| {
        let word = said(request);
        two_deltas(&word, if word == "a" { &held } else { &open })
    });
    let folder = Folder::new();
    let config = config(&folder, "generators", &server, json!({"writer": {}}));
    let mut running = Running::start(&["generate", "--config", &config, "--stream"]);
    running.send(&prompts(&["a", "b"]));
    running.close_stdin();
    assert_eq!(running.line(), json!({"id": "a", "delta": "a1"}));
    gate.open();
    let lines = running.finish().lines();
    let short: Vec<String> = lines
        .iter()
        .map(|line| {
            let text = if line["delta"].is_string() {
                &line["delta"]
            } else {
                &line["text"]
            };
            format!(
                "{}:{}",
                line["id"].as_str().unwrap(),
                text.as_str().unwrap()
            )
        })
        .collect();
    assert_eq!(short, ["a:a2", "a:a1a2", "b:b1", "b:b2", "b:b1b2"]);
}

#[test]
fn a_stream_that_breaks_is_an_error_after_its_deltas() {
    let server = Server::with(|_| {
        Reply::stream(200, "text/event-stream")
            .event(&delta(json!({"content": "half"}), None))
            .then_abandon()
    });
    let folder = Folder::new();
    let config = config(&folder, "generators", &server, json!({"writer": {}}));
    let out = run(
        &["generate", "--config", &config, "--stream"],
        &prompts(&["a"]),
    );
    assert_eq!(out.code, Some(1), "{}", out.stderr);
    let got = out.lines();
    assert_eq!(got[0], json!({"id": "a", "delta": "half"}));
    assert_eq!(got[1]["error"]["kind"], "stream_interrupted");
    assert_eq!(got.len(), 2);
}

#[test]
fn options_of_a_line_travel() {
    let server = Server::with(|_| completion("ok"));
    let folder = Folder::new();
    let config = config(&folder, "generators", &server, json!({"writer": {}}));
    let format =
        json!({"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}}});
    let line = json!({"prompt": "p", "temperature": 0.25, "stop": ["x"], "seed": 7, "response_format": format});
    let out = run(&["generate", "--config", &config], &line.to_string());
    assert_eq!(out.code, Some(0), "{}", out.stderr);
    let body = server.requests()[0].json();
    assert_eq!(body["temperature"], 0.25);
    assert_eq!(body["stop"], json!(["x"]));
    assert_eq!(body["seed"], 7);
    assert_eq!(body["response_format"]["json_schema"]["name"], "n");
    assert_eq!(body.get("max_tokens"), None::<&Value>);
}
