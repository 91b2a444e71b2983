use antfly_framework::Kind;
use antfly_framework::config::KeySetting;
use antfly_framework::provider::{CredentialProvider, Freshness, HttpProvider, Prepared, Provider};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::json;

use super::*;

fn entry(operation: Operation) -> EntryConfig {
    let mut entry = EntryConfig::new(operation, "openai", "m");
    entry.path = "embedders.docs".to_owned();
    entry
}

fn open(entry: &EntryConfig, env: &[(&str, &str)]) -> Result<OpenAi> {
    let env = Env::from_pairs(env.iter().copied());
    adapter(entry, &env, &Secrets::new(None, env.clone()))
}

fn literal(key: &str) -> Option<KeySetting> {
    Some(KeySetting::Literal(SecretString::from(key.to_owned())))
}

fn endpoint_of(url: Option<&str>, env: &[(&str, &str)]) -> String {
    let mut entry = entry(Operation::Embed);
    entry.url = url.map(str::to_owned);
    entry.api_key = literal("sk-test");
    open(&entry, env)
        .unwrap()
        .declare()
        .identity
        .endpoint
        .clone()
}

#[test]
fn the_endpoint_is_the_entrys_the_environments_or_openais() {
    let env = &[("OPENAI_BASE_URL", "http://proxy:8080/")];
    assert_eq!(endpoint_of(None, &[]), "https://api.openai.com/v1");
    assert_eq!(endpoint_of(None, env), "http://proxy:8080/v1");
    assert_eq!(endpoint_of(Some("http://h/a/b/"), env), "http://h/a/b");
    assert_eq!(
        endpoint_of(Some("https://api.openai.com"), &[]),
        endpoint_of(None, &[])
    );
}

#[test]
fn a_bad_url_names_the_setting_it_came_from() {
    let mut bad = entry(Operation::Embed);
    bad.url = Some("ftp://h".to_owned());
    let e = open(&bad, &[]).unwrap_err();
    assert!(e.message().starts_with("embedders.docs.url: "), "{e}");
    let e = open(&entry(Operation::Embed), &[("OPENAI_BASE_URL", "nonsense")]).unwrap_err();
    assert!(e.message().starts_with("OPENAI_BASE_URL: "), "{e}");
}

#[test]
fn openai_needs_a_key_and_says_both_ways_to_give_one() {
    let e = open(&entry(Operation::Embed), &[]).unwrap_err();
    assert_eq!(e.kind(), Kind::Config);
    assert!(
        e.message().contains("embedders.docs.api_key") && e.message().contains("OPENAI_API_KEY")
    );
}

#[test]
fn elsewhere_no_key_is_allowed_and_the_environments_is_used() {
    let local = entry(Operation::Generate).with_url("http://localhost:1");
    let source = |env: &[(&str, &str)]| open(&local, env).unwrap().declared.credential.to_string();
    assert_eq!(source(&[]), "anonymous");
    assert_eq!(
        source(&[("OPENAI_API_KEY", "sk-env")]),
        "env:OPENAI_API_KEY"
    );
}

#[test]
fn the_project_is_part_of_the_scope_and_the_organization_is_not() {
    let env = &[("OPENAI_API_KEY", "sk-env")];
    let plain = open(&entry(Operation::Embed), env).unwrap();
    let mut named = entry(Operation::Embed);
    named.organization = Some("org-1".to_owned());
    let organized = open(&named, env).unwrap();
    assert_eq!(plain.declared.scope(), organized.declared.scope());
    named.project = Some("proj-1".to_owned());
    let projected = open(&named, env).unwrap();
    assert_ne!(plain.declared.scope(), projected.declared.scope());
    assert!(
        projected
            .declared
            .fields()
            .contains(&("project", "proj-1".to_owned()))
    );
    assert_eq!(projected.headers["openai-organization"], "org-1");
    assert_eq!(projected.headers["openai-project"], "proj-1");
    assert_eq!(organized.headers.get("openai-project"), None);
}

#[test]
fn fields_and_options_of_others_are_refused_by_name() {
    let env = &[("OPENAI_API_KEY", "sk-env")];
    let refused = |change: &dyn Fn(&mut EntryConfig), operation, name: &str| {
        let mut entry = entry(operation);
        change(&mut entry);
        let e = open(&entry, env).unwrap_err();
        assert_eq!(e.kind(), Kind::Config);
        assert!(
            e.message().starts_with(&format!("embedders.docs.{name}: ")),
            "{e}"
        );
    };
    let embed = Operation::Embed;
    refused(&|e| e.region = Some("r".into()), embed, "region");
    refused(
        &|e| e.embed.task_type = Some("t".into()),
        embed,
        "task_type",
    );
    refused(
        &|e| e.embed.input_type = Some("t".into()),
        embed,
        "input_type",
    );
    refused(
        &|e| e.embed.truncate = Some("END".into()),
        embed,
        "truncate",
    );
    refused(&|e| e.embed.multimodal = Some(true), embed, "multimodal");
    refused(
        &|e| e.generate.top_k = Some(1),
        Operation::Generate,
        "top_k",
    );
    for name in ["model", "input", "encoding_format", "dimensions"] {
        refused(
            &|e| _ = e.extra_body.insert(name.into(), json!(1)),
            embed,
            &format!("extra_body.{name}"),
        );
    }
    for name in [
        "model",
        "messages",
        "stream",
        "n",
        "max_tokens",
        "max_completion_tokens",
    ] {
        let change = |e: &mut EntryConfig| _ = e.extra_body.insert(name.into(), json!(1));
        refused(&change, Operation::Generate, &format!("extra_body.{name}"));
    }
    let mut fine = entry(Operation::Generate).with_url("http://localhost:1");
    fine.generate.top_k = Some(1);
    assert!(open(&fine, &[]).is_ok());
}

fn prepared() -> Prepared {
    Prepared::json("http://h/".parse().unwrap(), &json!({})).unwrap()
}

#[tokio::test]
async fn a_key_goes_out_as_a_sensitive_bearer_token() {
    let env = &[("OPENAI_API_KEY", " sk-env\n")];
    let adapter = open(&entry(Operation::Embed), env).unwrap();
    let credential = adapter.credential(Freshness::Cached).await.unwrap();
    assert_eq!(credential.value().unwrap().expose_secret(), "sk-env");
    assert!(credential.is_refreshable());
    let headers = adapter.authorize(&prepared(), &credential).unwrap();
    assert_eq!(headers["authorization"], "Bearer sk-env");
    assert!(headers["authorization"].is_sensitive());

    let mut own = entry(Operation::Embed);
    own.api_key = literal("sk-literal");
    let adapter = open(&own, &[]).unwrap();
    let credential = adapter.credential(Freshness::Forced).await.unwrap();
    assert!(!credential.is_refreshable());
    assert!(!format!("{adapter:?} {credential:?}").contains("sk-"));
}

#[tokio::test]
async fn without_a_key_nothing_is_sent_for_one() {
    let local = entry(Operation::Embed).with_url("http://localhost:1");
    let adapter = open(&local, &[]).unwrap();
    let credential = adapter.credential(Freshness::Cached).await.unwrap();
    assert!(
        adapter
            .authorize(&prepared(), &credential)
            .unwrap()
            .is_empty()
    );
}
