//! Classification heads: a sequence's hidden states to the one number that scores it.

use antfly_framework::Result;

use super::Family;
use super::kernels::{self, Activation};
use super::model_config::ModelConfig;
use super::ops::{Linear, Norm, Rows};
use super::weights::Weights;

/// A loaded head.
#[derive(Debug)]
pub(super) struct Head {
    /// Whether it looks at the mean of all tokens, not at the first.
    mean: bool,
    dense: Linear,
    bend: Activation,
    norm: Option<Norm>,
    last: Linear,
    score: Activation,
    dim: usize,
}

impl Head {
    /// `weights` without the model's own prefix: heads stand beside the model.
    pub(super) fn load(model: &Weights, beside: &Weights, config: &ModelConfig) -> Result<Self> {
        let dim = config.hidden;
        let (dense, bend, last) = match config.family {
            Family::Bert => (
                Linear::load(model, "pooler.dense", dim, dim)?,
                Activation::Tanh,
                "classifier",
            ),
            Family::Roberta | Family::MpNet => (
                Linear::load(beside, "classifier.dense", dim, dim)?,
                Activation::Tanh,
                "classifier.out_proj",
            ),
            Family::DistilBert => (
                Linear::load(beside, "pre_classifier", dim, dim)?,
                Activation::Relu,
                "classifier",
            ),
            Family::Modern => (
                Linear::load(beside, "head.dense", dim, dim)?,
                config.modern.head_activation,
                "classifier",
            ),
        };
        let modern = config.family == Family::Modern;
        Ok(Head {
            mean: modern && config.modern.mean,
            norm: match modern {
                true => Some(Norm::load(beside, "head.norm", dim, config.epsilon)?),
                false => None,
            },
            dense,
            bend,
            last: Linear::load(beside, last, dim, 1)?,
            score: config.score,
            dim,
        })
    }

    /// The scores of sequences whose hidden states lie one after the other.
    pub(super) fn score(&self, hidden: &[f32], lengths: &[usize]) -> Vec<f32> {
        let mut pooled = Vec::with_capacity(lengths.len() * self.dim);
        let mut start = 0;
        for length in lengths {
            let rows = &hidden[start * self.dim..(start + length) * self.dim];
            let from = pooled.len();
            pooled.extend_from_slice(&rows[..self.dim]);
            if self.mean {
                pooled[from..].fill(0.0);
                for row in rows.chunks_exact(self.dim) {
                    kernels::accumulate(&mut pooled[from..], row, 1.0 / *length as f32);
                }
            }
            start += length;
        }
        let pooled = Rows {
            numbers: pooled,
            dim: self.dim,
        };
        let mut dense = self.dense.forward(&pooled, self.bend);
        if let Some(norm) = &self.norm {
            norm.apply(&mut dense);
        }
        self.last.forward(&dense, self.score).numbers
    }
}
