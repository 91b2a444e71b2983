//! What a folder says about making a vector of hidden states: pooling, projection, normalisation, maximum, prompts. Read from the
//! files that embedding models are published with (`modules.json` and what it names).

use std::collections::BTreeMap;

use antfly_framework::Result;
use serde::Deserialize;
use serde_json::Value;

use super::super::folder::Folder;
use super::kernels::{self, Activation};
use super::ops::{self, Linear};
use super::weights::Weights;

/// How hidden states become a vector.
#[derive(Debug)]
pub(super) struct Recipe {
    pooling: Pooling,
    dense: Vec<(Linear, Activation)>,
    /// Whether vectors have length 1.
    pub(super) unit: bool,
    /// Numbers a vector.
    pub(super) dim: usize,
}

/// How a sequence's rows become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pooling {
    First,
    Last,
    Mean,
    /// The sum by the square root of the length.
    MeanSqrt,
    Max,
}

#[derive(Deserialize)]
struct Module {
    #[serde(default)]
    path: String,
    r#type: String,
}

#[derive(Deserialize)]
struct DenseFile {
    in_features: usize,
    out_features: usize,
    activation_function: Option<String>,
}

/// Limits and texts that a folder sets for its users.
#[derive(Debug, Default)]
pub(in crate::in_process) struct Habits {
    /// The most tokens of a text, if it says.
    pub(super) longest: Option<usize>,
    pub(super) lower_case: bool,
    /// Texts to put before an input, by name.
    pub(in crate::in_process) prompts: BTreeMap<String, String>,
    pub(in crate::in_process) default_prompt: Option<String>,
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
    prompts: Option<BTreeMap<String, String>>,
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
        if let Some(file) =
            folder.json_if_there::<PromptsFile>("config_sentence_transformers.json")?
        {
            habits.prompts = file.prompts.unwrap_or_default();
            habits.default_prompt = file.default_prompt_name;
        }
        Ok(habits)
    }
}

impl Recipe {
    pub(super) fn read(folder: &Folder<'_>, hidden: usize) -> Result<Self> {
        const FILE: &str = "modules.json";
        // A bare model is used as its own library does without the file.
        let mut recipe = Recipe {
            pooling: Pooling::Mean,
            dense: Vec::new(),
            unit: false,
            dim: hidden,
        };
        let modules: Vec<Module> = folder.json_if_there(FILE)?.unwrap_or_default();
        for module in modules {
            let kind = module.r#type.rsplit('.').next().unwrap_or_default();
            match kind {
                "Transformer" if module.path.is_empty() => {}
                "Pooling" => {
                    let name = format!("{}/config.json", module.path);
                    let file: BTreeMap<String, Value> = folder.json(&name)?;
                    recipe.pooling = pooling(&file).map_err(|what| folder.bad(&name, what))?;
                }
                "Dense" => recipe.add_dense(folder, &module.path)?,
                "Normalize" => recipe.unit = true,
                "Dropout" => {}
                other => {
                    let what = format!(
                        "its module {other:?} at {:?} does not run here; Transformer (in the folder itself), Pooling, Dense and \
                         Normalize do",
                        module.path
                    );
                    return Err(folder.bad(FILE, what));
                }
            }
        }
        Ok(recipe)
    }

    fn add_dense(&mut self, folder: &Folder<'_>, path: &str) -> Result<()> {
        let name = format!("{path}/config.json");
        let file: DenseFile = folder.json(&name)?;
        if file.in_features != self.dim {
            let what = format!("in_features is {}, not {}", file.in_features, self.dim);
            return Err(folder.bad(&name, what));
        }
        let word = file.activation_function.unwrap_or_default();
        let word = word.rsplit('.').next().unwrap_or_default().to_lowercase();
        let bend = match word.is_empty() {
            true => Activation::Tanh,
            false => Activation::of(&word)
                .ok_or_else(|| folder.bad(&name, format!("activation_function is {word:?}")))?,
        };
        let weights = format!("{path}/model.safetensors");
        if !folder.file(&weights).is_file() {
            return Err(folder.missing(&weights));
        }
        let weights = Weights::of(vec![folder.file(&weights)])?;
        let layer = Linear::load(&weights, "linear", self.dim, file.out_features)?;
        self.dense.push((layer, bend));
        self.dim = file.out_features;
        Ok(())
    }

    /// The vectors of sequences whose hidden states lie one after the other.
    pub(super) fn vectors(
        &self,
        hidden: &[f32],
        dim: usize,
        lengths: &[usize],
    ) -> Result<Vec<Vec<f32>>> {
        let mut pooled = Vec::with_capacity(lengths.len() * dim);
        let mut start = 0;
        for length in lengths {
            let rows = &hidden[start * dim..(start + length) * dim];
            self.pooling.pool(rows, dim, &mut pooled);
            start += length;
        }
        let mut all = ops::matrix(pooled, dim)?;
        for (layer, bend) in &self.dense {
            all = layer.forward(&all, *bend)?;
        }
        ops::read(&all, |all| {
            all.chunks_exact(self.dim).map(<[f32]>::to_vec).collect()
        })
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

/// The pooling a file asks for: one flag of the older form, or the newer form's word.
fn pooling(file: &BTreeMap<String, Value>) -> Result<Pooling, String> {
    let known = [
        ("cls", "pooling_mode_cls_token", Pooling::First),
        ("lasttoken", "pooling_mode_lasttoken", Pooling::Last),
        ("mean", "pooling_mode_mean_tokens", Pooling::Mean),
        (
            "mean_sqrt_len_tokens",
            "pooling_mode_mean_sqrt_len_tokens",
            Pooling::MeanSqrt,
        ),
        ("max", "pooling_mode_max_tokens", Pooling::Max),
    ];
    if file.get("include_prompt") == Some(&Value::Bool(false)) {
        return Err("include_prompt is false, which does not run here".to_owned());
    }
    let named: Vec<String> = match file.get("pooling_mode") {
        Some(Value::String(word)) => vec![word.clone()],
        Some(Value::Array(words)) => (words.iter())
            .filter_map(|w| w.as_str().map(str::to_owned))
            .collect(),
        _ => (file.iter())
            .filter(|(key, value)| key.starts_with("pooling_mode_") && **value == Value::Bool(true))
            .map(|(key, _)| key.clone())
            .collect(),
    };
    match named.as_slice() {
        [] => Ok(Pooling::Mean),
        [one] => known
            .iter()
            .find(|(word, flag, _)| one == word || one == flag)
            .map(|(_, _, pooling)| *pooling)
            .ok_or_else(|| format!("{one} does not run here")),
        several => Err(format!(
            "it asks for {}; one pooling at a time runs here",
            several.join(" and ")
        )),
    }
}

#[cfg(test)]
#[path = "recipe_tests.rs"]
mod tests;
