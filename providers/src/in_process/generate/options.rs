//! What a request may ask of a model in this process. What can't be followed is refused, never ignored.

use antfly_framework::config::EntryConfig;
use antfly_framework::generate::{GenerateRequest, ResponseFormat, ToolChoice};
use antfly_framework::{Error, Kind, Result};

use super::sample;

/// Stop sequences of a request, and bytes of one: each is looked for at every character.
const MAX_STOPS: usize = 32;
const MAX_STOP_BYTES: usize = 1024;

/// Refuses options of an entry that no model here follows.
pub(in super::super) fn check_entry(entry: &EntryConfig) -> Result<()> {
    let o = &entry.generate;
    let request = GenerateRequest {
        tools: o.tools.clone(),
        tool_choice: o.tool_choice.clone(),
        response_format: o.response_format.clone(),
        temperature: o.temperature,
        top_p: o.top_p,
        frequency_penalty: o.frequency_penalty,
        presence_penalty: o.presence_penalty,
        stop: o.stop.clone(),
        ..GenerateRequest::default()
    };
    // The message begins with the option's name: the path of the entry goes in front of it.
    check(&request).map_err(|e| Error::new(Kind::Config, entry.field(e.message())))
}

/// Refuses a request that no model here follows, before it waits.
pub(in super::super) fn check_request(request: &GenerateRequest) -> Result<()> {
    if request.messages.is_empty() {
        return Err(invalid("messages: there are none"));
    }
    if request
        .messages
        .iter()
        .flat_map(|m| &m.content)
        .any(|part| part.is_media())
    {
        return Err(Error::new(
            Kind::MediaNotAllowed,
            "messages: models in this process read text only",
        ));
    }
    check(request)
}

fn check(request: &GenerateRequest) -> Result<()> {
    if let Some(field) = request.extra_body.keys().next() {
        return Err(unsupported(&format!(
            "extra_body: a model in this process has no request body for {field:?}"
        )));
    }
    match &request.response_format {
        None | Some(ResponseFormat::Text) => {}
        Some(_) => {
            return Err(unsupported(
                "response_format: models in this process write free text only; remove it, or use \"text\"",
            ));
        }
    }
    match &request.tool_choice {
        None | Some(ToolChoice::Auto | ToolChoice::None) => {}
        Some(_) => {
            return Err(unsupported(
                "tool_choice: models in this process can't be made to call a tool; \"auto\" and \"none\" are allowed",
            ));
        }
    }
    let penalties = [
        ("frequency_penalty", request.frequency_penalty),
        ("presence_penalty", request.presence_penalty),
    ];
    for (name, penalty) in penalties {
        if penalty.is_some_and(|p| p != 0.0) {
            return Err(unsupported(&format!(
                "{name}: models in this process have no penalties; remove it, or use 0"
            )));
        }
    }
    if request.stop.len() > MAX_STOPS {
        return Err(invalid(&format!(
            "stop: {} sequences are too many; {MAX_STOPS} are allowed",
            request.stop.len()
        )));
    }
    if request
        .stop
        .iter()
        .any(|s| s.is_empty() || s.len() > MAX_STOP_BYTES)
    {
        return Err(invalid(&format!(
            "stop: a sequence must have from 1 to {MAX_STOP_BYTES} bytes"
        )));
    }
    sample::check(request)
}

fn invalid(problem: &str) -> Error {
    Error::new(Kind::InvalidRequest, problem)
}

fn unsupported(problem: &str) -> Error {
    Error::new(Kind::Unsupported, problem)
}
