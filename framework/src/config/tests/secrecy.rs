use serde_json::json;

use super::{embedder, refused};
use crate::config::{Document, Env};

const SENTINEL: &str = "sentinel-5f1c";

#[test]
fn no_secret_is_in_any_debug() {
    let e = embedder(json!({
        "api_key": SENTINEL,
        "url": format!("http://user:{SENTINEL}@host/path?key={SENTINEL}"),
        "proxy": format!("http://user:{SENTINEL}@proxy:3128"),
        "headers": {"x-team-token": SENTINEL},
        "extra_body": {"token": SENTINEL},
    }))
    .unwrap();
    for shown in [
        format!("{e:?}"),
        format!("{e:#?}"),
        format!("{:?} {:?}", e.proxy, e.api_key),
        format!("{:?}", Env::from_pairs([("OPENAI_API_KEY", SENTINEL)])),
    ] {
        assert!(!shown.contains(SENTINEL), "{shown}");
    }
    assert!(format!("{e:?}").contains("x-team-token"));
    assert!(
        format!("{:?}", Env::from_pairs([("OPENAI_API_KEY", SENTINEL)])).contains("OPENAI_API_KEY")
    );
}

#[test]
fn no_key_in_the_wrong_place_is_in_an_error() {
    for document in [
        json!({"embedders": [{"provider": "openai", "model": "m", "api_key": SENTINEL}]}),
        json!({"embedders": {"docs": SENTINEL}}),
        json!([{"api_key": SENTINEL}]),
        json!({"secrets": SENTINEL}),
        json!({"secrets": {"file": {"openai": SENTINEL}}}),
        json!({"embedders": {"docs": {"provider": "openai", "model": "m", "headers": [SENTINEL]}}}),
        json!({"embedders": {"docs": {"provider": "openai", "model": "m", "headers": SENTINEL}}}),
        json!({"embedders": {"docs": {"provider": "openai", "model": {"key": SENTINEL}}}}),
    ] {
        let message = refused(Document::parse(&document.to_string()));
        assert!(!message.contains(SENTINEL), "{message}");
        assert!(message.contains("is not allowed; "), "{message}");
    }
}
