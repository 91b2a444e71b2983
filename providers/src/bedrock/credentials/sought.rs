//! Where credentials were looked for and not found: what an error says when there is nothing else left to ask.

use antfly_framework::Result;
use antfly_framework::config::{EntryConfig, Env};

use super::metadata::{FULL, RELATIVE};
use super::profile::{Profiles, files};
use super::source::{BEARER, KEY_ID, SECRET};
use super::sts::{ROLE_VARIABLE, TOKEN_FILE_VARIABLE};

/// What was looked at, in the chain's order, and what of it to set. Names alone: no value is shown.
pub(super) fn sought(
    entry: &EntryConfig,
    env: &Env,
    profiles: &Result<Profiles>,
) -> Result<String> {
    let named = env.get("AWS_PROFILE")?;
    let profile = named.as_deref().unwrap_or("default");
    let held = match profiles {
        Err(e) => format!("the shared AWS files are of no use ({})", e.message()),
        Ok(profiles) => {
            let which = match named {
                Some(_) => "which AWS_PROFILE names",
                None => "as AWS_PROFILE is not set",
            };
            let [config, credentials] = files(env)?;
            match profiles.has(profile) {
                true => format!(
                    "profile {profile:?} ({which}) holds no credentials in {config} and {credentials}"
                ),
                false => {
                    format!("{config} and {credentials} hold no profile {profile:?} ({which})")
                }
            }
        }
    };
    let identity = match (env.get(TOKEN_FILE_VARIABLE)?, env.get(ROLE_VARIABLE)?) {
        (Some(_), None) => format!("{TOKEN_FILE_VARIABLE} is set and {ROLE_VARIABLE} is not"),
        (None, Some(_)) => format!("{ROLE_VARIABLE} is set and {TOKEN_FILE_VARIABLE} is not"),
        _ => format!("{TOKEN_FILE_VARIABLE} with {ROLE_VARIABLE} is not set"),
    };
    Ok(format!(
        "looked at, in this order: {} is not set; {BEARER} is not set; {KEY_ID} with {SECRET} is not set; {held}; {identity}; \
         {RELATIVE} and {FULL} are not set. Set one of these",
        entry.field("profile"),
    ))
}
