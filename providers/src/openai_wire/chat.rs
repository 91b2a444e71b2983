//! The body of a chat completions request.

use antfly_framework::Result;
use antfly_framework::generate::{GenerateRequest, ResponseFormat, Tool, ToolChoice};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::Owned;
use super::message::{self, WireMessage};

/// Where a request goes decides the spelling of a few fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    not(all(feature = "openai", feature = "antfly")),
    allow(dead_code, reason = "each adapter has its own")
)]
pub(crate) enum Dialect {
    /// OpenAI's own endpoint: `max_completion_tokens`, and no file by URL.
    OpenAi,
    /// Servers elsewhere: the older `max_tokens`.
    Compatible,
    /// Antfly: `max_tokens`, and media other than images as `media` parts.
    Antfly,
}

/// The body. What is `None` or empty is left out.
#[derive(Serialize)]
pub(crate) struct ChatBody<'a> {
    model: &'a str,
    messages: Vec<WireMessage<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_p: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_k: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    frequency_penalty: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    presence_penalty: Option<f64>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    stop: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<i64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<WireTool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_format: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream_options: Option<StreamOptions>,
    #[serde(flatten)]
    extra: &'a Map<String, Value>,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

#[derive(Serialize)]
struct WireTool<'a> {
    r#type: &'static str,
    function: WireFunction<'a>,
}

#[derive(Serialize)]
struct WireFunction<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    #[serde(skip_serializing_if = "Value::is_null")]
    parameters: &'a Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    strict: Option<bool>,
}

/// The fields [`ChatBody`] writes or owns, with what to use instead. `extra_body` may not hold them: they decide what is asked, how
/// many answers come, or what an attempt costs.
pub(crate) const OWNED: &Owned = &[
    ("model", "the entry's `model`"),
    ("messages", "the request's messages"),
    ("prompt", "the request's messages"),
    ("input", "the request's messages"),
    ("stream", "a streamed or a plain call"),
    ("stream_options", "a streamed call, which asks for usage"),
    ("n", "one call an answer"),
    ("best_of", "one call an answer"),
    ("max_tokens", "the entry's `max_tokens`"),
    ("max_completion_tokens", "the entry's `max_tokens`"),
    ("max_output_tokens", "the entry's `max_tokens`"),
    ("temperature", "the entry's `temperature`"),
    ("top_p", "the entry's `top_p`"),
    ("top_k", "the entry's `top_k`"),
    ("frequency_penalty", "the entry's `frequency_penalty`"),
    ("presence_penalty", "the entry's `presence_penalty`"),
    ("stop", "the entry's `stop`"),
    ("seed", "the entry's `seed`"),
    ("tools", "the entry's `tools`"),
    ("tool_choice", "the entry's `tool_choice`"),
    ("response_format", "the entry's `response_format`"),
];

impl<'a> ChatBody<'a> {
    pub(crate) fn new(
        model: &'a str,
        request: &'a GenerateRequest,
        extra: &'a Map<String, Value>,
        dialect: Dialect,
        stream: bool,
    ) -> Result<Self> {
        let own = dialect == Dialect::OpenAi;
        Ok(ChatBody {
            model,
            messages: message::messages(&request.messages, dialect)?,
            max_completion_tokens: request.max_tokens.filter(|_| own),
            max_tokens: request.max_tokens.filter(|_| !own),
            temperature: request.temperature,
            top_p: request.top_p,
            top_k: request.top_k,
            frequency_penalty: request.frequency_penalty,
            presence_penalty: request.presence_penalty,
            stop: &request.stop,
            seed: request.seed,
            tools: request.tools.iter().map(tool).collect(),
            tool_choice: request.tool_choice.as_ref().and_then(tool_choice),
            response_format: request.response_format.as_ref().and_then(response_format),
            stream: stream.then_some(true),
            stream_options: stream.then_some(StreamOptions {
                include_usage: true,
            }),
            extra,
        })
    }
}

fn tool(tool: &Tool) -> WireTool<'_> {
    WireTool {
        r#type: "function",
        function: WireFunction {
            name: &tool.name,
            description: tool.description.as_deref(),
            parameters: &tool.parameters,
            strict: tool.strict,
        },
    }
}

fn tool_choice(choice: &ToolChoice) -> Option<Value> {
    match choice {
        ToolChoice::Auto => Some(json!("auto")),
        ToolChoice::None => Some(json!("none")),
        ToolChoice::Required => Some(json!("required")),
        ToolChoice::Tool(name) => Some(json!({"type": "function", "function": {"name": name}})),
        _ => None,
    }
}

fn response_format(format: &ResponseFormat) -> Option<Value> {
    match format {
        ResponseFormat::Text => Some(json!({"type": "text"})),
        ResponseFormat::JsonObject => Some(json!({"type": "json_object"})),
        ResponseFormat::JsonSchema {
            name,
            schema,
            strict,
        } => {
            let mut inner = json!({"name": name, "schema": schema});
            if let (Some(strict), Some(fields)) = (strict, inner.as_object_mut()) {
                fields.insert("strict".to_owned(), json!(strict));
            }
            Some(json!({"type": "json_schema", "json_schema": inner}))
        }
        _ => None,
    }
}
