//! Weights, and the pass from tokens to the next token's scores.

use std::io::{Read, Seek};

use antfly_framework::Result;

use super::super::gguf::Gguf;
use super::super::kernel::{self, HeadCache, Heads, Linear, Rope};
use super::shape::Shape;

/// A model's weights.
#[derive(Debug)]
pub(in super::super) struct Llama {
    shape: Shape,
    /// `vocabulary x width`.
    embeddings: Linear,
    layers: Vec<Layer>,
    norm: Vec<f32>,
    /// `None`: the embeddings, used the other way round.
    output: Option<Linear>,
    rope: Rope,
}

#[derive(Debug)]
struct Layer {
    attention_norm: Vec<f32>,
    /// Queries, keys and values in one.
    attention_in: Linear,
    attention_out: Linear,
    inner_norm: Vec<f32>,
    /// Gate and up in one.
    inner_in: Linear,
    inner_out: Linear,
}

/// The keys and values of a conversation so far.
#[derive(Debug)]
pub(in super::super) struct Memory {
    /// `layers x key heads`.
    heads: Vec<Vec<HeadCache>>,
    positions: usize,
}

impl Llama {
    /// Reads every tensor, each held against the shape it must have.
    ///
    /// # Errors
    /// `config` naming the file and the tensor.
    pub(in super::super) fn load<R: Read + Seek>(
        file: &mut Gguf<R>,
        vocabulary: usize,
    ) -> Result<Self> {
        let shape = Shape::read(file)?;
        let (width, inner) = (shape.width, shape.inner);
        let (queries, keys) = (shape.heads * shape.head, shape.key_heads * shape.head);
        let embeddings = linear(file, &[("token_embd.weight".to_owned(), vocabulary)], width)?;
        let output = if file.has_tensor("output.weight") {
            let tensor = ("output.weight".to_owned(), vocabulary);
            Some(linear(file, &[tensor], width)?)
        } else {
            None
        };
        let norm = vector(file, "output_norm.weight", width)?;
        let rope = rope(file, &shape)?;
        let mut layers = Vec::new();
        for index in 0..shape.layers {
            let name = |part: &str| format!("blk.{index}.{part}.weight");
            let bias = format!("blk.{index}.attn_q.bias");
            if file.has_tensor(&bias) {
                let problem = "attention with biases is not supported";
                return Err(file.error(format_args!("tensor {bias}"), problem));
            }
            let qkv = [
                (name("attn_q"), queries),
                (name("attn_k"), keys),
                (name("attn_v"), keys),
            ];
            let both = [(name("ffn_gate"), inner), (name("ffn_up"), inner)];
            layers.push(Layer {
                attention_norm: vector(file, &name("attn_norm"), width)?,
                attention_in: linear(file, &qkv, width)?,
                attention_out: linear(file, &[(name("attn_output"), width)], queries)?,
                inner_norm: vector(file, &name("ffn_norm"), width)?,
                inner_in: linear(file, &both, width)?,
                inner_out: linear(file, &[(name("ffn_down"), width)], inner)?,
            });
        }
        Ok(Llama {
            shape,
            embeddings,
            layers,
            norm,
            output,
            rope,
        })
    }

    /// The most positions of a conversation.
    pub(in super::super) fn context(&self) -> usize {
        self.shape.context
    }

    /// A conversation without a word.
    pub(in super::super) fn memory(&self) -> Memory {
        let layer = || {
            let heads = 0..self.shape.key_heads;
            heads.map(|_| HeadCache::default()).collect()
        };
        Memory {
            heads: (0..self.shape.layers).map(|_| layer()).collect(),
            positions: 0,
        }
    }

    /// Reads `tokens` (ids below the vocabulary's size, at least one), adds them to `memory`, and gives every token's score of
    /// coming next. `check` is asked before each layer.
    pub(in super::super) fn next(
        &self,
        memory: &mut Memory,
        tokens: &[u32],
        check: &dyn Fn() -> Result<()>,
    ) -> Result<Vec<f32>> {
        let shape = &self.shape;
        let (n, width, epsilon) = (tokens.len(), shape.width, shape.epsilon);
        let heads = Heads {
            group: shape.heads / shape.key_heads,
            size: shape.head,
            keys: shape.key_heads,
        };
        let angles = self.rope.angles(memory.positions, n);
        let mut x = vec![0.0; n * width];
        for (token, row) in tokens.iter().zip(x.chunks_exact_mut(width)) {
            self.embeddings.row(*token as usize, row)?;
        }
        for (layer, cache) in self.layers.iter().zip(&mut memory.heads) {
            check()?;
            let normed = kernel::rms_norm(&x, &layer.attention_norm, epsilon);
            let mut qkv = layer.attention_in.apply(&normed)?;
            self.remember(&mut qkv, &angles, cache);
            let attended = kernel::attend(&qkv, n, heads, cache);
            kernel::add(&mut x, &layer.attention_out.apply(&attended)?);
            let normed = kernel::rms_norm(&x, &layer.inner_norm, epsilon);
            let gated = kernel::gated(&layer.inner_in.apply(&normed)?, shape.inner);
            kernel::add(&mut x, &layer.inner_out.apply(&gated)?);
        }
        memory.positions += n;
        let last = &x[(n - 1) * width..];
        let normed = kernel::rms_norm(last, &self.norm, epsilon);
        self.output
            .as_ref()
            .unwrap_or(&self.embeddings)
            .apply(&normed)
    }

    /// Turns queries and keys (rows of `queries | keys | values`) to their positions, and keeps keys and values.
    fn remember(&self, qkv: &mut [f32], angles: &[(f32, f32)], cache: &mut [HeadCache]) {
        let (head, queries) = (self.shape.head, self.shape.heads * self.shape.head);
        let keys = self.shape.key_heads * head;
        let rows = qkv.chunks_exact_mut(queries + 2 * keys);
        for (row, angles) in rows.zip(angles.chunks_exact(self.shape.rotated / 2)) {
            let (turned, values) = row.split_at_mut(queries + keys);
            Rope::turn(turned, head, angles);
            let keys = turned[queries..].chunks_exact(head);
            for ((cache, key), value) in cache.iter_mut().zip(keys).zip(values.chunks_exact(head)) {
                cache.push(key, value);
            }
        }
    }
}

/// One layer from tensors of these names and rows, each of `columns`.
fn linear<R: Read + Seek>(
    file: &mut Gguf<R>,
    tensors: &[(String, usize)],
    columns: usize,
) -> Result<Linear> {
    let mut parts = Vec::new();
    for (name, rows) in tensors {
        let raw = file.tensor(name)?;
        if (raw.rows, raw.columns) != (*rows, columns) {
            let problem = format_args!(
                "is {} x {}; the metadata make it {rows} x {columns}",
                raw.rows, raw.columns
            );
            return Err(file.error(format_args!("tensor {name}"), problem));
        }
        parts.push(raw);
    }
    Linear::stack(parts)
}

/// A vector of `size` numbers in full precision.
fn vector<R: Read + Seek>(file: &mut Gguf<R>, name: &str, size: usize) -> Result<Vec<f32>> {
    let layer = linear(file, &[(name.to_owned(), 1)], size)?;
    let mut numbers = vec![0.0; size];
    layer.row(0, &mut numbers)?;
    Ok(numbers)
}

fn rope<R: Read + Seek>(file: &mut Gguf<R>, shape: &Shape) -> Result<Rope> {
    const FACTORS: &str = "rope_freqs.weight";
    let pairs = shape.rotated / 2;
    let factors = if file.has_tensor(FACTORS) {
        vector(file, FACTORS, pairs)?
    } else {
        Vec::new()
    };
    if factors.iter().any(|f| !f.is_finite() || *f <= 0.0) {
        let problem = "holds a factor that is not more than 0";
        return Err(file.error(format_args!("tensor {FACTORS}"), problem));
    }
    Ok(Rope::new(
        pairs,
        shape.rope_base,
        shape.rope_scale,
        &factors,
    ))
}
