//! STS: a role by credentials, or by a web identity's token file.

use antfly_framework::config::Env;
use antfly_framework::http::{Redactor, causes};
use antfly_framework::{Error, Kind, Result};
use aws_credential_types::Credentials;
use aws_sdk_sts::Client;
use aws_sdk_sts::config::retry::RetryConfig;
use aws_sdk_sts::config::timeout::TimeoutConfig;
use aws_sdk_sts::config::{BehaviorVersion, IdentityCache, Region, StalledStreamProtectionConfig};
use aws_sdk_sts::error::{ProvideErrorMetadata, SdkError};

use super::Loader;
use crate::bedrock::connect::client_of;

pub(super) const TOKEN_FILE_VARIABLE: &str = "AWS_WEB_IDENTITY_TOKEN_FILE";
pub(super) const ROLE_VARIABLE: &str = "AWS_ROLE_ARN";
/// The session's name where nobody chose one.
const SESSION: &str = "antfly-providers";

/// A role that a profile assumes.
#[derive(Debug)]
pub(super) struct Role {
    pub(super) arn: String,
    pub(super) session: Option<String>,
    pub(super) external_id: Option<String>,
}

/// A token file and the role it is good for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::bedrock) struct WebIdentity {
    pub(super) token_file: String,
    pub(super) role_arn: String,
    pub(super) session: Option<String>,
}

impl WebIdentity {
    /// Both variables, as the SDKs want it; a token file without a role is no source.
    pub(super) fn of_environment(env: &Env) -> Result<Option<Self>> {
        let file = env.get(TOKEN_FILE_VARIABLE)?;
        let role = env.get(ROLE_VARIABLE)?;
        Ok(match (file, role) {
            (Some(token_file), Some(role_arn)) => Some(WebIdentity {
                token_file,
                role_arn,
                session: env.get("AWS_ROLE_SESSION_NAME")?,
            }),
            _ => None,
        })
    }
}

impl Loader {
    /// Credentials of a role for other credentials.
    pub(super) async fn assume(&self, base: Credentials, role: &Role) -> Result<Credentials> {
        let secrets = [Some(base.secret_access_key()), base.session_token()];
        let hidden = Redactor::new(secrets.into_iter().flatten());
        let answer = self
            .sts(Some(base))?
            .assume_role()
            .role_arn(&role.arn)
            .role_session_name(role.session.as_deref().unwrap_or(SESSION))
            .set_external_id(role.external_id.clone())
            .send()
            .await
            .map_err(|e| failed(e, &hidden))?;
        of_answer(answer.credentials())
    }

    /// Credentials of a role for a token, which is read from its file each time: it is rotated there.
    pub(super) async fn web_identity(&self, identity: &WebIdentity) -> Result<Credentials> {
        let token = std::fs::read_to_string(&identity.token_file).map_err(|e| {
            Error::new(
                Kind::Auth,
                format!("can't read the token file {}: {e}", identity.token_file),
            )
        })?;
        let hidden = Redactor::new([token.trim()]);
        let answer = self
            .sts(None)?
            .assume_role_with_web_identity()
            .role_arn(&identity.role_arn)
            .role_session_name(identity.session.as_deref().unwrap_or(SESSION))
            .web_identity_token(token.trim())
            .send()
            .await
            .map_err(|e| failed(e, &hidden))?;
        of_answer(answer.credentials())
    }

    fn sts(&self, base: Option<Credentials>) -> Result<Client> {
        let mut config = aws_sdk_sts::Config::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::new(self.region.clone()))
            .http_client(client_of(self.services.current()?))
            .retry_config(RetryConfig::disabled())
            .timeout_config(TimeoutConfig::disabled())
            .stalled_stream_protection(StalledStreamProtectionConfig::disabled())
            .identity_cache(IdentityCache::no_cache());
        config.set_endpoint_url(self.sts_endpoint.clone());
        if let Some(base) = base {
            config = config.credentials_provider(base);
        }
        Ok(Client::from_conf(config.build()))
    }
}

fn of_answer(keys: Option<&aws_sdk_sts::types::Credentials>) -> Result<Credentials> {
    let keys = keys.ok_or_else(|| Error::new(Kind::Auth, "STS answered without credentials"))?;
    let expiry = (*keys.expiration())
        .try_into()
        .map_err(|_| Error::new(Kind::Auth, "STS answered an expiration that is not a date"))?;
    Ok(Credentials::new(
        keys.access_key_id(),
        keys.secret_access_key(),
        Some(keys.session_token().to_owned()),
        Some(expiry),
        "sts",
    ))
}

/// STS repeats what it was sent when a signature is wrong, session token and all: what it says is told without that.
fn failed<E>(
    error: SdkError<E, aws_smithy_runtime_api::client::orchestrator::HttpResponse>,
    hidden: &Redactor,
) -> Error
where
    E: ProvideErrorMetadata + std::error::Error + Send + Sync + 'static,
{
    let status = error
        .raw_response()
        .map(|response| response.status().as_u16());
    if let Some(refusal) = error.as_service_error() {
        let kind = if status.is_some_and(|s| s >= 500) {
            Kind::Transport
        } else {
            Kind::Auth
        };
        let what = match (refusal.code(), refusal.message()) {
            (None, None) => format!(
                "STS answered status {} with what is not its own XML",
                status.unwrap_or_default()
            ),
            (code, message) => hidden.scrub(&format!(
                "STS refused: {}: {}",
                code.unwrap_or("unknown"),
                message.unwrap_or("no message")
            )),
        };
        return Error::new(kind, what);
    }
    let kind = match (&error, status) {
        (SdkError::DispatchFailure(_) | SdkError::TimeoutError(_), _) => Kind::Transport,
        (_, Some(500..)) => Kind::Transport,
        _ => Kind::Auth,
    };
    let said = hidden.scrub(&causes(&error));
    Error::new(kind, format!("STS can't be asked: {said}"))
}
