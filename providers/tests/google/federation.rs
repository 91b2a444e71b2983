//! Workload identity federation from AWS and from a program. Both read the process's environment, so each test runs in one of its own.

use std::process::Command;

use antfly_providers::testing::Reply;
use antfly_providers::{Env, Kind};
use serde_json::{Value, json};

use crate::google::*;
use crate::support::*;

const CHILD: &str = "ANTFLY_TEST_CHILD";

/// Whether this process is the one in which the test of this name runs; if not, runs it in one that has this environment alone.
fn alone(name: &str, env: &[(&str, &str)]) -> bool {
    if Env::process().get(CHILD).unwrap().is_some() {
        return true;
    }
    let run = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env_clear()
        .envs(env.iter().copied())
        .env(CHILD, "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&run.stdout);
    let failed = String::from_utf8_lossy(&run.stderr);
    assert!(
        run.status.success() && said.contains("1 passed"),
        "{said}\n{failed}"
    );
    false
}

async fn ask_with(google: &Google, content: &Value) -> antfly_providers::Result<Vec<String>> {
    let server = model();
    let path = google.file(content);
    let generator = vertex(
        &client_of(Env::empty()),
        &server,
        with_file(&path, json!({})),
    );
    generator.generate(ask()).await.map(|_| bearers(&server))
}

fn federated(google: &Google, subject_type: &str, source: Value) -> Value {
    let mut file = google.federated();
    file["subject_token_type"] = json!(subject_type);
    file["credential_source"] = source;
    file
}

/// The metadata service of an AWS instance, and Google's STS.
fn on_aws() -> Google {
    Google::answering(|request, token| match request.path.as_str() {
        "/latest/api/token" => Reply::text(200, "imds-token"),
        "/zone" => Reply::text(200, "eu-west-1b"),
        "/roles" => Reply::text(200, "the-role"),
        "/roles/the-role" => Reply::json(
            200,
            json!({"AccessKeyId": "ASIAINSTANCE", "SecretAccessKey": "hunter2", "Token": "instance-session"}),
        ),
        _ => answer(token, 3600),
    })
}

fn aws(google: &Google) -> Value {
    let url = google.server.url();
    federated(
        google,
        "urn:ietf:params:aws:token-type:aws4_request",
        json!({"environment_id": "aws1", "region_url": format!("{url}/zone"), "url": format!("{url}/roles"),
               "imdsv2_session_token_url": format!("{url}/latest/api/token"),
               "regional_cred_verification_url": "https://sts.{region}.amazonaws.com?Action=GetCallerIdentity&Version=2011-06-15"}),
    )
}

/// The signed request that Google's STS was given for a subject.
fn subject(google: &Google) -> String {
    let asked = google.server.requests();
    let last = asked.last().unwrap();
    assert_eq!(last.path, "/sts");
    last.text()
}

#[tokio::test]
async fn a_workload_on_aws_signs_who_it_is_with_the_instances_role() {
    if !alone(
        "federation::a_workload_on_aws_signs_who_it_is_with_the_instances_role",
        &[],
    ) {
        return;
    }
    let google = on_aws();
    let bearers = ask_with(&google, &aws(&google)).await.unwrap();
    assert_eq!(bearers, ["token-5"]);
    let subject = subject(&google);
    for word in [
        "ASIAINSTANCE",
        "AWS4-HMAC-SHA256",
        "eu-west-1",
        "GetCallerIdentity",
    ] {
        assert!(subject.contains(word), "{word} is not in {subject}");
    }
    assert!(!subject.contains("hunter2"));
}

#[tokio::test]
async fn a_workload_on_aws_signs_with_the_keys_of_the_environment() {
    let keys = [
        ("AWS_ACCESS_KEY_ID", "AKIDENVIRONMENT"),
        ("AWS_SECRET_ACCESS_KEY", "hunter2"),
        ("AWS_REGION", "us-east-2"),
    ];
    if !alone(
        "federation::a_workload_on_aws_signs_with_the_keys_of_the_environment",
        &keys,
    ) {
        return;
    }
    let google = on_aws();
    ask_with(&google, &aws(&google)).await.unwrap();
    let subject = subject(&google);
    assert!(
        subject.contains("AKIDENVIRONMENT") && subject.contains("us-east-2"),
        "{subject}"
    );
    assert!(!subject.contains("hunter2"));
}

fn program(google: &Google) -> Value {
    let said = json!({"version": 1, "success": true, "token_type": "urn:ietf:params:oauth:token-type:jwt",
                      "id_token": "subject-sentinel", "expiration_time": 4_070_908_800_u64});
    let path = google.folder.write("subject.json", &said);
    let command = json!({"command": format!("/bin/cat {path}"), "timeout_millis": 20_000});
    federated(
        google,
        "urn:ietf:params:oauth:token-type:jwt",
        json!({"executable": command}),
    )
}

#[tokio::test]
async fn a_programs_subject_token_is_exchanged_where_programs_are_allowed() {
    let allowed = [("GOOGLE_EXTERNAL_ACCOUNT_ALLOW_EXECUTABLES", "1")];
    if !alone(
        "federation::a_programs_subject_token_is_exchanged_where_programs_are_allowed",
        &allowed,
    ) {
        return;
    }
    let google = Google::start();
    let bearers = ask_with(&google, &program(&google)).await.unwrap();
    assert_eq!(bearers, ["token-1"]);
    assert!(subject(&google).contains("subject-sentinel"));
}

#[tokio::test]
async fn a_program_that_nobody_allowed_is_not_run_and_the_error_says_what_to_set() {
    if !alone(
        "federation::a_program_that_nobody_allowed_is_not_run_and_the_error_says_what_to_set",
        &[],
    ) {
        return;
    }
    let google = Google::start();
    let error = ask_with(&google, &program(&google)).await.unwrap_err();
    assert_eq!((error.kind(), error.attempts()), (Kind::Auth, 0), "{error}");
    let variable = "GOOGLE_EXTERNAL_ACCOUNT_ALLOW_EXECUTABLES";
    assert!(error.message().contains(variable), "{error}");
    assert!(google.server.requests().is_empty());
}
