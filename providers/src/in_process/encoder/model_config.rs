//! What a model's `config.json` says, checked: past this, every number is one a model can have.

use antfly_framework::{Error, Kind, Result};
use serde::Deserialize;
use serde_json::Value;

use super::super::folder::Folder;
use super::Family;
use super::kernels::Activation;

/// The most of anything a configuration may ask for: enough for any encoder there is, and no product of two overflows.
const MOST: usize = 1 << 24;

/// A model's form.
#[derive(Clone, Debug)]
pub(super) struct ModelConfig {
    pub(super) family: Family,
    pub(super) hidden: usize,
    pub(super) layers: usize,
    pub(super) heads: usize,
    pub(super) intermediate: usize,
    pub(super) activation: Activation,
    pub(super) epsilon: f32,
    pub(super) vocabulary: usize,
    /// Rows of the position table.
    pub(super) positions: usize,
    /// The row of the first token.
    pub(super) first_position: usize,
    /// Rows of the table of token types.
    pub(super) types: usize,
    /// MPNet's.
    pub(super) distance_buckets: usize,
    pub(super) modern: Modern,
    /// Whether it ends in a classification head.
    pub(super) classifies: bool,
    /// What that head's output goes through to become a score.
    pub(super) score: Activation,
}

/// What only ModernBERT has.
#[derive(Clone, Debug)]
pub(super) struct Modern {
    pub(super) global_theta: f64,
    pub(super) local_theta: f64,
    /// Which layers see the whole sequence.
    pub(super) global: Vec<bool>,
    /// How far the others see in either direction.
    pub(super) reach: usize,
    /// Whether the head takes the mean of all tokens, not the first.
    pub(super) mean: bool,
    pub(super) head_activation: Activation,
}

/// The file, as far as it is looked at; several names for one thing are several families'.
#[derive(Deserialize)]
struct Raw {
    model_type: Option<String>,
    architectures: Option<Vec<String>>,
    #[serde(alias = "dim")]
    hidden_size: Option<usize>,
    #[serde(alias = "n_layers")]
    num_hidden_layers: Option<usize>,
    #[serde(alias = "n_heads")]
    num_attention_heads: Option<usize>,
    #[serde(alias = "hidden_dim")]
    intermediate_size: Option<usize>,
    #[serde(alias = "activation", alias = "hidden_activation")]
    hidden_act: Option<String>,
    #[serde(alias = "norm_eps")]
    layer_norm_eps: Option<f64>,
    vocab_size: Option<usize>,
    max_position_embeddings: Option<usize>,
    type_vocab_size: Option<usize>,
    pad_token_id: Option<usize>,
    position_embedding_type: Option<String>,
    relative_attention_num_buckets: Option<usize>,
    num_labels: Option<usize>,
    id2label: Option<serde_json::Map<String, Value>>,
    global_rope_theta: Option<f64>,
    local_rope_theta: Option<f64>,
    rope_parameters: Option<Value>,
    global_attn_every_n_layers: Option<usize>,
    local_attention: Option<usize>,
    layer_types: Option<Vec<String>>,
    classifier_pooling: Option<String>,
    classifier_activation: Option<String>,
    sbert_ce_default_activation_function: Option<String>,
    sentence_transformers: Option<Value>,
    is_decoder: Option<bool>,
    add_cross_attention: Option<bool>,
    is_encoder_decoder: Option<bool>,
}

#[derive(Deserialize)]
struct Saved {
    activation_fn: Option<String>,
}

impl ModelConfig {
    pub(super) fn read(folder: &Folder<'_>) -> Result<Self> {
        const FILE: &str = "config.json";
        let mut raw: Raw = folder.json(FILE)?;
        // Newer cross-encoders are saved with it in the library's own file, which wins.
        if let Some(saved) = folder.json_if_there::<Saved>("config_sentence_transformers.json")?
            && saved.activation_fn.is_some()
        {
            raw.sbert_ce_default_activation_function = saved.activation_fn;
            raw.sentence_transformers = None;
        }
        raw.check().map_err(|what| folder.bad(FILE, what))
    }

    /// The most tokens of a sequence that the model has positions for.
    pub(super) fn longest(&self) -> usize {
        self.positions.saturating_sub(self.first_position)
    }
}

/// A number that must be there.
fn count(name: &str, value: Option<usize>) -> Result<usize, String> {
    match value {
        Some(n) if (1..=MOST).contains(&n) => Ok(n),
        Some(n) => Err(format!("{name} is {n}; 1 to {MOST} is allowed")),
        None => Err(format!("{name} is missing")),
    }
}

fn bend(name: &str, value: Option<&str>, default: Activation) -> Result<Activation, String> {
    match value {
        None => Ok(default),
        Some(word) => Activation::of(word)
            .ok_or_else(|| format!("{name} is {word:?}, which no model here has")),
    }
}

impl Raw {
    fn check(self) -> Result<ModelConfig, String> {
        let family = self.family()?;
        self.plain()?;
        let hidden = count("hidden_size", self.hidden_size)?;
        let heads = count("num_attention_heads", self.num_attention_heads)?;
        if !hidden.is_multiple_of(heads) {
            return Err(format!(
                "hidden_size {hidden} is not a multiple of num_attention_heads {heads}"
            ));
        }
        if family == Family::Modern && !(hidden / heads).is_multiple_of(2) {
            return Err(format!(
                "num_attention_heads {heads} makes heads of {} numbers; they turn in pairs, an even number is allowed",
                hidden / heads
            ));
        }
        let layers = count("num_hidden_layers", self.num_hidden_layers)?;
        let positions = count("max_position_embeddings", self.max_position_embeddings)?;
        // These two began to count after the padding token's id.
        let first_position = match family {
            Family::Roberta | Family::MpNet => self.pad_token_id.unwrap_or(1).saturating_add(1),
            _ => 0,
        };
        if first_position >= positions {
            return Err(format!(
                "max_position_embeddings {positions} leaves no position"
            ));
        }
        if let Some(kind) = self.position_embedding_type.as_deref()
            && kind != "absolute"
            && family != Family::Modern
        {
            return Err(format!(
                "position_embedding_type is {kind:?}; \"absolute\" is what works here"
            ));
        }
        let epsilon = self.layer_norm_eps.unwrap_or(match family {
            Family::Modern => 1e-5,
            _ => 1e-12,
        });
        if !(epsilon.is_finite() && epsilon >= 0.0) {
            return Err(format!("the normalisation's epsilon is {epsilon}"));
        }
        let classifies =
            (self.architectures.iter().flatten()).any(|a| a.ends_with("ForSequenceClassification"));
        Ok(ModelConfig {
            hidden,
            heads,
            layers,
            intermediate: count("intermediate_size", self.intermediate_size)?,
            activation: bend("hidden_act", self.hidden_act.as_deref(), Activation::Gelu)?,
            epsilon: epsilon as f32,
            vocabulary: count("vocab_size", self.vocab_size)?,
            positions,
            first_position,
            types: count("type_vocab_size", self.type_vocab_size.or(Some(2)))?,
            distance_buckets: match self.relative_attention_num_buckets {
                None => 32,
                // With more, near distances alone would reach the farthest there is, and nothing is left for the logarithm.
                Some(n) if n.is_multiple_of(2) && (4..512).contains(&n) => n,
                Some(n) => {
                    return Err(format!(
                        "relative_attention_num_buckets is {n}; an even number from 4 to 510 is allowed"
                    ));
                }
            },
            modern: self.modern(layers)?,
            score: self.score(classifies)?,
            classifies,
            family,
        })
    }

    fn family(&self) -> Result<Family, String> {
        match self.model_type.as_deref() {
            Some("bert") => Ok(Family::Bert),
            Some("roberta" | "xlm-roberta" | "camembert") => Ok(Family::Roberta),
            Some("distilbert") => Ok(Family::DistilBert),
            Some("mpnet") => Ok(Family::MpNet),
            Some("modernbert") => Ok(Family::Modern),
            Some(other) => Err(format!(
                "model_type {other:?} does not run here; bert, camembert, distilbert, modernbert, mpnet, roberta and xlm-roberta do"
            )),
            None => Err("model_type is missing".to_owned()),
        }
    }

    /// Refuses models that are built otherwise than their family.
    fn plain(&self) -> Result<(), String> {
        let built = self.architectures.iter().flatten();
        // Its projection is beside the model, and its texts get tokens of its own.
        if let Some(colbert) = built.clone().find(|a| a.contains("ColBERT")) {
            return Err(format!(
                "architectures lists {colbert:?}: models of one vector a token (ColBERT) with a projection of their own do not run \
                 here"
            ));
        }
        for (key, set) in [
            ("is_decoder", self.is_decoder),
            ("add_cross_attention", self.add_cross_attention),
            ("is_encoder_decoder", self.is_encoder_decoder),
        ] {
            if set == Some(true) {
                return Err(format!("{key} is true; encoders run here"));
            }
        }
        Ok(())
    }

    fn modern(&self, layers: usize) -> Result<Modern, String> {
        // Newer files keep these in one place, by the kind of layer.
        let nested = |kind: &str| {
            self.rope_parameters
                .as_ref()
                .and_then(|r| r.get(kind)?.get("rope_theta")?.as_f64())
        };
        let theta = |kind: &str, flat: Option<f64>, default: f64| {
            let theta = nested(kind).or(flat).unwrap_or(default);
            match theta.is_finite() && theta > 0.0 {
                true => Ok(theta),
                false => Err(format!("the {kind} layers' rope_theta is {theta}")),
            }
        };
        let global_theta = theta("full_attention", self.global_rope_theta, 160_000.0)?;
        Ok(Modern {
            global_theta,
            local_theta: theta("sliding_attention", self.local_rope_theta, 10_000.0)?,
            global: self.global_layers(layers)?,
            reach: self.local_attention.unwrap_or(128) / 2,
            mean: match self.classifier_pooling.as_deref() {
                None | Some("cls") => false,
                Some("mean") => true,
                Some(other) => return Err(format!("classifier_pooling is {other:?}")),
            },
            head_activation: bend(
                "classifier_activation",
                self.classifier_activation.as_deref(),
                Activation::Gelu,
            )?,
        })
    }

    /// Newer files list the kind of each layer; by the older form every so many, from the first on, sees everything.
    fn global_layers(&self, layers: usize) -> Result<Vec<bool>, String> {
        match &self.layer_types {
            Some(kinds) if kinds.len() != layers => Err(format!(
                "layer_types lists {} layers, num_hidden_layers is {layers}",
                kinds.len()
            )),
            Some(kinds) => Ok(kinds.iter().map(|k| k == "full_attention").collect()),
            None => {
                let every = self.global_attn_every_n_layers.unwrap_or(3).max(1);
                Ok((0..layers).map(|n| n.is_multiple_of(every)).collect())
            }
        }
    }

    /// A cross-encoder's score is its one label's number, through what the file names, else through a sigmoid, as the models'
    /// own library has it.
    fn score(&self, classifies: bool) -> Result<Activation, String> {
        let labels = (self.num_labels)
            .or(self.id2label.as_ref().map(serde_json::Map::len))
            .unwrap_or(2);
        if classifies && labels != 1 {
            return Err(format!(
                "the model has {labels} labels; one that scores has one"
            ));
        }
        let named = self.sentence_transformers.as_ref();
        let named = named.and_then(|s| s.get("activation_fn")?.as_str());
        let named = named.or(self.sbert_ce_default_activation_function.as_deref());
        match named {
            None => Ok(Activation::Sigmoid),
            Some(path) => {
                let word = path.rsplit('.').next().unwrap_or(path).to_ascii_lowercase();
                Activation::of(&word).ok_or_else(|| {
                    format!("the score's activation is {path:?}, which no model here has")
                })
            }
        }
    }
}

/// The error of a folder whose model is no cross-encoder, or is one.
pub(super) fn not_for(folder: &Folder<'_>, what: &str) -> Error {
    Error::new(
        Kind::Config,
        format!("the model in {} {what}", folder.file("").display()),
    )
}
