//! Tool calls in a model's text, as `<tool_call>{"name": .., "arguments": {..}}</tool_call>`: the form that most templates with tools
//! teach.

use antfly_framework::generate::{StreamEvent, ToolCallDelta};
use serde_json::Value;

const BEGIN: &str = "<tool_call>";
const END: &str = "</tool_call>";

/// Whether a template writes calls in the form that is read here.
pub(super) fn in_form(template: &str) -> bool {
    template.contains(BEGIN)
}

/// Whether a token is part of that form, and so is said although it may be a control token.
pub(super) fn spoken(token: &str) -> bool {
    token == BEGIN || token == END
}

/// Takes text apart, delta by delta: text goes through, calls come out whole.
#[derive(Debug, Default)]
pub(super) struct Calls {
    /// Text that may be the beginning of a mark, or of a call that has begun (its mark included).
    held: String,
    found: usize,
}

impl Calls {
    /// Whether a call was made.
    pub(super) fn any(&self) -> bool {
        self.found > 0
    }

    /// More text.
    pub(super) fn push(&mut self, text: &str, out: &mut Vec<StreamEvent>) {
        self.held.push_str(text);
        loop {
            let Some(begin) = self.held.find(BEGIN) else {
                let begun = begun(&self.held);
                say(self.held.drain(..self.held.len() - begun).collect(), out);
                return;
            };
            say(self.held.drain(..begin).collect(), out);
            let Some(end) = self.held.find(END) else {
                return;
            };
            let call: String = self.held.drain(..end + END.len()).collect();
            self.call(call, out);
        }
    }

    /// The end of the text: a call may lack its last mark.
    pub(super) fn finish(&mut self, out: &mut Vec<StreamEvent>) {
        let rest = std::mem::take(&mut self.held);
        if rest.starts_with(BEGIN) {
            self.call(rest, out);
        } else {
            say(rest, out);
        }
    }

    /// What is no call is text.
    fn call(&mut self, text: String, out: &mut Vec<StreamEvent>) {
        let inner = text.strip_prefix(BEGIN).unwrap_or(&text);
        let inner = inner.strip_suffix(END).unwrap_or(inner);
        let value: Value = serde_json::from_str(inner.trim()).unwrap_or_default();
        let arguments = value.get("arguments").or_else(|| value.get("parameters"));
        let Some(name) = value.get("name").and_then(Value::as_str) else {
            return say(text, out);
        };
        out.push(StreamEvent::ToolCall(ToolCallDelta {
            index: self.found,
            id: Some(format!("call_{}", self.found)),
            name: Some(name.to_owned()),
            arguments: match arguments {
                Some(Value::String(json)) => json.clone(),
                Some(other) => other.to_string(),
                None => "{}".to_owned(),
            },
        }));
        self.found += 1;
    }
}

fn say(text: String, out: &mut Vec<StreamEvent>) {
    if !text.is_empty() {
        out.push(StreamEvent::Text(text));
    }
}

/// The bytes at the end of `text` that begin a mark.
fn begun(text: &str) -> usize {
    let most = BEGIN.len().min(text.len());
    (1..=most)
        .rev()
        .find(|n| text.ends_with(&BEGIN[..*n]))
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(pieces: &[&str]) -> Vec<StreamEvent> {
        let mut calls = Calls::default();
        let mut out = Vec::new();
        pieces.iter().for_each(|piece| calls.push(piece, &mut out));
        calls.finish(&mut out);
        out
    }

    fn told(pieces: &[&str]) -> (String, Vec<(String, String)>) {
        let (mut text, mut calls) = (String::new(), Vec::new());
        for event in events(pieces) {
            match event {
                StreamEvent::Text(t) => text.push_str(&t),
                StreamEvent::ToolCall(c) => calls.push((c.name.unwrap(), c.arguments)),
                other => panic!("{other:?}"),
            }
        }
        (text, calls)
    }

    const TEXT: &str = "a <tool_call>\n{\"name\": \"f\", \"arguments\": {\"x\": \"é\"}}\n</tool_call> b<tool_call>{\"name\":\"g\"}</tool_call>< c";

    #[test]
    fn however_the_text_is_cut_the_calls_are_the_same() {
        let whole = told(&[TEXT]);
        assert_eq!(whole.0, "a  b< c");
        let calls = [("f", r#"{"x":"é"}"#), ("g", "{}")];
        assert_eq!(whole.1, calls.map(|(a, b)| (a.to_owned(), b.to_owned())));
        let letters: Vec<String> = TEXT.chars().map(String::from).collect();
        for size in 1..20 {
            let pieces: Vec<String> = letters.chunks(size).map(|c| c.concat()).collect();
            let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
            assert_eq!(told(&pieces), whole);
        }
    }

    #[test]
    fn what_is_no_call_is_text_and_a_call_at_the_end_needs_no_mark() {
        for text in [
            "<tool_call>nothing</tool_call>",
            "<tool_call>{\"name\": 1}",
            "<tool_ca",
            "<tool_call>",
        ] {
            assert_eq!(told(&[text]), (text.to_owned(), Vec::new()));
        }
        let (text, calls) = told(&["<tool_call>{\"name\": \"f\", \"parameters\": {}}"]);
        assert_eq!((text.as_str(), calls.len()), ("", 1));
    }

    #[test]
    fn each_call_has_an_id_of_its_own() {
        let ids = events(&[TEXT]).into_iter().filter_map(|e| match e {
            StreamEvent::ToolCall(c) => Some((c.index, c.id.unwrap())),
            _ => None,
        });
        assert_eq!(
            ids.collect::<Vec<_>>(),
            [(0, "call_0".to_owned()), (1, "call_1".to_owned())]
        );
    }
}
