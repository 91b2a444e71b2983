//! How an entry becomes an adapter: region, endpoint, credential source, model; and what such an entry can't say.

use std::sync::Arc;

use antfly_framework::config::{EncodingFormat, EntryConfig, Env};
use antfly_framework::content::{MediaKind, MediaSupport};
use antfly_framework::generate::ResponseFormat;
use antfly_framework::http::Endpoint;
use antfly_framework::provider::{
    Accepts, Declared, Identity, Operation, Provider, Setup, TokenCost,
};
use antfly_framework::{Error, Result};
use aws_sdk_bedrockruntime::config::endpoint::{DefaultResolver, Params, ResolveEndpoint as _};
use futures::FutureExt as _;
use serde_json::{Map, Value};

use super::connect::Connectors;
use super::credentials::{Loader, Profiles, Source, sought_before};
use super::engine::Engine;
use super::wire::{Owned, converse, embed, owned, rerank};
use super::{Bedrock, Task};

const URL_VARIABLE: &str = "AWS_ENDPOINT_URL_BEDROCK_RUNTIME";
const STS_URL_VARIABLE: &str = "AWS_ENDPOINT_URL_STS";
const DEFAULT_REGION: &str = "us-east-1";
/// The output cap where a token budget needs one and nobody gave it.
const DEFAULT_OUTPUT_CAP: u32 = 1024;

const CHAT_MEDIA: MediaSupport = MediaSupport::Kinds(&[
    MediaKind::Image,
    MediaKind::File,
    MediaKind::Video,
    MediaKind::Audio,
]);

const PLACE: &[&str] = &["region", "profile"];

antfly_framework::inventory::submit!(Accepts {
    provider: super::PLUGIN.name,
    operation: Operation::Embed,
    keys: &[
        Accepts::OUTBOUND,
        PLACE,
        Accepts::EMBEDDER,
        &[
            "encoding_format",
            "input_type",
            "task_type",
            "truncate",
            "multimodal"
        ]
    ],
});

antfly_framework::inventory::submit!(Accepts {
    provider: super::PLUGIN.name,
    operation: Operation::Generate,
    keys: &[
        Accepts::OUTBOUND,
        PLACE,
        &[
            "max_tokens",
            "temperature",
            "top_p",
            "stop",
            "tools",
            "tool_choice",
            "response_format"
        ]
    ],
});

antfly_framework::inventory::submit!(Accepts {
    provider: super::PLUGIN.name,
    operation: Operation::Rerank,
    keys: &[Accepts::OUTBOUND, PLACE, &["top_n", "field"]],
});

/// The adapter of an entry. Opens no connection; reads the shared AWS files and the entry's `ca_file`.
pub(super) fn resolve(setup: &Setup<'_>) -> Result<Arc<dyn Provider>> {
    Ok(Arc::new(adapter(setup)?))
}

fn adapter(setup: &Setup<'_>) -> Result<Bedrock> {
    let (entry, env) = (setup.entry, setup.env);
    entry.refuse_fields_not_in(&["url", "region", "profile"])?;
    let (task, media) = task(entry)?;
    let profiles = Profiles::read(env);
    let source = Source::decide(entry, env, &profiles)?;
    let region = region(entry, env, profiles.as_ref().ok())?;
    let endpoint = endpoint(entry, env, &region)?;
    let bearer = match source {
        Source::Bearer => setup.secrets.env(super::credentials::BEARER)?,
        _ => None,
    };
    let identity = Identity::new(entry, &endpoint).with("region", region.clone());
    Ok(Bedrock {
        declared: Declared::new(
            identity,
            source.identity(),
            TokenCost::Text,
            media,
            DEFAULT_OUTPUT_CAP,
        ),
        engine: Engine::new(entry, &endpoint, &region)?,
        loader: Loader {
            sought: sought_before(&source, entry, env, &profiles)?,
            source,
            bearer,
            env: env.clone(),
            #[cfg(feature = "bedrock-credential-process")]
            time: setup.time.clone(),
            region,
            sts_endpoint: sts_endpoint(env)?,
            services: Connectors::to_services(),
            metadata: Connectors::to_metadata(),
            spare: std::sync::Mutex::default(),
        },
        endpoint,
        model: entry.model.clone(),
        task,
        extra_body: entry.extra_body.clone(),
    })
}

fn region(entry: &EntryConfig, env: &Env, profiles: Option<&Profiles>) -> Result<String> {
    let (name, region) = if let Some(region) = &entry.region {
        (entry.field("region"), region.clone())
    } else if let Some(region) = env.get("AWS_REGION")? {
        ("AWS_REGION".to_owned(), region)
    } else if let Some(region) = env.get("AWS_DEFAULT_REGION")? {
        ("AWS_DEFAULT_REGION".to_owned(), region)
    } else {
        let selected = match &entry.profile {
            Some(profile) => Some(profile.trim().to_owned()),
            None => env.get("AWS_PROFILE")?,
        };
        let profile = selected.as_deref().unwrap_or("default");
        let region = profiles.and_then(|profiles| profiles.region(profile));
        (
            format!("AWS profile {profile}: region"),
            region.unwrap_or(DEFAULT_REGION).to_owned(),
        )
    };
    let region = region.trim();
    // It becomes a part of a host's name.
    let label = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if region.is_empty()
        || region.len() > 63
        || !region.chars().all(label)
        || region.starts_with('-')
        || region.ends_with('-')
    {
        return Err(Error::config(
            name,
            format!("{region:?} is not allowed; a region such as us-east-1 is"),
        ));
    }
    Ok(region.to_owned())
}

/// The entry's `url`, else the environment's, else the region's.
fn endpoint(entry: &EntryConfig, env: &Env, region: &str) -> Result<Endpoint> {
    let told = match &entry.url {
        Some(url) => Some((entry.field("url"), url.clone())),
        None => env
            .get(URL_VARIABLE)?
            .map(|url| (URL_VARIABLE.to_owned(), url)),
    };
    if let Some((name, url)) = told {
        return Endpoint::parse(&url).map_err(|e| Error::config(name, e.message()));
    }
    let flag = |name: &str| -> Result<bool> {
        Ok(env
            .get(name)?
            .is_some_and(|v| v.eq_ignore_ascii_case("true")))
    };
    let no_endpoint = |why: String| {
        Error::config(
            entry.field("region"),
            format!("no endpoint for {region:?}: {why}"),
        )
    };
    let params = Params::builder()
        .region(region)
        .use_fips(flag("AWS_USE_FIPS_ENDPOINT")?)
        .use_dual_stack(flag("AWS_USE_DUALSTACK_ENDPOINT")?)
        .build()
        .map_err(|e| no_endpoint(e.to_string()))?;
    // The rules are compiled in: the SDK's answer is there in one poll.
    match DefaultResolver::new()
        .resolve_endpoint(&params)
        .now_or_never()
    {
        Some(Ok(found)) => Endpoint::parse(found.url()),
        Some(Err(e)) => Err(no_endpoint(e.to_string())),
        None => Err(no_endpoint("the SDK's rules are not ready".to_owned())),
    }
}

fn sts_endpoint(env: &Env) -> Result<Option<String>> {
    let Some(url) = env.get(STS_URL_VARIABLE)? else {
        return Ok(None);
    };
    let endpoint =
        Endpoint::parse(&url).map_err(|e| Error::config(STS_URL_VARIABLE, e.message()))?;
    Ok(Some(endpoint.to_string()))
}

/// What the entry's model is asked to do, and which media it takes for it.
fn task(entry: &EntryConfig) -> Result<(Task, MediaSupport)> {
    let unknown = |known: &str| {
        Error::config(
            entry.field("model"),
            format!(
                "{:?} is no model this adapter can use to {}; known are {known}",
                entry.model, entry.operation
            ),
        )
    };
    match entry.operation {
        Operation::Embed => {
            let model = embed::Model::of(&entry.model).ok_or_else(|| unknown(embed::KNOWN))?;
            Ok((
                Task::Embed(model, check_embed(entry, model)?),
                embed_media(entry, model)?,
            ))
        }
        Operation::Rerank => {
            let model = rerank::Model::of(&entry.model).ok_or_else(|| unknown(rerank::KNOWN))?;
            refuse_owned(entry, model.owned())?;
            if entry.rerank.template.is_some() {
                return Err(Error::config(
                    entry.field("template"),
                    "Bedrock's rerank models have no such option",
                ));
            }
            Ok((
                Task::Rerank(model, entry.rerank.field.clone()),
                MediaSupport::None,
            ))
        }
        _ => {
            check_generate(entry)?;
            Ok((Task::Generate, CHAT_MEDIA))
        }
    }
}

fn check_embed(entry: &EntryConfig, model: embed::Model) -> Result<embed::Options> {
    let options = embed::Options::of(model, &entry.embed)
        .map_err(|(name, problem)| Error::config(entry.field(name), problem))?;
    if entry.embed.encoding_format == Some(EncodingFormat::Base64) {
        return Err(Error::config(
            entry.field("encoding_format"),
            "base64 is not allowed; Bedrock's embedding models answer numbers",
        ));
    }
    let limit = model.limits().max_items;
    if let Some(size) = entry.embed.batch_size
        && size as usize > limit
    {
        return Err(Error::config(
            entry.field("batch_size"),
            format!("{size} is not allowed; this model takes {limit} a request"),
        ));
    }
    refuse_owned(entry, model.owned())?;
    if let (embed::Model::TitanV1, Some(name)) = (model, entry.extra_body.keys().next()) {
        return Err(Error::config(
            entry.field(&format!("extra_body.{name}")),
            "this model takes the text alone and no option",
        ));
    }
    Ok(options)
}

fn embed_media(entry: &EntryConfig, model: embed::Model) -> Result<MediaSupport> {
    match (entry.embed.multimodal, model.media()) {
        (Some(true), MediaSupport::None) => Err(Error::config(
            entry.field("multimodal"),
            "this model embeds text only",
        )),
        (Some(false), _) => Ok(MediaSupport::None),
        (_, media) => Ok(media),
    }
}

fn check_generate(entry: &EntryConfig) -> Result<()> {
    let options = &entry.generate;
    for (name, is_set) in [
        ("top_k", options.top_k.is_some()),
        ("frequency_penalty", options.frequency_penalty.is_some()),
        ("presence_penalty", options.presence_penalty.is_some()),
        ("seed", options.seed.is_some()),
    ] {
        if is_set {
            return Err(Error::config(entry.field(name), converse::MISSING));
        }
    }
    if options.response_format == Some(ResponseFormat::JsonObject) {
        return Err(Error::config(
            entry.field("response_format"),
            "Converse takes a JSON schema, or text; for any JSON object, give a schema that allows it",
        ));
    }
    match converse::misplaced(&entry.extra_body) {
        Some((name, instead)) => Err(misplaced(entry, &name, instead)),
        None => Ok(()),
    }
}

fn refuse_owned(entry: &EntryConfig, names: Owned) -> Result<()> {
    let extra: &Map<String, Value> = &entry.extra_body;
    match owned(extra, names) {
        Some((name, instead)) => Err(misplaced(entry, name, instead)),
        None => Ok(()),
    }
}

fn misplaced(entry: &EntryConfig, name: &str, instead: &str) -> Error {
    Error::config(
        entry.field(&format!("extra_body.{name}")),
        format!("this field belongs to the adapter; use {instead}"),
    )
}

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;
