//! The chat template of a file: a conversation to the text the model was taught to continue.
//!
//! The template is a program from outside. It runs with bounded fuel, sees the conversation and a date, and opens nothing. Its own
//! control tokens count; those that a message happens to spell stay letters ([`Guard`]).

mod date;
mod methods;

#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use antfly_framework::content::Part;
use antfly_framework::generate::{GenerateRequest, Message};
use antfly_framework::{Error, Kind, Result};
use minijinja::{Environment, ErrorKind, context};
use serde_json::{Map, Value, json};

use super::calls;
use super::gguf::broken;
use super::tokenizer::{Guard, Tokenizer};

/// Where a file has its template.
pub(super) const KEY: &str = "tokenizer.chat_template";
/// Instructions a template may run, to begin with, and more for each byte of the conversation. A real one uses a few per message.
const FUEL: u64 = 2_000_000;
const FUEL_A_BYTE: u64 = 50;

/// A template that parses.
#[derive(Debug)]
pub(super) struct Template {
    path: PathBuf,
    source: String,
    /// Whether it has a place for tools.
    takes_tools: bool,
}

type Refusal = Arc<Mutex<Option<String>>>;

impl Template {
    /// Parses the template of the file at `path`.
    ///
    /// # Errors
    /// `config` naming the file, the key and the line that does not parse.
    pub(super) fn new(path: PathBuf, source: &str) -> Result<Self> {
        let environment = environment(&Refusal::default());
        let takes_tools = match environment.template_from_named_str("chat_template", source) {
            Ok(template) => template.undeclared_variables(false).contains("tools"),
            Err(e) => return Err(broken(&path, KEY, one_line(&e))),
        };
        Ok(Template {
            path,
            source: source.to_owned(),
            takes_tools,
        })
    }

    /// Whether the template has a place for tools, and writes their calls in the form that is read back.
    pub(super) fn takes_tools(&self) -> bool {
        self.takes_tools && calls::in_form(&self.source)
    }

    /// Whether the template could show the turns of a conversation with tools.
    pub(super) fn shows_tools(&self) -> bool {
        self.source.contains("tool")
    }

    /// The conversation as one text, with an answer begun. Every text of the request passes `guard`.
    ///
    /// # Errors
    /// `invalid_request` where the template refuses the conversation; `config` where it fails.
    pub(super) fn render(
        &self,
        request: &GenerateRequest,
        tokenizer: &Tokenizer,
        guard: &Guard<'_>,
    ) -> Result<String> {
        let refusal = Refusal::default();
        let mut environment = environment(&refusal);
        let size: usize = texts(request).iter().map(|t| t.len()).sum();
        environment.set_fuel(Some(
            FUEL.saturating_add(FUEL_A_BYTE.saturating_mul(size as u64)),
        ));
        let messages: Vec<Value> = request.messages.iter().map(|m| message(m, guard)).collect();
        let (bos_token, eos_token) = tokenizer.edges();
        let mut variables = context! {
            messages => messages,
            add_generation_prompt => true,
            bos_token => bos_token,
            eos_token => eos_token,
        };
        if !request.tools.is_empty() {
            let tools: Vec<Value> = request.tools.iter().map(|t| tool(t, guard)).collect();
            variables = context! { tools => tools, ..variables };
        }
        environment
            .render_named_str("chat_template", &self.source, variables)
            .map_err(|e| {
                let told = refusal
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .take();
                match told {
                    Some(told) => Error::new(
                        Kind::InvalidRequest,
                        format!("messages: the model's chat template refuses them: {told}"),
                    ),
                    None => broken(&self.path, KEY, format_args!("fails: {}", one_line(&e))),
                }
            })
    }
}

/// Every text of a request that a template may show.
pub(super) fn texts(request: &GenerateRequest) -> Vec<&str> {
    let mut all = Vec::new();
    for message in &request.messages {
        all.extend(message.content.iter().filter_map(Part::as_text));
        for call in &message.tool_calls {
            all.extend([call.id.as_str(), &call.name, &call.arguments]);
        }
        all.extend(message.tool_call_id.as_deref());
    }
    for tool in &request.tools {
        all.push(&tool.name);
        all.extend(tool.description.as_deref());
        strings(&tool.parameters, &mut all);
    }
    all
}

fn strings<'a>(value: &'a Value, all: &mut Vec<&'a str>) {
    match value {
        Value::String(text) => all.push(text),
        Value::Array(list) => list.iter().for_each(|v| strings(v, all)),
        Value::Object(map) => {
            for (key, value) in map {
                all.push(key);
                strings(value, all);
            }
        }
        _ => {}
    }
}

fn message(message: &Message, guard: &Guard<'_>) -> Value {
    let parts: Vec<&str> = message.content.iter().filter_map(Part::as_text).collect();
    let mut value = Map::new();
    value.insert("role".to_owned(), json!(message.role.as_str()));
    value.insert(
        "content".to_owned(),
        json!(guard.protect(&parts.join("\n"))),
    );
    if let Some(id) = &message.tool_call_id {
        value.insert("tool_call_id".to_owned(), json!(guard.protect(id)));
    }
    if !message.tool_calls.is_empty() {
        let calls = message.tool_calls.iter().map(|call| {
            // Templates write arguments as JSON themselves.
            let arguments = serde_json::from_str(&call.arguments);
            let arguments = arguments.unwrap_or_else(|_| json!(call.arguments));
            json!({
                "id": guard.protect(&call.id),
                "type": "function",
                "function": {"name": guard.protect(&call.name), "arguments": protected(&arguments, guard)},
            })
        });
        value.insert("tool_calls".to_owned(), calls.collect());
    }
    Value::Object(value)
}

fn tool(tool: &antfly_framework::generate::Tool, guard: &Guard<'_>) -> Value {
    let mut function = Map::new();
    function.insert("name".to_owned(), json!(guard.protect(&tool.name)));
    if let Some(description) = &tool.description {
        function.insert("description".to_owned(), json!(guard.protect(description)));
    }
    function.insert("parameters".to_owned(), protected(&tool.parameters, guard));
    json!({"type": "function", "function": function})
}

/// JSON with every text of it guarded.
fn protected(value: &Value, guard: &Guard<'_>) -> Value {
    match value {
        Value::String(text) => json!(guard.protect(text)),
        Value::Array(list) => list.iter().map(|v| protected(v, guard)).collect(),
        Value::Object(map) => {
            let entries = map.iter();
            let entries =
                entries.map(|(k, v)| (guard.protect(k).into_owned(), protected(v, guard)));
            Value::Object(entries.collect())
        }
        other => other.clone(),
    }
}

/// What templates are written for: blocks leave no blank lines, strings have a few of Python's methods.
fn environment<'a>(refusal: &Refusal) -> Environment<'a> {
    let mut environment = Environment::new();
    environment.set_trim_blocks(true);
    environment.set_lstrip_blocks(true);
    environment.set_unknown_method_callback(methods::call);
    let refusal = Arc::clone(refusal);
    let refuse = move |told: String| -> Result<minijinja::Value, minijinja::Error> {
        *refusal.lock().unwrap_or_else(PoisonError::into_inner) = Some(told.clone());
        Err(minijinja::Error::new(ErrorKind::InvalidOperation, told))
    };
    environment.add_function("raise_exception", refuse);
    environment.add_function("strftime_now", |format: String| date::now(&format));
    environment
}

/// What went wrong and where, with the causes.
fn one_line(error: &minijinja::Error) -> String {
    let mut line = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        line = format!("{line}: {error}");
        cause = error.source();
    }
    line
}
