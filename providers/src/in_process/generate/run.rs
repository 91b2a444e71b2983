//! One request: messages to tokens, tokens one by one to events.
//!
//! A prompt must leave room for at least one token of the model's context, else it is `request_too_large`; an answer that reaches
//! the end of the context ends there, with `length`. Nothing is cut from a prompt.

use std::path::{Path, PathBuf};

use antfly_framework::generate::{FinishReason, GenerateRequest, StreamEvent, ToolChoice, Usage};
use antfly_framework::{Error, Kind, Result};

use super::super::admission::CancelFlag;
use super::calls::Calls;
use super::gguf::{self, Gguf};
use super::llama::Llama;
use super::sample::Sampler;
use super::template::{self, Template};
use super::text::Text;
use super::tokenizer::Tokenizer;
use super::{DEFAULT_OUTPUT_CAP, GenerateModel};

/// Tokens of a prompt that are read at a time.
const PROMPT_CHUNK: usize = 128;

/// A model that generates.
#[derive(Debug)]
pub(super) struct Generator {
    tokenizer: Tokenizer,
    template: Template,
    llama: Llama,
}

/// The one `.gguf` file of a folder, or the file itself.
///
/// # Errors
/// `config` naming the folder: there is none, or several.
pub(in crate::in_process) fn file(path: &Path) -> Result<PathBuf> {
    if path.is_file() {
        return Ok(path.to_owned());
    }
    let unusable = |problem: String| {
        let problem = format!("the model's folder {} {problem}", path.display());
        Error::new(Kind::Config, problem)
    };
    let entries = path
        .read_dir()
        .map_err(|e| unusable(format!("can't be read: {e}")))?;
    let paths = entries.flatten().map(|entry| entry.path());
    let mut files: Vec<_> = paths
        .filter(|p| p.extension().is_some_and(|e| e == "gguf"))
        .collect();
    files.sort();
    match files.as_slice() {
        [one] => Ok(one.clone()),
        [] => Err(unusable(
            "has no .gguf file; a generator needs one".to_owned(),
        )),
        several => Err(unusable(format!(
            "has {} .gguf files; give the path of one as model_path",
            several.len()
        ))),
    }
}

impl Generator {
    pub(super) fn load(path: &Path) -> Result<Self> {
        Self::read(Gguf::open(path)?)
    }

    pub(super) fn read<R: std::io::Read + std::io::Seek>(mut file: Gguf<R>) -> Result<Self> {
        let tokenizer = Tokenizer::load(&file)?;
        let Some(source) = file.text(template::KEY)? else {
            return Err(gguf::broken(
                file.path(),
                template::KEY,
                "is missing; without it messages can't be put to the model",
            ));
        };
        let template = Template::new(file.path().to_owned(), source)?;
        let llama = Llama::load(&mut file, tokenizer.vocabulary())?;
        Ok(Generator {
            tokenizer,
            template,
            llama,
        })
    }

    /// The tokens of a prompt, which leave room for an answer.
    fn prompt(&self, request: &GenerateRequest) -> Result<Vec<u32>> {
        let context = self.llama.context();
        let too_large = |size: String| {
            let problem = format!(
                "messages: {size}, the model's context has {context} tokens, one of them for an answer"
            );
            Err(Error::new(Kind::RequestTooLarge, problem))
        };
        let texts = template::texts(request);
        let bytes: usize = texts.iter().map(|text| text.len()).sum();
        if bytes / self.tokenizer.longest() >= context {
            return too_large(format!("they have {bytes} bytes"));
        }
        let guard = self.tokenizer.guard(texts);
        let text = self.template.render(request, &self.tokenizer, &guard)?;
        let tokens = self.tokenizer.encode(&text, &guard)?;
        if tokens.is_empty() {
            let problem = "messages: the model's chat template makes nothing of them";
            return Err(Error::new(Kind::InvalidRequest, problem));
        }
        if tokens.len() >= context {
            return too_large(format!("they have {} tokens", tokens.len()));
        }
        Ok(tokens)
    }

    fn check_tools(&self, request: &GenerateRequest) -> Result<()> {
        let turns = request.messages.iter();
        let mut with_tools = turns.filter(|m| !m.tool_calls.is_empty() || m.tool_call_id.is_some());
        let problem = if !request.tools.is_empty() && !self.template.takes_tools() {
            "tools: this model's chat template has no place for tools, or makes it call them in another form than <tool_call>"
        } else if with_tools.next().is_some() && !self.template.shows_tools() {
            "messages: this model's chat template has no place for tool calls and their results"
        } else {
            return Ok(());
        };
        Err(Error::new(Kind::Unsupported, problem))
    }
}

impl GenerateModel for Generator {
    fn generate(
        &self,
        request: &GenerateRequest,
        cancel: &CancelFlag,
        emit: &mut dyn FnMut(StreamEvent),
    ) -> Result<()> {
        let mut request = request.clone();
        if request.tool_choice == Some(ToolChoice::None) {
            request.tools.clear();
        }
        self.check_tools(&request)?;
        let prompt = self.prompt(&request)?;
        let check = || cancel.check();
        let mut memory = self.llama.memory();
        let mut scores = Vec::new();
        for tokens in prompt.chunks(PROMPT_CHUNK) {
            scores = self.llama.next(&mut memory, tokens, &check)?;
        }
        let most = request.max_tokens.unwrap_or(DEFAULT_OUTPUT_CAP) as usize;
        let most = most.min(self.llama.context() - prompt.len());
        let mut sampler = Sampler::new(&request);
        let mut text = Text::new(request.stop.clone());
        let mut written = 0;
        let mut reason = FinishReason::Length;
        let mut calls = (!request.tools.is_empty()).then(Calls::default);
        let mut say = |said: String, calls: &mut Option<Calls>| {
            let mut events = Vec::new();
            match calls {
                Some(calls) => calls.push(&said, &mut events),
                None if said.is_empty() => {}
                None => events.push(StreamEvent::Text(said)),
            }
            // A call is held back until it is whole, which can take longer than a stream may be silent.
            if events.is_empty() {
                emit(StreamEvent::SIGN_OF_LIFE);
            }
            events.into_iter().for_each(&mut *emit);
        };
        while written < most {
            let token = sampler.next(&scores)?;
            written += 1;
            if self.tokenizer.ends(token) {
                reason = FinishReason::Stop;
                break;
            }
            say(text.push(self.tokenizer.said(token)), &mut calls);
            if text.stopped() {
                reason = FinishReason::Stop;
                break;
            }
            if written < most {
                scores = self.llama.next(&mut memory, &[token], &check)?;
            }
        }
        say(text.finish(), &mut calls);
        if let Some(calls) = &mut calls {
            let mut events = Vec::new();
            calls.finish(&mut events);
            events.into_iter().for_each(&mut *emit);
            if calls.any() && reason == FinishReason::Stop {
                reason = FinishReason::ToolCalls;
            }
        }
        let count = |n: usize| Some(n as u64);
        emit(StreamEvent::Usage(Usage {
            input_tokens: count(prompt.len()),
            output_tokens: count(written),
            total_tokens: count(prompt.len() + written),
            ..Usage::default()
        }));
        let raw = reason.as_str().to_owned();
        emit(StreamEvent::Finish { reason, raw });
        Ok(())
    }
}
