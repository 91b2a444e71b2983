//! What comes from outside, by the million: event streams, lines, waits, configurations and every decoder, fed with committed
//! seeds (`corpus/`) and with what a mutator makes of them.
//!
//! A run is bounded and repeatable: the same seed gives the same inputs. Longer, and from another seed:
//! `FUZZ_SECONDS=60 FUZZ_SEED=7 cargo test --release -p antfly-tests --test fuzz`. A failure prints its input and how to keep it;
//! put it into `corpus/` under the target's name, and it is tried first from then on. `libfuzzer/` has the same targets for a
//! coverage-guided search.
#![forbid(unsafe_code)]
#![allow(missing_docs)]

#[path = "../../providers/tests/bedrock/frames.rs"]
#[allow(dead_code)]
mod aws_frames;
mod frames;
mod mutate;
mod run;
mod targets;

use targets::Target;

#[test]
fn no_input_breaks_the_event_stream_parser() {
    run::target(&targets::EVENT_STREAM);
}

#[test]
fn no_input_breaks_the_line_parser() {
    run::target(&targets::LINES);
}

#[test]
fn no_header_breaks_the_reading_of_waits() {
    run::target(&targets::RETRY_AFTER);
}

#[test]
fn no_document_breaks_the_configuration() {
    run::target(&targets::CONFIG);
}

#[test]
fn no_answer_breaks_a_decoder_of_embeddings() {
    run::target(&targets::EMBED);
}

#[test]
fn no_answer_breaks_a_decoder_of_generations() {
    run::target(&targets::GENERATE);
}

#[test]
fn no_answer_breaks_a_decoder_of_rankings() {
    run::target(&targets::RERANK);
}

#[test]
fn no_stream_breaks_a_decoder_and_no_split_changes_it() {
    run::target(&targets::STREAM);
}

#[test]
fn no_frames_break_a_stream_through_the_aws_sdk() {
    run::target(&frames::FRAMES);
}

#[test]
fn no_refusal_breaks_its_classification() {
    run::target(&targets::CLASSIFY);
}

#[test]
fn a_target_that_breaks_is_reported_with_its_input() {
    let broken = Target {
        name: "broken",
        words: &["!"],
        check: |data| assert!(!data.contains(&b'!'), "an exclamation mark"),
    };
    let told = std::panic::catch_unwind(|| run::target(&broken)).unwrap_err();
    let told = told.downcast_ref::<String>().unwrap();
    for part in ["broken", "FUZZ_SEED=1", "an exclamation mark", "input: "] {
        assert!(told.contains(part), "{part:?} in {told}");
    }
}
