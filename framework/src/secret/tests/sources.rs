use std::collections::HashSet;

use super::super::CredentialSource;

#[test]
fn two_different_sources_never_have_one_name() {
    let parts = [
        "",
        "a",
        "a:b",
        "b",
        ":",
        "env",
        "%env",
        "%",
        "a%3Ab",
        "OPENAI_API_KEY",
    ];
    let mut seen = HashSet::new();
    for store in parts {
        for name in parts {
            assert!(
                seen.insert(CredentialSource::store(store, name)),
                "{store:?} {name:?}"
            );
        }
    }
    for variable in ["a", "b", "OPENAI_API_KEY"] {
        assert!(
            seen.insert(CredentialSource::secret_env(variable)),
            "{variable:?}"
        );
        assert!(seen.insert(CredentialSource::env(variable)), "{variable:?}");
    }
    assert!(seen.insert(CredentialSource::anonymous()));
}

#[test]
fn a_literal_is_one_source_in_this_process_and_is_not_shown() {
    let of = |key: &str| CredentialSource::literal(&key.to_owned().into());
    assert_eq!(of("sk-sentinel"), of("sk-sentinel"));
    assert_ne!(of("sk-sentinel"), of("sk-sentinel2"));
    let shown = of("sk-sentinel").to_string();
    assert!(
        shown.starts_with("literal:") && shown.len() == "literal:".len() + 32,
        "{shown}"
    );
    assert!(!shown.contains("sentinel"));
}

#[test]
fn names_read_as_the_guide_writes_them() {
    assert_eq!(
        CredentialSource::env("OPENAI_API_KEY").to_string(),
        "env:OPENAI_API_KEY"
    );
    assert_eq!(
        CredentialSource::secret_env("OPENAI_API_KEY").to_string(),
        "secret:env:OPENAI_API_KEY"
    );
    assert_eq!(
        CredentialSource::store("file:/s.json", "openai.api_key").to_string(),
        "secret:file:/s.json:openai.api_key"
    );
    assert_eq!(
        CredentialSource::custom("aws-profile:prod").to_string(),
        "aws-profile:prod"
    );
    assert_eq!(CredentialSource::anonymous().to_string(), "anonymous");
}
