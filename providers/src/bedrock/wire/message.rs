//! Messages as Converse wants them: instructions apart, tool results inside a user's turn, turns of one side joined.

use antfly_framework::content::Part;
use antfly_framework::generate::{Message, Role, ToolCall};
use antfly_framework::{Error, Kind, Result};
use serde::Serialize;
use serde_json::{Value, json};

use super::media;

/// One turn.
#[derive(Debug, Serialize)]
pub(super) struct Turn {
    role: &'static str,
    content: Vec<Value>,
}

/// A conversation, taken apart.
#[derive(Debug, Default)]
pub(super) struct Conversation {
    pub(super) system: Vec<Value>,
    pub(super) turns: Vec<Turn>,
    /// Whether tools were called or answered in it.
    pub(super) uses_tools: bool,
}

/// Converts the messages of a request.
pub(super) fn conversation(messages: &[Message]) -> Result<Conversation> {
    let mut all = Conversation::default();
    let mut documents = 0;
    for (number, message) in messages.iter().enumerate() {
        let parts = blocks(&message.content, &mut documents)?;
        match message.role {
            Role::System => {
                if message.content.iter().any(Part::is_media) {
                    return Err(invalid(number, "a system message holds text only here"));
                }
                all.system.extend(parts);
            }
            Role::Assistant => {
                let mut content = parts;
                for call in &message.tool_calls {
                    content.push(tool_use(number, call)?);
                    all.uses_tools = true;
                }
                all.add("assistant", content, number)?;
            }
            Role::Tool => {
                let id = message.tool_call_id.as_deref().ok_or_else(|| {
                    invalid(
                        number,
                        "a tool's result needs the id of the call it answers",
                    )
                })?;
                let result = json!({"toolResult": {"toolUseId": id, "content": parts}});
                all.uses_tools = true;
                all.add("user", vec![result], number)?;
            }
            _ => all.add("user", parts, number)?,
        }
    }
    Ok(all)
}

impl Conversation {
    /// Converse wants the sides in turn: neighbours of one side are one turn.
    fn add(&mut self, role: &'static str, content: Vec<Value>, number: usize) -> Result<()> {
        if content.is_empty() {
            return Err(invalid(number, "the message is empty"));
        }
        match self.turns.last_mut() {
            Some(last) if last.role == role => last.content.extend(content),
            _ => self.turns.push(Turn { role, content }),
        }
        Ok(())
    }
}

/// The content blocks of a message. A blank text is left out: Converse refuses it.
fn blocks(parts: &[Part], documents: &mut usize) -> Result<Vec<Value>> {
    let mut blocks = Vec::with_capacity(parts.len());
    for part in parts {
        match part {
            Part::Text(text) if text.trim().is_empty() => {}
            Part::Text(text) => blocks.push(json!({ "text": text })),
            Part::Media(item) => {
                *documents += 1;
                blocks.push(media::block(item, *documents)?);
            }
            _ => {
                return Err(Error::new(
                    Kind::MediaNotAllowed,
                    "this kind of part can't be sent in a message",
                ));
            }
        }
    }
    Ok(blocks)
}

fn tool_use(number: usize, call: &ToolCall) -> Result<Value> {
    let arguments = call.arguments.trim();
    let input = match arguments {
        "" => json!({}),
        text => serde_json::from_str::<Value>(text)
            .ok()
            .filter(Value::is_object)
            .ok_or_else(|| {
                invalid(
                    number,
                    &format!(
                        "the arguments of the call to {} are not a JSON object",
                        call.name
                    ),
                )
            })?,
    };
    Ok(json!({"toolUse": {"toolUseId": call.id, "name": call.name, "input": input}}))
}

fn invalid(number: usize, what: &str) -> Error {
    Error::new(Kind::InvalidRequest, format!("messages[{number}]: {what}"))
}
