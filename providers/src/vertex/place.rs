//! Where a model is: host, project, location, resource name.

use antfly_framework::config::{EntryConfig, Env};
use antfly_framework::http::{Endpoint, Url};
use antfly_framework::provider::Operation;
use antfly_framework::{Error, Result};

use crate::google::segment;

/// What an endpoint without a path gets.
const DEFAULT_PATH: &str = "/v1";
const DEFAULT_LOCATION: &str = "us-central1";
/// Where the ranking API is unless the entry says otherwise.
const RANKING_LOCATION: &str = "global";
const PROJECT_VARIABLE: &str = "GOOGLE_CLOUD_PROJECT";
const LOCATION_VARIABLE: &str = "GOOGLE_CLOUD_LOCATION";

/// A model in its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) endpoint: Endpoint,
    pub(super) project: String,
    pub(super) location: String,
    /// The effective model: bare for Google's own, else its name below the location.
    pub(super) model: String,
    /// What methods are called on, below the endpoint; percent-encoded.
    resource: String,
}

impl Place {
    /// The place of an entry's model.
    ///
    /// # Errors
    /// `config` naming the field.
    pub(super) fn of(entry: &EntryConfig, env: &Env) -> Result<Self> {
        match entry.operation {
            Operation::Rerank => Self::of_ranking(entry, env),
            _ => Self::of_model(entry, env),
        }
    }

    fn of_model(entry: &EntryConfig, env: &Env) -> Result<Self> {
        let name = Name::parse(entry)?;
        let project = match name.agreed(entry, "project_id", &entry.project_id, name.project)? {
            Some(project) => project,
            None => project_of(entry, env)?,
        };
        let location = match name.agreed(entry, "location", &entry.location, name.location)? {
            Some(location) => location,
            None => match env.get(LOCATION_VARIABLE)? {
                Some(location) => checked_location(LOCATION_VARIABLE, location)?,
                None => DEFAULT_LOCATION.to_owned(),
            },
        };
        let rest: Vec<String> = name.rest.iter().map(|part| segment(part)).collect();
        let resource = below(&project, &location, &rest.join("/"));
        let host = match location.as_str() {
            "global" => "https://aiplatform.googleapis.com".to_owned(),
            // Multi-regions have hosts of their own.
            "us" | "eu" => format!("https://aiplatform.{location}.rep.googleapis.com"),
            region => format!("https://{region}-aiplatform.googleapis.com"),
        };
        Ok(Place {
            endpoint: endpoint(entry, &host)?,
            project,
            location,
            model: name.short(),
            resource,
        })
    }

    fn of_ranking(entry: &EntryConfig, env: &Env) -> Result<Self> {
        if entry.model.trim().is_empty() || entry.model.contains('/') {
            return Err(Error::config(
                entry.field("model"),
                format!(
                    "{:?} is not allowed; a ranking model such as semantic-ranker-default@latest is",
                    entry.model
                ),
            ));
        }
        let project = match &entry.project_id {
            Some(project) => checked_project(&entry.field("project_id"), project.clone())?,
            None => project_of(entry, env)?,
        };
        let location = match &entry.location {
            Some(location) => checked_location(&entry.field("location"), location.clone())?,
            None => RANKING_LOCATION.to_owned(),
        };
        let host = match location.as_str() {
            "global" => "https://discoveryengine.googleapis.com".to_owned(),
            location => format!("https://{location}-discoveryengine.googleapis.com"),
        };
        Ok(Place {
            endpoint: endpoint(entry, &host)?,
            resource: below(&project, &location, "rankingConfigs/default_ranking_config"),
            project,
            location,
            model: entry.model.clone(),
        })
    }

    /// The URL of a method of the model.
    pub(super) fn method(&self, method: &str) -> Result<Url> {
        self.endpoint.join(&format!("{}:{method}", self.resource))
    }
}

fn below(project: &str, location: &str, rest: &str) -> String {
    let (project, location) = (segment(project), segment(location));
    format!("projects/{project}/locations/{location}/{rest}")
}

/// The entry's `url`, else the location's host.
fn endpoint(entry: &EntryConfig, host: &str) -> Result<Endpoint> {
    let url = entry.url.as_deref().unwrap_or(host);
    Endpoint::parse(url)
        .map(|endpoint| endpoint.with_default_path(DEFAULT_PATH))
        .map_err(|e| Error::config(entry.field("url"), e.message()))
}

/// The project of the environment, where neither entry nor model names one.
fn project_of(entry: &EntryConfig, env: &Env) -> Result<String> {
    match env.get(PROJECT_VARIABLE)? {
        Some(project) => checked_project(PROJECT_VARIABLE, project),
        None => Err(Error::config(
            entry.field("project_id"),
            format!(
                "Vertex AI needs a project: set project_id, or {PROJECT_VARIABLE} in the environment, or use a model's full name \
                 (projects/.../locations/.../publishers/.../models/...)"
            ),
        )),
    }
}

/// A project's id or number; ids of a domain hold a dot and a colon.
fn checked_project(setting: &str, project: String) -> Result<String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "-.:".contains(c);
    if project.is_empty() || is_dots(&project) || !project.chars().all(fits) {
        return Err(Error::config(
            setting,
            format!("{project:?} is not allowed; a project's id or number is"),
        ));
    }
    Ok(project)
}

/// A location becomes a part of a host's name.
fn checked_location(setting: &str, location: String) -> Result<String> {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let edge = location.starts_with('-') || location.ends_with('-');
    if location.is_empty() || edge || !location.chars().all(fits) {
        return Err(Error::config(
            setting,
            format!(
                "{location:?} is not allowed; a region such as us-central1, a multi-region (us, eu) or global is"
            ),
        ));
    }
    Ok(location)
}

fn is_dots(part: &str) -> bool {
    matches!(part, "." | "..")
}

/// A model's name, taken apart.
struct Name<'a> {
    project: Option<&'a str>,
    location: Option<&'a str>,
    /// Below the location: `publishers/P/models/M`, `endpoints/E`, `models/M`.
    rest: Vec<&'a str>,
}

impl<'a> Name<'a> {
    fn parse(entry: &'a EntryConfig) -> Result<Self> {
        let parts: Vec<&str> = entry.model.split('/').collect();
        let bad = |part: &&str| part.trim().is_empty() || is_dots(part);
        let (project, location, rest) = match parts.as_slice() {
            ["projects", project, "locations", location, rest @ ..] => {
                (Some(*project), Some(*location), rest)
            }
            rest => (None, None, rest),
        };
        let rest = match rest {
            _ if parts.iter().any(bad) => None,
            ["publishers", _, "models", _] | ["models" | "endpoints" | "tunedModels", _] => {
                Some(rest.to_vec())
            }
            [publisher, model] if project.is_none() => {
                Some(vec!["publishers", *publisher, "models", *model])
            }
            [model] if project.is_none() => Some(vec!["publishers", "google", "models", *model]),
            _ => None,
        };
        match rest {
            Some(rest) => Ok(Name {
                project,
                location,
                rest,
            }),
            None => Err(Error::config(
                entry.field("model"),
                format!(
                    "{:?} is not allowed; a model's id is, or publisher/model, publishers/.../models/..., endpoints/..., models/..., \
                     or one of the last three below projects/.../locations/.../",
                    entry.model
                ),
            )),
        }
    }

    /// What the entry and the name say of one thing, if either does; they must agree.
    fn agreed(
        &self,
        entry: &EntryConfig,
        field: &str,
        set: &Option<String>,
        named: Option<&str>,
    ) -> Result<Option<String>> {
        let path = entry.field(field);
        let check = |setting: &str, value: String| match field {
            "location" => checked_location(setting, value),
            _ => checked_project(setting, value),
        };
        let set = set.clone().map(|set| check(&path, set)).transpose()?;
        let named = named.map(|named| check(&entry.field("model"), named.to_owned()));
        match (set, named.transpose()?) {
            (Some(set), Some(named)) if set != named => Err(Error::config(
                path,
                format!("{set:?} is not what the model's name says ({named:?})"),
            )),
            (set, named) => Ok(named.or(set)),
        }
    }

    fn short(&self) -> String {
        match self.rest.as_slice() {
            ["publishers", "google", "models", model] => (*model).to_owned(),
            rest => rest.join("/"),
        }
    }
}

#[cfg(test)]
#[path = "place_tests.rs"]
mod tests;
