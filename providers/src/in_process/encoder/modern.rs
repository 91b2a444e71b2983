//! ModernBERT: normalisation before each block, rotated positions, gated feed-forward layers, and most layers seeing only their
//! neighbourhood.

use antfly_framework::Result;

use super::super::admission::CancelFlag;
use super::Body;
use super::attention::{Form, attend};
use super::bert::row;
use super::kernels::{self, Activation};
use super::model_config::ModelConfig;
use super::ops::{Linear, Norm, Rows};
use super::tokens::Tokens;
use super::weights::Weights;

/// A loaded encoder of this kind.
#[derive(Debug)]
pub(super) struct ModernBert {
    words: Vec<f32>,
    norm: Norm,
    layers: Vec<Layer>,
    final_norm: Norm,
    dim: usize,
    heads: usize,
    intermediate: usize,
    activation: Activation,
    vocabulary: usize,
    longest: usize,
}

#[derive(Debug)]
struct Layer {
    /// The first layer has none: the embeddings are normalised already.
    attention_norm: Option<Norm>,
    qkv: Linear,
    out: Linear,
    norm: Norm,
    up: Linear,
    down: Linear,
    theta: f64,
    reach: Option<usize>,
}

impl ModernBert {
    pub(super) fn load(weights: &Weights, config: &ModelConfig) -> Result<Self> {
        let (dim, wide, eps) = (config.hidden, config.intermediate, config.epsilon);
        let modern = &config.modern;
        let layer = |number: usize| {
            let name = |part: &str| format!("layers.{number}.{part}");
            let global = modern.global[number];
            Ok(Layer {
                attention_norm: match number {
                    0 => None,
                    _ => Some(Norm::load(weights, &name("attn_norm"), dim, eps)?),
                },
                qkv: Linear::load(weights, &name("attn.Wqkv"), dim, 3 * dim)?,
                out: Linear::load(weights, &name("attn.Wo"), dim, dim)?,
                norm: Norm::load(weights, &name("mlp_norm"), dim, eps)?,
                up: Linear::load(weights, &name("mlp.Wi"), dim, 2 * wide)?,
                down: Linear::load(weights, &name("mlp.Wo"), wide, dim)?,
                theta: match global {
                    true => modern.global_theta,
                    false => modern.local_theta,
                },
                reach: (!global).then_some(modern.reach),
            })
        };
        Ok(ModernBert {
            words: weights.numbers(
                "embeddings.tok_embeddings.weight",
                &[config.vocabulary, dim],
            )?,
            norm: Norm::load(weights, "embeddings.norm", dim, eps)?,
            layers: (0..config.layers).map(layer).collect::<Result<_>>()?,
            final_norm: Norm::load(weights, "final_norm", dim, eps)?,
            dim,
            heads: config.heads,
            intermediate: wide,
            activation: config.activation,
            vocabulary: config.vocabulary,
            longest: config.longest(),
        })
    }

    fn embed(&self, batch: &[&Tokens]) -> Result<Rows> {
        let mut rows = Vec::new();
        for tokens in batch {
            tokens.check(self.vocabulary, self.longest)?;
            for id in &tokens.ids {
                rows.extend_from_slice(row(&self.words, *id as usize, self.dim));
            }
        }
        let mut rows = Rows {
            numbers: rows,
            dim: self.dim,
        };
        self.norm.apply(&mut rows);
        Ok(rows)
    }
}

impl Body for ModernBert {
    fn dim(&self) -> usize {
        self.dim
    }

    fn forward(&self, batch: &[&Tokens], cancel: &CancelFlag) -> Result<Rows> {
        let lengths: Vec<usize> = batch.iter().map(|t| t.len()).collect();
        let mut rows = self.embed(batch)?;
        for layer in &self.layers {
            cancel.check()?;
            self.layer(layer, &mut rows, &lengths);
        }
        self.final_norm.apply(&mut rows);
        Ok(rows)
    }
}

impl ModernBert {
    /// Adds one layer's two blocks to `rows`.
    fn layer(&self, layer: &Layer, rows: &mut Rows, lengths: &[usize]) {
        let form = Form {
            heads: self.heads,
            dim: self.dim / self.heads,
            reach: layer.reach,
            distance: None,
        };
        let mut qkv = match &layer.attention_norm {
            Some(norm) => layer.qkv.forward(&norm.of(rows), Activation::Identity),
            None => layer.qkv.forward(rows, Activation::Identity),
        };
        rotate(&mut qkv.numbers, lengths, form, layer.theta);
        let seen = attend(&qkv, lengths, form);
        let attended = layer.out.forward(&seen, Activation::Identity);
        kernels::add(&mut rows.numbers, &attended.numbers);
        let wide = layer.up.forward(&layer.norm.of(rows), Activation::Identity);
        let gated = Rows {
            numbers: kernels::gated(&wide.numbers, self.intermediate, self.activation),
            dim: self.intermediate,
        };
        let out = layer.down.forward(&gated, Activation::Identity);
        kernels::add(&mut rows.numbers, &out.numbers);
    }
}

/// Rotates queries and keys by their positions: number `i` of a head with number `i + dim / 2`.
fn rotate(qkv: &mut [f32], lengths: &[usize], form: Form<'_>, theta: f64) {
    let (heads, dim) = (form.heads, form.dim);
    let half = dim / 2;
    let longest = lengths.iter().copied().max().unwrap_or(0);
    // As the reference computes them: angles in single precision.
    let mut turns = Vec::with_capacity(longest * half);
    for position in 0..longest {
        for i in 0..half {
            let frequency = 1.0 / theta.powf(2.0 * i as f64 / dim as f64) as f32;
            let angle = position as f32 * frequency;
            turns.push((angle.cos(), angle.sin()));
        }
    }
    let mut tokens = qkv.chunks_exact_mut(3 * heads * dim);
    for length in lengths {
        for (position, token) in tokens.by_ref().take(*length).enumerate() {
            let turns = &turns[position * half..(position + 1) * half];
            // The values, a token's last third, stay.
            for head in token[..2 * heads * dim].chunks_exact_mut(dim) {
                let (low, high) = head.split_at_mut(half);
                for ((a, b), (cos, sin)) in low.iter_mut().zip(high).zip(turns) {
                    let (x, y) = (*a, *b);
                    *a = x * cos - y * sin;
                    *b = y * cos + x * sin;
                }
            }
        }
    }
}
