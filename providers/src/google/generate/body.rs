//! The body of a `generateContent` request.

use antfly_framework::generate::{GenerateRequest, ResponseFormat, Tool, ToolChoice};
use antfly_framework::{Error, Kind, Result};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::message::{self, Part};
use crate::google::extra::{Parts, Rules};
use crate::google::media::{Files, WireContent};

/// The body. What is `None` or empty is left out.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct GenerateBody<'a> {
    contents: Vec<WireContent<Part<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    system_instruction: Option<WireContent<Part<'a>>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_config: Option<Value>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    generation_config: Map<String, Value>,
    #[serde(flatten)]
    extra: Map<String, Value>,
}

/// What [`GenerateBody`] writes or owns: it decides what is asked, how many answers come, or what an attempt costs.
pub(crate) const RULES: Rules = Rules {
    owned: &[
        ("model", "the entry's `model`"),
        ("contents", "the request's messages"),
        ("systemInstruction", "a message of the system"),
        ("tools", "the entry's `tools`"),
        ("toolConfig", "the entry's `tool_choice`"),
    ],
    nested: Some((
        "generationConfig",
        &[
            ("maxOutputTokens", "the entry's `max_tokens`"),
            ("candidateCount", "one call an answer"),
            ("temperature", "the entry's `temperature`"),
            ("topP", "the entry's `top_p`"),
            ("topK", "the entry's `top_k`"),
            ("frequencyPenalty", "the entry's `frequency_penalty`"),
            ("presencePenalty", "the entry's `presence_penalty`"),
            ("stopSequences", "the entry's `stop`"),
            ("seed", "the entry's `seed`"),
            ("responseMimeType", "the entry's `response_format`"),
            ("responseSchema", "the entry's `response_format`"),
            ("responseJsonSchema", "the entry's `response_format`"),
        ],
    )),
};

impl<'a> GenerateBody<'a> {
    pub(crate) fn new(request: &'a GenerateRequest, files: Files<'_>) -> Result<Self> {
        let Parts { beside, within } = RULES.of_request(&request.extra_body)?;
        let (system_instruction, contents) = message::contents(&request.messages, files)?;
        if contents.is_empty() {
            return Err(Error::new(
                Kind::InvalidRequest,
                "there are only system messages; a message of the user is needed",
            ));
        }
        Ok(GenerateBody {
            contents,
            system_instruction,
            tools: tools(&request.tools),
            tool_config: request.tool_choice.as_ref().and_then(tool_config),
            generation_config: generation_config(request, within),
            extra: beside,
        })
    }
}

fn tools(tools: &[Tool]) -> Vec<Value> {
    if tools.is_empty() {
        return Vec::new();
    }
    let declarations: Vec<Value> = tools.iter().map(declaration).collect();
    vec![json!({"functionDeclarations": declarations})]
}

fn declaration(tool: &Tool) -> Value {
    let mut declaration = json!({"name": tool.name});
    if let Some(description) = &tool.description {
        declaration["description"] = json!(description);
    }
    // A function without arguments has no schema here: an object without properties is refused by older models.
    if !is_empty_object(&tool.parameters) {
        declaration["parametersJsonSchema"] = tool.parameters.clone();
    }
    declaration
}

fn is_empty_object(schema: &Value) -> bool {
    let Some(fields) = schema.as_object() else {
        return schema.is_null();
    };
    let no_properties = |value: &Value| value.as_object().is_some_and(Map::is_empty);
    fields.iter().all(|(name, value)| match name.as_str() {
        "type" => value == "object",
        "properties" => no_properties(value),
        _ => false,
    })
}

fn tool_config(choice: &ToolChoice) -> Option<Value> {
    let config = match choice {
        ToolChoice::Auto => json!({"mode": "AUTO"}),
        ToolChoice::None => json!({"mode": "NONE"}),
        ToolChoice::Required => json!({"mode": "ANY"}),
        ToolChoice::Tool(name) => json!({"mode": "ANY", "allowedFunctionNames": [name]}),
        _ => return None,
    };
    Some(json!({"functionCallingConfig": config}))
}

fn generation_config(
    request: &GenerateRequest,
    mut config: Map<String, Value>,
) -> Map<String, Value> {
    let mut set = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            config.insert(name.to_owned(), value);
        }
    };
    set("maxOutputTokens", request.max_tokens.map(Value::from));
    set("temperature", request.temperature.map(Value::from));
    set("topP", request.top_p.map(Value::from));
    set("topK", request.top_k.map(Value::from));
    set(
        "frequencyPenalty",
        request.frequency_penalty.map(Value::from),
    );
    set("presencePenalty", request.presence_penalty.map(Value::from));
    set("seed", request.seed.map(Value::from));
    let stop = (!request.stop.is_empty()).then(|| json!(request.stop));
    set("stopSequences", stop);
    match &request.response_format {
        Some(ResponseFormat::JsonObject) => {
            set("responseMimeType", Some(json!("application/json")));
        }
        Some(ResponseFormat::JsonSchema { schema, .. }) => {
            set("responseMimeType", Some(json!("application/json")));
            set("responseJsonSchema", Some(schema.clone()));
        }
        _ => {}
    }
    config
}
