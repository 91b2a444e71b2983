//! Encoders: texts to hidden states, and these to vectors or scores. BERT and its kin, without padding: sequences lie one after
//! the other, products run over all their tokens at once, and attention looks at each alone.
//!
//! `folder`'s files become a [`model_config`], [`modules`] and a [`recipe`]; [`tokens`] cuts texts; [`batch`] makes sub-batches; [`bert`] and
//! [`modern`] are the models, over [`attention`], [`ops`] (layers), [`product`] (matrices) and [`kernels`] (rows); [`head`] scores.

mod attention;
mod batch;
mod bert;
mod head;
mod kernels;
mod model_config;
mod modern;
mod modules;
mod ops;
mod product;
mod recipe;
mod tokens;
mod weights;

use std::fmt;
use std::path::Path;

use antfly_framework::{Error, Kind, Result};
use rayon::prelude::*;

use super::admission::CancelFlag;
use super::folder::Folder;
use head::Head;
use kernels::Activation;
use model_config::{ModelConfig, not_for};
use modules::Modules;
use ops::Rows;
use product::{Left, Panels};
use recipe::Recipe;
use tokens::{Texts, Tokens};
use weights::Weights;

pub(super) use batch::MOST;
pub(super) use kernels::{dot, to_unit};
pub(super) use recipe::Habits;
pub(super) use tokens::Cut;

/// The kinds of models, by how they are built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    Bert,
    Roberta,
    DistilBert,
    MpNet,
    Modern,
}

/// A model without what comes after it.
trait Body: fmt::Debug + Send + Sync {
    /// Numbers a token.
    fn dim(&self) -> usize;
    /// Hidden states, `tokens x dim`, of sequences one after the other. Looks at `cancel` between layers.
    fn forward(&self, batch: &[&Tokens], cancel: &CancelFlag) -> Result<Rows>;
}

/// A loaded encoder, shared by every run.
#[derive(Debug)]
pub(super) struct Encoder {
    texts: Texts,
    body: Box<dyn Body>,
    end: End,
}

/// What hidden states become.
#[derive(Debug)]
enum End {
    Vectors(Recipe),
    Score(Box<Head>),
}

/// A text's tokens as vectors of length 1, for late interaction: `n x dim`.
#[derive(Clone, Debug)]
pub(super) struct TokenVectors {
    pub(super) dim: usize,
    pub(super) values: Vec<f32>,
}

impl TokenVectors {
    /// The sum, over these tokens, of the cosine with the most similar of `other`'s.
    pub(super) fn max_sim(&self, other: &TokenVectors) -> f32 {
        let tokens = self.values.chunks_exact(self.dim.max(1));
        let mut most = vec![f32::MIN; tokens.len()];
        let all = Left {
            numbers: &other.values,
            stride: other.dim,
            depth: self.dim,
        };
        let cosines =
            Panels::of_columns(self.dim, tokens).multiply(all, None, Activation::Identity);
        for row in cosines.chunks_exact(most.len().max(1)) {
            for (most, cosine) in most.iter_mut().zip(row) {
                *most = most.max(*cosine);
            }
        }
        most.iter().sum()
    }
}

impl Encoder {
    /// Loads the model in a folder. Blocks.
    pub(super) fn load(path: &Path) -> Result<Self> {
        let folder = Folder::new(path);
        let config = ModelConfig::read(&folder)?;
        let habits = Habits::read(&folder)?;
        let most = config.longest();
        let longest = habits.longest.unwrap_or(most).min(most);
        let texts = Texts::load(&folder, longest, habits.lower_case)?;
        let files = Weights::open(&folder)?;
        tracing::debug!(path = %path.display(), layers = config.layers, dim = config.hidden, "reading weights");
        let (body, model): (Box<dyn Body>, _) = match config.family {
            Family::Modern => {
                let known = "embeddings.tok_embeddings.weight";
                let model = files.with_prefix(known, &["", "model."]);
                (Box::new(modern::ModernBert::load(&model, &config)?), model)
            }
            _ => {
                let known = "embeddings.word_embeddings.weight";
                let model =
                    files.with_prefix(known, &["", "bert.", "roberta.", "distilbert.", "mpnet."]);
                (Box::new(bert::Bert::load(&model, &config)?), model)
            }
        };
        let end = if config.classifies {
            End::Score(Box::new(Head::load(&model, &files, &config)?))
        } else {
            nothing_beside(&files)?;
            End::Vectors(Recipe::load(&folder, config.hidden)?)
        };
        Ok(Encoder { texts, body, end })
    }

    /// The tokens of texts, cut to the model's maximum. An error names the item.
    pub(super) fn tokens<T: AsRef<str> + Sync>(
        &self,
        texts: &[T],
        cut: Cut,
        cancel: &CancelFlag,
    ) -> Result<Vec<Tokens>> {
        self.in_order(texts, cancel, |text| self.texts.text(text.as_ref(), cut))
    }

    fn in_order<T: Sync>(
        &self,
        texts: &[T],
        cancel: &CancelFlag,
        make: impl Fn(&T) -> Result<Tokens> + Sync,
    ) -> Result<Vec<Tokens>> {
        let one = |(item, text)| {
            cancel.check()?;
            make(text).map_err(|e| e.with_item(item))
        };
        texts.par_iter().enumerate().map(one).collect()
    }

    /// The vectors of sequences, in order, as the model makes them; each of length 1 where `unit` asks for it. `most` bounds a
    /// sub-batch.
    pub(super) fn vectors(
        &self,
        tokens: &[Tokens],
        most: usize,
        unit: bool,
        cancel: &CancelFlag,
    ) -> Result<Vec<Vec<f32>>> {
        let End::Vectors(recipe) = &self.end else {
            return Err(no_vectors());
        };
        batch::in_batches(tokens, most, cancel, |share| {
            let hidden = self.body.forward(share, cancel)?;
            let lengths: Vec<usize> = share.iter().map(|t| t.len()).collect();
            let mut vectors = recipe.vectors(&hidden.numbers, hidden.dim, &lengths);
            if unit {
                vectors.iter_mut().for_each(|v| to_unit(v));
            }
            Ok(vectors)
        })
    }

    /// Each token's vector, of length 1; the tokenizer's own tokens are left out where there are others.
    pub(super) fn token_vectors(
        &self,
        tokens: &[Tokens],
        cancel: &CancelFlag,
    ) -> Result<Vec<TokenVectors>> {
        let dim = self.body.dim();
        batch::in_batches(tokens, MOST, cancel, |share| {
            let hidden = self.body.forward(share, cancel)?;
            let mut rows = hidden.numbers.chunks_exact(dim);
            let of_one = |tokens: &&Tokens| {
                let all_special = tokens.special.iter().all(|s| *s);
                let mut values = Vec::with_capacity(tokens.len() * dim);
                for (special, row) in tokens.special.iter().zip(rows.by_ref()) {
                    if all_special || !special {
                        values.extend_from_slice(row);
                    }
                }
                values.chunks_exact_mut(dim).for_each(to_unit);
                TokenVectors { dim, values }
            };
            Ok(share.iter().map(of_one).collect())
        })
    }

    /// The scores of pairs, in order.
    pub(super) fn scores<T: AsRef<str> + Sync>(
        &self,
        query: &str,
        documents: &[T],
        cancel: &CancelFlag,
    ) -> Result<Vec<f32>> {
        let End::Score(head) = &self.end else {
            return Err(Error::new(
                Kind::Unsupported,
                "this model has no head that scores",
            ));
        };
        let tokens = self.in_order(documents, cancel, |document| {
            self.texts.pair(query, document.as_ref())
        })?;
        batch::in_batches(&tokens, MOST, cancel, |share| {
            let hidden = self.body.forward(share, cancel)?;
            let lengths: Vec<usize> = share.iter().map(|t| t.len()).collect();
            Ok(head.score(&hidden.numbers, &lengths))
        })
    }

    /// Whether the model scores pairs.
    pub(super) fn is_cross_encoder(&self) -> bool {
        matches!(self.end, End::Score(_))
    }
}

/// What files of an encoder hold: the model itself, and heads of other uses that change no hidden state.
const KNOWN: [&str; 20] = [
    "bert",
    "roberta",
    "distilbert",
    "mpnet",
    "model",
    "embeddings",
    "encoder",
    "transformer",
    "layers",
    "pooler",
    "cls",
    "lm_head",
    "vocab_transform",
    "vocab_projector",
    "decoder",
    "head",
    "classifier",
    "pre_classifier",
    "qa_outputs",
    "score",
];

/// Refuses weights that no file says the use of: a projection, mostly, without which the vectors are others.
fn nothing_beside(files: &Weights) -> Result<()> {
    let Some((name, file)) = files.other_matrix(&KNOWN) else {
        return Ok(());
    };
    let problem = format!(
        "the model's file {} can't be used: its tensor {name} is no part of the encoder, and what it does to vectors is said \
         nowhere; models of one vector a token (ColBERT) with a projection of their own do not run here",
        file.display()
    );
    Err(Error::new(Kind::Config, problem))
}

fn no_vectors() -> Error {
    Error::new(
        Kind::Unsupported,
        "this model scores pairs of texts; it makes no vectors",
    )
}

/// Whether all that the folder's small files ask for runs here.
///
/// # Errors
/// `config` naming the file and what is allowed.
pub(super) fn check(path: &Path) -> Result<()> {
    let folder = Folder::new(path);
    let config = ModelConfig::read(&folder)?;
    match config.classifies {
        true => Modules::none_of_a_classifier(&folder),
        false => Modules::read(&folder, config.hidden).map(drop),
    }
}

/// Numbers a vector of the model in a folder, and which shorter ones its makers say it can be cut to.
pub(super) fn dimensions(path: &Path) -> Result<(usize, Vec<usize>)> {
    let folder = Folder::new(path);
    let config = ModelConfig::read(&folder)?;
    if config.classifies {
        return Err(not_for(
            &folder,
            "scores pairs of texts; it makes no vectors",
        ));
    }
    let own = Modules::read(&folder, config.hidden)?.dim;
    #[derive(serde::Deserialize)]
    struct Matryoshka {
        #[serde(default)]
        matryoshka_dimensions: Option<Vec<usize>>,
    }
    let listed: Matryoshka = folder.json("config.json")?;
    let shorter = listed.matryoshka_dimensions.unwrap_or_default();
    Ok((own, shorter))
}

#[cfg(test)]
mod test_numbers;
#[cfg(test)]
mod tests;
