//! Messages as contents. The system's are instructions of their own; a tool's results are the user's next turn.

use antfly_framework::content::Part as Content;
use antfly_framework::generate::{Message, Role, ToolCall};
use antfly_framework::{Error, Kind, Result};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::call_id::CallId;
use crate::google::media::{Files, WireContent, WirePart};

/// One part of a turn.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum Part<'a> {
    Plain(WirePart<'a>),
    #[serde(rename_all = "camelCase")]
    Call {
        function_call: FunctionCall<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        thought_signature: Option<&'a str>,
    },
    #[serde(rename_all = "camelCase")]
    Result {
        function_response: FunctionResponse<'a>,
    },
}

#[derive(Debug, Serialize)]
pub(super) struct FunctionCall<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    name: &'a str,
    args: Map<String, Value>,
}

#[derive(Debug, Serialize)]
pub(super) struct FunctionResponse<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    name: &'a str,
    response: Map<String, Value>,
}

type Turn<'a> = WireContent<Part<'a>>;

/// The system's instructions, and the turns. Errors name the message.
pub(super) fn contents<'a>(
    messages: &'a [Message],
    files: Files<'_>,
) -> Result<(Option<Turn<'a>>, Vec<Turn<'a>>)> {
    let mut system = Vec::new();
    let mut turns: Vec<Turn<'a>> = Vec::new();
    let mut answers = false;
    for (number, message) in messages.iter().enumerate() {
        let result = message.role == Role::Tool;
        let parts = match message.role {
            Role::Tool => vec![tool_result(messages, number)?],
            _ => said(message, number, files)?,
        };
        let role = match message.role {
            Role::System => {
                system.extend(parts);
                continue;
            }
            Role::Assistant => "model",
            _ => "user",
        };
        match turns.last_mut() {
            // All results of one turn's calls belong into one content.
            Some(last) if result && answers => last.parts.extend(parts),
            _ => turns.push(WireContent {
                role: Some(role),
                parts,
            }),
        }
        answers = result;
    }
    let system = (!system.is_empty()).then_some(WireContent {
        role: None,
        parts: system,
    });
    Ok((system, turns))
}

/// What a message says and which tools it calls.
fn said<'a>(message: &'a Message, number: usize, files: Files<'_>) -> Result<Vec<Part<'a>>> {
    let is_system = message.role == Role::System;
    if is_system && message.content.iter().any(Content::is_media) {
        return Err(Error::new(
            Kind::MediaNotAllowed,
            format!("message {number}: a system instruction is text"),
        ));
    }
    let plain = files.parts(&message.content)?.into_iter().map(Part::Plain);
    let mut parts: Vec<Part<'a>> = plain.collect();
    for call in &message.tool_calls {
        parts.push(tool_call(call, number)?);
    }
    if parts.is_empty() {
        return Err(Error::new(
            Kind::InvalidRequest,
            format!("message {number} is empty"),
        ));
    }
    Ok(parts)
}

fn tool_call(call: &ToolCall, number: usize) -> Result<Part<'_>> {
    let text = call.arguments.trim();
    let args = if text.is_empty() {
        Map::new()
    } else {
        serde_json::from_str(text).map_err(|_| {
            Error::new(
                Kind::InvalidRequest,
                format!(
                    "message {number}: the arguments of the call of {:?} are not a JSON object",
                    call.name
                ),
            )
        })?
    };
    let id = CallId::parse(&call.id);
    Ok(Part::Call {
        function_call: FunctionCall {
            id: id.id,
            name: &call.name,
            args,
        },
        thought_signature: id.signature,
    })
}

/// A tool's result. Google wants the tool's name, which the call of that id tells.
fn tool_result(messages: &[Message], number: usize) -> Result<Part<'_>> {
    let bad = |what: String| {
        Err(Error::new(
            Kind::InvalidRequest,
            format!("message {number}: {what}"),
        ))
    };
    let Some(message) = messages.get(number) else {
        return bad("is not there".to_owned());
    };
    let Some(id) = message.tool_call_id.as_deref() else {
        return bad("a tool's result needs the id of its call (tool_call_id)".to_owned());
    };
    let earlier = messages.get(..number).unwrap_or_default();
    let mut calls = earlier.iter().rev().flat_map(|m| &m.tool_calls);
    let Some(call) = calls.find(|call| call.id == id) else {
        return bad("no earlier message calls a tool under this result's tool_call_id".to_owned());
    };
    let mut texts = Vec::new();
    for part in &message.content {
        match part.as_text() {
            Some(text) => texts.push(text),
            None => {
                return Err(Error::new(
                    Kind::MediaNotAllowed,
                    format!("message {number}: a tool's result is text"),
                ));
            }
        }
    }
    Ok(Part::Result {
        function_response: FunctionResponse {
            id: CallId::parse(&call.id).id,
            name: &call.name,
            response: response(&texts.join("\n")),
        },
    })
}

/// A result as the object that Google wants: itself when it is one, else under `output`.
fn response(text: &str) -> Map<String, Value> {
    match serde_json::from_str(text) {
        Ok(Value::Object(fields)) => fields,
        Ok(value) => Map::from_iter([("output".to_owned(), value)]),
        Err(_) => Map::from_iter([("output".to_owned(), json!(text))]),
    }
}
