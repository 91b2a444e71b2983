//! Credentials that a program prints (`credential_process`).
//!
//! The SDK's own provider leaves the program running when nobody waits for it any more. Here it ends with its load, and after a bound.

use std::process::Stdio;
use std::time::Duration;

use antfly_framework::{Error, Kind, Result, Time};
use aws_credential_types::Credentials;
use aws_smithy_types::DateTime;
use aws_smithy_types::date_time::Format;
use serde_json::{Map, Value};
use tokio::io::AsyncReadExt as _;
use tokio::process::Command;

/// How long a program may run: one that hangs would else be waited for until the calls' own deadlines.
const BOUND: Duration = Duration::from_secs(60);
/// The most bytes that it may print.
const MAX_PRINTED: u64 = 256 * 1024;

/// Runs the command and reads what it prints. What that is may hold a key: of a failure only that it happened is told.
pub(super) async fn ask(command: &str, time: &Time) -> Result<Credentials> {
    let failed = |what: &str| Error::new(Kind::Auth, format!("its credential_process {what}"));
    let until = time.now().saturating_add(BOUND);
    let printed = time
        .timeout_at(until, printed(command))
        .await
        .map_err(|_| failed(&format!("did not end within {BOUND:?}")))?
        .ok_or_else(|| failed("failed, or printed too much"))?;
    parse(&printed).ok_or_else(|| failed("printed no credentials"))
}

/// What the program prints, if it ends well. It is killed when this is dropped.
async fn printed(command: &str) -> Option<Vec<u8>> {
    let mut program = shell(command)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .ok()?;
    let mut printed = Vec::new();
    let mut out = program.stdout.take()?.take(MAX_PRINTED + 1);
    out.read_to_end(&mut printed).await.ok()?;
    if printed.len() as u64 > MAX_PRINTED {
        return None;
    }
    let ended = program.wait().await.ok()?;
    ended.success().then_some(printed)
}

#[cfg(not(windows))]
fn shell(command: &str) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", command]);
    shell
}

#[cfg(windows)]
fn shell(command: &str) -> Command {
    let mut shell = Command::new("cmd.exe");
    shell.arg("/C").raw_arg(format!("\"{command}\""));
    shell
}

/// Names are read whatever their case, as the SDKs do.
fn parse(printed: &[u8]) -> Option<Credentials> {
    let said: Map<String, Value> = serde_json::from_slice(printed).ok()?;
    let get = |name: &str| {
        let found = said.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
        found
            .map(|(_, value)| value)
            .filter(|value| !value.is_null())
    };
    let text = |name: &str| get(name).and_then(Value::as_str).filter(|t| !t.is_empty());
    if get("Version").and_then(Value::as_u64) != Some(1) {
        return None;
    }
    let expiry = match get("Expiration") {
        None => None,
        Some(at) => {
            let at = DateTime::from_str(at.as_str()?, Format::DateTimeWithOffset).ok()?;
            Some(at.try_into().ok()?)
        }
    };
    Some(Credentials::new(
        text("AccessKeyId")?,
        text("SecretAccessKey")?,
        text("SessionToken").map(str::to_owned),
        expiry,
        "process",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_is_credentials_or_nothing() {
        let good = br#"{"version": 1, "AccessKeyId": "a", "secretaccesskey": "b", "SessionToken": "c", "Expiration": "2030-01-02T03:04:05Z"}"#;
        let keys = parse(good).unwrap();
        assert_eq!(
            (keys.access_key_id(), keys.session_token()),
            ("a", Some("c"))
        );
        assert!(keys.expiry().is_some());
        let forever =
            br#"{"Version": 1, "AccessKeyId": "a", "SecretAccessKey": "b", "Expiration": null}"#;
        assert!(parse(forever).unwrap().expiry().is_none());
        for bad in [
            "",
            "[]",
            r#"{"AccessKeyId": "a", "SecretAccessKey": "b"}"#,
            r#"{"Version": 2, "AccessKeyId": "a", "SecretAccessKey": "b"}"#,
            r#"{"Version": 1, "AccessKeyId": "a"}"#,
            r#"{"Version": 1, "AccessKeyId": "", "SecretAccessKey": "b"}"#,
            r#"{"Version": 1, "AccessKeyId": "a", "SecretAccessKey": ""}"#,
            r#"{"Version": 1, "AccessKeyId": "a", "SecretAccessKey": "b", "Expiration": "soon"}"#,
            r#"{"Version": 1, "AccessKeyId": "a", "SecretAccessKey": "b", "Expiration": 7}"#,
        ] {
            assert!(parse(bad.as_bytes()).is_none(), "{bad}");
        }
    }
}
