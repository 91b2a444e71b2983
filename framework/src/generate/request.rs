//! What a generator is asked.

use serde_json::{Map, Value};

use crate::content::{Media, Part};

/// Who speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Role {
    /// Instructions.
    System,
    /// The user.
    User,
    /// The model.
    Assistant,
    /// A tool's result.
    Tool,
}

impl Role {
    /// `system`, `user`, `assistant` or `tool`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Role::System => "system",
            Role::User => "user",
            Role::Assistant => "assistant",
            Role::Tool => "tool",
        }
    }
}

/// One turn of a conversation.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    /// Who speaks.
    pub role: Role,
    /// What is said.
    pub content: Vec<Part>,
    /// Tool calls the assistant made in this turn.
    pub tool_calls: Vec<ToolCall>,
    /// Of a [`Role::Tool`] turn: the id of the call it answers.
    pub tool_call_id: Option<String>,
}

impl Message {
    /// A turn of `role` with one text.
    pub fn new(role: Role, text: impl Into<String>) -> Self {
        Message {
            role,
            content: vec![Part::text(text)],
            tool_calls: Vec::new(),
            tool_call_id: None,
        }
    }

    /// A user's text.
    pub fn user(text: impl Into<String>) -> Self {
        Self::new(Role::User, text)
    }

    /// A system instruction.
    pub fn system(text: impl Into<String>) -> Self {
        Self::new(Role::System, text)
    }

    /// An assistant's text.
    pub fn assistant(text: impl Into<String>) -> Self {
        Self::new(Role::Assistant, text)
    }

    /// The result of the tool call `id`.
    pub fn tool(id: impl Into<String>, result: impl Into<String>) -> Self {
        Message {
            tool_call_id: Some(id.into()),
            ..Self::new(Role::Tool, result)
        }
    }
}

/// A call the model wants made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolCall {
    /// The call's id, for the answering message.
    pub id: String,
    /// The tool.
    pub name: String,
    /// Its arguments: JSON text, as the model wrote it.
    pub arguments: String,
}

/// A tool the model may call.
#[derive(Clone, Debug, PartialEq)]
pub struct Tool {
    /// Its name.
    pub name: String,
    /// What it does.
    pub description: Option<String>,
    /// JSON Schema of its arguments.
    pub parameters: Value,
    /// Whether arguments must follow the schema exactly, where the provider can promise that.
    pub strict: Option<bool>,
}

/// Which tools may be called.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ToolChoice {
    /// The model decides.
    Auto,
    /// None.
    None,
    /// At least one.
    Required,
    /// This one.
    Tool(String),
}

/// The form of the answer.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ResponseFormat {
    /// Free text.
    Text,
    /// Any JSON object.
    JsonObject,
    /// JSON by a schema.
    JsonSchema {
        /// The schema's name.
        name: String,
        /// The schema.
        schema: Value,
        /// Whether the provider must enforce it.
        strict: Option<bool>,
    },
}

/// A call. What is `None` falls back to the entry, then is left out on the wire.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GenerateRequest {
    /// The conversation.
    pub messages: Vec<Message>,
    /// Tools the model may call; empty: the entry's.
    pub tools: Vec<Tool>,
    /// Which tools may be called.
    pub tool_choice: Option<ToolChoice>,
    /// The form of the answer.
    pub response_format: Option<ResponseFormat>,
    /// Output cap, in tokens.
    pub max_tokens: Option<u32>,
    /// Sampling temperature.
    pub temperature: Option<f64>,
    /// Nucleus sampling.
    pub top_p: Option<f64>,
    /// Top-k sampling.
    pub top_k: Option<u32>,
    /// Frequency penalty.
    pub frequency_penalty: Option<f64>,
    /// Presence penalty.
    pub presence_penalty: Option<f64>,
    /// Stop sequences; empty: the entry's.
    pub stop: Vec<String>,
    /// Seed.
    pub seed: Option<i64>,
    /// Fields merged into the body on top of the entry's `extra_body`.
    pub extra_body: Map<String, Value>,
}

impl GenerateRequest {
    /// A single user text.
    pub fn prompt(text: impl Into<String>) -> Self {
        Self::messages([Message::user(text)])
    }

    /// A conversation.
    pub fn messages(messages: impl IntoIterator<Item = Message>) -> Self {
        GenerateRequest {
            messages: messages.into_iter().collect(),
            ..Self::default()
        }
    }

    /// Sets the output cap, in tokens.
    #[must_use]
    pub fn with_max_tokens(mut self, tokens: u32) -> Self {
        self.max_tokens = Some(tokens);
        self
    }

    /// Every media item of every message.
    pub fn media(&self) -> impl Iterator<Item = &Media> {
        self.messages
            .iter()
            .flat_map(|m| &m.content)
            .filter_map(|p| match p {
                Part::Media(m) => Some(m),
                Part::Text(_) => None,
            })
    }
}
