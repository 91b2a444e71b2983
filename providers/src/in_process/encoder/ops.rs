//! Tensors for matrix products, slices for the rest: what passes between the two.

use antfly_framework::Result;
use candle_core::{CpuStorage, Device, InplaceOp1, Layout, Storage, Tensor, bail};

use super::arithmetic;
use super::kernels::{self, Activation};
use super::weights::Weights;

/// `n x dim` numbers as a tensor; no copy.
pub(super) fn matrix(numbers: Vec<f32>, dim: usize) -> Result<Tensor> {
    let rows = numbers.len().checked_div(dim).unwrap_or(0);
    Tensor::from_vec(numbers, (rows, dim), &Device::Cpu).map_err(arithmetic)
}

/// Looks at a contiguous tensor's numbers.
pub(super) fn read<T>(tensor: &Tensor, look: impl FnOnce(&[f32]) -> T) -> Result<T> {
    let inner = || {
        let (storage, layout) = tensor.storage_and_layout();
        let Storage::Cpu(CpuStorage::F32(all)) = &*storage else {
            bail!("a tensor of another kind")
        };
        match layout.contiguous_offsets() {
            Some((from, to)) => Ok(look(&all[from..to])),
            None => bail!("a tensor in pieces"),
        }
    };
    inner().map_err(arithmetic)
}

/// Changes a contiguous tensor's numbers. Only for a tensor that was just made: whatever shares its storage changes too.
pub(super) fn change(tensor: &Tensor, change: impl Fn(&mut [f32])) -> Result<()> {
    tensor.inplace_op1(&Change(change)).map_err(arithmetic)
}

struct Change<F>(F);

impl<F: Fn(&mut [f32])> InplaceOp1 for Change<F> {
    fn name(&self) -> &'static str {
        "change"
    }

    fn cpu_fwd(&self, storage: &mut CpuStorage, layout: &Layout) -> candle_core::Result<()> {
        match (storage, layout.contiguous_offsets()) {
            (CpuStorage::F32(all), Some((from, to))) => {
                (self.0)(&mut all[from..to]);
                Ok(())
            }
            _ => bail!("a tensor of another kind"),
        }
    }
}

/// `x W + b`.
#[derive(Debug)]
pub(super) struct Linear {
    /// `inputs x outputs`: the product reads its rows.
    weight: Tensor,
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
            parts.push(weights.tensor(&format!("{name}.weight"), &[outputs, inputs])?);
            let there = weights.list_if_there(&format!("{name}.bias"), outputs)?;
            bias.extend(there.into_iter().flatten());
        }
        let all = names.len() * outputs;
        if !bias.is_empty() && bias.len() != all {
            bias.clear();
            for name in names {
                bias.extend(weights.numbers(&format!("{name}.bias"), &[outputs])?);
            }
        }
        let weight = Tensor::cat(&parts, 0)
            .and_then(|w| w.t()?.contiguous())
            .map_err(arithmetic)?;
        Ok(Linear {
            weight,
            bias: (!bias.is_empty()).then_some(bias),
        })
    }

    pub(super) fn bias(&self) -> Option<&[f32]> {
        self.bias.as_deref()
    }

    /// `x W` alone, for a layer whose bias is added with what comes next.
    pub(super) fn product(&self, rows: &Tensor) -> Result<Tensor> {
        rows.matmul(&self.weight).map_err(arithmetic)
    }

    /// The whole layer, bent.
    pub(super) fn forward(&self, rows: &Tensor, activation: Activation) -> Result<Tensor> {
        let out = self.product(rows)?;
        change(&out, |all| {
            kernels::bias_and_bend(all, self.bias(), activation);
        })?;
        Ok(out)
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
    pub(super) fn apply(&self, rows: &mut [f32]) {
        kernels::normalize(rows, &self.weight, self.bias.as_deref(), self.epsilon);
    }

    /// The normalised rows beside the ones they came from.
    pub(super) fn of(&self, rows: &Tensor) -> Result<Tensor> {
        let (_, dim) = rows.dims2().map_err(arithmetic)?;
        let mut copy = read(rows, <[f32]>::to_vec)?;
        self.apply(&mut copy);
        matrix(copy, dim)
    }
}
