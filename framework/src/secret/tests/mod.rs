//! Tests of secrets, by the rule they pin.

mod file;
mod sources;

use std::sync::Arc;

use secrecy::ExposeSecret as _;

use super::{MemoryStore, ResolvedSecret, SecretStore, Secrets};
use crate::config::{Env, KeySetting};
use crate::error::{Kind, Result};

const SETTING: &str = "embedders.docs.api_key";

fn reference(name: &str) -> KeySetting {
    KeySetting::Reference(name.to_owned())
}

fn literal(key: &str) -> KeySetting {
    KeySetting::Literal(key.to_owned().into())
}

async fn value(secret: &ResolvedSecret) -> Result<String> {
    secret.value().await.map(|v| v.expose_secret().to_owned())
}

fn store(pairs: &[(&str, &str)]) -> Arc<MemoryStore> {
    Arc::new(MemoryStore::new("vault", pairs.iter().copied()))
}

fn secrets(store: Option<Arc<MemoryStore>>, env: &[(&str, &str)]) -> Secrets {
    Secrets::new(
        store.map(|s| s as Arc<dyn SecretStore>),
        Env::from_pairs(env.iter().copied()),
    )
}

#[tokio::test]
async fn a_name_is_looked_up_in_the_store_and_then_in_the_environment() {
    let both = secrets(
        Some(store(&[("openai.api_key", "from-store")])),
        &[("OPENAI_API_KEY", "from-env")],
    );
    let found = both.resolve(&reference("openai.api_key"), SETTING).unwrap();
    assert_eq!(found.source().as_str(), "secret:vault:openai.api_key");
    assert_eq!(value(&found).await.unwrap(), "from-store");
    let found = both.resolve(&reference("openai-api.key"), SETTING).unwrap();
    assert_eq!(found.source().as_str(), "secret:env:OPENAI_API_KEY");
    assert_eq!(value(&found).await.unwrap(), "from-env");
}

#[test]
fn a_name_found_nowhere_names_the_setting_and_both_places() {
    for store in [None, Some(store(&[]))] {
        let e = secrets(store, &[])
            .resolve(&reference("a.b"), SETTING)
            .unwrap_err();
        assert_eq!(e.kind(), Kind::Config);
        assert!(e.message().starts_with("embedders.docs.api_key: "), "{e}");
        assert!(
            e.message().contains("A_B") && e.message().contains("store"),
            "{e}"
        );
    }
}

#[tokio::test]
async fn a_name_that_goes_missing_is_an_auth_error_and_never_a_fallback() {
    let store = store(&[("openai.api_key", "from-store")]);
    let secrets = secrets(Some(Arc::clone(&store)), &[("OPENAI_API_KEY", "from-env")]);
    let found = secrets
        .resolve(&reference("openai.api_key"), SETTING)
        .unwrap();
    store.remove("openai.api_key");
    let e = value(&found).await.unwrap_err();
    assert_eq!(e.kind(), Kind::Auth);
    assert!(e.message().starts_with(SETTING), "{e}");
    store.set("openai.api_key", "back");
    assert_eq!(value(&found).await.unwrap(), "back");
}

#[tokio::test]
async fn a_rotated_value_is_used_next_and_the_source_stays() {
    let store = store(&[("k", "one")]);
    let found = secrets(Some(Arc::clone(&store)), &[])
        .resolve(&reference("k"), SETTING)
        .unwrap();
    let before = found.source().clone();
    assert_eq!(value(&found).await.unwrap(), "one");
    store.set("k", " two\r\n");
    assert_eq!(value(&found).await.unwrap(), "two");
    assert_eq!(found.source(), &before);
    assert!(found.is_refreshable());
}

#[tokio::test]
async fn a_provider_default_comes_from_its_variable() {
    let secrets = secrets(
        None,
        &[
            ("OPENAI_API_KEY", " key \n"),
            ("EMPTY", ""),
            ("BLANK", " \n"),
            ("DASH", "a\u{2014}b"),
        ],
    );
    let found = secrets.env("OPENAI_API_KEY").unwrap().unwrap();
    assert_eq!(found.source().as_str(), "env:OPENAI_API_KEY");
    assert_eq!(value(&found).await.unwrap(), "key");
    assert!(secrets.env("EMPTY").unwrap().is_none());
    for bad in ["BLANK", "DASH"] {
        let e = secrets.env(bad).unwrap_err();
        assert_eq!(e.kind(), Kind::Config);
        assert!(e.message().starts_with(bad), "{e}");
    }
}

#[tokio::test]
async fn a_literal_is_trimmed_and_cannot_be_refreshed() {
    let found = secrets(None, &[])
        .resolve(&literal(" key\r\n"), SETTING)
        .unwrap();
    assert_eq!(value(&found).await.unwrap(), "key");
    assert!(!found.is_refreshable());
}

#[test]
fn a_key_that_no_header_can_carry_names_its_setting_and_not_its_value() {
    for bad in [
        "",
        " ",
        "sk-1\nsk-2",
        "sk-1\r\nx",
        "sk\u{0}",
        "sk\u{2014}1",
        "sk\u{201d}",
    ] {
        let e = secrets(None, &[])
            .resolve(&literal(bad), SETTING)
            .unwrap_err();
        assert_eq!(e.kind(), Kind::Config);
        assert!(e.message().starts_with("embedders.docs.api_key: "), "{e}");
        assert!(!e.message().contains("sk"), "{e}");
        if !bad.is_empty() {
            let e = secrets(None, &[("A_B", bad)])
                .resolve(&reference("a.b"), SETTING)
                .unwrap_err();
            assert!(e.message().starts_with("embedders.docs.api_key: "), "{e}");
            assert!(
                e.message().contains("A_B") && !e.message().contains("sk"),
                "{e}"
            );
        }
    }
}

#[tokio::test]
async fn a_stored_value_that_turns_bad_is_a_config_error_without_the_value() {
    let store = store(&[("k", "one")]);
    let found = secrets(Some(Arc::clone(&store)), &[])
        .resolve(&reference("k"), SETTING)
        .unwrap();
    store.set("k", "sentinel\nx");
    let e = value(&found).await.unwrap_err();
    assert_eq!(e.kind(), Kind::Config);
    assert!(
        e.message().starts_with(SETTING) && !format!("{e:?}").contains("sentinel"),
        "{e:?}"
    );
}

#[test]
fn no_secret_is_in_any_debug() {
    let store = store(&[("k", "sentinel-5f1c")]);
    let all = secrets(Some(Arc::clone(&store)), &[("VAR", "sentinel-5f1c")]);
    let resolved = [
        all.resolve(&reference("k"), SETTING).unwrap(),
        all.resolve(&reference("var"), SETTING).unwrap(),
        all.resolve(&literal("sentinel-5f1c"), SETTING).unwrap(),
    ];
    let shown = format!("{store:?} {all:?} {resolved:#?}");
    assert!(!shown.contains("sentinel-5f1c"), "{shown}");
}
