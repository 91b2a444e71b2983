use std::path::PathBuf;

use super::*;

/// Profiles from a configuration file in a folder of the test's own.
fn profiles(test: &str, text: &str) -> Profiles {
    let folder: PathBuf =
        std::env::temp_dir().join(format!("antfly-profiles-{}-{test}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("config");
    std::fs::write(&file, text).unwrap();
    let env = Env::from_pairs([
        ("AWS_CONFIG_FILE", file.display().to_string()),
        (
            "AWS_SHARED_CREDENTIALS_FILE",
            folder.join("none").display().to_string(),
        ),
    ]);
    let read = Profiles::read(&env);
    std::fs::remove_dir_all(&folder).unwrap();
    read.unwrap()
}

#[test]
fn a_chain_of_roles_is_assumed_from_its_far_end() {
    let set = profiles(
        "chain",
        "[profile a]\nrole_arn = arn:a\nsource_profile = b\n[profile b]\nrole_arn = arn:b\nexternal_id = x\n\
         source_profile = c\n[profile c]\naws_access_key_id = id\naws_secret_access_key = secret\n",
    );
    let way = set.way("a").unwrap();
    let arns: Vec<&str> = way.roles.iter().map(|role| role.arn.as_str()).collect();
    assert_eq!(arns, ["arn:b", "arn:a"]);
    assert_eq!(way.roles[0].external_id.as_deref(), Some("x"));
    assert!(matches!(way.base, Base::Keys(keys) if keys.access_key_id() == "id"));
}

#[test]
fn a_profile_that_is_its_own_source_uses_its_own_keys() {
    let set = profiles(
        "own",
        "[profile a]\nrole_arn = arn:a\nsource_profile = a\naws_access_key_id = id\naws_secret_access_key = secret\n",
    );
    let way = set.way("a").unwrap();
    assert!(way.roles.len() == 1 && matches!(way.base, Base::Keys(_)));
}

#[test]
fn every_kind_of_source_is_known_or_named_in_the_error() {
    let set = profiles(
        "kinds",
        "[profile env]\nrole_arn = r\ncredential_source = Environment\n\
         [profile instance]\nrole_arn = r\ncredential_source = Ec2InstanceMetadata\n\
         [profile container]\nrole_arn = r\ncredential_source = EcsContainer\n\
         [profile web]\nrole_arn = r\nweb_identity_token_file = /f\n\
         [profile odd]\nrole_arn = r\ncredential_source = Odd\n\
         [profile both]\nrole_arn = r\ncredential_source = Environment\nsource_profile = env\n\
         [profile none]\nrole_arn = r\n[profile x]\nrole_arn = r\nsource_profile = y\n[profile y]\nrole_arn = r\n\
         source_profile = x\n[profile region]\nregion = eu-west-1\n[profile half]\naws_access_key_id = id\n\
         [profile login]\nlogin_session = s\n",
    );
    assert!(matches!(set.way("env").unwrap().base, Base::Environment));
    assert!(matches!(set.way("instance").unwrap().base, Base::Instance));
    assert!(matches!(
        set.way("container").unwrap().base,
        Base::Container
    ));
    assert!(matches!(set.way("web").unwrap().base, Base::WebIdentity(_)));
    for (name, word) in [
        ("odd", "\"Odd\""),
        ("both", "both source_profile and credential_source"),
        ("none", "none of source_profile"),
        ("x", "name each other"),
        ("region", "holds no credentials"),
        ("half", "aws_secret_access_key"),
        ("login", "login_session"),
        ("absent", "no profile \"absent\""),
    ] {
        let problem = set.way(name).unwrap_err();
        assert!(problem.contains(word), "{name}: {problem}");
    }
    assert!(!set.has_credentials("region"));
    assert_eq!(set.region("region"), Some("eu-west-1"));
}
