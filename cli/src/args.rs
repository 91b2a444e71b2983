//! What can be written on the command line.

use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Parser, Subcommand};

/// Embed, generate and rerank under the provider's limits. Input and output are JSON lines.
#[derive(Debug, Parser)]
#[command(name = "antfly-providers", version, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List the plugins and their operations.
    Providers,
    /// Validate a configuration and show each entry's effective scope and policy. Opens no connection.
    Check {
        /// The configuration; `-` is standard input.
        #[arg(long, value_name = "FILE")]
        config: Stream,
    },
    /// Turn texts into vectors: one JSON line in, one out.
    ///
    /// A line is {"id": .., "text": ".."}, {"id": .., "image": "data:.."} or a bare JSON string.
    Embed(EmbedArgs),
    /// Turn prompts or conversations into text: one JSON line in, one out.
    ///
    /// A line is {"id": .., "prompt": ".."} or {"id": .., "messages": [..], "max_tokens": ..}, or a bare JSON string.
    Generate(GenerateArgs),
    /// Score all lines of the input against a query in one call, best first.
    ///
    /// A line is {"id": .., "text": ".."}, {"id": .., "image": "data:.."} (also both) or a bare JSON string.
    Rerank(RerankArgs),
}

#[derive(Debug, Args)]
pub(crate) struct EmbedArgs {
    /// The entry to use; several deal the calls round robin. May be left out when there is one.
    #[arg(long = "name", value_name = "N")]
    pub(crate) names: Vec<String>,
    /// Texts a call; a call waits until it is full. Default: up to the provider's limit, without waiting for a slow pipe.
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = count)]
    pub(crate) batch: Option<NonZeroUsize>,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Debug, Args)]
pub(crate) struct GenerateArgs {
    /// The entry to use. May be left out when there is one.
    #[arg(long, value_name = "N")]
    pub(crate) name: Option<String>,
    /// Write {"id": .., "delta": ".."} lines as the text arrives, then the whole answer.
    #[arg(long)]
    pub(crate) stream: bool,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Debug, Args)]
pub(crate) struct RerankArgs {
    /// The entry to use. May be left out when there is one.
    #[arg(long, value_name = "N")]
    pub(crate) name: Option<String>,
    /// What the documents are scored against.
    #[arg(long, value_name = "TEXT", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub(crate) query: String,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Debug, Args)]
pub(crate) struct Common {
    /// The configuration; `-` is standard input.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Stream,
    /// Where the lines come from; `-` or nothing is standard input.
    #[arg(long, value_name = "F", default_value = "-")]
    pub(crate) input: Stream,
    /// Where the lines go; `-` or nothing is standard output.
    #[arg(long, value_name = "F", default_value = "-")]
    pub(crate) output: Stream,
    /// Calls in flight in all.
    #[arg(
        long,
        value_name = "N",
        default_value = "8",
        allow_negative_numbers = true,
        value_parser = count
    )]
    pub(crate) concurrency: NonZeroUsize,
    /// Deadline of each call: 250ms, 30s, 2m. Beats the entry's `timeout_ms`.
    #[arg(long, value_name = "DUR", value_parser = duration)]
    pub(crate) timeout: Option<Duration>,
    /// Write one JSON line to F for each attempt, as it happens.
    #[arg(long, value_name = "F", value_parser = file)]
    pub(crate) attempts: Option<PathBuf>,
    /// No progress bar.
    #[arg(long)]
    pub(crate) quiet: bool,
    /// Write each line as it becomes final, not in the order of the input.
    #[arg(long)]
    pub(crate) unordered: bool,
}

/// A file, or the standard stream that `-` names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stream {
    Standard,
    File(PathBuf),
}

impl From<OsString> for Stream {
    fn from(text: OsString) -> Self {
        if text == "-" {
            Stream::Standard
        } else {
            Stream::File(text.into())
        }
    }
}

impl Stream {
    pub(crate) fn path(&self) -> Option<&Path> {
        match self {
            Stream::Standard => None,
            Stream::File(path) => Some(path),
        }
    }
}

/// A number from 1.
fn count(text: &str) -> Result<NonZeroUsize, String> {
    text.parse()
        .map_err(|_| "a whole number from 1 is needed here".to_owned())
}

/// A file that must be one: standard output carries data only.
fn file(text: &str) -> Result<PathBuf, String> {
    const STANDARD_OUTPUT: [&str; 4] = ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"];
    if STANDARD_OUTPUT.contains(&text) {
        Err("a file is needed here (/dev/stderr is one)".to_owned())
    } else {
        Ok(text.into())
    }
}

/// `250ms`, `30s`, `1.5m`, `2h`. Never zero.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let problem = || format!("{text:?} is not a duration such as 250ms, 30s or 2m");
    let digits = text
        .find(|c: char| !(c.is_ascii_digit() || c == '.'))
        .ok_or_else(problem)?;
    let (number, unit) = text.split_at(digits);
    let seconds = match unit {
        "ms" => 1e-3,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return Err(problem()),
    };
    if !number.starts_with(|c: char| c.is_ascii_digit()) || number.ends_with('.') {
        return Err(problem());
    }
    let number: f64 = number.parse().map_err(|_| problem())?;
    let duration = Duration::try_from_secs_f64(number * seconds)
        .map_err(|_| format!("{text:?} is too long"))?;
    if duration.is_zero() {
        return Err("a deadline of zero leaves no time for a call".to_owned());
    }
    Ok(duration)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_a_number_and_a_unit() {
        assert_eq!(duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(duration("30s"), Ok(Duration::from_secs(30)));
        assert_eq!(duration("2m"), Ok(Duration::from_secs(120)));
        assert_eq!(duration("1.5s"), Ok(Duration::from_millis(1500)));
        for bad in [
            "",
            "30",
            "s",
            "ms",
            "-1s",
            "+1s",
            "1 s",
            "1.s",
            ".5s",
            "1.2.3s",
            "0s",
            "0ms",
            "1d",
            "1S",
            "inf",
            "nans",
            "99999999999999999999h",
        ] {
            assert!(duration(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn the_definition_holds_together() {
        use clap::CommandFactory as _;
        Cli::command().debug_assert();
    }

    #[test]
    fn a_dash_is_the_standard_stream() {
        let cli = Cli::try_parse_from([
            "antfly-providers",
            "embed",
            "--config",
            "-",
            "--input",
            "in.jsonl",
            "--name",
            "a",
            "--name",
            "b",
        ])
        .unwrap();
        let Command::Embed(args) = cli.command else {
            panic!("not embed")
        };
        assert_eq!(args.common.config, Stream::Standard);
        assert_eq!(args.common.input, Stream::File("in.jsonl".into()));
        assert_eq!(args.common.output, Stream::Standard);
        assert_eq!(args.names, ["a", "b"]);
        assert_eq!(args.common.concurrency.get(), 8);
    }

    #[test]
    fn nonsense_is_refused() {
        for bad in [
            vec!["embed"],
            vec!["embed", "--config", "c", "--batch", "0"],
            vec!["embed", "--config", "c", "--concurrency", "0"],
            vec!["embed", "--config", "c", "--timeout", "soon"],
            vec!["embed", "--config", "c", "--attempts", "-"],
            vec!["embed", "--config", "c", "--attempts", "/dev/stdout"],
            vec!["generate", "--config", "c", "--name", "a", "--name", "b"],
            vec!["rerank", "--config", "c"],
            vec!["rerank", "--config", "c", "--query", ""],
        ] {
            let line = std::iter::once("antfly-providers").chain(bad.iter().copied());
            assert!(Cli::try_parse_from(line).is_err(), "{bad:?}");
        }
    }
}
