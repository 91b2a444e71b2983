//! Texts to vectors.

use std::path::Path;

use antfly_framework::config::EntryConfig;
use antfly_framework::content::Part;
use antfly_framework::embed::{EmbedInput, EmbedRequest, Embeddings};
use antfly_framework::generate::Usage;
use antfly_framework::{Error, Kind, Result};

use super::admission::CancelFlag;
use super::encoder::{self, Cut, Encoder, Habits, MOST, to_unit};
use super::folder::Folder;

/// What an entry says about embedding.
#[derive(Clone, Debug)]
pub(super) struct EmbedSettings {
    /// Put before every text.
    prompt: String,
    cut: Cut,
    /// Numbers kept of each vector; `None`: all.
    keep: Option<usize>,
    /// The most texts of a sub-batch.
    most: usize,
}

impl EmbedSettings {
    /// Checks the entry against what the model's folder says.
    pub(super) fn of(entry: &EntryConfig, path: &Path) -> Result<Self> {
        let o = &entry.embed;
        let refused = [
            (
                "encoding_format",
                o.encoding_format.is_some(),
                "no vector travels",
            ),
            (
                "task_type",
                o.task_type.is_some(),
                "use input_type, the name of one of the model's prompts",
            ),
            (
                "multimodal",
                o.multimodal == Some(true),
                "models in this process take text",
            ),
        ];
        if let Some((key, _, why)) = refused.into_iter().find(|(_, set, _)| *set) {
            return Err(Error::config(
                entry.field(key),
                format!("an in-process model has no such option: {why}"),
            ));
        }
        let (own, shorter) = encoder::dimensions(path)?;
        let keep = match o.dimensions.map(|n| n as usize) {
            None => None,
            Some(n) if n == own => None,
            Some(n) if n < own && shorter.contains(&n) => Some(n),
            Some(n) => {
                let mut allowed: Vec<String> = shorter
                    .iter()
                    .filter(|s| **s < own)
                    .map(usize::to_string)
                    .collect();
                allowed.push(own.to_string());
                return Err(Error::config(
                    entry.field("dimensions"),
                    format!(
                        "{n} is not allowed; of this model's vectors {} is",
                        allowed.join(" or ")
                    ),
                ));
            }
        };
        let cut = match o
            .truncate
            .as_deref()
            .map(str::to_ascii_uppercase)
            .as_deref()
        {
            None | Some("END") => Cut::End,
            Some("START") => Cut::Start,
            Some("NONE") => Cut::Refuse,
            Some(_) => {
                return Err(Error::config(
                    entry.field("truncate"),
                    format!(
                        "{:?} is not allowed; \"END\", \"START\" or \"NONE\" is",
                        o.truncate.as_deref().unwrap_or_default()
                    ),
                ));
            }
        };
        Ok(EmbedSettings {
            prompt: prompt(entry, path)?,
            cut,
            keep,
            most: o.batch_size.map_or(MOST, |n| (n as usize).min(MOST)),
        })
    }
}

/// The text that `input_type` names, or the folder's own default.
fn prompt(entry: &EntryConfig, path: &Path) -> Result<String> {
    let habits = Habits::read(&Folder::new(path))?;
    let Some(name) = &entry.embed.input_type else {
        return Ok(habits.default_prompt);
    };
    habits.prompts.get(name).cloned().ok_or_else(|| {
        let names: Vec<&str> = habits.prompts.keys().map(String::as_str).collect();
        let allowed = match names.is_empty() {
            true => "this model has no prompts".to_owned(),
            false => format!("this model's prompts are {}", names.join(", ")),
        };
        Error::config(
            entry.field("input_type"),
            format!("{name:?} is not allowed; {allowed}"),
        )
    })
}

impl Encoder {
    /// `n x dim` vectors in input order.
    pub(super) fn embed(
        &self,
        request: &EmbedRequest,
        settings: &EmbedSettings,
        cancel: &CancelFlag,
    ) -> Result<Embeddings> {
        let text =
            |(item, input)| text(input, &settings.prompt).map_err(|e: Error| e.with_item(item));
        let texts: Vec<String> = request
            .inputs
            .iter()
            .enumerate()
            .map(text)
            .collect::<Result<_>>()?;
        let tokens = self.tokens(&texts, settings.cut, cancel)?;
        let most = request
            .batch_size
            .unwrap_or(settings.most)
            .min(settings.most);
        let mut vectors = self.vectors(&tokens, most, false, cancel)?;
        if let Some(keep) = settings.keep {
            for vector in &mut vectors {
                let unit = (encoder::dot(vector, vector) - 1.0).abs() < 1e-3;
                vector.truncate(keep);
                // What had length 1 has it again.
                if unit {
                    to_unit(vector);
                }
            }
        }
        let dim = vectors.first().map_or(0, Vec::len);
        let mut all = Embeddings::dense(dim, vectors.concat())?;
        let read = tokens.iter().map(|t| t.len() as u64).sum();
        all.usage = Some(Usage {
            input_tokens: Some(read),
            total_tokens: Some(read),
            ..Usage::default()
        });
        Ok(all)
    }
}

/// An input's text, its parts' joined by a newline.
fn text(input: &EmbedInput, prompt: &str) -> Result<String> {
    if input.media().next().is_some() {
        return Err(Error::new(
            Kind::MediaNotAllowed,
            "models in this process take text",
        ));
    }
    Ok(match input {
        EmbedInput::Text(text) => format!("{prompt}{text}"),
        EmbedInput::Parts(parts) => {
            let texts: Vec<&str> = parts.iter().filter_map(Part::as_text).collect();
            format!("{prompt}{}", texts.join("\n"))
        }
        _ => {
            return Err(Error::new(
                Kind::Unsupported,
                "models in this process take text",
            ));
        }
    })
}
