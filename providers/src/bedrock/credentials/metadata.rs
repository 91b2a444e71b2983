//! Credentials from endpoints beside the process: a container's agent (ECS, EKS) and the instance's metadata service.

use std::net::IpAddr;
use std::time::Duration;

use antfly_framework::config::Env;
use antfly_framework::http::{Redactor, causes};
use antfly_framework::{Error, Kind, Result};
use aws_config::imds;
use aws_config::provider_config::ProviderConfig;
use aws_credential_types::Credentials;
use aws_smithy_runtime_api::client::http::HttpConnector as _;
use aws_smithy_runtime_api::client::orchestrator::HttpRequest;
use aws_smithy_types::DateTime;
use aws_smithy_types::date_time::Format;
use serde::Deserialize;

use super::Loader;
use crate::bedrock::connect::{READ_TIMEOUT, client_of};

pub(super) const RELATIVE: &str = "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI";
pub(super) const FULL: &str = "AWS_CONTAINER_CREDENTIALS_FULL_URI";
const TOKEN: &str = "AWS_CONTAINER_AUTHORIZATION_TOKEN";
const TOKEN_FILE: &str = "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE";
/// Where a relative URI points.
const AGENT: &str = "http://169.254.170.2";
const ROLE_PATH: &str = "/latest/meta-data/iam/security-credentials/";

/// A container agent's endpoint, checked: it may be asked for credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::bedrock) struct ContainerEndpoint {
    pub(super) url: String,
}

impl ContainerEndpoint {
    pub(super) fn of_environment(env: &Env) -> Result<Option<Self>> {
        if let Some(path) = env.get(RELATIVE)? {
            if !path.starts_with('/') {
                return Err(Error::config(RELATIVE, "must begin with a slash"));
            }
            return Self::checked(RELATIVE, &format!("{AGENT}{path}")).map(Some);
        }
        match env.get(FULL)? {
            Some(url) => Self::checked(FULL, &url).map(Some),
            None => Ok(None),
        }
    }

    /// Plain http is for this machine and the agents' own addresses: credentials would travel in the open.
    fn checked(variable: &str, text: &str) -> Result<Self> {
        let url = url::Url::parse(text)
            .map_err(|e| Error::config(variable, format!("not a valid URL: {e}")))?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(Error::config(
                variable,
                "must not hold a user name or password",
            ));
        }
        let allowed = match url.scheme() {
            "https" => url.host().is_some(),
            "http" => match url.host() {
                Some(url::Host::Domain(name)) => name.eq_ignore_ascii_case("localhost"),
                Some(url::Host::Ipv4(ip)) => is_agent(ip.into()),
                Some(url::Host::Ipv6(ip)) => is_agent(ip.into()),
                None => false,
            },
            _ => false,
        };
        if !allowed {
            return Err(Error::config(
                variable,
                "must be an https URL, or http to a loopback address or a container agent's (169.254.170.2, 169.254.170.23, \
                 fd00:ec2::23)",
            ));
        }
        Ok(ContainerEndpoint {
            url: url.to_string(),
        })
    }
}

fn is_agent(ip: IpAddr) -> bool {
    let agents = ["169.254.170.2", "169.254.170.23", "fd00:ec2::23"];
    ip.is_loopback() || agents.iter().any(|agent| agent.parse() == Ok(ip))
}

impl Loader {
    /// What the container's agent answers.
    pub(super) async fn container(&self, endpoint: &ContainerEndpoint) -> Result<Credentials> {
        let mut request = HttpRequest::get(&endpoint.url)
            .map_err(|e| Error::new(Kind::Auth, format!("the endpoint can't be asked: {e}")))?;
        request.headers_mut().insert("accept", "application/json");
        let token = self.container_token()?;
        if let Some(token) = token.clone() {
            request
                .headers_mut()
                .try_insert("authorization", token)
                .map_err(|_| {
                    Error::new(
                        Kind::Auth,
                        "the container's authorization token fits no header",
                    )
                })?;
        }
        let connector = self.metadata.current()?;
        let response = connector.call(request).await.map_err(|e| {
            let kind = match e.is_user() {
                true => Kind::Auth,
                false => Kind::Transport,
            };
            let what = format!("the container's endpoint can't be asked: {}", causes(&e));
            Error::new(kind, what)
        })?;
        let status = response.status().as_u16();
        let answer = response.body().bytes().unwrap_or_default();
        if !(200..300).contains(&status) {
            let kind = if status >= 500 {
                Kind::Transport
            } else {
                Kind::Auth
            };
            return Err(Error::new(
                kind,
                format!("the container's endpoint answered status {status}"),
            ));
        }
        // What it refuses may repeat the token it was asked with.
        parse(answer, "container")
            .map_err(|e| Error::new(e.kind(), Redactor::new(token).scrub(e.message())))
    }

    fn container_token(&self) -> Result<Option<String>> {
        if let Some(path) = self.env.get(TOKEN_FILE)? {
            let token = std::fs::read_to_string(&path).map_err(|e| {
                Error::new(Kind::Auth, format!("can't read {path} ({TOKEN_FILE}): {e}"))
            })?;
            return Ok(Some(token.trim().to_owned()));
        }
        self.env.get(TOKEN)
    }

    /// The credentials of the instance's role, through the SDK's IMDSv2 client: a token first, then the role's name and its keys.
    ///
    /// The SDK's credential provider on top of that client is not used: it stretches the expiry of expired credentials, and an
    /// expired one must be refused here.
    pub(super) async fn instance(&self, endpoint: &str) -> Result<Credentials> {
        let http = client_of(self.metadata.current()?);
        let client = imds::Client::builder()
            .configure(&ProviderConfig::without_region().with_http_client(http))
            .endpoint(endpoint)
            .map_err(|e| {
                Error::new(
                    Kind::Auth,
                    format!("the metadata endpoint is not valid: {e}"),
                )
            })?
            .max_attempts(1)
            .connect_timeout(Duration::from_secs(1))
            .read_timeout(READ_TIMEOUT)
            .build();
        let roles = client.get(ROLE_PATH).await.map_err(instance_error)?;
        let role = roles.as_ref().lines().next().unwrap_or("").trim();
        if role.is_empty() {
            return Err(Error::new(Kind::Auth, "this instance has no role"));
        }
        // It becomes a part of a URL, and the SDK's client panics over one that is none.
        let in_names = |c: char| c.is_ascii_alphanumeric() || "_+=,.@-".contains(c);
        if !role.chars().all(in_names) {
            let what = "the metadata service answered no role's name, but something else";
            return Err(Error::new(Kind::Auth, what));
        }
        let keys = client
            .get(format!("{ROLE_PATH}{role}"))
            .await
            .map_err(instance_error)?;
        parse(keys.as_ref().as_bytes(), "instance")
    }
}

fn instance_error(error: imds::client::error::ImdsError) -> Error {
    use imds::client::error::ImdsError;
    let (kind, what) = match &error {
        ImdsError::ErrorResponse(context) => {
            let status = context.response().status().as_u16();
            let what = match status {
                404 => "the metadata service knows no role for this instance".to_owned(),
                status => format!("the metadata service answered status {status}"),
            };
            (
                if status >= 500 {
                    Kind::Transport
                } else {
                    Kind::Auth
                },
                what,
            )
        }
        // A connection that broke is "unexpected" to the SDK.
        _ => (
            Kind::Transport,
            format!("the metadata service can't be asked: {}", causes(&error)),
        ),
    };
    Error::new(kind, what)
}

/// What both endpoints answer. Other fields are ignored; `Debug` is not derived, as it would show the keys.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Answer {
    code: Option<String>,
    message: Option<String>,
    access_key_id: Option<String>,
    secret_access_key: Option<String>,
    token: Option<String>,
    expiration: Option<String>,
}

fn parse(body: &[u8], provider: &'static str) -> Result<Credentials> {
    // The parser's own words could repeat a part of the answer, and with it of a key.
    let answer: Answer = serde_json::from_slice(body).map_err(|e| {
        Error::new(
            Kind::Auth,
            format!(
                "the answer is not JSON with credentials (line {}, column {})",
                e.line(),
                e.column()
            ),
        )
    })?;
    if let Some(code) = answer
        .code
        .filter(|code| !code.eq_ignore_ascii_case("success"))
    {
        let message = answer.message.unwrap_or_default();
        return Err(Error::new(Kind::Auth, format!("{code}: {message}")));
    }
    let missing = |field: &str| Error::new(Kind::Auth, format!("the answer has no {field}"));
    let id = answer.access_key_id.ok_or_else(|| missing("AccessKeyId"))?;
    let secret = answer
        .secret_access_key
        .ok_or_else(|| missing("SecretAccessKey"))?;
    let expiry = answer.expiration.ok_or_else(|| missing("Expiration"))?;
    let expiry = DateTime::from_str(&expiry, Format::DateTimeWithOffset)
        .ok()
        .and_then(|at| at.try_into().ok())
        .ok_or_else(|| Error::new(Kind::Auth, "the answer's Expiration is not a date"))?;
    Ok(Credentials::new(
        id,
        secret,
        answer.token.filter(|token| !token.is_empty()),
        Some(expiry),
        provider,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_safe_endpoints_are_asked_for_credentials() {
        let decide = |pairs: &[(&str, &str)]| {
            ContainerEndpoint::of_environment(&Env::from_pairs(pairs.iter().copied()))
        };
        let url = |pairs: &[(&str, &str)]| decide(pairs).unwrap().unwrap().url;
        assert_eq!(url(&[(RELATIVE, "/v2/x")]), "http://169.254.170.2/v2/x");
        for good in [
            "http://127.0.0.1:9/c",
            "http://[::1]:9/c",
            "http://localhost/c",
            "http://169.254.170.23/v1/credentials",
            "http://[fd00:ec2::23]/v1/credentials",
            "https://agent.example/c",
        ] {
            assert_eq!(url(&[(FULL, good)]), good);
        }
        for bad in [
            "http://10.0.0.1/c",
            "http://agent.example/c",
            "ftp://127.0.0.1/c",
            "nonsense",
            "https://u:p@h/c",
        ] {
            let e = decide(&[(FULL, bad)]).unwrap_err();
            assert!(
                e.kind() == Kind::Config && e.message().starts_with(FULL),
                "{e}"
            );
        }
        assert_eq!(decide(&[(RELATIVE, "x")]).unwrap_err().kind(), Kind::Config);
        assert_eq!(decide(&[]).unwrap(), None);
    }

    #[test]
    fn an_answer_that_lacks_something_is_an_auth_error_without_its_secrets() {
        for body in [
            "<html>hunter2</html>",
            r#"{"Code": "Failed", "Message": "no role"}"#,
            r#"{"AccessKeyId": "a", "SecretAccessKey": "hunter2"}"#,
            r#"{"AccessKeyId": "a", "SecretAccessKey": "hunter2", "Expiration": "tomorrow"}"#,
            r#"{"SecretAccessKey": "hunter2", "AccessKeyId": ["hunter2"]}"#,
        ] {
            let e = parse(body.as_bytes(), "test").unwrap_err();
            assert_eq!(e.kind(), Kind::Auth);
            assert!(!format!("{e} {e:?}").contains("hunter2"), "{e}");
        }
        let good = br#"{"AccessKeyId": "a", "SecretAccessKey": "b", "Token": "c", "Expiration": "2030-01-02T03:04:05Z"}"#;
        let keys = parse(good, "test").unwrap();
        assert_eq!(
            (keys.access_key_id(), keys.session_token()),
            ("a", Some("c"))
        );
        assert!(keys.expiry().is_some());
    }
}
