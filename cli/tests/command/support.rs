//! Running the binary, and servers that answer it.

use std::io::{BufRead as _, BufReader, Lines, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use antfly_framework::testing::{Received, Reply, Server};
use serde_json::{Value, json};

/// A folder of its own that goes away with the test.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let name = format!(
            "antfly-cli-{}-{}",
            std::process::id(),
            NEXT.fetch_add(1, Ordering::Relaxed)
        );
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub(crate) fn write(&self, name: &str, text: impl ToString) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, text.to_string()).unwrap();
        path
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// What a finished run left behind.
pub(crate) struct Output {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Output {
    /// Standard output, line by line.
    pub(crate) fn lines(&self) -> Vec<Value> {
        json_lines(&self.stdout)
    }
}

pub(crate) fn json_lines(text: &str) -> Vec<Value> {
    let read = |line: &str| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
    text.lines().map(read).collect()
}

/// The binary with nothing of this process's environment.
pub(crate) fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_antfly-providers"));
    command.env_clear().args(args);
    command
}

/// Runs the binary to its end.
pub(crate) fn run(args: &[&str], stdin: &str) -> Output {
    let mut running = Running::start(args);
    running.send(stdin);
    running.finish()
}

/// The binary while it runs.
pub(crate) struct Running {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: Option<Lines<BufReader<ChildStdout>>>,
}

impl Running {
    pub(crate) fn start(args: &[&str]) -> Self {
        let mut child = command(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = child.stdout.take().map(|out| BufReader::new(out).lines());
        Running {
            stdin: child.stdin.take(),
            stdout,
            child,
        }
    }

    /// Writes to its standard input. It may have ended without reading it.
    pub(crate) fn send(&mut self, text: &str) {
        let _ = self.stdin.as_mut().unwrap().write_all(text.as_bytes());
    }

    pub(crate) fn close_stdin(&mut self) {
        self.stdin = None;
    }

    pub(crate) fn close_stdout(&mut self) {
        self.stdout = None;
    }

    /// The next line it writes.
    pub(crate) fn line(&mut self) -> Value {
        let line = self.stdout.as_mut().unwrap().next().unwrap().unwrap();
        serde_json::from_str(&line).unwrap()
    }

    /// What it exited with.
    pub(crate) fn code(&mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }

    /// Whether it still runs.
    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    pub(crate) fn signal(&self, name: &str) {
        let status = Command::new("kill")
            .args([name, &self.child.id().to_string()])
            .status();
        assert!(status.unwrap().success());
    }

    pub(crate) fn finish(mut self) -> Output {
        self.stdin = None;
        self.finish_with_open_stdin()
    }

    /// Waits for its end while its input could still go on.
    pub(crate) fn finish_with_open_stdin(mut self) -> Output {
        let mut stdout = String::new();
        for line in self.stdout.take().into_iter().flatten() {
            stdout += &line.unwrap();
            stdout.push('\n');
        }
        let mut stderr = String::new();
        self.child
            .stderr
            .take()
            .unwrap()
            .read_to_string(&mut stderr)
            .unwrap();
        Output {
            code: self.child.wait().unwrap().code(),
            stdout,
            stderr,
        }
    }
}

/// A configuration file with these entries of one section, each `provider` and `url` already filled in.
pub(crate) fn config(folder: &Folder, section: &str, server: &Server, entries: Value) -> String {
    let mut entries = entries;
    for entry in entries.as_object_mut().unwrap().values_mut() {
        let entry = entry.as_object_mut().unwrap();
        let provider = if section == "rerankers" {
            "antfly"
        } else {
            "openai"
        };
        entry.entry("provider").or_insert_with(|| provider.into());
        entry.entry("url").or_insert_with(|| server.url().into());
        entry.entry("model").or_insert_with(|| "small".into());
    }
    let path = folder.write("config.json", json!({section: entries}));
    text(&path)
}

pub(crate) fn text(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}

/// The texts of an embed request.
pub(crate) fn inputs(request: &Received) -> Vec<String> {
    match &request.json()["input"] {
        Value::String(text) => vec![text.clone()],
        Value::Array(texts) => texts
            .iter()
            .map(|t| t.as_str().unwrap().to_owned())
            .collect(),
        other => panic!("no input: {other}"),
    }
}

/// Vectors that can be told apart: a text's length, and a half.
pub(crate) fn vectors(request: &Received) -> Reply {
    let data: Vec<Value> = inputs(request)
        .iter()
        .enumerate()
        .map(|(index, text)| json!({"object": "embedding", "index": index, "embedding": [text.len(), 0.5]}))
        .collect();
    Reply::json(
        200,
        json!({"object": "list", "data": data, "model": "small"}),
    )
}

/// A chat completion that says `text`.
pub(crate) fn completion(text: &str) -> Reply {
    let message = json!({"role": "assistant", "content": text});
    Reply::json(
        200,
        json!({
            "id": "gen-1", "object": "chat.completion", "model": "small",
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11},
        }),
    )
}

/// One event of a streamed completion.
pub(crate) fn delta(delta: Value, finish: Option<&str>) -> String {
    let choice = json!({"index": 0, "delta": delta, "finish_reason": finish});
    json!({"id": "gen-1", "object": "chat.completion.chunk", "model": "small", "choices": [choice]})
        .to_string()
}

/// What a chat request's user said last.
pub(crate) fn said(request: &Received) -> String {
    let body = request.json();
    let last = body["messages"].as_array().unwrap().last().unwrap().clone();
    last["content"].as_str().unwrap().to_owned()
}

/// Waits for the server.
pub(crate) fn wait(what: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap()
        .block_on(what);
}
