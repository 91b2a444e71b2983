//! A linear layer: rows of activations times a quantised matrix.

use antfly_framework::{Error, Kind, Result};
use candle_core::quantized::{QStorage, QTensor};
use candle_core::{CpuStorage, CustomOp1, Device, Layout, Tensor};

use super::super::gguf::Raw;
use super::dot::{self, Avx2};
use super::pool;
use super::tiles::{ROWS, Tiles};

/// Tiles of outputs that one thread takes at a time when there is a single row of activations.
const TILES_A_PIECE: usize = 16;
/// Rows of activations that one thread takes at a time, at most.
const ROWS_A_PIECE: usize = 32;

/// `outputs x inputs` numbers.
#[derive(Debug)]
pub(in super::super) struct Linear {
    inputs: usize,
    outputs: usize,
    parts: Vec<Matrix>,
}

#[derive(Debug)]
enum Matrix {
    Tiles(Avx2, Tiles),
    Candle(QTensor),
}

/// What candle says about arithmetic that was checked beforehand: never a user's fault.
pub(super) fn internal(e: &candle_core::Error) -> Error {
    Error::new(Kind::Server, format!("in-process arithmetic failed: {e}"))
}

impl Linear {
    /// One layer from tensors of the same number of columns, one below the other.
    pub(in super::super) fn stack(tensors: Vec<Raw>) -> Result<Self> {
        let mut linear = Linear {
            inputs: tensors.first().map_or(0, |t| t.columns),
            outputs: tensors.iter().map(|t| t.rows).sum(),
            parts: Vec::new(),
        };
        for raw in tensors {
            linear.push(Matrix::load(raw)?);
        }
        Ok(linear)
    }

    fn push(&mut self, matrix: Matrix) {
        match (self.parts.last_mut(), matrix) {
            (Some(Matrix::Tiles(_, mine)), Matrix::Tiles(avx2, tiles)) => {
                if let Err(tiles) = mine.append(tiles) {
                    self.parts.push(Matrix::Tiles(avx2, tiles));
                }
            }
            (_, matrix) => self.parts.push(matrix),
        }
    }

    /// `n x inputs` to `n x outputs`.
    pub(in super::super) fn apply(&self, x: &[f32]) -> Result<Vec<f32>> {
        let n = x.len() / self.inputs.max(1);
        match self.parts.as_slice() {
            [only] => only.apply(x, n, self.inputs, self.outputs),
            parts => {
                let mut all = vec![0.0; n * self.outputs];
                let mut start = 0;
                for part in parts {
                    let width = part.outputs();
                    let some = part.apply(x, n, self.inputs, width)?;
                    let rows = all.chunks_exact_mut(self.outputs);
                    for (to, from) in rows.zip(some.chunks_exact(width)) {
                        to[start..start + width].copy_from_slice(from);
                    }
                    start += width;
                }
                Ok(all)
            }
        }
    }

    /// Row `row` in full precision, as an embedding is looked up.
    pub(in super::super) fn row(&self, row: usize, out: &mut [f32]) -> Result<()> {
        match self.parts.first() {
            Some(Matrix::Tiles(_, tiles)) => {
                tiles.row(row, out);
                Ok(())
            }
            Some(Matrix::Candle(tensor)) => {
                let found = (|| {
                    let id = u32::try_from(row).map_err(candle_core::Error::wrap)?;
                    let id = Tensor::new(&[id], &Device::Cpu)?;
                    tensor.embedding(&id)?.flatten_all()?.to_vec1::<f32>()
                })();
                out.copy_from_slice(&found.map_err(|e| internal(&e))?);
                Ok(())
            }
            None => Ok(()),
        }
    }
}

impl Matrix {
    fn load(raw: Raw) -> Result<Self> {
        if let Some(avx2) = dot::available()
            && let Some(tiles) = Tiles::pack(raw.format.0, raw.rows, raw.columns, &raw.bytes)
        {
            return Ok(Matrix::Tiles(avx2, tiles));
        }
        let tensor = QStorage::from_data(raw.bytes.into(), &Device::Cpu, raw.format.0)
            .and_then(|storage| QTensor::new(storage, (raw.rows, raw.columns)))
            .map_err(|e| internal(&e))?;
        Ok(Matrix::Candle(tensor))
    }

    fn outputs(&self) -> usize {
        match self {
            Matrix::Tiles(_, tiles) => tiles.rows,
            Matrix::Candle(tensor) => tensor.shape().dims().first().copied().unwrap_or(0),
        }
    }

    fn apply(&self, x: &[f32], n: usize, inputs: usize, outputs: usize) -> Result<Vec<f32>> {
        match self {
            Matrix::Tiles(avx2, tiles) => Ok(multiply(*avx2, tiles, x, n, inputs, outputs)),
            Matrix::Candle(tensor) => {
                let x = CpuStorage::F32(x.to_vec());
                let (out, _) = tensor
                    .cpu_fwd(&x, &Layout::contiguous((n, inputs)))
                    .map_err(|e| internal(&e))?;
                match out {
                    CpuStorage::F32(out) => Ok(out),
                    _ => Err(Error::new(
                        Kind::Server,
                        "in-process arithmetic changed its type",
                    )),
                }
            }
        }
    }
}

/// The product, over all threads: by outputs for one row, else by rows, so that each piece is written in one place.
fn multiply(avx2: Avx2, w: &Tiles, x: &[f32], n: usize, inputs: usize, outputs: usize) -> Vec<f32> {
    let mut out = vec![0.0; n * outputs];
    if n == 1 {
        let acts = avx2.quantise(x, inputs);
        pool::pieces(&mut out, TILES_A_PIECE * ROWS, |index, out| {
            avx2.multiply(w, &acts, (0, 1), index * TILES_A_PIECE, out);
        });
        return out;
    }
    let rows = n
        .div_ceil(pool::threads())
        .next_multiple_of(4)
        .min(ROWS_A_PIECE);
    pool::pieces(&mut out, rows * outputs, |index, out| {
        let here = out.len() / outputs;
        let x = &x[index * rows * inputs..][..here * inputs];
        let acts = avx2.quantise(x, inputs);
        avx2.multiply(w, &acts, (0, here), 0, out);
    });
    out
}
