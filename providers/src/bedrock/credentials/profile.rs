//! Profiles of the shared AWS files: reading them, and the way from a profile to its credentials.
//!
//! The SDK parses the files. The way is walked here and not by the SDK's provider, which would read the process's environment.

use std::io::ErrorKind;
use std::path::PathBuf;

use antfly_framework::config::Env;
use antfly_framework::http::causes;
use antfly_framework::{Error, Kind, Result};
use aws_config::profile::ProfileSet;
use aws_credential_types::Credentials;
use aws_runtime::env_config::file::EnvConfigFiles;
use aws_types::os_shim_internal::{Env as FileEnv, Fs};
use futures::FutureExt as _;
use tracing::subscriber::{NoSubscriber, with_default};

use super::sts::{Role, WebIdentity};
use super::{Loader, Source, source};

/// What the parser looks up: where the files are and where home is.
const VARIABLES: &[&str] = &[
    "HOME",
    "USERPROFILE",
    "HOMEDRIVE",
    "HOMEPATH",
    "AWS_CONFIG_FILE",
    "AWS_SHARED_CREDENTIALS_FILE",
];

/// The profiles as they are in the files now.
#[derive(Debug)]
pub(in crate::bedrock) struct Profiles(ProfileSet);

/// From a profile to credentials: the first ones, and the roles assumed with them in turn.
#[derive(Debug)]
struct Way {
    base: Base,
    roles: Vec<Role>,
}

/// Where the first credentials come from.
enum Base {
    Keys(Credentials),
    WebIdentity(WebIdentity),
    Environment,
    Instance,
    Container,
    #[cfg(feature = "bedrock-credential-process")]
    Process(String),
    #[cfg(feature = "bedrock-sso")]
    SignIn(SignIn),
}

/// IAM Identity Center, as a profile names it.
#[cfg(feature = "bedrock-sso")]
#[derive(Debug)]
struct SignIn {
    session: Option<String>,
    region: String,
    start_url: String,
    account: String,
    role: String,
}

impl std::fmt::Debug for Base {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Base::Keys(_) => "Keys(..)",
            Base::WebIdentity(_) => "WebIdentity",
            Base::Environment => "Environment",
            Base::Instance => "Instance",
            Base::Container => "Container",
            #[cfg(feature = "bedrock-credential-process")]
            Base::Process(_) => "Process(..)",
            #[cfg(feature = "bedrock-sso")]
            Base::SignIn(_) => "SignIn",
        })
    }
}

/// Both shared files: the variable that names one, and its name in the home folder.
const FILES: [(&str, &str); 2] = [
    ("AWS_CONFIG_FILE", "config"),
    ("AWS_SHARED_CREDENTIALS_FILE", "credentials"),
];

/// The paths of both shared files, as the environment names them or as everyone writes them.
pub(super) fn files(env: &Env) -> Result<[String; 2]> {
    let [config, credentials] = FILES.map(|(variable, name)| {
        let named = env.get(variable)?;
        Ok::<_, Error>(named.unwrap_or_else(|| format!("~/.aws/{name}")))
    });
    Ok([config?, credentials?])
}

/// The SDK takes a file that can't be read, or is no UTF-8, for an empty one: then an entry's keys would come from elsewhere, and
/// nobody would know why. A file that nobody named may be out of reach.
fn legible(env: &Env) -> Result<()> {
    let home = match env.get("HOME")? {
        None => env.get("USERPROFILE")?,
        home => home,
    };
    let home = home.map(PathBuf::from);
    for ((variable, _), told) in FILES.into_iter().zip(files(env)?) {
        let named = env.get(variable)?;
        let path = match (told.strip_prefix("~/"), &home) {
            (Some(rest), Some(home)) => home.join(rest),
            _ => PathBuf::from(told),
        };
        let problem = match std::fs::read(&path) {
            Ok(bytes) => match std::str::from_utf8(&bytes) {
                Ok(_) => continue,
                Err(e) => format!("not UTF-8 from byte {} on", e.valid_up_to()),
            },
            Err(e) if named.is_none() || e.kind() == ErrorKind::NotFound => continue,
            Err(e) => e.to_string(),
        };
        return Err(Error::new(
            Kind::Auth,
            format!("{} can't be read: {problem}", path.display()),
        ));
    }
    Ok(())
}

impl Profiles {
    /// Reads the files that the environment names, else those in the home folder. A missing file is an empty one.
    pub(in crate::bedrock) fn read(env: &Env) -> Result<Self> {
        legible(env)?;
        let mut pairs = Vec::new();
        for name in VARIABLES {
            if let Some(value) = env.get(name)? {
                pairs.push((*name, value));
            }
        }
        let pairs: Vec<(&str, &str)> = pairs.iter().map(|(k, v)| (*k, v.as_str())).collect();
        let (fs, env, files) = (
            Fs::real(),
            FileEnv::from_slice(&pairs),
            EnvConfigFiles::default(),
        );
        // The parser reads with plain file calls: it is ready in one poll.
        let loading = aws_config::profile::load(&fs, &env, &files, None);
        // Nor is it heard: what it warns of could show what a file holds.
        let loaded = with_default(NoSubscriber::new(), || loading.now_or_never());
        match loaded {
            Some(Ok(set)) => Ok(Profiles(set)),
            Some(Err(e)) => Err(Error::new(
                Kind::Auth,
                format!("the shared AWS files can't be read: {}", causes(&e)),
            )),
            None => Err(Error::new(Kind::Auth, "the shared AWS files are not ready")),
        }
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.0.get_profile(name).is_some()
    }

    pub(super) fn missing(&self, name: &str) -> String {
        let mut known: Vec<&str> = self.0.profiles().collect();
        known.sort_unstable();
        match known.as_slice() {
            [] => format!("no profile {name:?}: the shared AWS files hold none"),
            known => format!("no profile {name:?} (there are: {})", known.join(", ")),
        }
    }

    /// A profile's own region.
    pub(in crate::bedrock) fn region(&self, name: &str) -> Option<&str> {
        self.get(name, "region")
    }

    fn get(&self, profile: &str, key: &str) -> Option<&str> {
        let value = self.0.get_profile(profile)?.get(key)?.trim();
        (!value.is_empty()).then_some(value)
    }

    /// Whether a profile says anything about credentials: many hold a region alone.
    pub(super) fn has_credentials(&self, name: &str) -> bool {
        [
            "aws_access_key_id",
            "aws_secret_access_key",
            "role_arn",
            "credential_source",
            "sso_session",
            "sso_start_url",
            "credential_process",
            "login_session",
        ]
        .iter()
        .any(|key| self.get(name, key).is_some())
    }

    /// Whether the way from this profile to credentials can be walked, as far as the files say.
    pub(super) fn check(&self, name: &str) -> Result<(), String> {
        self.way(name).map(drop)
    }

    fn way(&self, first: &str) -> Result<Way, String> {
        let mut roles = Vec::new();
        let mut seen: Vec<&str> = Vec::new();
        let mut name = first;
        loop {
            if !self.has(name) {
                return Err(self.missing(name));
            }
            if seen.contains(&name) {
                return Err(format!(
                    "the profiles {} name each other as source_profile",
                    seen.join(", ")
                ));
            }
            seen.push(name);
            let Some(arn) = self.get(name, "role_arn") else {
                break;
            };
            // A source profile that has keys gives those, whatever role it also names.
            if seen.len() > 1 && self.get(name, "aws_access_key_id").is_some() {
                break;
            }
            if self.get(name, "web_identity_token_file").is_some() {
                break;
            }
            roles.push(Role {
                arn: arn.to_owned(),
                session: self.get(name, "role_session_name").map(str::to_owned),
                external_id: self.get(name, "external_id").map(str::to_owned),
            });
            match (
                self.get(name, "source_profile"),
                self.get(name, "credential_source"),
            ) {
                (Some(_), Some(_)) => {
                    return Err(format!(
                        "profile {name:?} has both source_profile and credential_source"
                    ));
                }
                (Some(source), None) if source == name => break,
                (Some(source), None) => name = source,
                (None, Some(_)) => break,
                (None, None) => {
                    return Err(format!(
                        "profile {name:?} has a role_arn and none of source_profile, credential_source, \
                         web_identity_token_file"
                    ));
                }
            }
        }
        roles.reverse();
        Ok(Way {
            base: self.base(name, !roles.is_empty())?,
            roles,
        })
    }

    /// Where the profile at the end of the way has its credentials from.
    fn base(&self, name: &str, has_role: bool) -> Result<Base, String> {
        let get = |key: &str| self.get(name, key);
        if let (true, Some(source)) = (has_role, get("credential_source")) {
            return match source {
                "Environment" => Ok(Base::Environment),
                "Ec2InstanceMetadata" => Ok(Base::Instance),
                "EcsContainer" => Ok(Base::Container),
                other => Err(format!(
                    "profile {name:?}: credential_source {other:?} is none of Environment, Ec2InstanceMetadata, EcsContainer"
                )),
            };
        }
        if let (Some(file), Some(role)) = (get("web_identity_token_file"), get("role_arn")) {
            return Ok(Base::WebIdentity(WebIdentity {
                token_file: file.to_owned(),
                role_arn: role.to_owned(),
                session: get("role_session_name").map(str::to_owned),
            }));
        }
        if get("sso_session").is_some() || get("sso_start_url").is_some() {
            return self.sign_in(name);
        }
        if get("login_session").is_some() {
            return Err(format!(
                "profile {name:?}: console sessions (login_session) are not supported"
            ));
        }
        if let Some(command) = get("credential_process") {
            return process(name, command);
        }
        match (get("aws_access_key_id"), get("aws_secret_access_key")) {
            (Some(id), Some(secret)) => Ok(Base::Keys(Credentials::new(
                id,
                secret,
                get("aws_session_token").map(str::to_owned),
                None,
                "profile",
            ))),
            (Some(_), None) => Err(format!("profile {name:?} has no aws_secret_access_key")),
            (None, Some(_)) => Err(format!("profile {name:?} has no aws_access_key_id")),
            (None, None) => Err(format!("profile {name:?} holds no credentials")),
        }
    }

    #[cfg(feature = "bedrock-sso")]
    fn sign_in(&self, name: &str) -> Result<Base, String> {
        let session = self.get(name, "sso_session");
        let told = |key: &str| -> Result<String, String> {
            let of_session = session
                .and_then(|s| self.0.sso_session(s))
                .and_then(|s| s.get(key));
            let value = of_session.or_else(|| self.get(name, key));
            value
                .map(str::to_owned)
                .ok_or_else(|| format!("profile {name:?} signs in and has no {key}"))
        };
        Ok(Base::SignIn(SignIn {
            session: session.map(str::to_owned),
            region: told("sso_region")?,
            start_url: told("sso_start_url")?,
            account: told("sso_account_id")?,
            role: told("sso_role_name")?,
        }))
    }

    #[cfg(not(feature = "bedrock-sso"))]
    fn sign_in(&self, name: &str) -> Result<Base, String> {
        Err(format!(
            "profile {name:?} signs in through IAM Identity Center, for which this program was built without the feature \
             bedrock-sso"
        ))
    }
}

#[cfg(feature = "bedrock-credential-process")]
fn process(_name: &str, command: &str) -> Result<Base, String> {
    Ok(Base::Process(command.to_owned()))
}

#[cfg(not(feature = "bedrock-credential-process"))]
fn process(name: &str, _command: &str) -> Result<Base, String> {
    Err(format!(
        "profile {name:?} runs a credential_process, for which this program was built without the feature \
         bedrock-credential-process"
    ))
}

impl Loader {
    /// Walks a profile's way. The flag: whether what comes is a fixed pair of keys.
    pub(super) async fn profile(
        &self,
        profiles: &Profiles,
        name: &str,
    ) -> Result<(Credentials, bool)> {
        let way = profiles
            .way(name)
            .map_err(|problem| Error::new(Kind::Auth, problem))?;
        let steady = way.roles.is_empty() && matches!(way.base, Base::Keys(_));
        let mut keys = match way.base {
            Base::Keys(keys) => keys,
            Base::WebIdentity(identity) => self.web_identity(&identity).await?,
            Base::Environment => source::keys_of_environment(&self.env)?,
            Base::Container => {
                let endpoint = super::metadata::ContainerEndpoint::of_environment(&self.env)?
                    .ok_or_else(|| {
                        Error::new(Kind::Auth, "the environment names no container endpoint")
                    })?;
                self.container(&endpoint).await?
            }
            Base::Instance => match source::instance(&self.env)? {
                Some(Source::Instance { endpoint }) => self.instance(&endpoint).await?,
                _ => {
                    return Err(Error::new(
                        Kind::Auth,
                        "the instance's metadata service is switched off",
                    ));
                }
            },
            #[cfg(feature = "bedrock-credential-process")]
            Base::Process(command) => super::process::ask(&command, &self.time).await?,
            #[cfg(feature = "bedrock-sso")]
            Base::SignIn(sign_in) => self.sign_in(sign_in).await?,
        };
        for role in &way.roles {
            keys = self.assume(keys, role).await?;
        }
        Ok((keys, steady))
    }

    #[cfg(feature = "bedrock-sso")]
    async fn sign_in(&self, sign_in: SignIn) -> Result<Credentials> {
        use aws_config::provider_config::ProviderConfig;
        use aws_credential_types::provider::ProvideCredentials as _;

        let http = crate::bedrock::connect::client_of(self.services.current()?);
        let mut builder = aws_config::sso::SsoCredentialsProvider::builder()
            .configure(&ProviderConfig::without_region().with_http_client(http))
            .region(aws_types::region::Region::new(sign_in.region))
            .start_url(sign_in.start_url)
            .account_id(sign_in.account)
            .role_name(sign_in.role);
        builder.set_session_name(sign_in.session);
        let keys = builder.build().provide_credentials().await;
        keys.map_err(|e| Error::new(Kind::Auth, format!("IAM Identity Center: {}", causes(&e))))
    }
}

#[cfg(test)]
#[path = "profile_tests.rs"]
mod tests;
