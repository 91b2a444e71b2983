//! Antfly inference through the front door, over real HTTP on loopback: embed, generate, rerank with media, and the choice between
//! a server and this process.
#![allow(clippy::unwrap_used)] // A test fails by panicking.

mod embed;
mod faults;
mod generate;
mod media;
mod place;
mod rerank;
mod sparse;
mod support;
