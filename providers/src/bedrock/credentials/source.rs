//! Which source an entry's credentials come from. Looks at the entry, the environment and the profile files; opens no connection.

use std::fmt;

use antfly_framework::config::{EntryConfig, Env};
use antfly_framework::http::Endpoint;
use antfly_framework::secret::CredentialSource;
use antfly_framework::{Error, Kind, Result};
use aws_credential_types::Credentials;

use super::metadata::ContainerEndpoint;
use super::profile::Profiles;
use super::sought::sought;
use super::sts::WebIdentity;

pub(in crate::bedrock) const BEARER: &str = "AWS_BEARER_TOKEN_BEDROCK";
pub(super) const KEY_ID: &str = "AWS_ACCESS_KEY_ID";
pub(super) const SECRET: &str = "AWS_SECRET_ACCESS_KEY";
const SESSION: &str = "AWS_SESSION_TOKEN";
const INSTANCE_OFF: &str = "AWS_EC2_METADATA_DISABLED";
const INSTANCE_URL: &str = "AWS_EC2_METADATA_SERVICE_ENDPOINT";
const INSTANCE_MODE: &str = "AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE";
const INSTANCE_ENDPOINT: &str = "http://169.254.169.254";
const INSTANCE_ENDPOINT_V6: &str = "http://[fd00:ec2::254]";

/// A source of credentials, settled. Its `Display` is the scope's `credential`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::bedrock) enum Source {
    /// `AWS_BEARER_TOKEN_BEDROCK`.
    Bearer,
    /// The access key of the environment.
    Environment,
    /// A profile of the shared files.
    Profile(String),
    /// A token file and a role, through STS.
    WebIdentity(WebIdentity),
    /// The endpoint of a container's agent (ECS, EKS).
    Container(ContainerEndpoint),
    /// The role of the instance, through IMDSv2.
    Instance {
        /// The metadata service's base URL.
        endpoint: String,
    },
}

impl Source {
    /// The entry's profile; else, in this order: the bearer key, the environment's access key, the selected profile when it has
    /// credentials, a web identity, a container's endpoint, the instance's role.
    pub(in crate::bedrock) fn decide(
        entry: &EntryConfig,
        env: &Env,
        profiles: &Result<Profiles>,
    ) -> Result<Source> {
        if let Some(name) = &entry.profile {
            let name = name.trim();
            let profiles =
                readable(profiles).map_err(|e| Error::config(entry.field("profile"), e))?;
            profiles
                .check(name)
                .map_err(|problem| Error::config(entry.field("profile"), problem))?;
            return Ok(Source::Profile(name.to_owned()));
        }
        if env.get(BEARER)?.is_some() {
            return Ok(Source::Bearer);
        }
        if env.get(KEY_ID)?.is_some() {
            keys_of_environment(env).map_err(|e| Error::new(Kind::Config, e.message()))?;
            return Ok(Source::Environment);
        }
        if let Some(profile) = selected_profile(env, profiles)? {
            return Ok(Source::Profile(profile));
        }
        if let Some(identity) = WebIdentity::of_environment(env)? {
            return Ok(Source::WebIdentity(identity));
        }
        if let Some(endpoint) = ContainerEndpoint::of_environment(env)? {
            return Ok(Source::Container(endpoint));
        }
        match instance(env)? {
            Some(source) => Ok(source),
            None => Err(Error::config(
                entry.field("profile"),
                format!(
                    "no AWS credentials: {}; the instance's metadata service is switched off ({INSTANCE_OFF})",
                    sought(entry, env, profiles)?
                ),
            )),
        }
    }

    pub(in crate::bedrock) fn identity(&self) -> CredentialSource {
        match self {
            Source::Bearer => CredentialSource::env(BEARER),
            Source::Environment => CredentialSource::env(KEY_ID),
            other => CredentialSource::custom(other.to_string()),
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Bearer => write!(f, "env:{BEARER}"),
            Source::Environment => write!(f, "env:{KEY_ID}"),
            Source::Profile(name) => write!(f, "aws-profile:{name}"),
            Source::WebIdentity(identity) => write!(f, "aws-web-identity:{}", identity.role_arn),
            Source::Container(endpoint) => write!(f, "aws-container:{}", endpoint.url),
            Source::Instance { endpoint } if endpoint == INSTANCE_ENDPOINT => {
                f.write_str("aws-instance-role")
            }
            Source::Instance { endpoint } => write!(f, "aws-instance-role:{endpoint}"),
        }
    }
}

/// The static keys of the environment, as they are now.
pub(super) fn keys_of_environment(env: &Env) -> Result<Credentials> {
    let read = |name: &str| -> Result<Option<String>> {
        let value = env.get(name)?.map(|value| value.trim().to_owned());
        let value = value.filter(|value| !value.is_empty());
        match &value {
            Some(text) if !text.bytes().all(|b| b.is_ascii_graphic()) => Err(Error::new(
                Kind::Auth,
                format!("{name} holds a character that no header can carry"),
            )),
            _ => Ok(value),
        }
    };
    match (read(KEY_ID)?, read(SECRET)?) {
        (Some(id), Some(secret)) => Ok(Credentials::new(
            id,
            secret,
            read(SESSION)?,
            None,
            "environment",
        )),
        (Some(_), None) => Err(Error::new(
            Kind::Auth,
            format!("{KEY_ID} is set in the environment and {SECRET} is not"),
        )),
        (None, _) => Err(Error::new(
            Kind::Auth,
            format!("{KEY_ID} is not set in the environment, or blank"),
        )),
    }
}

/// The profile that `AWS_PROFILE` names (it must exist), or `default`; `None` where it holds no credentials.
fn selected_profile(env: &Env, profiles: &Result<Profiles>) -> Result<Option<String>> {
    let named = env.get("AWS_PROFILE")?;
    let name = named.as_deref().unwrap_or("default");
    let profiles = match (readable(profiles), &named) {
        (Ok(profiles), _) => profiles,
        (Err(problem), Some(_)) => return Err(Error::config("AWS_PROFILE", problem)),
        // Nobody asked for the files: broken ones hide nothing that was wanted by name.
        (Err(_), None) => return Ok(None),
    };
    if !profiles.has(name) {
        return match named {
            Some(name) => Err(Error::config("AWS_PROFILE", profiles.missing(&name))),
            None => Ok(None),
        };
    }
    if !profiles.has_credentials(name) {
        return Ok(None);
    }
    profiles
        .check(name)
        .map_err(|problem| Error::config(format!("AWS profile {name}"), problem))?;
    Ok(Some(name.to_owned()))
}

fn readable(profiles: &Result<Profiles>) -> Result<&Profiles, String> {
    profiles.as_ref().map_err(|e| e.message().to_owned())
}

/// The metadata service, unless it is switched off.
pub(super) fn instance(env: &Env) -> Result<Option<Source>> {
    let off = env.get(INSTANCE_OFF)?;
    if off.is_some_and(|v| v.eq_ignore_ascii_case("true")) {
        return Ok(None);
    }
    let endpoint = match env.get(INSTANCE_URL)? {
        Some(url) => Endpoint::parse(&url)
            .map_err(|e| Error::config(INSTANCE_URL, e.message()))?
            .to_string(),
        None => match env.get(INSTANCE_MODE)?.as_deref() {
            None => INSTANCE_ENDPOINT,
            Some(mode) if mode.eq_ignore_ascii_case("ipv4") => INSTANCE_ENDPOINT,
            Some(mode) if mode.eq_ignore_ascii_case("ipv6") => INSTANCE_ENDPOINT_V6,
            Some(mode) => {
                let what = format!("{mode:?} is not allowed; IPv4 and IPv6 are");
                return Err(Error::config(INSTANCE_MODE, what));
            }
        }
        .to_owned(),
    };
    Ok(Some(Source::Instance { endpoint }))
}
