//! The next token from every token's score.
//!
//! A temperature of 0 takes the best token, always the same one. Otherwise one is drawn from the `top_k` best, of those from the
//! fewest that together have a probability of `top_p`; what is not given is llama.cpp's: temperature 0.8, `top_k` 40, `top_p` 0.95.
//! The same seed on the same machine draws the same; without one, each call draws anew.

use std::hash::{BuildHasher as _, Hasher as _};

use antfly_framework::generate::GenerateRequest;
use antfly_framework::{Error, Kind, Result};

const TEMPERATURE: f64 = 0.8;
const TOP_K: u32 = 40;
const TOP_P: f64 = 0.95;

/// How tokens are chosen in one call.
#[derive(Debug)]
pub(super) enum Sampler {
    Best,
    Draw(Draw),
}

/// A choice by chance.
#[derive(Debug)]
pub(super) struct Draw {
    temperature: f32,
    /// 0: all.
    top_k: usize,
    top_p: f32,
    state: u64,
}

/// Refuses numbers that mean nothing.
pub(super) fn check(request: &GenerateRequest) -> Result<()> {
    let bad = |field: &str, value: f64, allowed: &str| {
        let problem = format!("{field}: {value} is not allowed; {allowed} is");
        Err(Error::new(Kind::InvalidRequest, problem))
    };
    match (request.temperature, request.top_p) {
        (Some(t), _) if !(t.is_finite() && t >= 0.0) => {
            bad("temperature", t, "a finite number of at least 0")
        }
        (_, Some(p)) if !(p > 0.0 && p <= 1.0) => bad("top_p", p, "more than 0 and at most 1"),
        _ => Ok(()),
    }
}

impl Sampler {
    pub(super) fn new(request: &GenerateRequest) -> Self {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "scores have single precision"
        )]
        let (temperature, top_p) = (
            request.temperature.unwrap_or(TEMPERATURE) as f32,
            request.top_p.unwrap_or(TOP_P) as f32,
        );
        if temperature <= 0.0 {
            return Sampler::Best;
        }
        let seed = match request.seed {
            Some(seed) => seed.cast_unsigned(),
            None => std::hash::RandomState::new().build_hasher().finish(),
        };
        Sampler::Draw(Draw {
            temperature,
            top_k: request.top_k.unwrap_or(TOP_K) as usize,
            top_p,
            state: seed,
        })
    }

    /// The next token's id.
    ///
    /// # Errors
    /// `server` when no score is a number: a broken model.
    pub(super) fn next(&mut self, scores: &[f32]) -> Result<u32> {
        let chosen = match self {
            Sampler::Best => best(scores),
            Sampler::Draw(draw) => draw.next(scores),
        };
        let id = chosen.and_then(|at| u32::try_from(at).ok());
        id.ok_or_else(|| {
            Error::new(
                Kind::Server,
                "the model's scores are not numbers; its weights may be broken",
            )
        })
    }
}

/// The first of the largest.
fn best(scores: &[f32]) -> Option<usize> {
    let numbers = scores.iter().enumerate().filter(|(_, s)| !s.is_nan());
    let best = numbers.reduce(|best, one| if one.1 > best.1 { one } else { best });
    best.map(|(at, _)| at)
}

impl Draw {
    fn next(&mut self, scores: &[f32]) -> Option<usize> {
        let mut order: Vec<usize> = (0..scores.len())
            .filter(|at| !scores[*at].is_nan())
            .collect();
        let better = |a: &usize, b: &usize| scores[*b].total_cmp(&scores[*a]).then(a.cmp(b));
        let keep = if self.top_k == 0 {
            order.len()
        } else {
            self.top_k
        };
        if keep < order.len() {
            order.select_nth_unstable_by(keep, better);
            order.truncate(keep);
        }
        order.sort_unstable_by(better);
        let largest = scores[*order.first()?];
        let weight = |at: &usize| ((scores[*at] - largest) / self.temperature).exp();
        // `top_p` is of the probabilities before the temperature flattens or sharpens them, as llama.cpp has it.
        let plain: Vec<f32> = order
            .iter()
            .map(|at| (scores[*at] - largest).exp())
            .collect();
        let whole: f32 = plain.iter().sum();
        let mut sum = 0.0;
        let within = plain.iter().position(|p| {
            sum += p;
            sum >= self.top_p * whole
        });
        order.truncate(within.map_or(order.len(), |last| last + 1));
        let weights: Vec<f32> = order.iter().map(weight).collect();
        let mut left = self.uniform() * weights.iter().sum::<f32>();
        let chosen = weights.iter().position(|w| {
            left -= w;
            left < 0.0
        });
        order.get(chosen.unwrap_or(order.len() - 1)).copied()
    }

    /// From 0 up to, not including, 1 (splitmix64).
    fn uniform(&mut self) -> f32 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^= z >> 31;
        #[expect(clippy::cast_precision_loss, reason = "24 bits")]
        {
            (z >> 40) as f32 / (1u64 << 24) as f32
        }
    }
}

#[cfg(test)]
#[path = "sample_tests.rs"]
mod tests;
