//! Antfly inference: embed and generate.
