//! What is refused before anything is sent: exit 2, one line on standard error, nothing on standard output.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::process::Stdio;

use antfly_framework::testing::Server;
use serde_json::json;

use crate::support::{Folder, Running, command, config, run, text, vectors};

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
        ["--attempts", "/dev/stdout"],
        ["--bath", "3"],
    ] {
        let stderr = refused(json!({"docs": {}}), |_| args.map(str::to_owned).to_vec());
        assert!(stderr.contains(args[0]), "{stderr}");
        if ["--batch", "--concurrency"].contains(&args[0]) {
            assert!(stderr.contains("a whole number from 1"), "{stderr}");
        }
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

/// Some certificate.
const CERTIFICATE: &str = "\
-----BEGIN CERTIFICATE-----
MIIBdTCCARugAwIBAgIUO0Zonov45AqCshh9sYWOA0EF7rgwCgYIKoZIzj0EAwIw
DzENMAsGA1UEAwwEdGVzdDAgFw0yNjExMzAwNzU1NDlaGA8yMTI2MTEwNjA3NTU0
OVowDzENMAsGA1UEAwwEdGVzdDBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABMxQ
AIydbGJQZxpbkgANbn4KIHm7JQJJHnnHibFrrasMc+RdjR2Z0hW/skXOGsosvc1l
sNGVGmG56yNQgd6MCbCjUzBRMB0GA1UdDgQWBBQINdGktx5mmhQCstvfJ93JaffV
HTAfBgNVHSMEGDAWgBQINdGktx5mmhQCstvfJ93JaffVHTAPBgNVHRMBAf8EBTAD
AQH/MAoGCCqGSM49BAMCA0gAMEUCIQCpJEbmnRA+LJpeddXhOpVqeRsDq1NxAZ++
U1eMMs96nwIgbQqYJpUaf8PZgHH1E37vq3FB867aRgICdoFTOVFC5vg=
-----END CERTIFICATE-----
";

/// Runs `embed` with these arguments, its standard input and output redirected to files where there are some. It must refuse
/// to, and leave every file of the folder as it is.
fn overwrites_nothing(
    folder: &Folder,
    config: &str,
    args: &[&str],
    stdin: Option<&str>,
    stdout: Option<&str>,
) {
    let files = || -> BTreeMap<_, _> {
        std::fs::read_dir(folder.path(""))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .map(|path| (path.clone(), std::fs::read(path).unwrap()))
            .collect()
    };
    let mut all = vec!["embed", "--config", config];
    all.extend(args);
    let mut command = command(&all);
    command.stdin(Stdio::null());
    if let Some(name) = stdin {
        command.stdin(File::open(folder.path(name)).unwrap());
    }
    if let Some(name) = stdout {
        let file = OpenOptions::new().append(true).open(folder.path(name));
        command.stdout(file.unwrap());
    }
    let before = files();
    let out = command.output().unwrap();
    let stderr = String::from_utf8(out.stderr).unwrap();
    assert_eq!(out.status.code(), Some(2), "{all:?} {stderr}");
    assert_eq!(stderr.lines().count(), 1, "{all:?} {stderr}");
    assert_eq!(files(), before, "{all:?}");
}

#[test]
#[cfg(unix)]
fn no_file_that_the_run_depends_on_is_overwritten() {
    let folder = Folder::new();
    let secrets = text(&folder.write(
        "secrets.json",
        json!({"secrets": [{"key": "k", "value": "v"}]}),
    ));
    let ca = text(&folder.write("ca.pem", CERTIFICATE));
    let document = json!({
        "embedders": {"docs": {"provider": "openai", "model": "m", "url": "http://127.0.0.1:1", "api_key": "${secret:k}", "ca_file": ca}},
        "secrets": {"file": "secrets.json"},
    });
    let config = text(&folder.write("config.json", document));
    let input = text(&folder.write("in.jsonl", "\"x\"\n"));
    let hard = text(&folder.path("hard.jsonl"));
    std::fs::hard_link(&input, &hard).unwrap();
    let soft = text(&folder.path("soft.jsonl"));
    std::os::unix::fs::symlink(&input, &soft).unwrap();
    let old = text(&folder.write("old.jsonl", "of value\n"));
    for option in ["--output", "--attempts"] {
        for file in [&config, &secrets, &ca, &input, &hard, &soft] {
            let args = ["--input", &input, option, file];
            overwrites_nothing(&folder, &config, &args, None, None);
        }
        for file in [&input, &hard, &soft] {
            overwrites_nothing(&folder, &config, &[option, file], Some("in.jsonl"), None);
        }
    }
    // Both of them, by two names.
    let (new, same) = (text(&folder.path("new")), text(&folder.path("./new")));
    let args = ["--output", &new, "--attempts", &same];
    overwrites_nothing(&folder, &config, &args, None, None);
    let args = ["--output", &old, "--attempts", &old];
    overwrites_nothing(&folder, &config, &args, None, None);
    // Standard output is a file like others.
    let args = ["--attempts", &old];
    overwrites_nothing(&folder, &config, &args, None, Some("old.jsonl"));
    overwrites_nothing(&folder, &config, &[], Some("in.jsonl"), Some("hard.jsonl"));
    // What is refused in the end has emptied nothing before.
    let nowhere = text(&folder.path("no/such/file"));
    let args = ["--output", &old, "--attempts", &nowhere];
    overwrites_nothing(&folder, &config, &args, None, None);
    let args = ["--output", &new, "--attempts", &nowhere];
    overwrites_nothing(&folder, &config, &args, None, None);
}

#[test]
fn an_old_output_is_replaced() {
    let server = Server::with(vectors);
    let folder = Folder::new();
    let config = config(&folder, "embedders", &server, json!({"docs": {}}));
    let old = text(&folder.write("old.jsonl", "x".repeat(10_000)));
    let out = run(&["embed", "--config", &config, "--output", &old], "\"x\"\n");
    assert_eq!(out.code, Some(0), "{}", out.stderr);
    assert_eq!(
        folder.read("old.jsonl"),
        "{\"id\":0,\"embedding\":[1.0,0.5]}\n"
    );
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
fn a_reader_that_leaves_ends_the_run() {
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
    assert!(out.stderr.contains("reader has gone"), "{}", out.stderr);
}

#[test]
#[cfg(target_os = "linux")]
fn what_can_not_be_written_fails_the_run() {
    let server = Server::with(vectors);
    let folder = Folder::new();
    let config = config(&folder, "embedders", &server, json!({"docs": {}}));
    let out = run(
        &["embed", "--config", &config, "--attempts", "/dev/full"],
        "\"x\"\n",
    );
    assert_eq!(out.code, Some(1), "{}", out.stderr);
    assert!(out.stderr.contains("the attempts file"), "{}", out.stderr);
    assert_eq!(out.lines().len(), 1);
    for args in [
        ["check", "--config", &config],
        ["embed", "--config", &config],
    ] {
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let mut command = command(&args);
        command.stdin(File::open(folder.write("in.jsonl", "\"x\"\n")).unwrap());
        let out = command.stdout(full).output().unwrap();
        let stderr = String::from_utf8(out.stderr).unwrap();
        assert_eq!(out.status.code(), Some(1), "{stderr}");
        assert!(stderr.contains("the output can't be written"), "{stderr}");
    }
}

#[test]
fn a_warning_is_said_once_an_entry() {
    let server = Server::with(vectors);
    let folder = Folder::new();
    let entry = json!({"rate_limit": {"burst": 4}});
    let config = config(
        &folder,
        "embedders",
        &server,
        json!({"docs": entry, "more": entry}),
    );
    let embed = [
        "embed", "--config", &config, "--name", "docs", "--name", "more", "--name", "docs",
    ];
    for args in [&embed[..], &["check", "--config", &config]] {
        for log in [None, Some("warn"), Some("error")] {
            let mut command = command(args);
            command.stdin(File::open(folder.write("in.jsonl", "\"x\"\n")).unwrap());
            command.envs(log.map(|log| ("RUST_LOG", log)));
            let out = command.output().unwrap();
            let stderr = String::from_utf8(out.stderr).unwrap();
            assert_eq!(out.status.code(), Some(0), "{stderr}");
            let times = usize::from(log != Some("error"));
            for name in ["docs", "more"] {
                let warning = format!("embedders.{name}.rate_limit.burst");
                assert_eq!(stderr.matches(&warning).count(), times, "{log:?} {stderr}");
            }
            assert!(!stderr.contains('\u{1b}'), "{stderr}");
        }
    }
}
