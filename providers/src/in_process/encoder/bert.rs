//! BERT and its kin: normalisation after each block, learned positions. They differ in the names of their tensors, in where
//! positions start, and in what they leave out.

use antfly_framework::Result;

use super::super::admission::CancelFlag;
use super::attention::{DistanceBias, Form, attend};
use super::kernels::{self, Activation};
use super::model_config::ModelConfig;
use super::ops::{Linear, Norm, Rows};
use super::tokens::Tokens;
use super::weights::Weights;
use super::{Body, Family};

/// A loaded encoder of this kind.
#[derive(Debug)]
pub(super) struct Bert {
    words: Vec<f32>,
    positions: Vec<f32>,
    /// `None`: the model tells no first text from a second.
    types: Option<Vec<f32>>,
    norm: Norm,
    layers: Vec<Layer>,
    dim: usize,
    heads: usize,
    activation: Activation,
    /// The position of the first token.
    first_position: usize,
    vocabulary: usize,
    longest: usize,
    distance: Option<DistanceBias>,
}

#[derive(Debug)]
struct Layer {
    qkv: Linear,
    out: Linear,
    attention_norm: Norm,
    up: Linear,
    down: Linear,
    norm: Norm,
}

/// What a family calls its tensors.
struct Names {
    layer: &'static str,
    query: &'static str,
    key: &'static str,
    value: &'static str,
    out: &'static str,
    attention_norm: &'static str,
    up: &'static str,
    down: &'static str,
    norm: &'static str,
}

const BERT: Names = Names {
    layer: "encoder.layer",
    query: "attention.self.query",
    key: "attention.self.key",
    value: "attention.self.value",
    out: "attention.output.dense",
    attention_norm: "attention.output.LayerNorm",
    up: "intermediate.dense",
    down: "output.dense",
    norm: "output.LayerNorm",
};

const DISTILBERT: Names = Names {
    layer: "transformer.layer",
    query: "attention.q_lin",
    key: "attention.k_lin",
    value: "attention.v_lin",
    out: "attention.out_lin",
    attention_norm: "sa_layer_norm",
    up: "ffn.lin1",
    down: "ffn.lin2",
    norm: "output_layer_norm",
};

const MPNET: Names = Names {
    query: "attention.attn.q",
    key: "attention.attn.k",
    value: "attention.attn.v",
    out: "attention.attn.o",
    attention_norm: "attention.LayerNorm",
    ..BERT
};

impl Bert {
    pub(super) fn load(weights: &Weights, config: &ModelConfig) -> Result<Self> {
        let dim = config.hidden;
        let names = match config.family {
            Family::DistilBert => DISTILBERT,
            Family::MpNet => MPNET,
            _ => BERT,
        };
        let eps = config.epsilon;
        let layer = |number: usize| {
            let name = |part: &str| format!("{}.{number}.{part}", names.layer);
            let qkv = [name(names.query), name(names.key), name(names.value)];
            Ok(Layer {
                qkv: Linear::stacked(weights, &qkv, dim, dim)?,
                out: Linear::load(weights, &name(names.out), dim, dim)?,
                attention_norm: Norm::load(weights, &name(names.attention_norm), dim, eps)?,
                up: Linear::load(weights, &name(names.up), dim, config.intermediate)?,
                down: Linear::load(weights, &name(names.down), config.intermediate, dim)?,
                norm: Norm::load(weights, &name(names.norm), dim, eps)?,
            })
        };
        let types = "embeddings.token_type_embeddings.weight";
        let types = match weights.has(types) {
            true => Some(weights.numbers(types, &[config.types, dim])?),
            false => None,
        };
        // Loaded first: the file bears the configuration's numbers out before anything is made of them.
        let positions = weights.numbers(
            "embeddings.position_embeddings.weight",
            &[config.positions, dim],
        )?;
        let distance = match config.family {
            Family::MpNet => Some(distance_bias(weights, config)?),
            _ => None,
        };
        Ok(Bert {
            words: weights.numbers(
                "embeddings.word_embeddings.weight",
                &[config.vocabulary, dim],
            )?,
            positions,
            types,
            norm: Norm::load(weights, "embeddings.LayerNorm", dim, eps)?,
            layers: (0..config.layers).map(layer).collect::<Result<_>>()?,
            dim,
            heads: config.heads,
            activation: config.activation,
            first_position: config.first_position,
            vocabulary: config.vocabulary,
            longest: config.longest(),
            distance,
        })
    }

    fn embed(&self, batch: &[&Tokens]) -> Result<Rows> {
        let dim = self.dim;
        let count: usize = batch.iter().map(|t| t.len()).sum();
        let mut rows = Vec::with_capacity(count * dim);
        for tokens in batch {
            tokens.check(self.vocabulary, self.longest)?;
            for (position, (id, kind)) in tokens.ids.iter().zip(&tokens.types).enumerate() {
                let start = rows.len();
                rows.extend_from_slice(row(&self.words, *id as usize, dim));
                let place = row(&self.positions, position + self.first_position, dim);
                kernels::accumulate(&mut rows[start..], place, 1.0);
                if let Some(types) = &self.types {
                    let known = types.len() / dim;
                    let kind = (*kind as usize).min(known.saturating_sub(1));
                    kernels::accumulate(&mut rows[start..], row(types, kind, dim), 1.0);
                }
            }
        }
        let mut rows = Rows { numbers: rows, dim };
        self.norm.apply(&mut rows);
        Ok(rows)
    }
}

/// Row `index` of a table.
pub(super) fn row(table: &[f32], index: usize, dim: usize) -> &[f32] {
    &table[index * dim..(index + 1) * dim]
}

impl Body for Bert {
    fn dim(&self) -> usize {
        self.dim
    }

    fn forward(&self, batch: &[&Tokens], cancel: &CancelFlag) -> Result<Rows> {
        let lengths: Vec<usize> = batch.iter().map(|t| t.len()).collect();
        let form = Form {
            heads: self.heads,
            dim: self.dim / self.heads,
            reach: None,
            distance: self.distance.as_ref(),
        };
        let mut rows = self.embed(batch)?;
        for layer in &self.layers {
            cancel.check()?;
            rows = layer.forward(&rows, &lengths, form, self.activation);
        }
        Ok(rows)
    }
}

impl Layer {
    fn forward(
        &self,
        rows: &Rows,
        lengths: &[usize],
        form: Form<'_>,
        activation: Activation,
    ) -> Rows {
        let qkv = self.qkv.forward(rows, Activation::Identity);
        let seen = attend(&qkv, lengths, form);
        let attended = after(&seen, &self.out, rows, &self.attention_norm);
        let wide = self.up.forward(&attended, activation);
        after(&wide, &self.down, &attended, &self.norm)
    }
}

/// Ends a block: what went into it is added to its last layer, and the sum is normalised.
fn after(inner: &Rows, last: &Linear, residual: &Rows, norm: &Norm) -> Rows {
    let mut out = last.forward(inner, Activation::Identity);
    kernels::add(&mut out.numbers, &residual.numbers);
    norm.apply(&mut out);
    out
}

/// MPNet's bias by distance: near ones have a number each, far ones share one by the logarithm.
fn distance_bias(weights: &Weights, config: &ModelConfig) -> Result<DistanceBias> {
    let (buckets, heads) = (config.distance_buckets, config.heads);
    let name = "encoder.relative_attention_bias.weight";
    let numbers = weights.numbers(name, &[buckets, heads])?;
    let longest = config.longest();
    let mut table = Vec::with_capacity(heads * (2 * longest - 1));
    for head in 0..heads {
        for at in 0..2 * longest - 1 {
            let distance = at as i64 - (longest as i64 - 1);
            table.push(numbers[bucket(distance, buckets) * heads + head]);
        }
    }
    Ok(DistanceBias { table, longest })
}

/// The bucket of a key `distance` after its query.
fn bucket(distance: i64, buckets: usize) -> usize {
    const FARTHEST: f32 = 128.0;
    let half = buckets / 2;
    let side = if distance > 0 { half } else { 0 };
    let far = distance.unsigned_abs() as usize;
    let exact = half / 2;
    if far < exact {
        return side + far;
    }
    let (far, near) = (far as f32, exact as f32);
    let steps = (far / near).ln() / (FARTHEST / near).ln() * (half - exact) as f32;
    side + (exact + steps as usize).min(half - 1)
}
