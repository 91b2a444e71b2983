//! `antfly-providers`: embed, generate and rerank from the command line. A thin caller of the library; nothing in it decides
//! anything about limits.
//!
//! # Reading order
//! `run.rs` is a run from its options to its exit code. `flow.rs` lets input in and calls out; `embed.rs`, `generate.rs` and
//! `rerank.rs` say what a call is. `files.rs` opens what is read and written. `input.rs` and `prompt.rs` take lines apart, `output.rs` puts them in order.

#![forbid(unsafe_code)]

mod args;
mod attempts;
mod check;
mod config;
mod embed;
mod files;
mod flow;
mod generate;
mod input;
mod interrupt;
mod output;
mod progress;
mod prompt;
mod rerank;
mod run;

use std::fmt::Display;
use std::io::{IsTerminal as _, Write as _};
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser as _;
use tracing_subscriber::EnvFilter;

use crate::args::{Cli, Command};
use crate::run::{Exit, Fatal, Start};

/// What usage and configuration errors exit with.
const USAGE: u8 = 2;

fn main() -> ExitCode {
    let start = Start(Instant::now());
    let cli = Cli::parse();
    trace();
    match run(cli.command, start) {
        Ok(exit) => exit.into(),
        Err(Fatal(problems)) => {
            for problem in problems {
                say(problem);
            }
            ExitCode::from(USAGE)
        }
    }
}

fn run(command: Command, start: Start) -> Result<Exit, Fatal> {
    // One thread may be held up by a terminal that takes nothing: there is another one for signals.
    let threads = std::thread::available_parallelism().map_or(2, |n| n.get().max(2));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads)
        .enable_all()
        .build()
        .map_err(|e| format!("the runtime can't start: {e}"))?;
    let exit = runtime.block_on(async {
        match command {
            Command::Providers => check::providers(),
            Command::Check { config } => check::check(&config),
            Command::Embed(args) => embed::run(args, start).await,
            Command::Generate(args) => generate::run(args, start).await,
            Command::Rerank(args) => rerank::run(args, start).await,
        }
    });
    runtime.shutdown_background();
    exit
}

/// One line for people.
fn say(line: impl Display) {
    // With nobody to tell there is nothing to do.
    let _ = writeln!(std::io::stderr(), "antfly-providers: {line}");
}

fn is_tracing() -> bool {
    std::env::var_os(EnvFilter::DEFAULT_ENV).is_some_and(|value| !value.is_empty())
}

/// Turns tracing on: what `RUST_LOG` asks for, else warnings.
fn trace() {
    let filter = if is_tracing() {
        EnvFilter::from_default_env()
    } else {
        EnvFilter::new("warn")
    };
    let colourless = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(!colourless && std::io::stderr().is_terminal())
        .with_writer(std::io::stderr)
        .init();
}
