//! Gemini and Vertex AI through the front door, over real HTTP on loopback. Each file is one subject.
#![allow(clippy::unwrap_used)] // A test fails by panicking.

mod embed_gemini;
mod generate;
mod requests;
mod streams;
mod support;
mod told;
