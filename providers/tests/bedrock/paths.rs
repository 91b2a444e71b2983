//! J15: model ids in paths, escaped once, and a signature that agrees with the path.

use antfly_framework::testing::Server;
use antfly_framework::{EmbedRequest, GenerateRequest};
use serde_json::json;

use crate::support::{answer, client, embedder, generator, keys, vector};

pub(crate) const PROFILE: &str =
    "arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/abc";

#[tokio::test]
async fn j15_a_slash_is_sent_as_2f_once_and_a_colon_as_3a() {
    let server = Server::with(|request| match request.path.ends_with("invoke") {
        true => vector(),
        false => answer("ok"),
    });
    let client = client(keys());
    for (model, segment) in [
        ("amazon.nova-lite-v1:0", "amazon.nova-lite-v1%3A0"),
        (
            "us.anthropic.claude-3-haiku-20240307-v1:0",
            "us.anthropic.claude-3-haiku-20240307-v1%3A0",
        ),
        (
            PROFILE,
            "arn%3Aaws%3Abedrock%3Aus-east-1%3A123456789012%3Aapplication-inference-profile%2Fabc",
        ),
    ] {
        let generator = generator(&client, &server, json!({ "model": model }));
        generator
            .generate(GenerateRequest::prompt("x"))
            .await
            .unwrap();
        assert_eq!(
            server.requests().pop().unwrap().path,
            format!("/model/{segment}/converse")
        );
    }
    let embedder = embedder(&client, &server, json!({ "model": PROFILE }));
    embedder.embed(EmbedRequest::texts(["a"])).await.unwrap();
    let path = server.requests().pop().unwrap().path;
    assert!(
        path.ends_with("application-inference-profile%2Fabc/invoke"),
        "{path}"
    );
}

#[tokio::test]
async fn j01_j02_the_endpoints_own_path_is_kept_and_slashes_never_double() {
    let server = Server::with(|_| vector());
    let client = client(keys());
    for base in ["", "/", "/a/b", "/a/b/"] {
        let mut entry =
            crate::support::entry(antfly_framework::Operation::Embed, &server, json!({}));
        entry.url = Some(format!("{}{base}", server.url()));
        client
            .embedder(&entry)
            .unwrap()
            .embed(EmbedRequest::texts(["a"]))
            .await
            .unwrap();
        let prefix = base.trim_end_matches('/');
        let path = server.requests().pop().unwrap().path;
        assert_eq!(
            path,
            format!("{prefix}/model/amazon.titan-embed-text-v2%3A0/invoke")
        );
    }
}
