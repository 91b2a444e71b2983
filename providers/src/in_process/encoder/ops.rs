//! Layers over plain rows of numbers.

use antfly_framework::Result;

use super::kernels::{self, Activation};
use super::product::{Left, Panels};
use super::weights::Weights;

/// `n x dim` numbers, row by row.
#[derive(Clone, Debug)]
pub(super) struct Rows {
    pub(super) numbers: Vec<f32>,
    pub(super) dim: usize,
}

/// `bend(x W + b)`.
#[derive(Debug)]
pub(super) struct Linear {
    /// `inputs x outputs`.
    weight: Panels,
    inputs: usize,
    outputs: usize,
    bias: Option<Vec<f32>>,
}

impl Linear {
    /// The layer `name` (`name.weight` is `outputs x inputs`; `name.bias` need not be there).
    pub(super) fn load(
        weights: &Weights,
        name: &str,
        inputs: usize,
        outputs: usize,
    ) -> Result<Self> {
        Self::stacked(weights, &[name.to_owned()], inputs, outputs)
    }

    /// Several layers over the same input as one, their outputs side by side. Either all have a bias or none.
    pub(super) fn stacked(
        weights: &Weights,
        names: &[String],
        inputs: usize,
        outputs: usize,
    ) -> Result<Self> {
        let mut parts = Vec::new();
        let mut bias = Vec::new();
        for name in names {
            parts.extend(weights.numbers(&format!("{name}.weight"), &[outputs, inputs])?);
            let there = weights.list_if_there(&format!("{name}.bias"), outputs)?;
            bias.extend(there.into_iter().flatten());
        }
        let outputs = names.len() * outputs;
        if !bias.is_empty() && bias.len() != outputs {
            bias.clear();
            for name in names {
                bias.extend(weights.numbers(&format!("{name}.bias"), &[outputs / names.len()])?);
            }
        }
        Ok(Linear {
            weight: Panels::of_columns(inputs, parts.chunks_exact(inputs.max(1))),
            inputs,
            outputs,
            bias: (!bias.is_empty()).then_some(bias),
        })
    }

    pub(super) fn forward(&self, rows: &Rows, activation: Activation) -> Rows {
        let left = Left {
            numbers: &rows.numbers,
            stride: rows.dim,
            depth: self.inputs,
        };
        Rows {
            numbers: self.weight.multiply(left, self.bias.as_deref(), activation),
            dim: self.outputs,
        }
    }
}

/// A layer normalisation.
#[derive(Debug)]
pub(super) struct Norm {
    weight: Vec<f32>,
    bias: Option<Vec<f32>>,
    epsilon: f32,
}

impl Norm {
    pub(super) fn load(weights: &Weights, name: &str, dim: usize, epsilon: f32) -> Result<Self> {
        Ok(Norm {
            weight: weights.numbers(&format!("{name}.weight"), &[dim])?,
            bias: weights.list_if_there(&format!("{name}.bias"), dim)?,
            epsilon,
        })
    }

    /// Normalises rows in place.
    pub(super) fn apply(&self, rows: &mut Rows) {
        kernels::normalize(
            &mut rows.numbers,
            &self.weight,
            self.bias.as_deref(),
            self.epsilon,
        );
    }

    /// The normalised rows beside the ones they came from.
    pub(super) fn of(&self, rows: &Rows) -> Rows {
        let mut copy = rows.clone();
        self.apply(&mut copy);
        copy
    }
}
