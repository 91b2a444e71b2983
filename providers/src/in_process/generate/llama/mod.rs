//! A Llama-family decoder: what its file says (`Shape`), its weights ([`Llama`]), and what one conversation remembers (`Memory`).

mod model;
mod shape;

#[cfg(test)]
mod tests;

pub(super) use model::Llama;
