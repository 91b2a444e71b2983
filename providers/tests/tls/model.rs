//! To a model's endpoint: `ca_file` and `proxy`.

use antfly_providers::testing::{Reply, Server};
use antfly_providers::{
    Client, Document, EmbedRequest, Env, Error, Kind, Limiter, Operation, Result, Time,
};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::world::{Authority, Folder, Proxy};

/// An entry that goes out through the framework's client, and one through the SDK's; with what its model answers.
pub(crate) const WAYS: [&str; 2] = ["openai", "bedrock"];

pub(crate) fn model(way: &str) -> Server {
    Server::always(Reply::json(
        200,
        match way {
            "openai" => json!({"data": [{"index": 0, "embedding": [1.0, 2.0]}]}),
            _ => json!({"embedding": [1.0, 2.0], "inputTextTokenCount": 1}),
        },
    ))
}

pub(crate) fn entry(way: &str, url: &str, more: &Value) -> Value {
    let mut entry = match way {
        "openai" => json!({"model": "m", "api_key": "sk-sentinel"}),
        _ => json!({"model": "amazon.titan-embed-text-v2:0", "region": "us-east-1"}),
    };
    let fields = entry.as_object_mut().unwrap();
    fields.insert("provider".to_owned(), json!(way));
    fields.insert("url".to_owned(), json!(url));
    fields.insert("retry".to_owned(), json!({"max_attempts": 1}));
    fields.extend(more.as_object().unwrap().clone());
    entry
}

pub(crate) async fn embed(env: Env, entry: Value) -> Result<()> {
    let client = Client::builder()
        .limiter(Limiter::new(Time::thread()))
        .registry(antfly_providers::registry()?)
        .env(env)
        .build()?;
    let document = json!({"embedders": {"e": entry}}).to_string();
    let document = Document::parse(&document)?;
    let entry = document.entry(Operation::Embed, "e").unwrap();
    let vectors = client
        .embedder(entry)?
        .embed(EmbedRequest::texts(["a"]))
        .await?;
    assert_eq!(vectors.get(0), Some(&[1.0, 2.0][..]));
    Ok(())
}

fn keys() -> Env {
    Env::from_pairs([
        ("AWS_ACCESS_KEY_ID", "AKIDSENTINEL"),
        ("AWS_SECRET_ACCESS_KEY", "hunter2"),
    ])
}

async fn ask(way: &str, url: &str, more: &Value) -> Result<(), Error> {
    embed(keys(), entry(way, url, more)).await
}

#[tokio::test]
async fn a_private_authority_is_trusted_where_the_entry_says_so_and_nowhere_else() {
    let (authority, folder) = (Authority::new(), Folder::new("private"));
    let ca_file = folder.write("ca.pem", &authority.pem);
    let other = folder.write("other.pem", &Authority::new().pem);
    for way in WAYS {
        let model = model(way);
        let address = authority.before(&model, &["127.0.0.1"]).await;
        let url = format!("https://{address}");
        for more in [json!({}), json!({"ca_file": other})] {
            let error = ask(way, &url, &more).await.unwrap_err();
            assert_eq!(error.kind(), Kind::Transport, "{way}: {error}");
            assert!(error.message().contains("certificate"), "{way}: {error}");
            assert!(model.requests().is_empty(), "{way}");
        }
        let trusting = json!({"ca_file": ca_file});
        ask(way, &url, &trusting).await.unwrap();
        assert_eq!(model.requests().len(), 1, "{way}");
        // A certificate for somebody else is not enough, whoever signed it.
        let address = authority.before(&model, &["somebody.test"]).await;
        let error = ask(way, &format!("https://{address}"), &trusting)
            .await
            .unwrap_err();
        assert_eq!(error.kind(), Kind::Transport, "{way}: {error}");
        assert_eq!(model.requests().len(), 1, "{way}");
    }
}

#[tokio::test]
async fn https_goes_through_a_proxys_tunnel_which_sees_nothing_of_it() {
    let (authority, folder) = (Authority::new(), Folder::new("tunnel"));
    let ca_file = folder.write("ca.pem", &authority.pem);
    for way in WAYS {
        let model = model(way);
        let target = authority.before(&model, &["model.test"]).await;
        let proxy = Proxy::to(target, Some("user:pass word")).await;
        // Nobody but the proxy knows where model.test is.
        let url = "https://model.test/base";
        let through = format!("http://user:pass%20word@{}", proxy.address);
        ask(way, url, &json!({"ca_file": ca_file, "proxy": through}))
            .await
            .unwrap();
        let [tunnel] = &proxy.tunnels()[..] else {
            panic!("{way}: {:?}", proxy.tunnels());
        };
        assert!(
            tunnel
                .head
                .starts_with("CONNECT model.test:443 HTTP/1.1\r\n"),
            "{way}: {}",
            tunnel.head
        );
        let head = tunnel.head.to_lowercase();
        for secret in [
            "sk-sentinel",
            "akidsentinel",
            "\r\nauthorization",
            "\r\nx-amz",
        ] {
            assert!(!head.contains(secret), "{way}: {head}");
        }
        assert_eq!(tunnel.first, Some(0x16), "{way}: a TLS handshake begins so");
        let [request] = &model.requests()[..] else {
            panic!("{way}");
        };
        assert!(
            request.path.starts_with("/base/"),
            "{way}: {}",
            request.path
        );
        assert_eq!(request.header("host"), Some("model.test"), "{way}");
        assert!(request.header("authorization").is_some(), "{way}");
        assert_eq!(request.header("proxy-authorization"), None, "{way}");
    }
}

#[tokio::test]
async fn a_proxy_that_refuses_is_a_transport_error_without_its_password() {
    let (authority, folder) = (Authority::new(), Folder::new("refuses"));
    let ca_file = folder.write("ca.pem", &authority.pem);
    for way in WAYS {
        let model = model(way);
        let target = authority.before(&model, &["model.test"]).await;
        let proxy = Proxy::to(target, Some("user:another")).await;
        let through = format!("http://user:hunter2@{}", proxy.address);
        let entry = json!({"ca_file": ca_file, "proxy": through});
        let error = ask(way, "https://model.test", &entry).await.unwrap_err();
        assert_eq!(error.kind(), Kind::Transport, "{way}: {error}");
        let shown = format!("{error} {error:?}");
        let basic = STANDARD.encode("user:hunter2");
        assert!(
            !shown.contains("hunter2") && !shown.contains(&basic),
            "{way}: {shown}"
        );
        assert!(model.requests().is_empty());
    }
}
