//! `check` and `providers`.

use antfly_framework::testing::{Reply, Server};
use serde_json::{Value, json};

use crate::support::{Folder, command, json_lines, run, text};

#[test]
fn every_entry_is_shown_with_its_effective_scope_and_policy() {
    let folder = Folder::new();
    let limit = json!({"requests_per_minute": 120, "burst": 2, "max_concurrency": 4, "tokens_per_minute": 120_000});
    let document = json!({
        "embedders": {"docs": {"provider": "openai", "model": "small", "url": "HTTP://Example.com:80/", "api_key": "k", "rate_limit": limit}},
        "generators": {"writer": {"provider": "openai", "model": "big", "url": "http://example.com/v1", "api_key": "${secret:openai.api_key}"}},
    });
    let secrets = json!({"secrets": [{"key": "openai.api_key", "value": "s3cr3t"}]});
    folder.write("secrets.json", secrets);
    let mut document = document;
    document["secrets"] = json!({"file": "secrets.json"});
    let config = text(&folder.write("config.json", document));
    let out = run(&["check", "--config", &config], "");
    assert_eq!(out.code, Some(0), "{}", out.stderr);
    let got = out.lines();
    assert_eq!(got.len(), 2);
    let docs = &got[0];
    assert_eq!(docs["entry"], "embedders.docs");
    assert_eq!(docs["provider"], "openai");
    assert_eq!(docs["operation"], "embed");
    assert_eq!(docs["scope"]["endpoint"], "http://example.com/v1");
    assert_eq!(docs["scope"]["model"], "small");
    assert_eq!(docs["scope"]["operation"], "embed");
    let policy = json!({
        "requests_per_minute": 120, "burst": 2, "max_concurrency": 4, "tokens_per_minute": 120_000, "pacing": "token_bucket",
    });
    assert_eq!(docs["policy"], policy);
    assert!(docs["fingerprint"].is_string());
    let writer = &got[1];
    assert_eq!(writer["entry"], "generators.writer");
    assert_eq!(writer["policy"], Value::Null);
    assert_eq!(writer.get("fingerprint"), None);
    assert!(!out.stdout.contains("s3cr3t"));
    // Fields come in the order of the scope.
    let first = out.stdout.lines().next().unwrap();
    let places: Vec<_> = [
        "\"entry\"",
        "\"provider\"",
        "\"operation\"",
        "\"scope\"",
        "\"endpoint\"",
        "\"model\"",
        "\"credential\"",
        "\"policy\"",
        "\"fingerprint\"",
    ]
    .map(|name| first.find(name).unwrap())
    .into();
    assert!(places.is_sorted(), "{first}");
}

#[test]
fn a_bedrock_entry_shows_its_region_and_where_its_credentials_come_from() {
    let folder = Folder::new();
    let profiles = "[profile prod]\nregion = eu-central-1\naws_access_key_id = id\naws_secret_access_key = s3cr3t\n";
    std::fs::write(folder.path("aws"), profiles).unwrap();
    let aws = text(&folder.path("aws"));
    let document = json!({
        "embedders": {"docs": {"provider": "bedrock", "model": "amazon.titan-embed-text-v2:0", "profile": "prod"}},
        "generators": {"writer": {"provider": "bedrock", "model": "amazon.nova-lite-v1:0", "region": "us-west-2"}},
    });
    let config = text(&folder.write("config.json", document));
    let env = [
        ("AWS_CONFIG_FILE", aws.as_str()),
        ("AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://127.0.0.1:9"),
    ];
    let out = command(&["check", "--config", &config])
        .envs(env)
        .output()
        .unwrap();
    let (stdout, stderr) = (
        String::from_utf8(out.stdout).unwrap(),
        String::from_utf8(out.stderr).unwrap(),
    );
    assert_eq!(out.status.code(), Some(0), "{stderr}");
    let got = json_lines(&stdout);
    let docs = &got[0]["scope"];
    assert_eq!(docs["region"], "eu-central-1");
    assert_eq!(docs["credential"], "aws-profile:prod");
    assert_eq!(
        docs["endpoint"],
        "https://bedrock-runtime.eu-central-1.amazonaws.com"
    );
    let writer = &got[1]["scope"];
    assert_eq!(writer["region"], "us-west-2");
    assert_eq!(writer["credential"], "aws-instance-role:http://127.0.0.1:9");
    assert!(!stdout.contains("s3cr3t") && !stderr.contains("s3cr3t"));
}

#[test]
fn entries_that_conflict_are_named() {
    let folder = Folder::new();
    let entry = |rpm: u32| json!({"provider": "openai", "model": "m", "url": "http://example.com", "api_key": "k", "rate_limit": {"requests_per_minute": rpm}});
    let document = json!({"embedders": {"a": entry(60), "b": entry(60), "c": entry(61)}});
    let config = text(&folder.write("config.json", document));
    let out = run(&["check", "--config", &config], "");
    assert_eq!(out.code, Some(2));
    assert!(
        out.stderr.contains("embedders.a and embedders.c"),
        "{}",
        out.stderr
    );
    assert!(!out.stderr.contains("embedders.b"), "{}", out.stderr);
    // The same two are refused where both are used, and only there.
    let args = ["embed", "--config", &config, "--name", "a", "--name", "c"];
    let out = run(&args, "\"x\"\n");
    assert_eq!(out.code, Some(2));
    assert!(out.stderr.contains("policy_conflict"), "{}", out.stderr);
    assert_eq!(out.stdout, "");
    let args = ["embed", "--config", &config, "--name", "a", "--name", "b"];
    assert_eq!(run(&args, "").code, Some(0));
}

#[test]
fn many_entries_take_little_longer_each_than_few() {
    let folder = Folder::new();
    let took = |count: usize| {
        let entry = |n: usize| {
            let model = format!("m{n}");
            let entry = json!({"provider": "openai", "model": model, "url": "http://example.com", "api_key": "k"});
            (format!("e{n}"), entry)
        };
        let entries: serde_json::Map<_, _> = (0..count).map(entry).collect();
        let document = json!({"embedders": entries});
        let config = text(&folder.write("config.json", document));
        let began = std::time::Instant::now();
        let out = run(&["check", "--config", &config], "");
        assert_eq!(out.code, Some(0), "{}", out.stderr);
        assert_eq!(out.stdout.lines().count(), count);
        began.elapsed()
    };
    let (few, many) = (took(200), took(4000));
    // Twenty times the entries; four hundred times the pairs.
    assert!(many < few * 100, "{few:?} {many:?}");
}

#[test]
fn every_bad_entry_is_reported() {
    let folder = Folder::new();
    let document = json!({
        "embedders": {
            "bad": {"provider": "openai", "model": "m", "api_key": "k", "rate_limit": {"burst": 0}},
            "good": {"provider": "openai", "model": "m", "api_key": "k"},
            "odd": {"provider": "nobody", "model": "m"},
        },
    });
    let config = text(&folder.write("config.json", document));
    let out = run(&["check", "--config", &config], "");
    assert_eq!(out.code, Some(2));
    assert!(
        out.stderr.contains("embedders.bad.rate_limit.burst"),
        "{}",
        out.stderr
    );
    assert!(
        out.stderr.contains("embedders.odd.provider"),
        "{}",
        out.stderr
    );
    assert_eq!(out.stderr.lines().count(), 2, "{}", out.stderr);
    assert_eq!(out.lines()[0]["entry"], "embedders.good");
}

#[test]
fn checking_opens_no_connection() {
    let server = Server::always(Reply::status(500));
    let folder = Folder::new();
    let entry = json!({"provider": "openai", "model": "m", "url": server.url()});
    let config = text(&folder.write(
        "config.json",
        json!({"embedders": {"a": entry}, "generators": {"b": entry}}),
    ));
    let out = run(&["check", "--config", &config], "");
    assert_eq!(out.code, Some(0), "{}", out.stderr);
    assert_eq!(server.connections(), 0);
}

#[test]
fn providers_are_listed_with_their_operations() {
    let out = run(&["providers"], "");
    assert_eq!(out.code, Some(0), "{}", out.stderr);
    assert!(
        out.lines()
            .contains(&json!({"provider": "openai", "operations": ["embed", "generate"]})),
        "{}",
        out.stdout
    );
}

#[test]
fn a_configuration_on_standard_input_is_checked_and_a_lone_entry_is_not_guessed_at() {
    let entry = json!({"provider": "openai", "model": "m", "api_key": "k"});
    let out = run(
        &["check", "--config", "-"],
        &json!({"generators": {"g": entry}}).to_string(),
    );
    assert_eq!(out.code, Some(0), "{}", out.stderr);
    assert_eq!(out.lines()[0]["entry"], "generators.g");
    let out = run(&["check", "--config", "-"], &entry.to_string());
    assert_eq!(out.code, Some(2));
    assert!(out.stderr.contains("which operation"), "{}", out.stderr);
}

#[test]
fn googles_scopes_show_project_location_and_credential_source_and_nothing_is_opened() {
    let folder = Folder::new();
    let token_server = Server::start([]);
    let user = json!({"type": "authorized_user", "client_id": "c", "client_secret": "s3cr3t", "refresh_token": "s3cr3t",
        "token_uri": token_server.url()});
    let path = text(&folder.write("user.json", user));
    let document = json!({
        "embedders": {"docs": {"provider": "vertex", "model": "text-embedding-005", "project_id": "p-1", "credentials_path": path}},
        "generators": {
            "far": {"provider": "vertex", "model": "projects/p-2/locations/global/publishers/google/models/gemini-2.5-flash",
                    "credentials_path": path},
            "key": {"provider": "gemini", "model": "gemini-2.5-flash", "api_key": "s3cr3t"},
        },
        "rerankers": {"ranker": {"provider": "vertex", "model": "semantic-ranker-default@latest", "project_id": "p-1",
                                 "location": "eu", "credentials_path": path}},
    });
    let config = text(&folder.write("config.json", document));
    let out = run(&["check", "--config", &config], "");
    assert_eq!(out.code, Some(0), "{}", out.stderr);
    let got = out.lines();
    let scope = |entry: &str| {
        let line = got.iter().find(|line| line["entry"] == entry);
        line.unwrap()["scope"].clone()
    };
    let source = format!("google-file:{path}");
    for (entry, endpoint, project, location, model) in [
        (
            "embedders.docs",
            "https://us-central1-aiplatform.googleapis.com/v1",
            "p-1",
            "us-central1",
            "text-embedding-005",
        ),
        (
            "generators.far",
            "https://aiplatform.googleapis.com/v1",
            "p-2",
            "global",
            "gemini-2.5-flash",
        ),
        (
            "rerankers.ranker",
            "https://eu-discoveryengine.googleapis.com/v1",
            "p-1",
            "eu",
            "semantic-ranker-default@latest",
        ),
    ] {
        let scope = scope(entry);
        assert_eq!(scope["endpoint"], endpoint);
        assert_eq!(scope["project_id"], project);
        assert_eq!(scope["location"], location);
        assert_eq!(scope["model"], model);
        assert_eq!(scope["credential"], source);
    }
    let key = scope("generators.key");
    assert_eq!(
        key["endpoint"],
        "https://generativelanguage.googleapis.com/v1beta"
    );
    assert!(key["credential"].as_str().unwrap().starts_with("literal:"));
    assert!(!out.stdout.contains("s3cr3t") && !out.stderr.contains("s3cr3t"));
    assert!(token_server.requests().is_empty());
}

#[test]
fn a_proxy_variable_that_names_no_proxy_is_said_before_anything_is_sent() {
    let folder = Folder::new();
    let server = Server::always(Reply::status(500));
    for (provider, more) in [
        ("openai", json!({"api_key": "k"})),
        ("bedrock", json!({"region": "us-east-1"})),
    ] {
        let mut entry = more.clone();
        entry["provider"] = json!(provider);
        entry["model"] = json!("amazon.titan-embed-text-v2:0");
        entry["url"] = json!(server.url());
        let document = json!({"embedders": {"docs": entry}});
        let config = text(&folder.write("config.json", document));
        for command_name in ["check", "embed"] {
            for variable in ["HTTP_PROXY", "https_proxy", "ALL_PROXY"] {
                let run = command(&[command_name, "--config", &config])
                    .env("AWS_ACCESS_KEY_ID", "a")
                    .env("AWS_SECRET_ACCESS_KEY", "b")
                    .env(variable, "htp://user:hunter2@proxy:3128")
                    .stdin(std::process::Stdio::null())
                    .output()
                    .unwrap();
                let told = String::from_utf8_lossy(&run.stderr).into_owned();
                assert_eq!(
                    run.status.code(),
                    Some(2),
                    "{provider} {command_name}: {told}"
                );
                assert!(
                    told.contains(variable) && told.contains("no proxy"),
                    "{told}"
                );
                assert!(!told.contains("hunter2"), "{told}");
            }
        }
        // An entry that leaves the variables aside does not care.
        entry["proxy"] = json!("none");
        let document = json!({"embedders": {"docs": entry}});
        let config = text(&folder.write("config.json", document));
        let run = command(&["check", "--config", &config])
            .env("AWS_ACCESS_KEY_ID", "a")
            .env("AWS_SECRET_ACCESS_KEY", "b")
            .env("HTTP_PROXY", "htp://proxy")
            .output()
            .unwrap();
        assert_eq!(run.status.code(), Some(0), "{provider}");
    }
    assert!(server.requests().is_empty());
}
