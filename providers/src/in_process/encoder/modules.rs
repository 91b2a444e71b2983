//! What a folder's `modules.json` makes of hidden states, read and checked; nothing of it is passed over. No weights are read here.

use std::collections::BTreeMap;

use antfly_framework::Result;
use serde::Deserialize;
use serde_json::Value;

use super::super::folder::Folder;
use super::kernels::Activation;

/// The file that lists them.
pub(super) const FILE: &str = "modules.json";
/// What ColBERT's own library leaves beside a model.
const COLBERT: &str = "artifact.metadata";
/// What a model of one vector a text is saved as, and where its vectors travel between modules.
const ONE_VECTOR: &str = "SentenceTransformer";
const OF_A_TEXT: &str = "sentence_embedding";
const OF_A_TOKEN: &str = "token_embeddings";

/// How hidden states become a vector, in order.
#[derive(Debug, PartialEq)]
pub(super) struct Modules {
    pub(super) pooling: Pooling,
    pub(super) after: Vec<Module>,
    /// Numbers a vector.
    pub(super) dim: usize,
}

/// What comes after the pooling.
#[derive(Debug, PartialEq)]
pub(super) enum Module {
    /// A projection; its weights are in `path`.
    Dense {
        path: String,
        outputs: usize,
        bias: bool,
        bend: Activation,
    },
    /// Length 1.
    Normalize,
}

/// How a sequence's rows become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pooling {
    First,
    Last,
    Mean,
    /// The sum by the square root of the length.
    MeanSqrt,
    Max,
}

#[derive(Deserialize)]
struct Listed {
    #[serde(default)]
    path: String,
    r#type: String,
}

#[derive(Deserialize)]
struct DenseFile {
    in_features: usize,
    out_features: usize,
    bias: Option<bool>,
    /// Absent is not the same as `null`.
    #[serde(default, deserialize_with = "present")]
    activation_function: Option<Value>,
    #[serde(default)]
    use_residual: bool,
}

fn present<'de, D: serde::Deserializer<'de>>(value: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(value).map(Some)
}

/// Between which places of a text's features a module works.
#[derive(Default, Deserialize)]
struct Between {
    module_input_name: Option<String>,
    module_output_name: Option<String>,
}

#[derive(Default, Deserialize)]
struct Saved {
    model_type: Option<String>,
}

impl Modules {
    /// Of an encoder whose hidden states have `hidden` numbers a token.
    ///
    /// # Errors
    /// `config` naming the file, the module and what runs here.
    pub(super) fn read(folder: &Folder<'_>, hidden: usize) -> Result<Self> {
        saved_as(folder, ONE_VECTOR)?;
        no_adapter(folder)?;
        if folder.file(COLBERT).is_file() {
            return Err(folder.bad(
                COLBERT,
                "it is of a model of one vector a token (ColBERT) with a projection of its own, which does not run here",
            ));
        }
        // A bare model is used as its own library does without the file.
        let mut modules = Modules {
            pooling: Pooling::Mean,
            after: Vec::new(),
            dim: hidden,
        };
        let Some(listed) = folder.json_if_there::<Vec<Listed>>(FILE)? else {
            return Ok(modules);
        };
        let mut pooled = false;
        for (place, listed) in listed.iter().enumerate() {
            let wrong = |why: &str| Err(folder.bad(FILE, listed.wrong(why)));
            match listed.kind() {
                Some("Transformer") if place == 0 && listed.path.is_empty() => {}
                Some("Transformer") => {
                    return wrong("it must be the first, and in the folder itself");
                }
                Some("Pooling") if pooled || place != 1 => {
                    return wrong("it must come right after the Transformer, and once");
                }
                Some("Pooling") => {
                    let name = format!("{}/config.json", listed.path);
                    let file: BTreeMap<String, Value> = folder.json(&name)?;
                    modules.pooling = pooling(&file).map_err(|what| folder.bad(&name, what))?;
                    pooled = true;
                }
                Some("Dense" | "Normalize") if !pooled => {
                    return wrong(
                        "it works on the vector of each token, and here only on that of a text, after a Pooling; models of one vector \
                         a token (ColBERT) with a projection of their own do not run here",
                    );
                }
                Some("Dense") => {
                    let dense = dense(folder, &listed.path, modules.dim)?;
                    if let Module::Dense { outputs, .. } = &dense {
                        modules.dim = *outputs;
                    }
                    modules.after.push(dense);
                }
                Some("Normalize") => {
                    of_a_text(folder, &listed.path)?;
                    modules.after.push(Module::Normalize);
                }
                Some("Dropout") => {}
                _ => return wrong("it does not run here"),
            }
        }
        match pooled {
            true => Ok(modules),
            false => Err(folder.bad(
                FILE,
                "it has no Pooling: this model makes a vector of each token and none of a text, which does not run here",
            )),
        }
    }

    /// Of a model that scores pairs: there is nothing but the model itself.
    pub(super) fn none_of_a_classifier(folder: &Folder<'_>) -> Result<()> {
        saved_as(folder, "CrossEncoder")?;
        no_adapter(folder)?;
        let listed: Vec<Listed> = folder.json_if_there(FILE)?.unwrap_or_default();
        let other = |l: &&Listed| l.kind() != Some("Transformer") || !l.path.is_empty();
        match listed.iter().find(other) {
            None => Ok(()),
            Some(other) => Err(folder.bad(FILE, other.wrong("a model that scores pairs has none"))),
        }
    }
}

impl Listed {
    /// The module's name, where it is one of the library that the file belongs to; others' may do whatever they like.
    fn kind(&self) -> Option<&str> {
        let known = self.r#type.starts_with("sentence_transformers.");
        self.r#type.rsplit('.').next().filter(|_| known)
    }

    fn wrong(&self, why: &str) -> String {
        format!(
            "its module {:?} at {:?} can't be used: {why}; Transformer (in the folder itself), Pooling, Dense and Normalize of \
             sentence_transformers run, in this order",
            self.r#type, self.path
        )
    }
}

/// Whether the folder is of the kind of model that is asked for, where it says.
fn saved_as(folder: &Folder<'_>, kind: &str) -> Result<()> {
    const FILE: &str = "config_sentence_transformers.json";
    match folder
        .json_if_there::<Saved>(FILE)?
        .and_then(|f| f.model_type)
    {
        Some(other) if other != kind => Err(folder.bad(
            FILE,
            format!("model_type is {other:?}; of this model {kind:?} is what runs here"),
        )),
        _ => Ok(()),
    }
}

/// An adapter changes the weights of the model it stands beside.
fn no_adapter(folder: &Folder<'_>) -> Result<()> {
    const FILE: &str = "adapter_config.json";
    match folder.file(FILE).is_file() {
        true => Err(folder.bad(
            FILE,
            "adapters do not run here; merge this one into the model's weights",
        )),
        false => Ok(()),
    }
}

/// A module works on the vector of a text.
fn of_a_text(folder: &Folder<'_>, path: &str) -> Result<()> {
    let name = format!("{path}/config.json");
    let file: Between = match path {
        "" => Between::default(),
        _ => folder.json_if_there(&name)?.unwrap_or_default(),
    };
    for (key, value) in [
        ("module_input_name", &file.module_input_name),
        ("module_output_name", &file.module_output_name),
    ] {
        match value.as_deref() {
            None | Some(OF_A_TEXT) => {}
            Some(other) => {
                let what = match other {
                    OF_A_TOKEN => {
                        "; models of one vector a token (ColBERT) with a projection of their own do not run here"
                    }
                    _ => "",
                };
                return Err(folder.bad(
                    &name,
                    format!("{key} is {other:?}; {OF_A_TEXT:?} is allowed{what}"),
                ));
            }
        }
    }
    Ok(())
}

fn dense(folder: &Folder<'_>, path: &str, inputs: usize) -> Result<Module> {
    of_a_text(folder, path)?;
    let name = format!("{path}/config.json");
    let file: DenseFile = folder.json(&name)?;
    let bad = |what: String| Err(folder.bad(&name, what));
    if file.in_features != inputs {
        return bad(format!("in_features is {}, not {inputs}", file.in_features));
    }
    // The most of any dimension that a model here can have.
    if !(1..=1 << 20).contains(&file.out_features) {
        return bad(format!(
            "out_features is {}; 1 to {} is allowed",
            file.out_features,
            1 << 20
        ));
    }
    if file.use_residual {
        return bad("use_residual is true, which does not run here".to_owned());
    }
    let bend = match &file.activation_function {
        None => Some(Activation::Tanh),
        Some(Value::String(path)) if path.starts_with("torch.nn.") => path
            .rsplit('.')
            .next()
            .and_then(|word| Activation::of(&word.to_lowercase())),
        Some(_) => None,
    };
    let Some(bend) = bend else {
        return bad(format!(
            "activation_function is {}; torch.nn's Identity, Tanh, ReLU, GELU, SiLU and Sigmoid run here",
            file.activation_function.unwrap_or_default()
        ));
    };
    let weights = format!("{path}/model.safetensors");
    if !folder.file(&weights).is_file() {
        return Err(folder.missing(&weights));
    }
    Ok(Module::Dense {
        path: path.to_owned(),
        outputs: file.out_features,
        bias: file.bias.unwrap_or(true),
        bend,
    })
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
#[path = "modules_tests.rs"]
mod tests;
