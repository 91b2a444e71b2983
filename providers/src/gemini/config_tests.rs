use antfly_framework::config::{Env, KeySetting};
use antfly_framework::provider::{Identity, Provider as _};
use antfly_framework::{Kind, secret::CredentialSource};
use secrecy::SecretString;

use super::*;

fn open(entry: &EntryConfig, env: &[(&str, &str)]) -> Result<Gemini> {
    let env = Env::from_pairs(env.iter().copied());
    adapter(entry, &Secrets::new(None, env))
}

const KEY: &[(&str, &str)] = &[("GEMINI_API_KEY", "AIza-1")];

fn entry(model: &str) -> EntryConfig {
    EntryConfig::new(Operation::Generate, "gemini", model).with_name("writer")
}

fn identity(entry: &EntryConfig) -> Identity {
    open(entry, KEY).unwrap().declare().identity.clone()
}

#[test]
fn an_omitted_url_and_the_default_one_are_one_scope_and_so_are_the_names_of_a_model() {
    let plain = identity(&entry("gemini-2.5-flash"));
    assert_eq!(
        plain.endpoint,
        "https://generativelanguage.googleapis.com/v1beta"
    );
    let spelled = entry("models/gemini-2.5-flash")
        .with_url("HTTPS://generativelanguage.googleapis.com:443/v1beta/");
    assert_eq!(identity(&spelled), plain);
    assert_ne!(identity(&entry("tunedModels/gemini-2.5-flash")), plain);
}

#[test]
fn google_needs_a_key_and_says_both_ways_to_give_one_and_elsewhere_none_is_needed() {
    let error = open(&entry("m"), &[]).unwrap_err();
    assert_eq!(error.kind(), Kind::Config);
    assert!(error.message().starts_with("writer.api_key: "), "{error}");
    assert!(error.message().contains("GEMINI_API_KEY"), "{error}");
    let elsewhere = open(&entry("m").with_url("http://127.0.0.1:9"), &[]).unwrap();
    assert_eq!(
        elsewhere.declare().credential,
        CredentialSource::anonymous()
    );
    assert_eq!(elsewhere.endpoint.as_str(), "http://127.0.0.1:9/v1beta");
}

#[test]
fn the_source_of_a_key_is_its_place_and_no_debug_shows_it() {
    let env = open(&entry("m"), KEY).unwrap();
    assert_eq!(env.declare().credential.as_str(), "env:GEMINI_API_KEY");
    let literal = KeySetting::Literal(SecretString::from("AIza-literal".to_owned()));
    let literal = open(&entry("m").with_api_key(literal), &[]).unwrap();
    assert!(
        literal
            .declare()
            .credential
            .as_str()
            .starts_with("literal:")
    );
    assert!(!format!("{literal:?} {env:?}").contains("AIza"));
}

#[test]
fn a_model_that_is_none_is_named() {
    for model in ["..", "models/", "models/ ", "models/..", "a/b/c"] {
        let error = open(&entry(model), KEY).unwrap_err();
        assert!(error.message().starts_with("writer.model: "), "{error}");
    }
}
