//! The sizes and constants of a model, from its file's metadata.

use std::io::{Read, Seek};

use antfly_framework::Result;

use super::super::gguf::Gguf;

/// More layers than any model has.
const MAX_LAYERS: u64 = 1024;
/// A bound for every width, so that no product of two of them overflows.
const MAX_WIDTH: u64 = 1 << 24;

/// Sizes and constants.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Shape {
    pub(super) layers: usize,
    /// Numbers of a token's vector.
    pub(super) width: usize,
    /// Numbers inside a feed-forward layer.
    pub(super) inner: usize,
    pub(super) heads: usize,
    pub(super) key_heads: usize,
    /// Numbers of a head.
    pub(super) head: usize,
    /// Numbers of a head that turn with the position.
    pub(super) rotated: usize,
    pub(super) rope_base: f64,
    /// Positions count this much.
    pub(super) rope_scale: f64,
    pub(super) epsilon: f32,
    /// Positions the model was made for.
    pub(super) context: usize,
}

impl Shape {
    /// Reads and checks a file's metadata.
    ///
    /// # Errors
    /// `config` naming the file and the key: another architecture, a missing or impossible size.
    pub(super) fn read<R: Read + Seek>(file: &Gguf<R>) -> Result<Self> {
        let key = "general.architecture";
        let architecture = file.needed(key, file.text(key)?)?;
        if architecture != "llama" {
            let problem = format_args!(
                "{architecture:?} is not supported; \"llama\" is (Llama, Mistral, SmolLM and others that share it)"
            );
            return Err(file.error(key, problem));
        }
        if file.unsigned("llama.expert_count")?.unwrap_or(0) > 0 {
            let problem = "models made of experts are not supported";
            return Err(file.error("llama.expert_count", problem));
        }
        let size = |key: &str, most: u64| positive(file, key, most);
        let needed = |key: &str, most: u64| file.needed(key, size(key, most)?);
        let heads = needed("llama.attention.head_count", MAX_WIDTH)?;
        let key_heads = size("llama.attention.head_count_kv", MAX_WIDTH)?.unwrap_or(heads);
        let width = needed("llama.embedding_length", MAX_WIDTH)?;
        if heads % key_heads != 0 {
            let problem = format_args!("{key_heads} does not divide the {heads} heads");
            return Err(file.error("llama.attention.head_count_kv", problem));
        }
        let head = match size("llama.attention.key_length", MAX_WIDTH)? {
            Some(head) => head,
            None if width % heads == 0 => width / heads,
            None => {
                let problem = format_args!("{heads} does not divide the width {width}");
                return Err(file.error("llama.attention.head_count", problem));
            }
        };
        if let Some(value) = size("llama.attention.value_length", MAX_WIDTH)?
            && value != head
        {
            let problem =
                format_args!("{value} differs from a key's {head}, which is not supported");
            return Err(file.error("llama.attention.value_length", problem));
        }
        let rotated = size("llama.rope.dimension_count", MAX_WIDTH)?.unwrap_or(head);
        if rotated > head || rotated % 2 != 0 {
            let problem = format_args!("{rotated} is not an even number of at most {head}");
            return Err(file.error("llama.rope.dimension_count", problem));
        }
        #[expect(
            clippy::cast_possible_truncation,
            reason = "written in single precision"
        )]
        let epsilon = constant(file, "llama.attention.layer_norm_rms_epsilon", None)? as f32;
        Ok(Shape {
            layers: needed("llama.block_count", MAX_LAYERS)?,
            width,
            inner: needed("llama.feed_forward_length", MAX_WIDTH)?,
            heads,
            key_heads,
            head,
            rotated,
            rope_base: constant(file, "llama.rope.freq_base", Some(10_000.0))?,
            rope_scale: rope_scale(file)?,
            epsilon,
            context: needed("llama.context_length", u64::from(u32::MAX))?,
        })
    }
}

fn positive<R: Read + Seek>(file: &Gguf<R>, key: &str, most: u64) -> Result<Option<usize>> {
    match file.unsigned(key)? {
        None => Ok(None),
        Some(n) if (1..=most).contains(&n) => Ok(usize::try_from(n).ok()),
        Some(n) => Err(file.error(key, format_args!("{n} is not from 1 to {most}"))),
    }
}

fn constant<R: Read + Seek>(file: &Gguf<R>, key: &str, default: Option<f64>) -> Result<f64> {
    let x = file.needed(key, file.float(key)?.or(default))?;
    if x > 0.0 {
        Ok(x)
    } else {
        Err(file.error(key, format_args!("{x} is not more than 0")))
    }
}

/// What a context stretched after training says about its positions.
fn rope_scale<R: Read + Seek>(file: &Gguf<R>) -> Result<f64> {
    let kind = "llama.rope.scaling.type";
    match file.text(kind)? {
        None | Some("none") => {}
        Some("linear") => {
            return Ok(1.0 / constant(file, "llama.rope.scaling.factor", Some(1.0))?);
        }
        Some(other) => {
            let problem = format_args!(
                "{other:?} is not supported; \"none\", \"linear\" and a tensor of factors are"
            );
            return Err(file.error(kind, problem));
        }
    }
    // The key of older files.
    Ok(1.0 / constant(file, "llama.rope.scale_linear", Some(1.0))?)
}
