//! Sources of credentials that answer halfway, endlessly, with pages, or with what they were asked with; and files that are no text.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use antfly_framework::testing::{Received, Reply, Server};
use antfly_framework::{CallOptions, EmbedRequest, Embedder, Env, Error, Kind, Operation};
use serde_json::json;

use crate::credentials::{Folder, Loads, container, sts_reply};
use crate::support::{client, credentials, embedder, entry, env, signer, vector};

fn texts() -> EmbedRequest {
    EmbedRequest::texts(["a"])
}

fn models() -> Server {
    Server::with(|_| vector())
}

/// What a call fails with whose credentials can't be had; it costs nothing.
async fn refused(env: Env, extra: serde_json::Value) -> Error {
    let models = models();
    let embedder = embedder(&client(env), &models, extra);
    let e = embedder.embed(texts()).await.unwrap_err();
    let scope = embedder.scope_snapshot();
    assert_eq!((scope.active, scope.counters.admitted), (0, 0));
    assert_eq!((models.requests().len(), e.attempts()), (0, 0));
    e
}

/// An instance's metadata service, which answers `role` for the role's name.
fn instance(role: &'static str, keys: impl Fn() -> Reply + Send + Sync + 'static) -> Server {
    Server::with(move |request: &Received| {
        if request.path == "/latest/api/token" {
            return Reply::text(200, "the-token")
                .header("x-aws-ec2-metadata-token-ttl-seconds", 21600);
        }
        match request.path.ends_with("/security-credentials/") {
            true => Reply::text(200, role),
            false => keys(),
        }
    })
}

fn on(instance: &Server) -> Env {
    env(&[("AWS_EC2_METADATA_SERVICE_ENDPOINT", &instance.url())])
}

fn halfway() -> Reply {
    Reply::stream(200, "application/json")
        .chunk("{")
        .then_hang()
}

/// Runs out of time once, and is served later.
async fn recovers(embedder: Embedder) {
    let within = |seconds| CallOptions::default().with_timeout(Duration::from_secs(seconds));
    let e = embedder.embed_with(texts(), within(1)).await.unwrap_err();
    assert_eq!(e.kind(), Kind::DeadlineExceeded);
    // The load that hung went with its only caller: the next one begins anew.
    embedder.embed_with(texts(), within(40)).await.unwrap();
    assert_eq!(embedder.scope_snapshot().counters.admitted, 1);
}

#[tokio::test]
async fn k07_an_answer_that_stops_halfway_is_not_waited_for_by_everyone_for_good() {
    let (models, folder) = (models(), Folder::new("halfway"));
    let number = Loads::default();
    let agent = Server::with(move |_| match number.next() {
        1 => halfway(),
        n => Reply::json(200, credentials(n, 3600)),
    });
    let number = Loads::default();
    let instance = instance("the-role", move || match number.next() {
        1 => halfway(),
        n => Reply::json(200, credentials(n, 3600)),
    });
    let number = Loads::default();
    let sts = Server::with(move |request| match number.next() {
        1 => halfway(),
        n => sts_reply(request, n),
    });
    let identity = env(&[
        ("AWS_WEB_IDENTITY_TOKEN_FILE", &folder.write("token", "t")),
        ("AWS_ROLE_ARN", "arn:aws:iam::1:role/r"),
        ("AWS_ENDPOINT_URL_STS", &sts.url()),
    ]);
    let sources = [container(&agent), on(&instance), identity];
    let calls = sources.map(|env| recovers(embedder(&client(env), &models, json!({}))));
    futures::future::join_all(calls).await;
    let signers: Vec<String> = models.requests().iter().map(signer).collect();
    assert_eq!(signers, ["ASIA2", "ASIA2", "ASIA2"]);
}

#[tokio::test]
async fn an_endless_answer_is_not_read_to_its_end() {
    let endless = || {
        let chunks = (0..20).map(|_| vec![b' '; 16 * 1024]);
        let reply = Reply::stream(200, "application/json");
        chunks
            .fold(reply, |reply, chunk| reply.chunk(chunk))
            .then_hang()
    };
    let agent = Server::with(move |_| endless());
    let instance = instance("the-role", endless);
    for env in [container(&agent), on(&instance)] {
        let e = refused(env, json!({})).await;
        assert!(e.message().contains("larger than 262144 bytes"), "{e}");
    }
}

#[tokio::test]
async fn a_connection_that_breaks_at_the_instances_keys_is_tried_once_more() {
    let models = models();
    for broken in [Reply::reset(), Reply::close()] {
        let loads = Loads::default();
        let number = loads.clone();
        let instance = instance("the-role", move || match number.next() {
            1 => broken.clone(),
            n => Reply::json(200, credentials(n, 3600)),
        });
        let embedder = embedder(&client(on(&instance)), &models, json!({}));
        embedder.embed(texts()).await.unwrap();
        assert_eq!(loads.count(), 2);
    }
    let instance = instance("the-role", Reply::reset);
    let e = refused(on(&instance), json!({})).await;
    assert_eq!(e.kind(), Kind::Transport);
}

#[tokio::test]
async fn a_page_in_place_of_a_roles_name_is_an_error_and_no_panic() {
    for page in [
        "<html>\n<body>sign in</body>",
        "a role",
        "r\u{f6}le",
        "a/../b?c",
        "%zz",
    ] {
        let instance = instance(page, || Reply::json(200, credentials(1, 3600)));
        let e = refused(on(&instance), json!({})).await;
        assert_eq!(e.kind(), Kind::Auth);
        assert!(e.message().contains("no role's name"), "{e}");
    }
}

#[tokio::test]
async fn an_instance_that_gives_nothing_was_asked_last_and_the_error_says_what_else_to_set() {
    for answer in [404, 503] {
        let service = Server::always(Reply::status(answer));
        let e = refused(on(&service), json!({})).await;
        assert!(matches!(e.kind(), Kind::Auth | Kind::Transport), "{e}");
        let mut from = 0;
        for word in [
            "no AWS credentials from aws-instance-role",
            "nothing else is there",
            "profile is not set",
            "AWS_BEARER_TOKEN_BEDROCK",
            "AWS_ACCESS_KEY_ID with AWS_SECRET_ACCESS_KEY",
            "AWS_PROFILE is not set",
            "AWS_WEB_IDENTITY_TOKEN_FILE with AWS_ROLE_ARN",
            "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
            "Set one of these",
        ] {
            let at = e.message()[from..].find(word);
            from += at.unwrap_or_else(|| panic!("{word:?} is not there, or too early: {e}"));
        }
        assert!(e.message().len() < 1000, "{e}");
    }
    // Who names a source is told of that one alone.
    let agent = Server::always(Reply::status(404));
    let e = refused(container(&agent), json!({})).await;
    assert!(!e.message().contains("AWS_BEARER_TOKEN_BEDROCK"), "{e}");
}

#[tokio::test]
async fn an_empty_session_token_is_none() {
    let models = models();
    let agent = Server::with(|_| {
        let mut keys = credentials(1, 3600);
        keys["Token"] = json!("");
        Reply::json(200, keys)
    });
    let embedder = embedder(&client(container(&agent)), &models, json!({}));
    embedder.embed(texts()).await.unwrap();
    let request = &models.requests()[0];
    assert_eq!(request.header("x-amz-security-token"), None);
    assert_eq!(signer(request), "ASIA1");
}

#[tokio::test]
async fn j08_what_a_source_says_is_told_in_short_and_without_what_it_was_asked_with() {
    let folder = Folder::new("echo");
    let long = "z".repeat(50_000);
    let said = long.clone();
    let agent = Server::with(move |request| {
        let token = request.header("authorization").unwrap_or("none");
        let message = format!("{token} is not known {said}");
        Reply::json(200, json!({"Code": "Denied", "Message": message}))
    });
    let sts = Server::with(move |request| {
        let body = request.text();
        let token = body.split('&').find(|pair| pair.contains("Token="));
        let shown = format!(
            "{} {} {long}",
            request.header("x-amz-security-token").unwrap_or("none"),
            token.unwrap_or("none")
        );
        let body = format!(
            "<ErrorResponse><Error><Code>SignatureDoesNotMatch</Code><Message>{shown}</Message></Error></ErrorResponse>"
        );
        Reply::bytes(403, "text/xml", body)
    });
    let config = folder.write(
        "config",
        "[profile role]\nrole_arn = arn:aws:iam::1:role/r\nsource_profile = base\n[profile base]\naws_access_key_id = AKIDBASE\n\
         aws_secret_access_key = hunter2-secret\naws_session_token = hunter2-session\n",
    );
    let (agent_url, sts_url) = (format!("{}/c", agent.url()), sts.url());
    let token = folder.write("token", "hunter2-identity\n");
    for env in [
        env(&[
            ("AWS_CONTAINER_CREDENTIALS_FULL_URI", &agent_url),
            ("AWS_CONTAINER_AUTHORIZATION_TOKEN", "hunter2-agent"),
        ]),
        env(&[
            ("AWS_WEB_IDENTITY_TOKEN_FILE", &token),
            ("AWS_ROLE_ARN", "arn:aws:iam::1:role/r"),
            ("AWS_ENDPOINT_URL_STS", &sts_url),
        ]),
        Env::from_pairs([
            ("AWS_CONFIG_FILE", config.as_str()),
            ("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent/credentials"),
            ("AWS_PROFILE", "role"),
            ("AWS_ENDPOINT_URL_STS", &sts_url),
        ]),
    ] {
        let e = refused(env, json!({})).await;
        assert_eq!(e.kind(), Kind::Auth);
        let shown = format!("{e} {e:?}");
        assert!(
            shown.contains("[redacted]") && !shown.contains("hunter2"),
            "{shown}"
        );
        assert!(e.message().len() < 2500, "{}", e.message().len());
    }
}

#[tokio::test]
async fn a_page_from_sts_is_named_as_such() {
    let folder = Folder::new("page");
    let token = folder.write("token", "t");
    for (status, kind) in [(200, Kind::Auth), (502, Kind::Transport)] {
        let sts = Server::with(move |_| Reply::bytes(status, "text/html", "<html>hello"));
        let pairs = [
            ("AWS_WEB_IDENTITY_TOKEN_FILE", token.as_str()),
            ("AWS_ROLE_ARN", "arn:aws:iam::1:role/r"),
            ("AWS_ENDPOINT_URL_STS", &sts.url()),
        ];
        let e = refused(env(&pairs), json!({})).await;
        assert_eq!(e.kind(), kind);
        assert!(
            e.message()
                .contains(&format!("STS answered status {status}")),
            "{e}"
        );
    }
}

/// Everything that is logged, in one text.
#[derive(Clone, Default)]
struct Logged(Arc<Mutex<String>>);

struct Fields<'a>(&'a mut String);

impl tracing::field::Visit for Fields<'_> {
    fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
        let _ = write!(self.0, " {field}={value:?}");
    }
}

impl tracing::Subscriber for Logged {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        event.record(&mut Fields(&mut self.0.lock().unwrap()));
    }

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}

#[test]
fn a_file_that_is_no_text_is_an_error_and_what_it_holds_is_not_logged() {
    let (models, folder) = (models(), Folder::new("latin"));
    let secret = b"hunter2";
    let text = [
        &b"[default]\naws_access_key_id = a\naws_secret_access_key = "[..],
        secret,
        b"\xe9\n",
    ]
    .concat();
    let file = folder.write("credentials", text);
    let env = Env::from_pairs([
        ("AWS_CONFIG_FILE", "/nonexistent/config"),
        ("AWS_SHARED_CREDENTIALS_FILE", &file),
    ]);
    let entry = entry(Operation::Embed, &models, json!({"profile": "default"}));
    let logged = Logged::default();
    let client = client(env);
    let e = tracing::subscriber::with_default(logged.clone(), || {
        tracing::info!("heard");
        client.embedder(&entry).unwrap_err()
    });
    assert_eq!(e.kind(), Kind::Config);
    assert!(
        e.message().contains(&file) && e.message().contains("not UTF-8"),
        "{e}"
    );
    let log = logged.0.lock().unwrap().clone();
    assert!(log.contains("heard"), "{log}");
    // As text, and as a list of bytes.
    let bytes = format!("{secret:?}");
    let bytes = bytes.trim_matches(['[', ']']);
    assert!(!log.contains("hunter2") && !log.contains(bytes), "{log}");
}

#[test]
fn an_environment_that_makes_no_sense_is_named_by_its_variable() {
    let models = models();
    for (name, value, told) in [
        (
            "AWS_EC2_METADATA_SERVICE_ENDPOINT",
            "nonsense",
            "http:// or https://",
        ),
        (
            "AWS_EC2_METADATA_SERVICE_ENDPOINT",
            "http://user:hunter2@127.0.0.1:1",
            "user name or password",
        ),
        (
            "AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE",
            "both",
            "IPv4 and IPv6",
        ),
        ("AWS_ACCESS_KEY_ID", " ", "or blank"),
    ] {
        let entry = entry(Operation::Embed, &models, json!({}));
        let e = client(env(&[(name, value)])).embedder(&entry).unwrap_err();
        assert_eq!(e.kind(), Kind::Config);
        assert!(
            e.message().starts_with(name) && e.message().contains(told),
            "{e}"
        );
        assert!(!format!("{e} {e:?}").contains("hunter2"), "{e}");
    }
}
