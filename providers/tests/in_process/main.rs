//! Models in this process: what an entry may say, admission, loading, and what the models make of texts.
//!
//! `models`: with the real all-MiniLM-L6-v2, against vectors that another implementation made (`reference.py`). `tiny`: every
//! family of models and every classification head, against the same implementation on seeded random weights. `modules`: what stands
//! beside a model, done as sentence-transformers does it or refused. `entry`: what is
//! refused, and where. `running`: the queue, the deadline, cancellation and loading, seen from outside. `linkage`: what a build
//! without the feature is free of. `answers`: what comes back, and how much of it. `lying`: folders whose files lie, and odd texts.
//! `conformance`: the kit's checks of the local route.

#![allow(clippy::unwrap_used)]

mod answers;
mod conformance;
mod entry;
mod fetched;
mod linkage;
mod lying;
mod models;
mod modules;
mod running;
mod support;
mod tiny;
