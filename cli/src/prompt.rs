//! What a line asks a generator: a prompt or a conversation, and options.
//!
//! Nothing is ignored here: a field that is not known is an error that names the nearest one.

use antfly_framework::config::GenerateOptions;
use antfly_framework::content::Part;
use antfly_framework::{Error, GenerateRequest, Message, Role, ToolCall};
use base64::Engine as _;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::input::{self, Fields, Id, Item, Line, invalid, join, read};

/// Takes a line apart. Its id is known even when the rest is bad.
pub(crate) fn parse(line: &Line) -> (Id, Result<GenerateRequest, Error>) {
    let (id, item) = input::parse(line);
    let request = item.and_then(|item| match item {
        Item::Text(prompt) => user(prompt, "the line").map(|m| GenerateRequest::messages([m])),
        Item::Object(fields) => request(&fields),
    });
    (id, request)
}

/// The fields of a line that are no options.
const OWN: [&str; 4] = ["id", "prompt", "messages", "extra_body"];

fn request(fields: &Fields<'_>) -> Result<GenerateRequest, Error> {
    let known = [&OWN, GenerateOptions::NAMES].concat();
    fields.only("", &known)?;
    let prompt: Option<String> = fields.read("", "prompt")?;
    let turns: Option<Vec<&RawValue>> = list(fields, "", "messages")?;
    let messages = match (prompt, turns) {
        (Some(prompt), None) => vec![user(prompt, "prompt")?],
        (None, Some(turns)) if !turns.is_empty() => each("messages", turns, message)?,
        (None, Some(_)) => return Err(invalid("messages: it is empty")),
        (Some(_), Some(_)) => return Err(invalid("prompt and messages exclude each other")),
        (None, None) => return Err(invalid("the item has neither prompt nor messages")),
    };
    // Every option by its name, so that one more can't be forgotten here.
    let GenerateOptions {
        max_tokens,
        temperature,
        top_p,
        top_k,
        frequency_penalty,
        presence_penalty,
        stop,
        seed,
        tools,
        tool_choice,
        response_format,
    } = options(fields)?;
    Ok(GenerateRequest {
        messages,
        tools,
        tool_choice,
        response_format,
        max_tokens,
        temperature,
        top_p,
        top_k,
        frequency_penalty,
        presence_penalty,
        stop,
        seed,
        extra_body: fields
            .read::<Map<String, Value>>("", "extra_body")?
            .unwrap_or_default(),
    })
}

/// The options, read as those of an entry are.
fn options(fields: &Fields<'_>) -> Result<GenerateOptions, Error> {
    let mut options = Map::new();
    for name in fields.names().filter(|name| !OWN.contains(name)) {
        if let Some(value) = fields.read::<Value>("", name)? {
            options.insert(name.to_owned(), value);
        }
    }
    GenerateOptions::from_json("", &Value::Object(options)).map_err(|e| invalid(e.message()))
}

fn user(prompt: String, at: &str) -> Result<Message, Error> {
    if prompt.is_empty() {
        return Err(invalid(format!("{at}: it is empty")));
    }
    Ok(Message::user(prompt))
}

fn message(raw: &RawValue, at: &str) -> Result<Message, Error> {
    let fields = Fields::of(raw, at)?;
    fields.only(at, &["role", "content", "tool_calls", "tool_call_id"])?;
    let Some(role) = fields.read::<String>(at, "role")? else {
        return Err(invalid(format!("{at}: the role is missing")));
    };
    let role = match role.as_str() {
        "system" | "developer" => Role::System,
        "user" => Role::User,
        "assistant" => Role::Assistant,
        "tool" => Role::Tool,
        other => {
            let known = ["system", "user", "assistant", "tool"];
            return Err(invalid(format!(
                "{}: unknown role {other:?}; {}",
                join(at, "role"),
                input::nearest(other, &known)
            )));
        }
    };
    let tool_calls = match list(&fields, at, "tool_calls")? {
        Some(calls) => each(&join(at, "tool_calls"), calls, tool_call)?,
        None => Vec::new(),
    };
    let content_at = join(at, "content");
    let content = match given(&fields, "content") {
        Some(raw) if raw.get().starts_with('"') => vec![Part::Text(read(raw.get(), &content_at)?)],
        Some(_) => match list(&fields, at, "content")? {
            Some(parts) => each(&content_at, parts, part)?,
            None => Vec::new(),
        },
        None if tool_calls.is_empty() => {
            return Err(invalid(format!("{at}: the content is missing")));
        }
        None => Vec::new(),
    };
    let says_nothing = |part: &Part| matches!(part, Part::Text(text) if text.is_empty());
    // A tool may well have nothing to say; everyone else must.
    if role != Role::Tool && tool_calls.is_empty() && content.iter().all(says_nothing) {
        return Err(invalid(format!("{content_at}: it is empty")));
    }
    let tool_call_id: Option<String> = fields.read(at, "tool_call_id")?;
    match role {
        Role::Tool if tool_call_id.is_none() => {
            return Err(invalid(format!(
                "{at}: a tool's message needs its tool_call_id"
            )));
        }
        Role::Tool => {}
        _ if tool_call_id.is_some() => {
            return Err(invalid(format!(
                "{at}: only a tool's message has a tool_call_id"
            )));
        }
        _ => {}
    }
    if role != Role::Assistant && !tool_calls.is_empty() {
        return Err(invalid(format!(
            "{at}: only an assistant's message has tool_calls"
        )));
    }
    Ok(Message {
        role,
        content,
        tool_calls,
        tool_call_id,
    })
}

fn part(raw: &RawValue, at: &str) -> Result<Part, Error> {
    let fields = Fields::of(raw, at)?;
    let kind: String = needed(&fields, at, "type")?;
    match kind.as_str() {
        "text" => {
            fields.only(at, &["type", "text"])?;
            needed(&fields, at, "text").map(Part::Text)
        }
        "image_url" => {
            fields.only(at, &["type", "image_url"])?;
            let at_url = join(at, "image_url");
            let Some(raw) = given(&fields, "image_url") else {
                return Err(invalid(format!("{at_url}: it is missing")));
            };
            let inner = Fields::of(raw, &at_url)?;
            inner.only(&at_url, &["url"])?;
            let url: String = needed(&inner, &at_url, "url")?;
            if !url.contains(':') {
                return Err(invalid(format!(
                    "{at_url}.url: it is not a URL (data:, https:)"
                )));
            }
            Ok(Part::image_url(url))
        }
        "media" => {
            fields.only(at, &["type", "data", "mime_type"])?;
            let mime_type: String = needed(&fields, at, "mime_type")?;
            let data: String = needed(&fields, at, "data")?;
            match base64::engine::general_purpose::STANDARD.decode(data.as_bytes()) {
                Ok(data) if data.is_empty() => Err(invalid(format!("{at}.data: it is empty"))),
                Ok(data) => Ok(Part::media(data, mime_type)),
                Err(error) => Err(invalid(format!("{at}.data: it is not base64: {error}"))),
            }
        }
        other => Err(invalid(format!(
            "{}: unknown type {other:?}; {}",
            join(at, "type"),
            input::nearest(other, &["text", "image_url", "media"])
        ))),
    }
}

/// `{"id", "type": "function", "function": {"name", "arguments"}}`, or with the inner fields beside the id.
fn tool_call(raw: &RawValue, at: &str) -> Result<ToolCall, Error> {
    let outer = Fields::of(raw, at)?;
    let (inner, inner_at) = match given(&outer, "function") {
        Some(function) => {
            outer.only(at, &["id", "type", "function"])?;
            let at = join(at, "function");
            let inner = Fields::of(function, &at)?;
            inner.only(&at, &["name", "arguments"])?;
            (inner, at)
        }
        None => {
            outer.only(at, &["id", "type", "function", "name", "arguments"])?;
            (Fields::of(raw, at)?, at.to_owned())
        }
    };
    let arguments_at = join(&inner_at, "arguments");
    Ok(ToolCall {
        id: needed(&outer, at, "id")?,
        name: needed(&inner, &inner_at, "name")?,
        arguments: match given(&inner, "arguments") {
            None => "{}".to_owned(),
            Some(raw) if raw.get().starts_with('"') => read(raw.get(), &arguments_at)?,
            Some(raw) => Fields::of(raw, &arguments_at).map(|_| raw.get().to_owned())?,
        },
    })
}

/// A field's value, unless it is left out or `null`.
fn given<'a>(fields: &Fields<'a>, name: &str) -> Option<&'a RawValue> {
    fields.get(name).filter(|raw| raw.get() != "null")
}

fn needed<T: serde::de::DeserializeOwned>(
    fields: &Fields<'_>,
    at: &str,
    name: &str,
) -> Result<T, Error> {
    fields
        .read(at, name)?
        .ok_or_else(|| invalid(format!("{}: it is missing", join(at, name))))
}

/// A list's elements, not yet looked at.
fn list<'a>(fields: &Fields<'a>, at: &str, name: &str) -> Result<Option<Vec<&'a RawValue>>, Error> {
    let Some(raw) = given(fields, name) else {
        return Ok(None);
    };
    serde_json::from_str(raw.get())
        .map(Some)
        .map_err(|_| invalid(format!("{}: it is not a list", join(at, name))))
}

fn each<T>(
    at: &str,
    raws: Vec<&RawValue>,
    read: impl Fn(&RawValue, &str) -> Result<T, Error>,
) -> Result<Vec<T>, Error> {
    let one = |(index, raw)| read(raw, &format!("{at}[{index}]"));
    raws.into_iter().enumerate().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use antfly_framework::content::MediaKind;
    use antfly_framework::{ResponseFormat, ToolChoice};

    fn get(text: &str) -> Result<GenerateRequest, Error> {
        parse(&Line {
            number: 0,
            bytes: text.into(),
            end: 0,
        })
        .1
    }

    fn good(text: &str) -> GenerateRequest {
        get(text).expect(text)
    }

    fn bad(text: &str) -> String {
        get(text).expect_err(text).message().to_owned()
    }

    #[test]
    fn a_prompt_is_a_users_text() {
        assert_eq!(
            good(r#"{"id": "a", "prompt": "hi"}"#),
            GenerateRequest::prompt("hi")
        );
        assert_eq!(good(r#""hi""#), GenerateRequest::prompt("hi"));
        assert_eq!(bad(r#"{"prompt": ""}"#), "prompt: it is empty");
        assert_eq!(
            bad(r#"{"id": 1}"#),
            "the item has neither prompt nor messages"
        );
        assert_eq!(
            bad(r#"{"prompt": "a", "messages": []}"#),
            "prompt and messages exclude each other"
        );
        assert_eq!(bad(r#"{"messages": []}"#), "messages: it is empty");
    }

    #[test]
    fn options_are_read() {
        let request = good(
            r#"{"prompt": "hi", "max_tokens": 64, "temperature": 0.5, "top_p": 1, "top_k": 3, "frequency_penalty": -1,
                "presence_penalty": 2, "stop": "x", "seed": -7, "extra_body": {"a": 1}}"#
                .replace('\n', " ")
                .as_str(),
        );
        assert_eq!(request.max_tokens, Some(64));
        assert_eq!(request.temperature, Some(0.5));
        assert_eq!(request.top_k, Some(3));
        assert_eq!(request.stop, ["x"]);
        assert_eq!(request.seed, Some(-7));
        assert_eq!(request.extra_body["a"], 1);
        assert_eq!(
            good(r#"{"prompt": "hi", "stop": ["x", "y"]}"#).stop,
            ["x", "y"]
        );
        assert_eq!(good(r#"{"prompt": "hi", "seed": null}"#).seed, None);
        assert_eq!(
            bad(r#"{"prompt": "hi", "max_tokens": 0}"#),
            "max_tokens: 0 is not allowed; an integer from 1 to 4294967295 is"
        );
        assert!(
            bad(r#"{"prompt": "hi", "max_tokens": -1}"#)
                .starts_with("max_tokens: -1 is not allowed")
        );
        assert!(
            bad(r#"{"prompt": "hi", "temperature": "hot"}"#)
                .starts_with("temperature: \"hot\" is not allowed")
        );
        assert_eq!(
            bad(r#"{"prompt": "hi", "max_token": 1}"#),
            "max_token: unknown field; did you mean \"max_tokens\"?"
        );
    }

    #[test]
    fn messages_have_roles_and_parts() {
        let request = good(
            r#"{"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": [{"type": "text", "text": "t"}, {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}, {"type": "media", "data": "AQI=", "mime_type": "audio/wav"}]}, {"role": "assistant", "content": null, "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}, {"id": "d", "name": "g", "arguments": {"x": 1}}]}, {"role": "tool", "tool_call_id": "c", "content": "r"}]}"#,
        );
        let [system, user, assistant, tool] = request.messages.as_slice() else {
            panic!("{request:?}")
        };
        assert_eq!(*system, Message::system("s"));
        assert_eq!(user.content[0], Part::text("t"));
        assert_eq!(
            user.content[1],
            Part::image_url("data:image/png;base64,AA==")
        );
        assert_eq!(user.content[2], Part::media(vec![1, 2], "audio/wav"));
        let Part::Media(sound) = &user.content[2] else {
            panic!("not media")
        };
        assert_eq!(sound.kind, MediaKind::Audio);
        assert!(assistant.content.is_empty());
        assert_eq!(assistant.tool_calls[0].arguments, "{}");
        assert_eq!(assistant.tool_calls[1].arguments, r#"{"x": 1}"#);
        assert_eq!(assistant.tool_calls[1].name, "g");
        assert_eq!(*tool, Message::tool("c", "r"));
    }

    #[test]
    fn a_bad_message_names_its_place() {
        let one = |message: &str| {
            bad(&format!(
                r#"{{"messages": [{{"role": "user", "content": "a"}}, {message}]}}"#
            ))
        };
        assert_eq!(
            one(r#"{"role": "usr", "content": "a"}"#),
            "messages[1].role: unknown role \"usr\"; did you mean \"user\"?"
        );
        assert_eq!(
            one(r#"{"content": "a"}"#),
            "messages[1]: the role is missing"
        );
        assert_eq!(
            one(r#"{"role": "user"}"#),
            "messages[1]: the content is missing"
        );
        for empty in [
            r#""""#,
            "[]",
            r#"[{"type": "text", "text": ""}, {"type": "text", "text": ""}]"#,
        ] {
            for role in ["system", "user", "assistant"] {
                assert_eq!(
                    one(&format!(r#"{{"role": "{role}", "content": {empty}}}"#)),
                    "messages[1].content: it is empty"
                );
            }
        }
        assert_eq!(
            one(r#"{"role": "user", "content": 5}"#),
            "messages[1].content: it is not a list"
        );
        assert_eq!(
            one(r#"{"role": "user", "contents": "a"}"#),
            "messages[1].contents: unknown field; did you mean \"content\"?"
        );
        assert_eq!(
            one(r#"{"role": "user", "content": [{"type": "txt", "text": "a"}]}"#),
            "messages[1].content[0].type: unknown type \"txt\"; did you mean \"text\"?"
        );
        assert!(
            one(r#"{"role": "user", "content": [{"type": "media", "data": "?", "mime_type": "a/b"}]}"#)
                .starts_with("messages[1].content[0].data: it is not base64")
        );
        assert_eq!(
            one(r#"{"role": "tool", "content": "a"}"#),
            "messages[1]: a tool's message needs its tool_call_id"
        );
    }

    #[test]
    fn tools_come_in_two_forms() {
        let wrapped = good(
            r#"{"prompt": "p", "tools": [{"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object"}, "strict": true}}], "tool_choice": {"type": "function", "function": {"name": "f"}}}"#,
        );
        let bare = good(
            r#"{"prompt": "p", "tools": [{"name": "f", "description": "d", "parameters": {"type": "object"}, "strict": true}], "tool_choice": {"name": "f"}}"#,
        );
        assert_eq!(wrapped, bare);
        assert_eq!(bare.tools[0].name, "f");
        assert_eq!(bare.tool_choice, Some(ToolChoice::Tool("f".to_owned())));
        assert_eq!(
            good(r#"{"prompt": "p", "tool_choice": "required"}"#).tool_choice,
            Some(ToolChoice::Required)
        );
        assert!(
            bad(r#"{"prompt": "p", "tool_choice": "maybe"}"#)
                .starts_with("tool_choice: \"maybe\" is not allowed")
        );
        assert_eq!(
            bad(r#"{"prompt": "p", "tools": [{"name": "f"}, {}]}"#),
            "tools[1]: \"name\" is missing"
        );
    }

    #[test]
    fn response_formats() {
        assert_eq!(
            good(r#"{"prompt": "p", "response_format": {"type": "json_object"}}"#).response_format,
            Some(ResponseFormat::JsonObject)
        );
        let wanted = Some(ResponseFormat::JsonSchema {
            name: "n".to_owned(),
            schema: serde_json::json!({"type": "object"}),
            strict: Some(true),
        });
        for form in [
            r#"{"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}, "strict": true}}"#,
            r#"{"type": "json_schema", "name": "n", "schema": {"type": "object"}, "strict": true}"#,
        ] {
            let line = format!(r#"{{"prompt": "p", "response_format": {form}}}"#);
            assert_eq!(good(&line).response_format, wanted);
        }
        assert!(
            bad(r#"{"prompt": "p", "response_format": {"type": "json"}}"#)
                .starts_with("response_format: type \"json\" is not allowed")
        );
    }
}
