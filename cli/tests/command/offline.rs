//! With the network cut off: embed, rerank and generate with the real models, which are there already.
//!
//! Once where the process has no network at all (a namespace of its own, in which even loopback is down), and once where every
//! proxy and every usual way out leads to a port at which somebody would notice.

use std::io::Write as _;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

use crate::support::{Folder, json_lines, text};

#[path = "../../../providers/tests/in_process/fetched.rs"]
mod fetched;

const BINARY: &str = env!("CARGO_BIN_EXE_antfly-providers");
/// What may name a way out of this machine.
const PROXIES: [&str; 8] = [
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "FTP_PROXY",
    "ftp_proxy",
];

/// A folder with a configuration, some input, and a home in which there is nothing.
fn arranged() -> (Folder, String) {
    let folder = Folder::new();
    let config = json!({
        "embedders": {"docs": {"provider": "in_process", "model": "all-MiniLM-L6-v2"}},
        "rerankers": {"ranker": {"provider": "in_process", "model": "all-MiniLM-L6-v2"}},
        "generators": {"writer": {"provider": "in_process", "model": "SmolLM2-135M-Instruct", "temperature": 0, "max_tokens": 8}},
    });
    let config = text(&folder.write("config.json", config));
    folder.write(
        "texts",
        "\"Yeast eats sugar and gives off gas.\"\n\"The moon circles the Earth.\"\n",
    );
    folder.write(
        "prompts",
        "{\"prompt\": \"What is the capital of France?\"}\n",
    );
    std::fs::create_dir(folder.path("home")).unwrap();
    (folder, config)
}

/// The three commands, run by what `within` makes of the binary, and their answers looked at.
fn all_work(within: impl Fn() -> Command) {
    let (folder, config) = arranged();
    let run = |args: &[&str], input: &str| -> Vec<Value> {
        let out = ended(
            within()
                .args([args, &["--quiet", "--config", &config]].concat())
                .env("HOME", folder.path("home"))
                .stdin(std::fs::File::open(folder.path(input)).unwrap()),
        );
        let said = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success(), "{args:?}: {said}");
        json_lines(std::str::from_utf8(&out.stdout).unwrap())
    };
    let vectors = run(&["embed"], "texts");
    assert_eq!(vectors.len(), 2);
    for line in &vectors {
        assert_eq!(line["embedding"].as_array().unwrap().len(), 384, "{line}");
    }
    let ranked = run(&["rerank", "--query", "Why does bread rise?"], "texts");
    let order: Vec<_> = ranked.iter().map(|line| line["index"].clone()).collect();
    assert_eq!(order, [0, 1]);
    let answers = run(&["generate"], "prompts");
    assert_ne!(answers[0]["text"], "", "{answers:?}");
    assert_eq!(answers[0]["usage"]["output_tokens"], 8, "{answers:?}");
    let left: Vec<_> = std::fs::read_dir(folder.path("home")).unwrap().collect();
    assert!(left.is_empty(), "left at home: {left:?}");
}

/// What a command left behind; of one that can't be started, why.
fn ended(command: &mut Command) -> Output {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command.output().unwrap_or_else(|e| Output {
        status: std::os::unix::process::ExitStatusExt::from_raw(127 << 8),
        stdout: Vec::new(),
        stderr: format!("{}: {e}", command.get_program().display()).into_bytes(),
    })
}

/// One line that the test runner does not keep to itself.
fn say(line: &str) {
    drop(writeln!(std::io::stderr(), "{line}"));
}

/// `program` in a network namespace of its own. `env` first: what remains of this process's environment ends there.
fn cut_off(program: &str) -> Command {
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--net", "--", program]);
    command
}

#[test]
fn everything_works_in_a_network_namespace_without_an_interface() {
    // It is what it should be: loopback and nothing else, and that is down.
    let look = ended(
        cut_off("bash")
            .args([
                "-c",
                "cat /proc/net/dev; exec 3<>/dev/tcp/127.0.0.1/9 || true",
            ])
            .env("LC_ALL", "C")
            .stdin(Stdio::null()),
    );
    let said = String::from_utf8_lossy(&look.stderr).into_owned();
    let seen = String::from_utf8_lossy(&look.stdout).into_owned();
    if seen.is_empty() {
        say(&format!(
            "offline: no network namespace to be had here ({}); the run with proxies that lead nowhere has to do",
            said.trim()
        ));
        return;
    }
    let interfaces: Vec<&str> = (seen.lines())
        .filter_map(|line| Some(line.split_once(':')?.0.trim()))
        .collect();
    assert_eq!(interfaces, ["lo"], "{seen}");
    assert!(said.contains("Network is unreachable"), "{said}");
    let models = fetched::models();
    all_work(|| {
        let mut command = cut_off(BINARY);
        cleared(&mut command, models, "http://127.0.0.1:9");
        command
    });
}

#[test]
fn everything_works_with_proxies_that_lead_nowhere_and_nobody_knocks_there() {
    let models = fetched::models();
    // Closed to whoever comes: nobody answers, and who has come is seen afterwards.
    let nowhere = TcpListener::bind("127.0.0.1:0").unwrap();
    nowhere.set_nonblocking(true).unwrap();
    let proxy = format!("http://{}", nowhere.local_addr().unwrap());
    all_work(|| {
        let mut command = Command::new(BINARY);
        cleared(&mut command, models, &proxy);
        command
    });
    let knocked = nowhere.accept().map(|(_, from)| from);
    let e = knocked.expect_err("somebody asked the proxy");
    assert_eq!(e.kind(), std::io::ErrorKind::WouldBlock, "{e}");
}

/// Nothing of this process's environment but where programs are; the models; and `proxy` for every way out.
fn cleared(command: &mut Command, models: &Path, proxy: &str) {
    command
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("ANTFLY_MODELS_DIR", models)
        .envs(PROXIES.map(|name| (name, proxy)));
}
