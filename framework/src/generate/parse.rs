//! Tools, choices and formats from JSON, in the form OpenAI made common and in a bare one; and a request's defaults.

use serde_json::{Map, Value};

use super::request::{GenerateRequest, ResponseFormat, Tool, ToolChoice};
use crate::config::GenerateOptions;

type Problem = String;

fn text(value: &Value, key: &str) -> Result<Option<String>, Problem> {
    match value.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(s)) => Ok(Some(s.clone())),
        Some(_) => Err(format!("{key:?} must be a text")),
    }
}

fn flag(value: &Value, key: &str) -> Result<Option<bool>, Problem> {
    match value.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Bool(b)) => Ok(Some(*b)),
        Some(_) => Err(format!("{key:?} must be true or false")),
    }
}

fn named(value: &Value) -> Result<String, Problem> {
    text(value, "name")?
        .filter(|n| !n.trim().is_empty())
        .ok_or_else(|| "\"name\" is missing".to_owned())
}

impl Tool {
    /// `{"type": "function", "function": {"name", "description", "parameters", "strict"}}`, or the inner object alone.
    ///
    /// # Errors
    /// What is wrong with it, as a sentence.
    pub fn from_json(value: &Value) -> Result<Self, String> {
        if !value.is_object() {
            return Err("a tool must be an object".to_owned());
        }
        match value.get("type").and_then(Value::as_str) {
            None | Some("function") => {}
            Some(other) => {
                return Err(format!(
                    "tool type {other:?} is not allowed; \"function\" is"
                ));
            }
        }
        let f = value.get("function").unwrap_or(value);
        let parameters = match f.get("parameters") {
            None | Some(Value::Null) => serde_json::json!({"type": "object", "properties": {}}),
            Some(schema @ Value::Object(_)) => schema.clone(),
            Some(_) => return Err("\"parameters\" must be a JSON Schema object".to_owned()),
        };
        Ok(Tool {
            name: named(f)?,
            description: text(f, "description")?,
            parameters,
            strict: flag(f, "strict")?,
        })
    }
}

impl ToolChoice {
    /// `"auto"`, `"none"`, `"required"`, a tool's `{"type": "function", "function": {"name"}}` or `{"name"}`.
    ///
    /// # Errors
    /// What is wrong with it, as a sentence.
    pub fn from_json(value: &Value) -> Result<Self, String> {
        match value {
            Value::String(word) => match word.as_str() {
                "auto" => Ok(ToolChoice::Auto),
                "none" => Ok(ToolChoice::None),
                "required" | "any" => Ok(ToolChoice::Required),
                other => Err(format!(
                    "{other:?} is not allowed; \"auto\", \"none\", \"required\" or a tool is"
                )),
            },
            Value::Object(_) => Ok(ToolChoice::Tool(named(
                value.get("function").unwrap_or(value),
            )?)),
            _ => Err("a text or an object is allowed".to_owned()),
        }
    }
}

impl ResponseFormat {
    /// `{"type": "text" | "json_object"}`, `{"type": "json_schema", "json_schema": {"name", "schema", "strict"}}`.
    ///
    /// # Errors
    /// What is wrong with it, as a sentence.
    pub fn from_json(value: &Value) -> Result<Self, String> {
        match value.get("type").and_then(Value::as_str) {
            Some("text") => Ok(ResponseFormat::Text),
            Some("json_object") => Ok(ResponseFormat::JsonObject),
            Some("json_schema") => {
                let s = value.get("json_schema").unwrap_or(value);
                let schema = s
                    .get("schema")
                    .filter(|v| v.is_object())
                    .ok_or("\"schema\" must be a JSON Schema object")?;
                Ok(ResponseFormat::JsonSchema {
                    name: text(s, "name")?.unwrap_or_else(|| "answer".to_owned()),
                    schema: schema.clone(),
                    strict: flag(s, "strict")?,
                })
            }
            Some(other) => Err(format!(
                "type {other:?} is not allowed; \"text\", \"json_object\" or \"json_schema\" is"
            )),
            None => Err("\"type\" is missing".to_owned()),
        }
    }
}

impl GenerateRequest {
    /// This request, with what it leaves open taken from an entry.
    pub(crate) fn or(self, entry: &GenerateOptions, extra_body: &Map<String, Value>) -> Self {
        let mut extra = extra_body.clone();
        extra.extend(self.extra_body);
        let list = |own: Vec<String>, entry: &Vec<String>| {
            if own.is_empty() { entry.clone() } else { own }
        };
        GenerateRequest {
            messages: self.messages,
            tools: if self.tools.is_empty() {
                entry.tools.clone()
            } else {
                self.tools
            },
            tool_choice: self.tool_choice.or_else(|| entry.tool_choice.clone()),
            response_format: self
                .response_format
                .or_else(|| entry.response_format.clone()),
            max_tokens: self.max_tokens.or(entry.max_tokens),
            temperature: self.temperature.or(entry.temperature),
            top_p: self.top_p.or(entry.top_p),
            top_k: self.top_k.or(entry.top_k),
            frequency_penalty: self.frequency_penalty.or(entry.frequency_penalty),
            presence_penalty: self.presence_penalty.or(entry.presence_penalty),
            stop: list(self.stop, &entry.stop),
            seed: self.seed.or(entry.seed),
            extra_body: extra,
        }
    }
}
