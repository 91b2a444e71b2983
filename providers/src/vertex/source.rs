//! Which credentials an entry uses: settled when its handle is built, by looking at files and never at the network.

use std::path::{Path, PathBuf};

use antfly_framework::config::{EntryConfig, Env};
use antfly_framework::http::Endpoint;
use antfly_framework::secret::CredentialSource;
use antfly_framework::{Error, Kind, Result};
use serde_json::Value;

const FILE_VARIABLE: &str = "GOOGLE_APPLICATION_CREDENTIALS";
const FOLDER_VARIABLE: &str = "CLOUDSDK_CONFIG";
const METADATA_VARIABLE: &str = "GCE_METADATA_HOST";
const METADATA_HOST: &str = "metadata.google.internal";
const QUOTA_PROJECT_VARIABLE: &str = "GOOGLE_CLOUD_QUOTA_PROJECT";
/// What gcloud calls the file it keeps application default credentials in.
const FILE_NAME: &str = "application_default_credentials.json";

/// The kinds of credentials files, as their `type` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileKind {
    AuthorizedUser,
    ServiceAccount,
    ExternalAccount,
    ExternalAccountAuthorizedUser,
    ImpersonatedServiceAccount,
}

impl FileKind {
    const ALL: [FileKind; 5] = [
        FileKind::AuthorizedUser,
        FileKind::ServiceAccount,
        FileKind::ExternalAccount,
        FileKind::ExternalAccountAuthorizedUser,
        FileKind::ImpersonatedServiceAccount,
    ];

    const fn as_str(self) -> &'static str {
        match self {
            FileKind::AuthorizedUser => "authorized_user",
            FileKind::ServiceAccount => "service_account",
            FileKind::ExternalAccount => "external_account",
            FileKind::ExternalAccountAuthorizedUser => "external_account_authorized_user",
            FileKind::ImpersonatedServiceAccount => "impersonated_service_account",
        }
    }
}

/// Where tokens come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// A file.
    File {
        path: PathBuf,
        kind: FileKind,
        /// Whether it was found as application default credentials, and not named by the entry.
        default: bool,
    },
    /// The metadata server, by its host.
    Metadata(String),
}

/// A source, and what its file says beside.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) source: Source,
    /// Whose quota pays, where the environment or the file says so.
    pub(super) quota_project: Option<String>,
    /// What else was looked at, where the metadata server is the source because nothing else was there.
    pub(super) sought: Option<String>,
}

/// The source of an entry: the file it names, application default credentials, or the metadata server.
///
/// # Errors
/// `config` naming the setting whose file can't be used.
pub(super) fn find(entry: &EntryConfig, env: &Env) -> Result<Found> {
    let (setting, path, default) = match &entry.credentials_path {
        Some(path) => (entry.field("credentials_path"), PathBuf::from(path), false),
        None => match env.get(FILE_VARIABLE)? {
            Some(path) => (FILE_VARIABLE.to_owned(), PathBuf::from(path), true),
            None => match well_known(env)? {
                Some(path) if path.is_file() => (format!("{}", path.display()), path, true),
                path => return metadata(env, sought(entry, path.as_deref())),
            },
        },
    };
    // Two spellings of one path are one source.
    let path = std::path::absolute(&path).unwrap_or(path);
    let bad = |problem: String| Error::config(&setting, problem);
    let file = read(&path).map_err(bad)?;
    let kind = kind_of(&file).map_err(bad)?;
    let in_file = file.get("quota_project_id").and_then(Value::as_str);
    let in_file = in_file.filter(|project| !project.is_empty());
    let quota_project = match env.get(QUOTA_PROJECT_VARIABLE)? {
        Some(project) => Some(checked_quota_project(QUOTA_PROJECT_VARIABLE, project)?),
        None => match in_file {
            Some(project) => Some(checked_quota_project(&setting, project.to_owned())?),
            None => None,
        },
    };
    Ok(Found {
        source: Source::File {
            path,
            kind,
            default,
        },
        quota_project,
        sought: None,
    })
}

/// What was looked at before the metadata server, in order, and what of it to set.
fn sought(entry: &EntryConfig, gclouds: Option<&Path>) -> String {
    let gclouds = match gclouds {
        Some(path) => format!("there is no file {}", path.display()),
        None => {
            let home = if cfg!(windows) { "APPDATA" } else { "HOME" };
            format!("neither {FOLDER_VARIABLE} nor {home} says where gcloud keeps its own")
        }
    };
    format!(
        "looked at, in this order: {} is not set; {FILE_VARIABLE} is not set; {gclouds}. Set one of these, or let `gcloud auth \
         application-default login` write the file",
        entry.field("credentials_path"),
    )
}

/// A quota project travels in a header.
fn checked_quota_project(setting: &str, project: String) -> Result<String> {
    if project.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Ok(project);
    }
    Err(Error::config(
        setting,
        format!("the quota project {project:?} is not allowed; a project's id or number is"),
    ))
}

/// Where gcloud keeps application default credentials.
fn well_known(env: &Env) -> Result<Option<PathBuf>> {
    if let Some(folder) = env.get(FOLDER_VARIABLE)? {
        return Ok(Some(Path::new(&folder).join(FILE_NAME)));
    }
    let folder = if cfg!(windows) {
        env.get("APPDATA")?
            .map(|root| Path::new(&root).join("gcloud"))
    } else {
        env.get("HOME")?
            .map(|home| Path::new(&home).join(".config").join("gcloud"))
    };
    Ok(folder.map(|folder| folder.join(FILE_NAME)))
}

fn metadata(env: &Env, sought: String) -> Result<Found> {
    let host = env.get(METADATA_VARIABLE)?;
    // google-cloud-auth looks at the process's own variable first, whatever it is told.
    if let Some(process) = Env::process().get(METADATA_VARIABLE)?
        && host.as_ref() != Some(&process)
    {
        return Err(Error::config(
            METADATA_VARIABLE,
            "the process's own environment names another metadata server than the client's, and would win",
        ));
    }
    let host = host.unwrap_or_else(|| METADATA_HOST.to_owned());
    let fits = |c: char| c.is_ascii_alphanumeric() || ".-:[]".contains(c);
    if !host.chars().all(fits) || Endpoint::parse(&format!("http://{host}")).is_err() {
        return Err(Error::config(
            METADATA_VARIABLE,
            "a host is allowed, with or without a port",
        ));
    }
    Ok(Found {
        source: Source::Metadata(host),
        quota_project: match env.get(QUOTA_PROJECT_VARIABLE)? {
            Some(project) => Some(checked_quota_project(QUOTA_PROJECT_VARIABLE, project)?),
            None => None,
        },
        sought: Some(sought),
    })
}

/// A credentials file as JSON. The problem never repeats what is in it.
fn read(path: &Path) -> Result<Value, String> {
    let shown = path.display();
    let text = std::fs::read_to_string(path)
        .map_err(|e| format!("the credentials file {shown} can't be read: {e}"))?;
    let value: Value = serde_json::from_str(&text).map_err(|e| {
        let (line, column) = (e.line(), e.column());
        format!("the credentials file {shown} is not JSON (line {line}, column {column})")
    })?;
    if !value.is_object() {
        return Err(format!("the credentials file {shown} is not a JSON object"));
    }
    Ok(value)
}

fn kind_of(file: &Value) -> Result<FileKind, String> {
    let told = file.get("type").and_then(Value::as_str).unwrap_or("");
    FileKind::ALL
        .into_iter()
        .find(|kind| kind.as_str() == told)
        .ok_or_else(|| {
            let all: Vec<_> = FileKind::ALL.map(FileKind::as_str).to_vec();
            format!(
                "credentials of type {told:?} are not allowed; {} are",
                all.join(", ")
            )
        })
}

impl Source {
    /// The identity of the source: a path, the kind of the default credentials with theirs, or the metadata server.
    pub(super) fn identity(&self) -> CredentialSource {
        CredentialSource::custom(match self {
            Source::File {
                path,
                default: false,
                ..
            } => format!("google-file:{}", path.display()),
            Source::File {
                path,
                kind,
                default: true,
            } => format!("google-adc:{}:{}", kind.as_str(), path.display()),
            Source::Metadata(host) if host == METADATA_HOST => "google-metadata".to_owned(),
            Source::Metadata(host) => format!("google-metadata:{host}"),
        })
    }

    /// The file as it is now: who signs in again gets new credentials without a restart. Its kind must be the same.
    pub(super) fn read_again(path: &Path, kind: FileKind) -> Result<Value> {
        let auth = |problem: String| Error::new(Kind::Auth, problem);
        let file = read(path).map_err(auth)?;
        let now = kind_of(&file).map_err(auth)?;
        if now != kind {
            return Err(auth(format!(
                "the credentials file {} was of type {} when the handle was built and is now of type {}",
                path.display(),
                kind.as_str(),
                now.as_str()
            )));
        }
        Ok(file)
    }
}
