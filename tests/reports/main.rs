//! Faults that users of other clients met, replayed: one file a section of the table, one test (or more) a row.
//!
//! `tests/REPORTS.md` says which row is where, and why a row has no test; `tests/REPORTS_BY_ADAPTER.md`, for each adapter.

#![forbid(unsafe_code)]
// Helpers outside of `#[test]` functions unwrap as tests do.
#![allow(clippy::unwrap_used)]

mod a_framing;
mod b_stream_end;
mod c_shape;
mod d_lifecycle;
mod e_errors;
mod f_cooldown;
mod g_admission;
mod h_embeddings;
mod i_rerank;
mod j_headers;
mod k_credentials;
mod support;
mod table;
