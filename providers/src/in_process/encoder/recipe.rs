//! Hidden states to a vector: pooling, projections, normalisation, as [`modules`](super::modules) lists them. And what else a folder
//! says to its users: maximum, prompts.

use std::collections::BTreeMap;

use antfly_framework::Result;
use serde::Deserialize;

use super::super::folder::Folder;
use super::kernels::{self, Activation};
use super::modules::{Module, Modules, Pooling};
use super::ops::{Linear, Rows};
use super::weights::Weights;

/// How hidden states become a vector.
#[derive(Debug)]
pub(super) struct Recipe {
    pooling: Pooling,
    after: Vec<Step>,
}

/// What comes after the pooling.
#[derive(Debug)]
enum Step {
    Dense(Linear, Activation),
    /// Length 1.
    Unit,
}

/// Limits and texts that a folder sets for its users.
#[derive(Debug, Default)]
pub(in crate::in_process) struct Habits {
    /// The most tokens of a text, if it says.
    pub(super) longest: Option<usize>,
    pub(super) lower_case: bool,
    /// Texts to put before an input, by name.
    pub(in crate::in_process) prompts: BTreeMap<String, String>,
    /// Put before an input for which none is named.
    pub(in crate::in_process) default_prompt: String,
}

#[derive(Deserialize)]
struct SentenceFile {
    max_seq_length: Option<usize>,
    do_lower_case: Option<bool>,
}

#[derive(Deserialize)]
struct TokenizerFile {
    /// Published files say "none" with a very large number, written in several ways.
    model_max_length: Option<f64>,
}

#[derive(Deserialize)]
struct PromptsFile {
    /// A name may stand there without a text.
    prompts: Option<BTreeMap<String, Option<String>>>,
    default_prompt_name: Option<String>,
}

impl Habits {
    pub(in crate::in_process) fn read(folder: &Folder<'_>) -> Result<Self> {
        let mut habits = Habits::default();
        const FILES: [&str; 5] = [
            "sentence_bert_config.json",
            "sentence_roberta_config.json",
            "sentence_distilbert_config.json",
            "sentence_camembert_config.json",
            "sentence_xlm-roberta_config.json",
        ];
        for name in FILES {
            if let Some(file) = folder.json_if_there::<SentenceFile>(name)? {
                habits.longest = file.max_seq_length;
                habits.lower_case = file.do_lower_case.unwrap_or(false);
                break;
            }
        }
        if habits.longest.is_none()
            && let Some(file) = folder.json_if_there::<TokenizerFile>("tokenizer_config.json")?
        {
            habits.longest = file
                .model_max_length
                .filter(|n| (1.0..1e7).contains(n))
                .map(|n| n as usize);
        }
        habits.read_prompts(folder)?;
        Ok(habits)
    }

    fn read_prompts(&mut self, folder: &Folder<'_>) -> Result<()> {
        const FILE: &str = "config_sentence_transformers.json";
        let Some(file) = folder.json_if_there::<PromptsFile>(FILE)? else {
            return Ok(());
        };
        let prompts = file.prompts.unwrap_or_default().into_iter();
        self.prompts = prompts.map(|(k, v)| (k, v.unwrap_or_default())).collect();
        if let Some(name) = file.default_prompt_name {
            let Some(prompt) = self.prompts.get(&name) else {
                let what = format!("default_prompt_name is {name:?}, which is none of its prompts");
                return Err(folder.bad(FILE, what));
            };
            self.default_prompt.clone_from(prompt);
        }
        Ok(())
    }
}

impl Recipe {
    /// Reads the weights of what `modules.json` lists.
    pub(super) fn load(folder: &Folder<'_>, hidden: usize) -> Result<Self> {
        let modules = Modules::read(folder, hidden)?;
        let mut dim = hidden;
        let mut after = Vec::with_capacity(modules.after.len());
        for module in modules.after {
            after.push(match module {
                Module::Normalize => Step::Unit,
                Module::Dense {
                    path,
                    outputs,
                    bias,
                    bend,
                } => {
                    let name = format!("{path}/model.safetensors");
                    let weights = Weights::of(vec![folder.file(&name)])?;
                    if weights.has("linear.bias") != bias {
                        let what = match bias {
                            true => "there is no tensor linear.bias, and bias is true",
                            false => "there is a tensor linear.bias, and bias is false",
                        };
                        return Err(folder.bad(&name, what));
                    }
                    let layer = Linear::load(&weights, "linear", dim, outputs)?;
                    dim = outputs;
                    Step::Dense(layer, bend)
                }
            });
        }
        Ok(Recipe {
            pooling: modules.pooling,
            after,
        })
    }

    /// The vectors of sequences whose hidden states lie one after the other.
    pub(super) fn vectors(&self, hidden: &[f32], dim: usize, lengths: &[usize]) -> Vec<Vec<f32>> {
        let mut pooled = Vec::with_capacity(lengths.len() * dim);
        let mut start = 0;
        for length in lengths {
            let rows = &hidden[start * dim..(start + length) * dim];
            self.pooling.pool(rows, dim, &mut pooled);
            start += length;
        }
        let mut all = Rows {
            numbers: pooled,
            dim,
        };
        for step in &self.after {
            match step {
                Step::Dense(layer, bend) => all = layer.forward(&all, *bend),
                Step::Unit => all
                    .numbers
                    .chunks_exact_mut(all.dim)
                    .for_each(kernels::to_unit),
            }
        }
        let each = all.numbers.chunks_exact(all.dim);
        each.map(<[f32]>::to_vec).collect()
    }
}

impl Pooling {
    /// Adds the one row that `rows` become.
    fn pool(self, rows: &[f32], dim: usize, out: &mut Vec<f32>) {
        let count = rows.len() / dim;
        let start = out.len();
        match self {
            Pooling::First => out.extend_from_slice(&rows[..dim]),
            Pooling::Last => out.extend_from_slice(&rows[(count - 1) * dim..]),
            Pooling::Mean | Pooling::MeanSqrt => {
                out.resize(start + dim, 0.0);
                for row in rows.chunks_exact(dim) {
                    kernels::accumulate(&mut out[start..], row, 1.0);
                }
                let share = match self {
                    Pooling::Mean => 1.0 / count as f32,
                    _ => 1.0 / (count as f32).sqrt(),
                };
                out[start..].iter_mut().for_each(|v| *v *= share);
            }
            Pooling::Max => {
                out.extend_from_slice(&rows[..dim]);
                for row in rows.chunks_exact(dim) {
                    for (v, x) in out[start..].iter_mut().zip(row) {
                        *v = v.max(*x);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
#[path = "recipe_tests.rs"]
mod tests;
