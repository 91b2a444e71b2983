//! The body of Converse and ConverseStream.
//!
//! It is written here and put into the SDK's request before that is signed. The SDK's own types would lose something on the way:
//! they hold sampling parameters as 32-bit floats and JSON documents as hash maps, so that 0.7 arrives as 0.699999988 and a tool's
//! schema in another order each time, which defeats the provider's prompt cache.

use antfly_framework::generate::{GenerateRequest, ResponseFormat, Tool, ToolChoice};
use antfly_framework::{Error, Kind, Result};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::message::{Turn, conversation};
use super::{Owned, owned};

/// The fields this body writes, with what to use instead.
pub(in crate::bedrock) const OWNED: Owned = &[
    ("modelId", "the entry's `model`"),
    ("messages", "the request's messages"),
    ("system", "the request's system messages"),
    (
        "inferenceConfig",
        "the entry's `max_tokens`, `temperature`, `top_p` and `stop`",
    ),
    ("toolConfig", "the entry's `tools` and `tool_choice`"),
];

/// The models' own names for the output cap. One hidden among a model's own fields would make an attempt dearer than it was paid for.
const CAPS: &[&str] = &[
    "max_tokens",
    "maxTokens",
    "max_new_tokens",
    "max_gen_len",
    "max_tokens_to_sample",
    "max_completion_tokens",
    "maxTokenCount",
];

/// The first field of `extra_body` that can't stand there, and what to use instead.
pub(in crate::bedrock) fn misplaced(extra: &Map<String, Value>) -> Option<(String, &'static str)> {
    if let Some((name, instead)) = owned(extra, OWNED) {
        return Some((name.to_owned(), instead));
    }
    let object = |name: &str| extra.get(name).and_then(Value::as_object);
    if object("outputConfig").is_some_and(|fields| fields.contains_key("textFormat")) {
        return Some((
            "outputConfig.textFormat".to_owned(),
            "the entry's `response_format`",
        ));
    }
    let fields = object("additionalModelRequestFields")?;
    let nested = |name: &str| fields.get(name).and_then(Value::as_object);
    let configs = [
        Some(fields),
        nested("inferenceConfig"),
        nested("textGenerationConfig"),
    ];
    let cap = CAPS.iter().find(|cap| {
        configs
            .iter()
            .flatten()
            .any(|fields| fields.contains_key(**cap))
    })?;
    Some((
        format!("additionalModelRequestFields.{cap}"),
        "the entry's `max_tokens`",
    ))
}

/// The options Converse does not have. Some models have them under names of their own.
pub(in crate::bedrock) const MISSING: &str = "Converse has no such option; a model that has it takes it by its own name in extra_body.additionalModelRequestFields";

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Body<'a> {
    messages: Vec<Turn>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    system: Vec<Value>,
    #[serde(skip_serializing_if = "Inference::is_empty")]
    inference_config: Inference<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_config: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_config: Option<Value>,
    #[serde(flatten)]
    extra: Map<String, Value>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Inference<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_p: Option<f64>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    stop_sequences: &'a [String],
}

impl Inference<'_> {
    fn is_empty(&self) -> bool {
        self.max_tokens.is_none()
            && self.temperature.is_none()
            && self.top_p.is_none()
            && self.stop_sequences.is_empty()
    }
}

/// The body, as it is sent.
pub(in crate::bedrock) fn body(request: &GenerateRequest) -> Result<Vec<u8>> {
    for (name, is_set) in [
        ("top_k", request.top_k.is_some()),
        ("frequency_penalty", request.frequency_penalty.is_some()),
        ("presence_penalty", request.presence_penalty.is_some()),
        ("seed", request.seed.is_some()),
    ] {
        if is_set {
            return Err(Error::new(Kind::Unsupported, format!("{name}: {MISSING}")));
        }
    }
    for (name, number) in [
        ("temperature", request.temperature),
        ("top_p", request.top_p),
    ] {
        if let Some(number) = number.filter(|number| !number.is_finite()) {
            let what = format!("{name} is {number}; a finite number is allowed");
            return Err(Error::new(Kind::InvalidRequest, what));
        }
    }
    if let Some((name, instead)) = misplaced(&request.extra_body) {
        return Err(Error::new(
            Kind::InvalidRequest,
            format!("extra_body.{name}: this field belongs to the adapter; use {instead}"),
        ));
    }
    let talk = conversation(&request.messages)?;
    if talk.turns.is_empty() {
        return Err(Error::new(
            Kind::InvalidRequest,
            "there is no message beside the system's",
        ));
    }
    let mut extra = request.extra_body.clone();
    let output_config = match (
        text_format(request.response_format.as_ref())?,
        extra.remove("outputConfig"),
    ) {
        (None, own) => own,
        (Some(format), own) => {
            let mut config = own.unwrap_or_else(|| json!({}));
            let fields = config.as_object_mut().ok_or_else(|| {
                Error::new(
                    Kind::InvalidRequest,
                    "extra_body.outputConfig: an object is allowed",
                )
            })?;
            fields.insert("textFormat".to_owned(), format);
            Some(config)
        }
    };
    let body = Body {
        tool_config: tool_config(
            &request.tools,
            request.tool_choice.as_ref(),
            talk.uses_tools,
        )?,
        messages: talk.turns,
        system: talk.system,
        inference_config: Inference {
            max_tokens: request.max_tokens,
            temperature: request.temperature,
            top_p: request.top_p,
            stop_sequences: &request.stop,
        },
        output_config,
        extra,
    };
    serde_json::to_vec(&body).map_err(|e| {
        Error::new(
            Kind::InvalidRequest,
            format!("the request can't be written as JSON: {e}"),
        )
    })
}

fn tool_config(tools: &[Tool], choice: Option<&ToolChoice>, in_use: bool) -> Result<Option<Value>> {
    if tools.is_empty() {
        return match choice {
            None | Some(ToolChoice::Auto | ToolChoice::None) => Ok(None),
            _ => Err(Error::new(
                Kind::InvalidRequest,
                "tool_choice wants a tool called, and there are no tools",
            )),
        };
    }
    if choice == Some(&ToolChoice::None) {
        // Converse can't forbid tools it was told of, and wants to be told of those the conversation has used.
        return if in_use {
            Err(Error::new(
                Kind::Unsupported,
                "tool_choice none: Converse can't forbid tools in a conversation that has used them",
            ))
        } else {
            Ok(None)
        };
    }
    let mut config = Map::new();
    config.insert("tools".to_owned(), tools.iter().map(tool).collect());
    let choice = match choice {
        None => None,
        Some(ToolChoice::Auto) => Some(json!({"auto": {}})),
        Some(ToolChoice::Required) => Some(json!({"any": {}})),
        Some(ToolChoice::Tool(name)) => Some(json!({"tool": {"name": name}})),
        Some(_) => {
            return Err(Error::new(
                Kind::Unsupported,
                "Converse has no such tool_choice",
            ));
        }
    };
    config.extend(choice.map(|choice| ("toolChoice".to_owned(), choice)));
    Ok(Some(Value::Object(config)))
}

fn tool(tool: &Tool) -> Value {
    let schema = match &tool.parameters {
        Value::Null => json!({"type": "object", "properties": {}}),
        schema => schema.clone(),
    };
    let mut spec = Map::new();
    spec.insert("name".to_owned(), json!(tool.name));
    // Converse refuses an empty description.
    if let Some(text) = tool.description.as_deref().filter(|text| !text.is_empty()) {
        spec.insert("description".to_owned(), json!(text));
    }
    spec.insert("inputSchema".to_owned(), json!({ "json": schema }));
    if let Some(strict) = tool.strict {
        spec.insert("strict".to_owned(), json!(strict));
    }
    json!({ "toolSpec": spec })
}

fn text_format(format: Option<&ResponseFormat>) -> Result<Option<Value>> {
    match format {
        None | Some(ResponseFormat::Text) => Ok(None),
        // The schema travels as text inside the JSON.
        Some(ResponseFormat::JsonSchema { name, schema, .. }) => Ok(Some(json!({
            "type": "json_schema",
            "structure": {"jsonSchema": {"name": name, "schema": schema.to_string()}},
        }))),
        Some(_) => Err(Error::new(
            Kind::Unsupported,
            "response_format: Converse takes a JSON schema, or text; for any JSON object, give a schema that allows it",
        )),
    }
}

#[cfg(test)]
#[path = "converse_tests.rs"]
mod tests;
