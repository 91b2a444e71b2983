//! IAM Identity Center: a profile that signed in, its token in the cache of the home folder, and the portal that gives keys for it. The
//! portal's address is the SDK's own; a proxy takes the connection to one on loopback.

use antfly_providers::Env;
use antfly_providers::testing::{Reply, Server};
use serde_json::json;
use tokio::process::Command;

use crate::model::{embed, entry, model};
use crate::world::{Authority, Folder, Proxy};

const PORTAL: &str = "portal.sso.eu-west-1.amazonaws.com";
/// Where the model is, told to the process that is the client. Its presence says which of the two a process is.
const MODEL: &str = "ANTFLY_TEST_MODEL";
/// What the client must end with: `well`, or the kind of its error.
const END: &str = "ANTFLY_TEST_END";

/// The client, in a process of its own: home folder, proxy and certificates come from the process's environment.
async fn be_the_client(url: &str) {
    let end = Env::process().get(END).unwrap().unwrap();
    match embed(Env::process(), entry("bedrock", url, &json!({}))).await {
        Ok(()) => assert_eq!(end, "well"),
        Err(e) => {
            assert_eq!(end, e.kind().as_str(), "{e}");
            let shown = format!("{e} {e:?}");
            assert!(shown.contains("IAM Identity Center"), "{shown}");
            assert!(!shown.contains("sso-sentinel"), "{shown}");
        }
    }
}

async fn run_the_client(name: &str, env: &[(&str, &str)]) {
    let run = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env_clear()
        .envs(env.iter().copied())
        .output()
        .await
        .unwrap();
    let said = String::from_utf8_lossy(&run.stdout);
    let failed = String::from_utf8_lossy(&run.stderr);
    assert!(
        run.status.success() && said.contains("1 passed"),
        "{said}\n{failed}"
    );
}

#[tokio::test]
async fn a_profile_that_signed_in_gets_its_keys_from_the_portal() {
    if let Some(url) = Env::process().get(MODEL).unwrap() {
        return be_the_client(&url).await;
    }
    let token = |expires: &str| {
        json!({"accessToken": "sso-sentinel", "expiresAt": expires, "region": "eu-west-1", "startUrl": "https://sso.test/start"})
            .to_string()
    };
    let (good, over) = (token("2099-01-01T00:00:00Z"), token("2001-01-01T00:00:00Z"));
    // In the cache a file is named after the SHA-1 of the start URL, or of the session's name.
    let by_url = "c2e09b4fac288e7a35fb1a0f7b55446a509137e5";
    let by_session = "0ad374308c5a4e22f723adf10145eafad7c4031c";
    let (alone, session) = (
        "[default]\nsso_start_url = https://sso.test/start\nsso_region = eu-west-1\nsso_account_id = 123456789012\nsso_role_name = Reader\n",
        "[default]\nsso_session = my-sso\nsso_account_id = 123456789012\nsso_role_name = Reader\n[sso-session my-sso]\n\
         sso_start_url = https://sso.test/start\nsso_region = eu-west-1\n",
    );
    let authority = Authority::new();
    for (number, (profile, cached, token, status, asks, end)) in [
        (alone, by_url, &good, 200, 1, "well"),
        (session, by_session, &good, 200, 1, "well"),
        (alone, by_url, &good, 401, 1, "auth"),
        // The SDK leaves it to the portal to refuse a token that is over, where a profile names no session.
        (alone, by_url, &over, 401, 1, "auth"),
        (session, by_session, &over, 200, 0, "auth"),
        (alone, "another", &good, 200, 0, "auth"),
    ]
    .into_iter()
    .enumerate()
    {
        let folder = Folder::new(&format!("sign-in-{number}"));
        let ca = folder.write("ca.pem", &authority.pem);
        folder.write(".aws/config", profile);
        folder.write(&format!(".aws/sso/cache/{cached}.json"), token);
        let portal = Server::always(Reply::json(
            status,
            json!({"roleCredentials": {"accessKeyId": "ASIASSO", "secretAccessKey": "hunter2", "sessionToken": "session",
                                       "expiration": 4_070_908_800_000_u64}}),
        ));
        let models = model("bedrock");
        let proxy = Proxy::to(authority.before(&portal, &[PORTAL]).await, None).await;
        run_the_client(
            "sign_in::a_profile_that_signed_in_gets_its_keys_from_the_portal",
            &[
                (MODEL, &models.url()),
                (END, end),
                ("HOME", &folder.path()),
                ("HTTPS_PROXY", &format!("http://{}", proxy.address)),
                ("SSL_CERT_FILE", &ca),
            ],
        )
        .await;
        let asked = portal.requests();
        assert_eq!(asked.len(), asks, "{number}");
        if let [asked] = &asked[..] {
            assert!(
                asked.path.starts_with("/federation/credentials?"),
                "{}",
                asked.path
            );
            assert!(
                asked.path.contains("account_id=123456789012"),
                "{}",
                asked.path
            );
            assert!(asked.path.contains("role_name=Reader"), "{}", asked.path);
            assert_eq!(asked.header("x-amz-sso_bearer_token"), Some("sso-sentinel"));
            assert!(
                proxy.tunnels()[0]
                    .head
                    .starts_with(&format!("CONNECT {PORTAL}:443 "))
            );
        }
        let signed = models.requests();
        assert_eq!(signed.len(), usize::from(end == "well"), "{number}");
        for request in signed {
            let signature = request.header("authorization").unwrap_or_default();
            assert!(signature.contains("Credential=ASIASSO/"), "{signature}");
            assert_eq!(request.header("x-amz-security-token"), Some("session"));
        }
    }
}
