//! `generate`: one call a line, whole or streamed.

use antfly_framework::{
    Accumulator, CallOptions, Error, GenerateRequest, Generation, Generator, Operation,
    StreamEvent, Usage,
};
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use crate::args::GenerateArgs;
use crate::flow;
use crate::input::Id;
use crate::output::{Lines, Output, Ticket};
use crate::prompt;
use crate::run::{Exit, Fatal, Run, Start};

pub(crate) async fn run(args: GenerateArgs, start: Start) -> Result<Exit, Fatal> {
    let mut run = Run::prepare(args.common, start, Operation::Generate)?;
    let entry = run.entry(args.name)?;
    let generator = run.open(|client| client.generator(&entry))?;
    let window = flow::window(run.concurrency(), 1);
    run.lines(window, false, async move |feed, calls, lines, stop| {
        // The slot comes first, so that no more input is held than calls can take.
        while let Some(slot) = calls.slot().await {
            let (ticket, id, request) = loop {
                let Some((ticket, line)) = feed.next().await else {
                    return;
                };
                match prompt::parse(&line) {
                    (id, Ok(request)) => break (ticket, id, request),
                    (id, Err(error)) => lines.failed(ticket, &id, &error),
                }
            };
            let item = Call {
                generator: generator.clone(),
                options: calls.options(),
                ticket,
                id,
                lines: lines.clone(),
                stop: stop.clone(),
            };
            calls.start(slot, item.run(request, args.stream));
        }
    })
    .await
}

/// One call and where its lines go.
struct Call {
    generator: Generator,
    options: CallOptions,
    ticket: Ticket,
    id: Id,
    lines: Lines,
    stop: CancellationToken,
}

impl Call {
    async fn run(self, request: GenerateRequest, stream: bool) {
        let answer = if stream {
            self.stream(request).await
        } else {
            self.generator
                .generate_with(request, self.options.clone())
                .await
        };
        match answer {
            Ok(generation) => self.lines.ok(self.ticket, line(&self.id, &generation)),
            Err(error) => flow::fail(&self.lines, self.ticket, &self.id, &error, &self.stop),
        }
    }

    async fn stream(&self, request: GenerateRequest) -> Result<Generation, Error> {
        let mut events = self
            .generator
            .stream_with(request, self.options.clone())
            .await?;
        let mut all = Accumulator::default();
        while let Some(event) = events.next().await {
            let event = event?;
            if let StreamEvent::Text(delta) = &event {
                let line = Output::json(&Delta {
                    id: &self.id,
                    delta,
                });
                self.lines.part(&self.ticket, line);
            }
            all.push(&event);
        }
        Ok(all.finish())
    }
}

#[derive(Serialize)]
struct Delta<'a> {
    id: &'a Id,
    delta: &'a str,
}

fn line(id: &Id, generation: &Generation) -> Output {
    #[derive(Serialize)]
    struct Answer<'a> {
        id: &'a Id,
        text: &'a str,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<Call<'a>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        finish_reason: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        usage: Option<Counts>,
    }
    #[derive(Serialize)]
    struct Call<'a> {
        id: &'a str,
        name: &'a str,
        arguments: &'a str,
    }
    #[derive(Serialize)]
    struct Counts {
        #[serde(skip_serializing_if = "Option::is_none")]
        input_tokens: Option<u64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        output_tokens: Option<u64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        total_tokens: Option<u64>,
    }
    let calls = generation.tool_calls.iter().map(|call| Call {
        id: &call.id,
        name: &call.name,
        arguments: &call.arguments,
    });
    let counts = |usage: Usage| Counts {
        input_tokens: usage.input_tokens,
        output_tokens: usage.output_tokens,
        total_tokens: usage.total_tokens,
    };
    Output::json(&Answer {
        id,
        text: &generation.text,
        tool_calls: calls.collect(),
        finish_reason: generation
            .finish_reason
            .as_ref()
            .map(|reason| reason.as_str()),
        usage: generation.usage.map(counts),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use antfly_framework::{FinishReason, ToolCall};

    fn text(generation: &Generation) -> String {
        let Output::Line(line) = line(&Id::Line(0), generation) else {
            panic!("not a line")
        };
        String::from_utf8(line).unwrap()
    }

    #[test]
    fn what_was_not_sent_is_left_out() {
        let bare = Generation {
            text: "hi".to_owned(),
            ..Generation::default()
        };
        assert_eq!(text(&bare), r#"{"id":0,"text":"hi"}"#);
        let full = Generation {
            tool_calls: vec![ToolCall {
                id: "c1".to_owned(),
                name: "look".to_owned(),
                arguments: "{\"a\": 1}".to_owned(),
            }],
            finish_reason: Some(FinishReason::ToolCalls),
            usage: Some(Usage {
                input_tokens: Some(9),
                output_tokens: Some(2),
                total_tokens: Some(11),
                cached_input_tokens: Some(3),
                ..Usage::default()
            }),
            ..Generation::default()
        };
        assert_eq!(
            text(&full),
            r#"{"id":0,"text":"","tool_calls":[{"id":"c1","name":"look","arguments":"{\"a\": 1}"}],"finish_reason":"tool_calls","usage":{"input_tokens":9,"output_tokens":2,"total_tokens":11}}"#
        );
    }
}
