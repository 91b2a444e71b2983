//! Every kind of Google credentials, against loopback token endpoints. Section K of the field reports.

use std::sync::atomic::{AtomicUsize, Ordering};

use antfly_providers::testing::{Gate, Reply, Server};
use antfly_providers::{CallOptions, EmbedRequest, Env, Kind, Operation, RerankRequest};
use serde_json::{Value, json};

use crate::google::*;
use crate::support::*;

/// The bearer of one generation with a credentials file of this content.
async fn bearer_of(google: &Google, content: &Value) -> String {
    let server = model();
    let generator = google.generator_of(content, &server, json!({}));
    generator.generate(ask()).await.unwrap();
    bearers(&server).remove(0)
}

#[tokio::test]
async fn an_authorized_user_refreshes_at_its_token_endpoint() {
    let google = Google::start();
    assert_eq!(bearer_of(&google, &google.user()).await, "token-1");
    let asked = &google.server.requests()[0];
    assert_eq!(
        (asked.method.as_str(), asked.path.as_str()),
        ("POST", "/token")
    );
    assert_eq!(asked.json()["grant_type"], "refresh_token");
    assert_eq!(asked.json()["refresh_token"], REFRESH_TOKEN);
}

#[tokio::test]
async fn a_service_account_signs_its_own_token_and_asks_nobody() {
    let google = Google::start();
    let bearer = bearer_of(&google, &google.service_account()).await;
    assert_eq!(bearer.split('.').count(), 3, "no signed token: {bearer}");
    assert!(google.server.requests().is_empty());
}

#[tokio::test]
async fn a_federated_account_exchanges_its_subject_token() {
    let google = Google::start();
    assert_eq!(bearer_of(&google, &google.federated()).await, "token-1");
    let asked = google.server.requests();
    let paths: Vec<_> = asked.iter().map(|request| request.path.as_str()).collect();
    assert_eq!(paths, ["/subject", "/sts"]);
    assert!(asked[1].text().contains("subject-sentinel"));
}

#[tokio::test]
async fn a_federated_account_may_impersonate_a_service_account() {
    let google = Google::start();
    let mut file = google.federated();
    file["service_account_impersonation_url"] =
        google.impersonated(&json!({}))["service_account_impersonation_url"].clone();
    assert_eq!(bearer_of(&google, &file).await, "token-2");
    let last = google.server.requests().pop().unwrap();
    assert!(last.path.ends_with(":generateAccessToken"), "{}", last.path);
    assert_eq!(last.header("authorization"), Some("Bearer token-1"));
}

#[tokio::test]
async fn a_workforce_user_refreshes_at_its_token_url() {
    let google = Google::start();
    assert_eq!(
        bearer_of(&google, &google.workforce_user()).await,
        "token-1"
    );
    assert_eq!(google.server.requests()[0].path, "/sts");
}

#[tokio::test]
async fn impersonation_asks_with_the_sources_token() {
    let google = Google::start();
    let file = google.impersonated(&google.user());
    assert_eq!(bearer_of(&google, &file).await, "token-2");
    let asked = google.server.requests();
    assert_eq!(asked[0].path, "/token");
    assert!(asked[1].path.ends_with(":generateAccessToken"));
    assert_eq!(asked[1].header("authorization"), Some("Bearer token-1"));
    assert_eq!(
        asked[1].json()["scope"],
        json!(["https://www.googleapis.com/auth/cloud-platform"])
    );
}

#[tokio::test]
async fn the_metadata_server_is_asked_where_there_is_no_file() {
    let google = Google::start();
    let server = model();
    let host = google.server.address().to_string();
    let home = google.folder.path().to_str().unwrap();
    let env = Env::from_pairs([("GCE_METADATA_HOST", host.as_str()), ("HOME", home)]);
    let generator = vertex(&client_of(env), &server, json!({"project_id": "p-1"}));
    let source = format!("google-metadata:{host}");
    assert!(generator.scope().to_string().contains(&source));
    generator.generate(ask()).await.unwrap();
    assert_eq!(bearers(&server), ["token-1"]);
    let asked = &google.server.requests()[0];
    assert_eq!(asked.header("metadata-flavor"), Some("Google"));
    assert!(
        asked
            .path
            .starts_with("/computeMetadata/v1/instance/service-accounts/default/token"),
        "{}",
        asked.path
    );
}

#[tokio::test]
async fn without_any_credential_the_error_says_what_was_looked_at_and_what_to_set() {
    let google = Google::start();
    let metadata = Server::always(Reply::status(404));
    let host = metadata.address().to_string();
    let home = google.folder.path().to_str().unwrap();
    let gclouds = format!("no file {home}/.config/gcloud/application_default_credentials.json");
    for (env, file) in [
        (
            vec![("GCE_METADATA_HOST", host.as_str()), ("HOME", home)],
            gclouds.as_str(),
        ),
        (
            vec![("GCE_METADATA_HOST", host.as_str())],
            "neither CLOUDSDK_CONFIG nor HOME says",
        ),
        // Nothing listens there.
        (
            vec![("GCE_METADATA_HOST", "127.0.0.1:9")],
            "neither CLOUDSDK_CONFIG",
        ),
    ] {
        let client = client_of(Env::from_pairs(env));
        let server = model();
        let fields = json!({"project_id": "p-1", "timeout_ms": 20_000});
        let calls = [
            vertex(&client, &server, fields.clone())
                .generate(ask())
                .await
                .err(),
            vertex_embedder(
                &client,
                &server,
                json!({"project_id": "p-1", "model": "text-embedding-005"}),
            )
            .embed(EmbedRequest::texts(["a"]))
            .await
            .err(),
            vertex_reranker(
                &client,
                &server,
                json!({"project_id": "p-1", "model": "ranker"}),
            )
            .rerank(RerankRequest::new("q", ["a"]))
            .await
            .err(),
        ];
        for error in calls {
            let error = error.unwrap();
            assert!(
                matches!(error.kind(), Kind::Auth | Kind::Transport),
                "{error}"
            );
            let mut from = 0;
            for word in [
                "no token for Google",
                "nothing else is there",
                "credentials_path is not set",
                "GOOGLE_APPLICATION_CREDENTIALS is not set",
                file,
                "Set one of these",
            ] {
                let at = error.message()[from..].find(word);
                from +=
                    at.unwrap_or_else(|| panic!("{word:?} is not there, or too early: {error}"));
            }
            assert!(error.message().len() < 1500, "{error}");
        }
        assert!(server.requests().is_empty());
    }
}

#[tokio::test]
async fn default_credentials_are_found_in_the_usual_order_and_are_the_scopes_source() {
    let google = Google::start();
    let user = google.user();
    let named = google.file(&google.service_account());
    let cloudsdk = google
        .folder
        .write("sdk/application_default_credentials.json", &user);
    let home = google
        .folder
        .write(".config/gcloud/application_default_credentials.json", &user);
    let folder = google.folder.path().to_str().unwrap().to_owned();
    let sdk = format!("{folder}/sdk");
    let all = [
        ("GOOGLE_APPLICATION_CREDENTIALS", named.as_str()),
        ("CLOUDSDK_CONFIG", sdk.as_str()),
        ("HOME", folder.as_str()),
        ("GCE_METADATA_HOST", "127.0.0.1:9"),
    ];
    let server = model();
    for (skip, source) in [
        (0, format!("google-adc:service_account:{named}")),
        (1, format!("google-adc:authorized_user:{cloudsdk}")),
        (2, format!("google-adc:authorized_user:{home}")),
        (3, "google-metadata:127.0.0.1:9".to_owned()),
    ] {
        let env = Env::from_pairs(all[skip..].iter().copied());
        let generator = vertex(&client_of(env), &server, json!({"project_id": "p-1"}));
        let scope = generator.scope().to_string();
        assert!(scope.contains(&source), "{scope} lacks {source}");
        // A path in the entry is before them all.
        let own = with_file(&cloudsdk, json!({"location": "global"}));
        let own = vertex(
            &client_of(Env::from_pairs(all[skip..].iter().copied())),
            &server,
            own,
        );
        let source = format!("google-file:{cloudsdk}");
        assert!(own.scope().to_string().contains(&source));
    }
    // Nothing was asked for while the handles were built.
    assert!(google.server.requests().is_empty() && server.requests().is_empty());
}

#[tokio::test]
async fn a_file_that_cant_be_used_is_a_config_error_that_names_its_setting_and_not_its_content() {
    let google = Google::start();
    let text = |name: &str, text: &str| {
        let path = google.folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let cases = [
        (
            format!("{}/none.json", google.folder.path().display()),
            "can't be read",
        ),
        (
            text("a.json", "{\"refresh_token\": \"sentinel"),
            "is not JSON",
        ),
        (text("b.json", "[\"sentinel\"]"), "is not a JSON object"),
        (
            text("c.json", "{\"type\": \"gdch_service_account\"}"),
            "of type \"gdch_service_account\"",
        ),
        (text("d.json", "{\"secret\": \"sentinel\"}"), "of type \"\""),
    ];
    for (path, words) in cases {
        let entry = try_entry(
            Operation::Generate,
            "vertex",
            "http://127.0.0.1:9",
            with_file(&path, json!({})),
        );
        let error = client_of(Env::empty())
            .generator(&entry.unwrap())
            .unwrap_err();
        assert_eq!(error.kind(), Kind::Config);
        assert!(
            error
                .message()
                .starts_with("generators.w.credentials_path: "),
            "{error}"
        );
        assert!(error.message().contains(words), "{error}");
        assert!(!error.to_string().contains("sentinel"), "{error}");
        let env = Env::from_pairs([("GOOGLE_APPLICATION_CREDENTIALS", path.as_str())]);
        let entry = try_entry(
            Operation::Generate,
            "vertex",
            "http://127.0.0.1:9",
            json!({"project_id": "p-1"}),
        );
        let error = client_of(env).generator(&entry.unwrap()).unwrap_err();
        assert!(
            error
                .message()
                .starts_with("GOOGLE_APPLICATION_CREDENTIALS: "),
            "{error}"
        );
    }
}

#[tokio::test]
async fn k13_one_token_serves_many_calls() {
    let google = Google::start();
    let server = model();
    let generator = google.generator(&server, json!({}));
    for _ in 0..10 {
        generator.generate(ask()).await.unwrap();
    }
    assert_eq!(bearers(&server), ["token-1"; 10]);
    assert_eq!(google.given(), 1);
}

#[tokio::test]
async fn k13_calls_that_come_together_wait_for_one_token() {
    let gate = Gate::new();
    let google = Google::with(3600, Some(gate.clone()));
    let server = model();
    let generator = google.generator(&server, json!({}));
    let calls: Vec<_> = (0..8)
        .map(|_| {
            let generator = generator.clone();
            tokio::spawn(async move { generator.generate(ask()).await })
        })
        .collect();
    google.server.wait_for_requests(1).await;
    gate.open();
    for call in calls {
        soon(call).await.unwrap().unwrap();
    }
    assert_eq!(google.given(), 1);
    assert_eq!(bearers(&server), ["token-1"; 8]);
}

#[tokio::test]
async fn a_slow_token_endpoint_holds_no_permit_and_costs_no_quota() {
    let gate = Gate::new();
    let google = Google::with(3600, Some(gate.clone()));
    let server = model();
    let limits = json!({"rate_limit": {"requests_per_minute": 1, "max_concurrency": 1, "tokens_per_minute": 100_000}});
    let generator = google.generator(&server, limits);
    let call = tokio::spawn({
        let generator = generator.clone();
        async move { generator.generate(ask()).await }
    });
    google.server.wait_for_requests(1).await;
    let scope = generator.scope_snapshot();
    assert_eq!((scope.active, scope.queued), (0, 0));
    assert_eq!((scope.request_debt, scope.token_debt), (0.0, 0.0));
    assert_eq!(scope.counters.admitted, 0);
    assert!(server.requests().is_empty());
    gate.open();
    soon(call).await.unwrap().unwrap();
    // One admission for the model's request, none for the token's.
    assert_eq!(generator.scope_snapshot().counters.admitted, 1);
    assert_eq!((google.given(), server.requests().len()), (1, 1));
}

#[tokio::test]
async fn a_call_that_runs_out_of_time_leaves_its_fetch_to_the_next() {
    let gate = Gate::new();
    let google = Google::with(3600, Some(gate.clone()));
    let server = model();
    let generator = google.generator(&server, json!({}));
    let options = CallOptions::default().with_timeout(ms(100));
    let error = soon(generator.generate_with(ask(), options))
        .await
        .unwrap_err();
    assert_eq!(
        (error.kind(), error.attempts()),
        (Kind::DeadlineExceeded, 0)
    );
    assert_eq!(generator.scope_snapshot().counters.admitted, 0);
    google.server.wait_for_requests(1).await;
    gate.open();
    soon(generator.generate(ask())).await.unwrap();
    assert_eq!((google.given(), server.requests().len()), (1, 1));
}

#[tokio::test]
async fn k13_handles_of_one_source_share_a_token() {
    let google = Google::start();
    let server = Server::with(|request| match request.path.rsplit(':').next() {
        Some("predict") => Reply::json(
            200,
            json!({"predictions": [{"embeddings": {"values": [1.0]}}]}),
        ),
        Some("rank") => Reply::json(200, json!({"records": [{"id": "0", "score": 1.0}]})),
        _ => good(),
    });
    let path = google.file(&google.user());
    let fields = |model: &str| with_file(&path, json!({"model": model}));
    let client = client_of(Env::empty());
    let generator = vertex(&client, &server, fields("gemini-2.5-flash"));
    let embedder = vertex_embedder(&client, &server, fields("text-embedding-005"));
    let reranker = vertex_reranker(&client_of(Env::empty()), &server, fields("ranker"));
    generator.generate(ask()).await.unwrap();
    embedder.embed(EmbedRequest::texts(["a"])).await.unwrap();
    reranker
        .rerank(RerankRequest::new("q", ["a"]))
        .await
        .unwrap();
    assert_eq!(bearers(&server), ["token-1"; 3]);
    assert_eq!(google.given(), 1);
}

#[tokio::test]
async fn k10_after_a_401_the_credentials_are_rebuilt_from_their_file_and_sent_once_more() {
    let google = Google::start();
    let server = Server::start([good(), refused(), good()]);
    // The retry that a refused token gets is beside the entry's own tries.
    let generator = google.generator(&server, json!({"retry": {"max_attempts": 1}}));
    generator.generate(ask()).await.unwrap();
    // Somebody signs in again: the same file, another refresh token.
    let mut again = google.user();
    again["refresh_token"] = json!("1//another");
    google.file(&again);
    generator.generate(ask()).await.unwrap();
    assert_eq!(bearers(&server), ["token-1", "token-1", "token-2"]);
    assert_eq!(
        google.server.requests()[1].json()["refresh_token"],
        "1//another"
    );
    assert_eq!(generator.scope_snapshot().counters.admitted, 3);
}

#[tokio::test]
async fn k11_a_token_that_is_refused_long_before_it_expires_is_replaced() {
    let google = Google::with(59 * 60, None);
    let refused = json!({"error": {"code": 401, "status": "UNAUTHENTICATED", "message": "Request had invalid authentication credentials."}});
    let server = Server::start([Reply::json(401, refused), good(), good()]);
    let generator = google.generator(&server, json!({}));
    generator.generate(ask()).await.unwrap();
    generator.generate(ask()).await.unwrap();
    // The new one is kept, and not asked for again.
    assert_eq!(bearers(&server), ["token-1", "token-2", "token-2"]);
    assert_eq!(google.given(), 2);
}

#[tokio::test]
async fn k02_a_401_that_stays_is_an_auth_error_after_one_more_attempt() {
    let google = Google::start();
    let server = Server::always(refused());
    let generator = google.generator(&server, json!({}));
    let error = generator.generate(ask()).await.unwrap_err();
    assert_eq!((error.kind(), error.attempts()), (Kind::Auth, 2));
    assert_eq!(error.code(), Some("ACCESS_TOKEN_EXPIRED"));
    assert_eq!(bearers(&server), ["token-1", "token-2"]);
}

#[tokio::test]
async fn a_403_is_not_cured_by_another_token() {
    let google = Google::start();
    let server = Server::start([Reply::json(403, fixture!("error_permission.json"))]);
    let generator = google.generator(&server, json!({}));
    let error = generator.generate(ask()).await.unwrap_err();
    assert_eq!((error.kind(), error.attempts()), (Kind::Auth, 1));
    assert_eq!(google.given(), 1);
}

#[tokio::test]
async fn k03_a_token_is_refreshed_before_it_expires_without_anyone_asking() {
    // Four minutes before the end is when a new one is fetched: here after a second.
    let google = Google::with(241, None);
    let server = model();
    let generator = google.generator(&server, json!({}));
    generator.generate(ask()).await.unwrap();
    google.server.wait_for_requests(2).await;
    google.server.wait_until_idle().await;
    soon(async {
        loop {
            generator.generate(ask()).await.unwrap();
            if bearers(&server)
                .last()
                .is_some_and(|token| token != "token-1")
            {
                break;
            }
        }
    })
    .await;
}

#[tokio::test]
async fn k11_many_calls_refused_with_one_token_replace_it_once() {
    let google = Google::start();
    let gates = [Gate::new(), Gate::new(), Gate::new()];
    let held = gates.clone();
    let seen = AtomicUsize::new(0);
    // Requests with the first token wait, each at a gate of its own, and are refused then.
    let server = Server::with(move |request| match request.header("authorization") {
        Some("Bearer token-1") => {
            let number = seen.fetch_add(1, Ordering::SeqCst);
            refused().after(&held[number])
        }
        _ => good(),
    });
    let generator = google.generator(&server, json!({}));
    let calls: Vec<_> = (0..3)
        .map(|_| {
            let generator = generator.clone();
            tokio::spawn(async move { generator.generate(ask()).await })
        })
        .collect();
    server.wait_for_requests(3).await;
    // One is refused and cured before the next is even refused.
    for (number, gate) in gates.iter().enumerate() {
        gate.open();
        server.wait_for_requests(4 + number).await;
        until("the answer", || server.open_requests() == 2 - number).await;
    }
    for call in calls {
        soon(call).await.unwrap().unwrap();
    }
    assert_eq!(server.requests().len(), 6);
    assert_eq!(google.given(), 2);
}

#[tokio::test]
async fn k01_a_token_that_lives_for_a_second_is_replaced_when_it_is_wanted_again() {
    let google = Google::with(1, None);
    let server = model();
    let generator = google.generator(&server, json!({}));
    generator.generate(ask()).await.unwrap();
    // Real time must pass: the library's clock is not ours. It would ask again after ten seconds; a call does not wait for that.
    tokio::time::sleep(ms(1500)).await;
    let started = std::time::Instant::now();
    generator.generate(ask()).await.unwrap();
    assert!(started.elapsed() < ms(7000), "{:?}", started.elapsed());
    assert_eq!(bearers(&server)[0], "token-1");
    assert_ne!(bearers(&server)[1], "token-1");
    assert_eq!(generator.scope_snapshot().counters.admitted, 2);
}

#[tokio::test]
async fn a_handle_is_built_without_any_connection() {
    let google = Google::start();
    let server = model();
    let host = google.server.address().to_string();
    let env = Env::from_pairs([("GCE_METADATA_HOST", host.as_str())]);
    for file in [
        google.user(),
        google.service_account(),
        google.federated(),
        google.workforce_user(),
        google.impersonated(&google.user()),
    ] {
        let fields = with_file(&google.file(&file), json!({}));
        drop(vertex(&client_of(Env::empty()), &server, fields));
    }
    let generator = vertex(&client_of(env), &server, json!({"project_id": "p-1"}));
    assert_eq!(server.connections() + google.server.connections(), 0);
    generator.generate(ask()).await.unwrap();
    assert_eq!((server.connections(), google.server.connections()), (1, 1));
}
