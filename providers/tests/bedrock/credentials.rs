//! Every source of credentials, loaded outside the quota: once for all who wait, before they end, and again after a failure.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use antfly_framework::testing::{Gate, Received, Reply, Server};
use antfly_framework::{CallOptions, EmbedRequest, Kind};
use serde_json::json;

use crate::support::{
    client, credentials, drive, embedder, env, in_seconds, manual, refusal, signer, vector,
};

fn texts() -> EmbedRequest {
    EmbedRequest::texts(["a"])
}

fn models() -> Server {
    Server::with(|_| vector())
}

/// How often an endpoint was asked for credentials; the first load is number 1.
#[derive(Clone, Default)]
pub(crate) struct Loads(Arc<AtomicUsize>);

impl Loads {
    pub(crate) fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }

    pub(crate) fn next(&self) -> usize {
        self.0.fetch_add(1, Ordering::SeqCst) + 1
    }
}

/// A container's agent whose credentials live so many seconds.
pub(crate) fn agent(loads: &Loads, seconds: i64) -> Server {
    let loads = loads.clone();
    Server::with(move |_| Reply::json(200, credentials(loads.next(), seconds)))
}

pub(crate) fn container(server: &Server) -> antfly_framework::Env {
    env(&[(
        "AWS_CONTAINER_CREDENTIALS_FULL_URI",
        &format!("{}/creds?x=1", server.url()),
    )])
}

/// IMDSv2: a token first, then the role's name, then its credentials.
fn instance(loads: &Loads) -> Server {
    let loads = loads.clone();
    Server::with(move |request| {
        if request.path == "/latest/api/token" {
            let asked = request.header("x-aws-ec2-metadata-token-ttl-seconds");
            let right = request.method == "PUT" && asked.is_some();
            return match right {
                true => Reply::text(200, "the-token")
                    .header("x-aws-ec2-metadata-token-ttl-seconds", 21600),
                false => Reply::status(400),
            };
        }
        if request.header("x-aws-ec2-metadata-token") != Some("the-token") {
            return Reply::status(401);
        }
        match request
            .path
            .strip_prefix("/latest/meta-data/iam/security-credentials/")
        {
            Some("") => Reply::text(200, "the-role"),
            Some("the-role") => Reply::json(200, credentials(loads.next(), 3600)),
            _ => Reply::status(404),
        }
    })
}

/// STS: what was asked is in the request's form.
fn sts(loads: &Loads) -> Server {
    let loads = loads.clone();
    Server::with(move |request| sts_reply(request, loads.next()))
}

pub(crate) fn sts_reply(request: &Received, number: usize) -> Reply {
    let action = form(request, "Action");
    let keys = format!(
        "<Credentials><AccessKeyId>ASIA{number}</AccessKeyId><SecretAccessKey>secret</SecretAccessKey>\
         <SessionToken>session-token-{number}</SessionToken><Expiration>{}</Expiration></Credentials>",
        in_seconds(3600)
    );
    let body =
        format!("<{action}Response><{action}Result>{keys}</{action}Result></{action}Response>");
    Reply::bytes(200, "text/xml", body)
}

fn form(request: &Received, name: &str) -> String {
    let text = request.text();
    let found = text
        .split('&')
        .find_map(|pair| pair.strip_prefix(&format!("{name}=")));
    found.unwrap_or("").replace("%3A", ":").replace("%2F", "/")
}

/// A folder of the test's own, gone when it is dropped.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new(test: &str) -> Folder {
        let path =
            std::env::temp_dir().join(format!("antfly-bedrock-{}-{test}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    pub(crate) fn write(&self, name: &str, text: impl AsRef<[u8]>) -> String {
        let path = self.0.join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[tokio::test]
async fn the_environments_session_token_travels_with_the_signature() {
    let server = models();
    let pairs = [
        ("AWS_ACCESS_KEY_ID", "ASIAENV"),
        ("AWS_SECRET_ACCESS_KEY", "s"),
        ("AWS_SESSION_TOKEN", "the-session"),
    ];
    embedder(&client(env(&pairs)), &server, json!({}))
        .embed(texts())
        .await
        .unwrap();
    let request = &server.requests()[0];
    assert_eq!(
        (
            signer(request).as_str(),
            request.header("x-amz-security-token")
        ),
        ("ASIAENV", Some("the-session"))
    );
}

#[tokio::test]
async fn a_containers_agent_is_asked_with_its_token_from_a_file_or_the_environment() {
    let folder = Folder::new("token");
    let file = folder.write("token", "Bearer from-file\n");
    for (name, value, wanted) in [
        (
            "AWS_CONTAINER_AUTHORIZATION_TOKEN",
            "Bearer from-env",
            "Bearer from-env",
        ),
        (
            "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
            file.as_str(),
            "Bearer from-file",
        ),
    ] {
        let (models, loads) = (models(), Loads::default());
        let agent = agent(&loads, 3600);
        let url = format!("{}/creds?x=1", agent.url());
        let env = env(&[("AWS_CONTAINER_CREDENTIALS_FULL_URI", &url), (name, value)]);
        let embedder = embedder(&client(env), &models, json!({}));
        for _ in 0..10 {
            embedder.embed(texts()).await.unwrap();
        }
        assert_eq!(loads.count(), 1, "k13: loaded once for ten calls");
        let asked = &agent.requests()[0];
        assert_eq!(
            (asked.path.as_str(), asked.header("authorization")),
            ("/creds?x=1", Some(wanted))
        );
        let request = &models.requests()[0];
        assert_eq!(
            (
                signer(request).as_str(),
                request.header("x-amz-security-token")
            ),
            ("ASIA1", Some("session-token-1"))
        );
    }
}

#[tokio::test]
async fn the_instances_role_is_asked_through_imdsv2() {
    let (models, loads) = (models(), Loads::default());
    let instance = instance(&loads);
    let env = env(&[("AWS_EC2_METADATA_SERVICE_ENDPOINT", &instance.url())]);
    embedder(&client(env), &models, json!({}))
        .embed(texts())
        .await
        .unwrap();
    assert_eq!(signer(&models.requests()[0]), "ASIA1");
    let paths: Vec<String> = instance
        .requests()
        .iter()
        .map(|r| format!("{} {}", r.method, r.path))
        .collect();
    let base = "/latest/meta-data/iam/security-credentials/";
    assert_eq!(
        paths,
        [
            "PUT /latest/api/token".to_owned(),
            format!("GET {base}"),
            format!("GET {base}the-role")
        ]
    );
}

#[tokio::test]
async fn a_web_identity_is_exchanged_at_sts_and_its_file_read_each_time() {
    let (models, loads, folder) = (models(), Loads::default(), Folder::new("web"));
    let sts = sts(&loads);
    let file = folder.write("token", "first-token");
    let env = env(&[
        ("AWS_WEB_IDENTITY_TOKEN_FILE", &file),
        ("AWS_ROLE_ARN", "arn:aws:iam::1:role/r"),
        ("AWS_ROLE_SESSION_NAME", "me"),
        ("AWS_ENDPOINT_URL_STS", &sts.url()),
    ]);
    let (time, clock) = antfly_framework::Time::manual();
    let client = crate::support::client_on(time, env, &Default::default());
    let embedder = embedder(&client, &models, json!({}));
    drive(&clock, embedder.embed(texts())).await.unwrap();
    let asked = &sts.requests()[0];
    assert_eq!(form(asked, "Action"), "AssumeRoleWithWebIdentity");
    assert_eq!(
        (
            form(asked, "WebIdentityToken"),
            form(asked, "RoleArn"),
            form(asked, "RoleSessionName")
        ),
        (
            "first-token".into(),
            "arn:aws:iam::1:role/r".into(),
            "me".into()
        )
    );
    assert_eq!(
        asked.header("authorization"),
        None,
        "nothing to sign with yet"
    );
    folder.write("token", "second-token");
    clock.advance(Duration::from_secs(3600));
    drive(&clock, embedder.embed(texts())).await.unwrap();
    assert_eq!(form(&sts.requests()[1], "WebIdentityToken"), "second-token");
    let signers: Vec<String> = models.requests().iter().map(signer).collect();
    assert_eq!(signers, ["ASIA1", "ASIA2"]);
}

#[tokio::test]
async fn a_profile_gives_its_keys_its_region_and_roles_assumed_in_turn() {
    let (models, loads, folder) = (models(), Loads::default(), Folder::new("profile"));
    let sts = sts(&loads);
    let config = folder.write(
        "config",
        "[profile base]\nregion = eu-west-3\n[profile role]\nrole_arn = arn:aws:iam::1:role/far\nsource_profile = base\n\
         external_id = x\nregion = eu-west-3\n",
    );
    let keys = folder.write(
        "credentials",
        "[base]\naws_access_key_id = AKIDBASE\naws_secret_access_key = s\n",
    );
    let env = antfly_framework::Env::from_pairs([
        ("AWS_CONFIG_FILE", config.as_str()),
        ("AWS_SHARED_CREDENTIALS_FILE", keys.as_str()),
        ("AWS_ENDPOINT_URL_STS", sts.url().as_str()),
        ("AWS_PROFILE", "base"),
    ]);
    let client = client(env);
    let base = embedder(&client, &models, json!({}));
    base.embed(texts()).await.unwrap();
    let request = models.requests().pop().unwrap();
    assert_eq!(signer(&request), "AKIDBASE");
    assert!(
        request
            .header("authorization")
            .unwrap()
            .contains("/eu-west-3/bedrock/")
    );
    assert_eq!(loads.count(), 0);
    // Keys that were rotated in the file are used by the next attempt.
    folder.write(
        "credentials",
        "[base]\naws_access_key_id = AKIDNEXT\naws_secret_access_key = s\n",
    );
    base.embed(texts()).await.unwrap();
    assert_eq!(signer(&models.requests().pop().unwrap()), "AKIDNEXT");

    let role = embedder(&client, &models, json!({"profile": "role"}));
    role.embed(texts()).await.unwrap();
    assert_eq!(signer(&models.requests().pop().unwrap()), "ASIA1");
    let asked = &sts.requests()[0];
    assert_eq!(
        (form(asked, "Action"), form(asked, "ExternalId")),
        ("AssumeRole".into(), "x".into())
    );
    assert_eq!(signer(asked), "AKIDNEXT");
}

#[cfg(all(unix, feature = "bedrock-credential-process"))]
#[tokio::test]
async fn a_program_prints_credentials_and_what_it_says_when_it_fails_stays_with_it() {
    let (models, folder) = (models(), Folder::new("process"));
    let printed = json!({"Version": 1, "AccessKeyId": "ASIAPRINTED", "SecretAccessKey": "s", "SessionToken": "t",
                         "Expiration": in_seconds(3600)});
    let good = folder.write("good", printed.to_string());
    let config = folder.write(
        "config",
        format!(
            "[profile good]\ncredential_process = cat {good}\n\
             [profile bad]\ncredential_process = sh -c \"echo hunter2; echo hunter2 >&2; exit 1\"\n"
        ),
    );
    let client = client(antfly_framework::Env::from_pairs([(
        "AWS_CONFIG_FILE",
        config,
    )]));
    let good = embedder(&client, &models, json!({"profile": "good"}));
    good.embed(texts()).await.unwrap();
    assert_eq!(signer(&models.requests()[0]), "ASIAPRINTED");
    let bad = embedder(&client, &models, json!({"profile": "bad"}));
    let e = bad.embed(texts()).await.unwrap_err();
    assert_eq!((e.kind(), e.attempts()), (Kind::Auth, 0));
    assert!(
        e.message().contains("aws-profile:bad") && !format!("{e} {e:?}").contains("hunter2"),
        "{e}"
    );
}

/// Whether a program of this id runs.
#[cfg(all(target_os = "linux", feature = "bedrock-credential-process"))]
fn runs(id: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", id.trim()));
    // One that has ended may wait for its end to be noticed.
    stat.is_ok_and(|stat| !stat.contains(") Z"))
}

#[cfg(all(target_os = "linux", feature = "bedrock-credential-process"))]
#[tokio::test]
async fn a_program_that_hangs_is_ended_after_a_minute_or_when_nobody_waits_for_it() {
    let (models, folder) = (models(), Folder::new("hangs"));
    let told = folder.write("id", "");
    let config = folder.write(
        "config",
        format!("[profile hangs]\ncredential_process = echo $$ > {told}; exec sleep 1000\n"),
    );
    let env = antfly_framework::Env::from_pairs([("AWS_CONFIG_FILE", config)]);
    for minute in [true, false] {
        std::fs::write(&told, "").unwrap();
        let (client, clock) = manual(env.clone());
        let embedder = embedder(&client, &models, json!({"profile": "hangs"}));
        let call = tokio::spawn({
            let embedder = embedder.clone();
            async move { embedder.embed(texts()).await }
        });
        let began = async {
            loop {
                let id = std::fs::read_to_string(&told).unwrap();
                if id.ends_with('\n') {
                    return id;
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let id = tokio::time::timeout(Duration::from_secs(60), began)
            .await
            .unwrap();
        if minute {
            clock.advance(Duration::from_millis(59_999));
            tokio::time::sleep(Duration::from_millis(50)).await;
            assert!(runs(&id) && !call.is_finished());
            clock.advance(Duration::from_millis(1));
            let e = call.await.unwrap().unwrap_err();
            assert_eq!((e.kind(), e.attempts()), (Kind::Auth, 0));
            assert!(
                e.message()
                    .contains("credential_process did not end within 60s"),
                "{e}"
            );
        } else {
            assert!(runs(&id));
            call.abort();
            assert!(call.await.unwrap_err().is_cancelled());
        }
        let gone = async {
            while runs(&id) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), gone)
            .await
            .unwrap();
    }
    assert!(models.requests().is_empty());
}

#[tokio::test]
async fn k01_credentials_of_five_seconds_are_replaced_and_the_limiters_state_is_the_same() {
    let (models, loads) = (models(), Loads::default());
    let agent = agent(&loads, 5);
    let (client, clock) = manual(container(&agent));
    let embedder = embedder(
        &client,
        &models,
        json!({"rate_limit": {"requests_per_minute": 600, "burst": 3}}),
    );
    drive(&clock, embedder.embed(texts())).await.unwrap();
    drive(&clock, embedder.embed(texts())).await.unwrap();
    assert_eq!(loads.count(), 1);
    clock.advance(Duration::from_secs(6));
    drive(&clock, embedder.embed(texts())).await.unwrap();
    let signers: Vec<String> = models.requests().iter().map(signer).collect();
    assert_eq!(signers, ["ASIA1", "ASIA1", "ASIA2"]);
    assert_eq!(embedder.scope_snapshot().counters.admitted, 3);
    assert_eq!(
        client.snapshot().len(),
        1,
        "one scope: rotation is not a new one"
    );
}

#[tokio::test]
async fn k02_an_expired_token_is_forced_once_and_then_an_auth_error() {
    let loads = Loads::default();
    let models = Server::with(|_| {
        refusal(
            403,
            "ExpiredTokenException",
            "The security token included in the request is expired",
        )
    });
    let agent = agent(&loads, 3600);
    let embedder = embedder(
        &client(container(&agent)),
        &models,
        json!({"retry": {"max_attempts": 10}}),
    );
    let e = embedder.embed(texts()).await.unwrap_err();
    assert_eq!((e.kind(), e.attempts(), loads.count()), (Kind::Auth, 2, 2));
    let signers: Vec<String> = models.requests().iter().map(signer).collect();
    assert_eq!(signers, ["ASIA1", "ASIA2"]);
    assert_eq!(
        embedder.scope_snapshot().counters.admitted,
        2,
        "the second is admitted too"
    );
}

#[tokio::test]
async fn k02_one_forced_refresh_cures_a_token_that_was_revoked_early() {
    let loads = Loads::default();
    let models = Server::with(|request| match signer(request).as_str() {
        "ASIA1" => refusal(403, "ExpiredTokenException", "expired"),
        _ => vector(),
    });
    let agent = agent(&loads, 3600);
    let embedder = embedder(
        &client(container(&agent)),
        &models,
        json!({"retry": {"max_attempts": 1}}),
    );
    embedder.embed(texts()).await.unwrap();
    embedder.embed(texts()).await.unwrap();
    assert_eq!((loads.count(), models.requests().len()), (2, 3));
}

#[tokio::test]
async fn k11_a_session_that_aws_no_longer_knows_is_replaced_long_before_its_expiry() {
    let loads = Loads::default();
    let models = Server::with(|request| match signer(request).as_str() {
        "ASIA1" => refusal(
            403,
            "UnrecognizedClientException",
            "The security token included in the request is invalid.",
        ),
        _ => vector(),
    });
    let agent = agent(&loads, 3600);
    let embedder = embedder(&client(container(&agent)), &models, json!({}));
    embedder.embed(texts()).await.unwrap();
    embedder.embed(texts()).await.unwrap();
    assert_eq!((loads.count(), models.requests().len()), (2, 3));
}

#[tokio::test]
async fn k03_credentials_are_replaced_before_they_end_and_never_signed_with_after() {
    let (models, loads) = (models(), Loads::default());
    let agent = agent(&loads, 100);
    let (client, clock) = manual(container(&agent));
    let embedder = embedder(&client, &models, json!({}));
    for step in [0, 85, 6] {
        // 91 seconds after the first load nine are left, which is less than a tenth of its life.
        clock.advance(Duration::from_secs(step));
        drive(&clock, embedder.embed(texts())).await.unwrap();
    }
    let signers: Vec<String> = models.requests().iter().map(signer).collect();
    assert_eq!(signers, ["ASIA1", "ASIA1", "ASIA2"]);
}

#[tokio::test]
async fn k03_credentials_that_end_in_the_queue_are_replaced_at_the_claim_and_the_place_is_kept() {
    let (models, loads) = (models(), Loads::default());
    let agent = agent(&loads, 5);
    let (client, clock) = manual(container(&agent));
    let embedder = embedder(
        &client,
        &models,
        json!({"rate_limit": {"requests_per_minute": 6}}),
    );
    drive(&clock, embedder.embed(texts())).await.unwrap();
    let start = clock.now();
    drive(&clock, embedder.embed(texts())).await.unwrap();
    let waited = clock.now().saturating_duration_since(start);
    assert!(
        waited >= Duration::from_millis(9_900) && waited <= Duration::from_millis(10_100),
        "{waited:?}"
    );
    let signers: Vec<String> = models.requests().iter().map(signer).collect();
    assert_eq!(signers, ["ASIA1", "ASIA2"]);
}

#[tokio::test]
async fn a_source_that_fails_before_the_end_of_its_last_credentials_fails_nobody() {
    let (models, loads) = (models(), Loads::default());
    let number = loads.clone();
    let agent = Server::with(move |_| match number.next() {
        1 => Reply::json(200, credentials(1, 100)),
        2 => Reply::status(403),
        n => Reply::json(200, credentials(n, 3600)),
    });
    let (client, clock) = manual(container(&agent));
    let embedder = embedder(&client, &models, json!({}));
    // Good; past its margin, and no better to be had; asked again five seconds later.
    for step in [0, 91, 1, 5] {
        clock.advance(Duration::from_secs(step));
        drive(&clock, embedder.embed(texts())).await.unwrap();
    }
    let signers: Vec<String> = models.requests().iter().map(signer).collect();
    assert_eq!(signers, ["ASIA1", "ASIA1", "ASIA1", "ASIA3"]);
    assert_eq!(loads.count(), 3);
}

#[tokio::test]
async fn k07_an_endpoint_that_answers_expired_credentials_once_recovers_with_the_next_call() {
    let (models, loads) = (models(), Loads::default());
    let number = loads.clone();
    let agent = Server::with(move |_| match number.next() {
        1 => Reply::json(200, credentials(1, -86_400)),
        n => Reply::json(200, credentials(n, 3600)),
    });
    let embedder = embedder(&client(container(&agent)), &models, json!({}));
    let e = embedder.embed(texts()).await.unwrap_err();
    assert_eq!((e.kind(), e.attempts()), (Kind::Auth, 0));
    assert!(models.requests().is_empty(), "nothing was signed with them");
    embedder.embed(texts()).await.unwrap();
    assert_eq!(signer(&models.requests()[0]), "ASIA2");
    assert_eq!(
        embedder.scope_snapshot().counters.admitted,
        1,
        "the failure cost no quota"
    );
}

#[tokio::test]
async fn a_broken_source_fails_its_calls_without_quota_and_recovers_by_itself() {
    for (broken, hangs) in [
        (Reply::status(500), false),
        (Reply::status(403), false),
        (Reply::text(200, "<html>"), false),
        (
            Reply::json(200, json!({"Code": "Failed", "Message": "no role"})),
            false,
        ),
        (Reply::reset(), false),
        (Reply::hang(), true),
    ] {
        let (models, loads) = (models(), Loads::default());
        let number = loads.clone();
        let agent = Server::with(move |_| match number.next() {
            1 => broken.clone(),
            // A connection that breaks is tried once more at once.
            2 if !hangs => broken.clone(),
            n => Reply::json(200, credentials(n, 3600)),
        });
        let (client, clock) = manual(container(&agent));
        let embedder = embedder(&client, &models, json!({}));
        loop {
            let options = CallOptions::default().with_timeout(Duration::from_secs(5));
            let call = embedder.embed_with(texts(), options);
            let late = async {
                // A caller of an endpoint that hangs runs out of time, and its load goes with it.
                if hangs && loads.count() == 0 {
                    agent.wait_for_requests(1).await;
                    clock.advance(Duration::from_secs(5));
                }
            };
            match futures::future::join(call, late).await.0 {
                Ok(_) => break,
                Err(e) => {
                    assert!(
                        matches!(
                            e.kind(),
                            Kind::Auth | Kind::Transport | Kind::DeadlineExceeded
                        ),
                        "{e}"
                    );
                    assert_eq!(
                        (e.attempts(), embedder.scope_snapshot().counters.admitted),
                        (0, 0)
                    );
                }
            }
            assert!(loads.count() < 4);
        }
        assert_eq!(models.requests().len(), 1);
    }
}

#[tokio::test]
async fn j08_j10_credentials_that_no_header_can_carry_are_an_auth_error_that_hides_them() {
    let models = models();
    for (field, value) in [
        ("Token", "hunter2\nhunter2"),
        ("Token", "hunter2\u{2014}"),
        ("SecretAccessKey", "hunter2 hunter2"),
        ("AccessKeyId", ""),
    ] {
        let agent = Server::with(move |_| {
            let mut keys = credentials(1, 3600);
            keys[field] = json!(value);
            Reply::json(200, keys)
        });
        let embedder = embedder(&client(container(&agent)), &models, json!({}));
        let e = embedder.embed(texts()).await.unwrap_err();
        assert_eq!((e.kind(), e.attempts()), (Kind::Auth, 0));
        assert!(!format!("{e} {e:?}").contains("hunter2"), "{e}");
    }
    assert!(models.requests().is_empty());
}

#[tokio::test]
async fn fifty_concurrent_first_calls_make_one_load_and_hold_nothing_meanwhile() {
    let (models, loads, gate) = (models(), Loads::default(), Gate::new());
    let (number, held) = (loads.clone(), gate.clone());
    let agent =
        Server::with(move |_| Reply::json(200, credentials(number.next(), 3600)).after(&held));
    let embedder = embedder(
        &client(container(&agent)),
        &models,
        json!({"rate_limit": {"max_concurrency": 1}}),
    );
    let calls = futures::future::join_all((0..50).map(|_| embedder.embed(texts())));
    let watched = async {
        agent.wait_for_requests(1).await;
        let scope = embedder.scope_snapshot();
        assert_eq!(
            (scope.active, scope.queued, scope.counters.admitted),
            (0, 0, 0)
        );
        gate.open();
    };
    let (done, ()) = futures::future::join(calls, watched).await;
    assert!(done.iter().all(Result::is_ok));
    assert_eq!(
        (
            loads.count(),
            models.requests().len(),
            models.peak_open_requests()
        ),
        (1, 50, 1)
    );
    assert_eq!(embedder.scope_snapshot().counters.admitted, 50);
}

#[tokio::test]
async fn the_models_client_never_fetches_credentials_and_theirs_never_asks_the_model() {
    let (models, loads) = (models(), Loads::default());
    let instance = instance(&loads);
    let env = env(&[("AWS_EC2_METADATA_SERVICE_ENDPOINT", &instance.url())]);
    let limit = json!({"rate_limit": {"requests_per_minute": 1}});
    let embedder = embedder(&client(env), &models, limit);
    embedder.embed(texts()).await.unwrap();
    assert_eq!(
        embedder.scope_snapshot().counters.admitted,
        1,
        "three requests for credentials cost none"
    );
    assert!(
        models
            .requests()
            .iter()
            .all(|r| r.path.starts_with("/model/"))
    );
    assert!(
        instance
            .requests()
            .iter()
            .all(|r| r.path.starts_with("/latest/"))
    );
    assert_eq!((models.requests().len(), instance.requests().len()), (1, 3));
}
