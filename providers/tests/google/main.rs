//! Gemini and Vertex AI through the front door, over real HTTP on loopback. Each file is one subject.
#![allow(clippy::unwrap_used)] // A test fails by panicking.

mod credentials;
mod embed_gemini;
mod embed_vertex;
mod faults;
mod federation;
mod generate;
mod google;
mod rank;
mod requests;
mod streams;
mod support;
mod told;
mod vertex;
