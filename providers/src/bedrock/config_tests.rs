use antfly_framework::{Client, Kind};
use serde_json::json;

use super::*;

/// The scope's fields of an entry in an environment, or the error.
fn check(
    operation: Operation,
    extra: &Value,
    env: &[(&str, &str)],
) -> Result<Vec<(&'static str, String)>> {
    let (path, model) = match operation {
        Operation::Embed => ("embedders.e", "amazon.titan-embed-text-v2:0"),
        Operation::Rerank => ("rerankers.r", "amazon.rerank-v1:0"),
        _ => ("generators.g", "amazon.nova-lite-v1:0"),
    };
    let mut value = json!({"provider": "bedrock", "model": model});
    for (name, field) in extra.as_object().unwrap() {
        value[name] = field.clone();
    }
    let none = [
        ("AWS_CONFIG_FILE", "/nonexistent/c"),
        ("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent/s"),
    ];
    let client = Client::builder()
        .registry(crate::registry()?)
        .env(Env::from_pairs(none.iter().chain(env).copied()))
        .build()?;
    Ok(client
        .check(&EntryConfig::from_json(operation, path, value)?)?
        .scope)
}

fn field(fields: &[(&'static str, String)], name: &str) -> String {
    fields
        .iter()
        .find(|(n, _)| *n == name)
        .map(|(_, v)| v.clone())
        .unwrap_or_default()
}

const KEYS: [(&str, &str); 2] = [
    ("AWS_ACCESS_KEY_ID", "id"),
    ("AWS_SECRET_ACCESS_KEY", "hunter2hunter2"),
];

#[test]
fn the_scope_is_endpoint_region_model_operation_and_source() {
    let fields = check(Operation::Generate, &json!({}), &KEYS).unwrap();
    assert_eq!(
        fields,
        [
            ("provider", "bedrock".to_owned()),
            (
                "endpoint",
                "https://bedrock-runtime.us-east-1.amazonaws.com".to_owned()
            ),
            ("operation", "generate".to_owned()),
            ("model", "amazon.nova-lite-v1:0".to_owned()),
            ("credential", "env:AWS_ACCESS_KEY_ID".to_owned()),
            ("region", "us-east-1".to_owned()),
        ]
    );
}

#[test]
fn the_region_is_the_entrys_then_the_environments_and_makes_the_endpoint() {
    let of = |extra: &Value, env: &[(&str, &str)]| {
        let env: Vec<_> = KEYS.iter().chain(env).copied().collect();
        let fields = check(Operation::Embed, extra, &env).unwrap();
        (field(&fields, "region"), field(&fields, "endpoint"))
    };
    let both = [
        ("AWS_REGION", "eu-west-1"),
        ("AWS_DEFAULT_REGION", "eu-west-2"),
    ];
    assert_eq!(
        of(&json!({"region": "cn-north-1"}), &both),
        (
            "cn-north-1".into(),
            "https://bedrock-runtime.cn-north-1.amazonaws.com.cn".into()
        )
    );
    assert_eq!(of(&json!({}), &both).0, "eu-west-1");
    assert_eq!(of(&json!({}), &both[1..]).0, "eu-west-2");
    assert_eq!(
        of(&json!({}), &[("AWS_USE_FIPS_ENDPOINT", "true")]).1,
        "https://bedrock-runtime-fips.us-east-1.amazonaws.com"
    );
    let url = [("AWS_ENDPOINT_URL_BEDROCK_RUNTIME", "http://127.0.0.1:9/x/")];
    assert_eq!(of(&json!({}), &url).1, "http://127.0.0.1:9/x");
    assert_eq!(
        of(&json!({"url": "http://127.0.0.1:8/"}), &url).1,
        "http://127.0.0.1:8"
    );
    for bad in ["US-EAST-1", "x.evil.com/", "", "-a"] {
        let e = check(
            Operation::Embed,
            &json!({}),
            &[KEYS[0], KEYS[1], ("AWS_DEFAULT_REGION", bad)],
        );
        // An empty variable is as if unset.
        assert_eq!(e.is_ok(), bad.is_empty(), "{bad}");
        let e = check(Operation::Embed, &json!({"region": bad}), &KEYS).unwrap_err();
        assert_eq!(e.kind(), Kind::Config, "{bad}");
    }
}

#[test]
fn the_source_is_settled_in_the_chains_order_and_without_network() {
    let of = |env: &[(&str, &str)]| {
        field(
            &check(Operation::Embed, &json!({}), env).unwrap(),
            "credential",
        )
    };
    let web = [
        ("AWS_WEB_IDENTITY_TOKEN_FILE", "/f"),
        ("AWS_ROLE_ARN", "arn:aws:iam::1:role/r"),
    ];
    let container = [("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "/v2/c")];
    let mut env = vec![("AWS_BEARER_TOKEN_BEDROCK", "bedrock-api-key-1")];
    env.extend(KEYS);
    env.extend(web);
    env.extend(container);
    for (skip, source) in [
        (0, "env:AWS_BEARER_TOKEN_BEDROCK"),
        (1, "env:AWS_ACCESS_KEY_ID"),
        (3, "aws-web-identity:arn:aws:iam::1:role/r"),
        (5, "aws-container:http://169.254.170.2/v2/c"),
        (6, "aws-instance-role"),
    ] {
        assert_eq!(of(&env[skip..]), source);
    }
    assert_eq!(
        of(&[("AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://127.0.0.1:7/")]),
        "aws-instance-role:http://127.0.0.1:7"
    );
    // A token file without a role is no source.
    assert_eq!(of(&web[..1]), "aws-instance-role");
}

/// Where these words stand in a message, one after the other.
#[track_caller]
fn in_order(message: &str, words: &[&str]) {
    let mut from = 0;
    for word in words {
        let at = message[from..].find(word);
        from += at.unwrap_or_else(|| panic!("{word:?} is not there, or too early: {message}"));
    }
    assert!(message.len() < 1000, "{message}");
}

#[test]
fn without_any_credential_the_error_says_what_was_looked_at_and_what_to_set() {
    let off = ("AWS_EC2_METADATA_DISABLED", "true");
    for (operation, path) in [
        (Operation::Embed, "embedders.e.profile"),
        (Operation::Generate, "generators.g.profile"),
        (Operation::Rerank, "rerankers.r.profile"),
    ] {
        let e = check(operation, &json!({}), &[off]).unwrap_err();
        assert_eq!(e.kind(), Kind::Config);
        in_order(
            e.message(),
            &[
                path,
                "no AWS credentials",
                path,
                "AWS_BEARER_TOKEN_BEDROCK",
                "AWS_ACCESS_KEY_ID with AWS_SECRET_ACCESS_KEY is not set",
                "/nonexistent/c and /nonexistent/s hold no profile \"default\" (as AWS_PROFILE is not set)",
                "AWS_WEB_IDENTITY_TOKEN_FILE with AWS_ROLE_ARN is not set",
                "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI and AWS_CONTAINER_CREDENTIALS_FULL_URI",
                "Set one of these",
                "switched off (AWS_EC2_METADATA_DISABLED)",
            ],
        );
    }
    // What is there by half is said to be, and is not repeated.
    let half = ("AWS_ROLE_ARN", "arn:aws:iam::1:role/hunter2");
    let e = check(Operation::Embed, &json!({}), &[off, half]).unwrap_err();
    let said = "AWS_ROLE_ARN is set and AWS_WEB_IDENTITY_TOKEN_FILE is not";
    assert!(e.message().contains(said), "{e}");
    assert!(!e.message().contains("hunter2"), "{e}");
}

#[test]
fn a_source_that_can_not_work_is_a_config_error() {
    for (env, word) in [
        (
            &[("AWS_EC2_METADATA_DISABLED", "true")][..],
            "no AWS credentials",
        ),
        (&KEYS[..1], "AWS_SECRET_ACCESS_KEY"),
        (
            &[KEYS[0], KEYS[1], ("AWS_SESSION_TOKEN", "hunter2\nhunter2")],
            "AWS_SESSION_TOKEN",
        ),
        (
            &[("AWS_PROFILE", "absent")],
            "AWS_PROFILE: no profile \"absent\"",
        ),
        (
            &[("AWS_BEARER_TOKEN_BEDROCK", "a\u{2014}b")],
            "AWS_BEARER_TOKEN_BEDROCK",
        ),
        (
            &[("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://10.0.0.1/")],
            "AWS_CONTAINER_CREDENTIALS_FULL_URI",
        ),
        (
            &[
                KEYS[0],
                KEYS[1],
                ("AWS_ENDPOINT_URL_BEDROCK_RUNTIME", "nonsense"),
            ],
            "AWS_ENDPOINT_URL_BEDROCK_RUNTIME",
        ),
    ] {
        let e = check(Operation::Embed, &json!({}), env).unwrap_err();
        assert!(
            e.kind() == Kind::Config && e.message().contains(word),
            "{e}"
        );
        assert!(!e.to_string().contains("hunter2"));
    }
    let e = check(Operation::Embed, &json!({"profile": "absent"}), &KEYS).unwrap_err();
    assert!(
        e.message()
            .starts_with("embedders.e.profile: no profile \"absent\""),
        "{e}"
    );
}

#[test]
fn what_an_entry_can_not_say_names_the_field() {
    use Operation::{Embed, Generate, Rerank};
    for (operation, extra, path) in [
        (Embed, json!({"api_key": "k"}), "embedders.e.api_key"),
        (
            Embed,
            json!({"model": "anthropic.claude-3"}),
            "embedders.e.model",
        ),
        (Embed, json!({"dimensions": 300}), "embedders.e.dimensions"),
        (Embed, json!({"truncate": "END"}), "embedders.e.truncate"),
        (
            Embed,
            json!({"input_type": "search_query"}),
            "embedders.e.input_type",
        ),
        (Embed, json!({"multimodal": true}), "embedders.e.multimodal"),
        (
            Embed,
            json!({"encoding_format": "base64"}),
            "embedders.e.encoding_format",
        ),
        (Embed, json!({"batch_size": 2}), "embedders.e.batch_size"),
        (
            Embed,
            json!({"model": "cohere.embed-v4:0", "batch_size": 97}),
            "embedders.e.batch_size",
        ),
        (
            Embed,
            json!({"extra_body": {"inputText": "x"}}),
            "embedders.e.extra_body.inputText",
        ),
        (
            Embed,
            json!({"model": "amazon.titan-embed-text-v1", "extra_body": {"normalize": true}}),
            "embedders.e.extra_body.normalize",
        ),
        (
            Embed,
            json!({"model": "amazon.titan-embed-text-v1", "dimensions": 256}),
            "embedders.e.dimensions",
        ),
        (Generate, json!({"top_k": 5}), "generators.g.top_k"),
        (Generate, json!({"seed": 5}), "generators.g.seed"),
        (
            Generate,
            json!({"extra_body": {"system": []}}),
            "generators.g.extra_body.system",
        ),
        (
            Generate,
            json!({"extra_body": {"additionalModelRequestFields": {"max_tokens": 1}}}),
            "generators.g.extra_body.additionalModelRequestFields.max_tokens",
        ),
        (
            Rerank,
            json!({"model": "cohere.embed-v4:0"}),
            "rerankers.r.model",
        ),
        (
            Rerank,
            json!({"extra_body": {"query": "q"}}),
            "rerankers.r.extra_body.query",
        ),
        (
            Embed,
            json!({"proxy": "socks5://user:hunter2@h"}),
            "embedders.e.proxy",
        ),
        (
            Embed,
            json!({"ca_file": "/nonexistent.pem"}),
            "embedders.e.ca_file",
        ),
    ] {
        let e = check(operation, &extra, &KEYS).unwrap_err();
        assert!(
            e.kind() == Kind::Config && e.message().starts_with(&format!("{path}: ")),
            "{extra}: {e}"
        );
        assert!(!e.to_string().contains("hunter2"));
    }
}

#[test]
fn no_secret_is_in_what_debug_shows() {
    let entry = EntryConfig::new(Operation::Generate, "bedrock", "m");
    let env = Env::from_pairs(KEYS);
    let secrets = antfly_framework::secret::Secrets::new(None, env.clone());
    // Loaders hold no secret at all; their environment shows names only.
    let source = Source::decide(&entry, &env, &Profiles::read(&Env::empty())).unwrap();
    assert!(!format!("{source:?} {env:?} {secrets:?}").contains("hunter2"));
}
