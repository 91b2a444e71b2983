//! Antfly through the command line: images, sparse vectors, and models in this process where the binary has them.

use antfly_framework::testing::{Received, Reply, Server};
use serde_json::{Value, json};

use crate::support::{Folder, config, run};

fn plugins() -> Vec<Value> {
    let out = run(&["providers"], "");
    assert_eq!(out.code, Some(0), "{}", out.stderr);
    out.lines()
}

#[test]
fn its_three_operations_are_listed_as_one_provider() {
    let row = json!({"provider": "antfly", "operations": ["embed", "generate", "rerank"]});
    assert!(plugins().contains(&row), "{:?}", plugins());
    let has_engine = plugins().iter().any(|row| row["provider"] == "in_process");
    assert_eq!(has_engine, cfg!(feature = "in-process"));
}

fn answer(request: &Received, vector: impl Fn(usize) -> Value) -> Reply {
    let count = request.json()["input"].as_array().unwrap().len();
    let data: Vec<Value> = (0..count)
        .map(|n| json!({"object": "embedding", "index": n, "embedding": vector(n)}))
        .collect();
    Reply::json(200, json!({"object": "list", "data": data, "model": "m"}))
}

fn antfly(folder: &Folder, section: &str, server: &Server) -> String {
    config(
        folder,
        section,
        server,
        json!({"it": {"provider": "antfly"}}),
    )
}

#[test]
fn lines_with_an_image_are_embedded_beside_texts() {
    let server = Server::with(|request| answer(request, |n| json!([n as f64, 0.5])));
    let folder = Folder::new();
    let config = antfly(&folder, "embedders", &server);
    let input = concat!(
        r#"{"id": "t", "text": "a"}"#,
        "\n",
        r#"{"id": "i", "image": "data:image/png;base64,AA=="}"#,
        "\n",
    );
    let out = run(&["embed", "--config", &config], input);
    assert_eq!(out.code, Some(0), "{}", out.stderr);
    assert_eq!(
        out.lines(),
        [
            json!({"id": "t", "embedding": [0.0, 0.5]}),
            json!({"id": "i", "embedding": [1.0, 0.5]}),
        ]
    );
    assert_eq!(
        server.requests()[0].json()["input"],
        json!([
            {"type": "text", "text": "a"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}},
        ])
    );
}

#[test]
fn a_sparse_vector_is_written_as_indices_and_values() {
    let server = Server::with(|request| {
        answer(
            request,
            |n| json!({"indices": [n, 300], "values": [0.5, 1.25]}),
        )
    });
    let folder = Folder::new();
    let config = antfly(&folder, "embedders", &server);
    let out = run(&["embed", "--config", &config], "\"a\"\n\"b\"\n");
    assert_eq!(out.code, Some(0), "{}", out.stderr);
    assert_eq!(
        out.lines(),
        [
            json!({"id": 0, "indices": [0, 300], "values": [0.5, 1.25]}),
            json!({"id": 1, "indices": [1, 300], "values": [0.5, 1.25]}),
        ]
    );
}

#[test]
fn documents_with_an_image_are_ranked() {
    let server = Server::start([Reply::json(
        200,
        json!({"data": [{"index": 0, "score": 0.25}, {"index": 1, "score": 0.75}]}),
    )]);
    let folder = Folder::new();
    let config = antfly(&folder, "rerankers", &server);
    let input = concat!(
        r#"{"id": "t", "text": "a"}"#,
        "\n",
        r#"{"id": "i", "text": "b", "image": "https://h/x.png"}"#,
        "\n",
    );
    let out = run(&["rerank", "--config", &config, "--query", "q"], input);
    assert_eq!(out.code, Some(0), "{}", out.stderr);
    assert_eq!(
        out.lines(),
        [
            json!({"id": "i", "index": 1, "score": 0.75}),
            json!({"id": "t", "index": 0, "score": 0.25}),
        ]
    );
    let sent = &server.requests()[0];
    assert_eq!(sent.path, "/ai/v1/rerank_multimodal");
    assert_eq!(
        sent.json()["documents"],
        json!([
            {"content": "a"},
            {"content": [
                {"type": "text", "text": "b"},
                {"type": "image_url", "image_url": {"url": "https://h/x.png"}},
            ]},
        ])
    );
}

#[test]
fn an_answer_that_is_no_text_fails_its_item() {
    let server = Server::always(Reply::json(
        200,
        json!({"choices": [{"message": {"content": 5}, "finish_reason": "stop"}]}),
    ));
    let folder = Folder::new();
    let config = antfly(&folder, "generators", &server);
    let out = run(&["generate", "--config", &config], "\"a\"\n");
    assert_eq!(out.code, Some(1), "{}", out.stderr);
    assert_eq!(out.lines()[0]["error"]["kind"], "invalid_response");
}

#[cfg(feature = "in-process")]
mod in_process {
    use std::process::Stdio;

    use super::*;
    use crate::support::{Output, command, json_lines, text};

    /// `check` of an antfly generator, with a folder of models that has `known`.
    fn check(model: &str, extra: Value, url: Option<&str>) -> Output {
        let folder = Folder::new();
        std::fs::create_dir_all(folder.path("models/known")).unwrap();
        folder.write("models/known/weights.gguf", "");
        let mut entry = json!({"provider": "antfly", "model": model});
        for (name, value) in extra.as_object().unwrap() {
            entry[name] = value.clone();
        }
        let config = folder.write("config.json", json!({"generators": {"writer": entry}}));
        let mut command = command(&["check", "--config", &text(&config)]);
        command.env("ANTFLY_MODELS_DIR", folder.path("models"));
        // A key that no header could carry: nobody may look at it.
        command.env("ANTFLY_INFERENCE_API_KEY", "\u{7}");
        if let Some(url) = url {
            command.env("ANTFLY_INFERENCE_URL", url);
            command.env("ANTFLY_INFERENCE_API_KEY", "");
        }
        let out = command.stdin(Stdio::null()).output().unwrap();
        Output {
            code: out.status.code(),
            stdout: String::from_utf8(out.stdout).unwrap(),
            stderr: String::from_utf8(out.stderr).unwrap(),
        }
    }

    #[test]
    fn an_entry_without_a_url_whose_model_is_there_runs_here() {
        let endpoint = |out: Output| {
            assert_eq!(out.code, Some(0), "{}", out.stderr);
            json_lines(&out.stdout)[0]["scope"]["endpoint"].clone()
        };
        assert_eq!(endpoint(check("known", json!({}), None)), "in-process");
        let remote = Some("http://h:1");
        assert_eq!(
            endpoint(check("known", json!({}), remote)),
            "http://h:1/ai/v1"
        );
        assert_eq!(
            endpoint(check("other", json!({"api_key": "k"}), None)),
            "http://127.0.0.1:8082/ai/v1"
        );
    }

    #[test]
    fn an_outbound_limit_is_refused_there() {
        let limit = json!({"rate_limit": {"max_concurrency": 1}});
        let out = check("known", limit, None);
        assert_eq!(out.code, Some(2));
        assert!(
            out.stderr.contains("generators.writer.rate_limit"),
            "{}",
            out.stderr
        );
        assert!(
            out.stderr.contains("ANTFLY_INFERENCE_URL"),
            "{}",
            out.stderr
        );
    }
}
