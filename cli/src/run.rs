//! A run of `embed`, `generate` or `rerank` from its options to its exit code.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use antfly_framework::{Client, EntryConfig, Error, Operation};
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use crate::args::{Common, Stream};
use crate::attempts::Attempts;
use crate::check;
use crate::config::Loaded;
use crate::flow::{Calls, Feed};
use crate::input;
use crate::interrupt::{self, Stop};
use crate::output::{self, Writer};
use crate::progress::{self, Bar, Stats};

/// When the process started.
#[derive(Clone, Copy)]
pub(crate) struct Start(pub(crate) Instant);

/// How a run ended that was able to start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// All is well.
    Ok,
    /// Some item failed, or the output did.
    Failed,
    /// A signal came.
    Interrupted,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        match exit {
            Exit::Ok => ExitCode::SUCCESS,
            Exit::Failed => ExitCode::from(1),
            Exit::Interrupted => ExitCode::from(interrupt::EXIT),
        }
    }
}

/// Why nothing was sent: usage or configuration, one line each.
#[derive(Debug)]
pub(crate) struct Fatal(pub(crate) Vec<String>);

impl From<String> for Fatal {
    fn from(problem: String) -> Self {
        Fatal(vec![problem])
    }
}

impl From<Error> for Fatal {
    fn from(error: Error) -> Self {
        error.to_string().into()
    }
}

/// Options and configuration, read and found good.
pub(crate) struct Run {
    common: Common,
    start: Start,
    operation: Operation,
    loaded: Loaded,
    client: Client,
    attempts: Arc<Attempts>,
}

impl Run {
    pub(crate) fn prepare(
        common: Common,
        start: Start,
        operation: Operation,
    ) -> Result<Self, Fatal> {
        if common.config == Stream::Standard && common.input == Stream::Standard {
            return Err("configuration and input can't both be standard input"
                .to_owned()
                .into());
        }
        let loaded = Loaded::read(&common.config)?;
        let attempts = Arc::<Attempts>::default();
        let client = loaded
            .client_builder(operation)?
            .observer(attempts.clone())
            .build()?;
        Ok(Run {
            common,
            start,
            operation,
            loaded,
            client,
            attempts,
        })
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    pub(crate) fn concurrency(&self) -> usize {
        self.common.concurrency.get()
    }

    /// The entry named, or the only one.
    pub(crate) fn entry(&self, name: Option<String>) -> Result<EntryConfig, Fatal> {
        let names: Vec<String> = name.into_iter().collect();
        match self.entries(&names)?.pop() {
            Some(entry) => Ok(entry),
            None => Err(format!("there is no entry for {}", self.operation).into()),
        }
    }

    /// The entries named, or the only one. No other entry is looked at.
    pub(crate) fn entries(&self, names: &[String]) -> Result<Vec<EntryConfig>, Fatal> {
        let entries = self.loaded.entries(self.operation, names)?;
        let checked: Result<Vec<_>, _> = entries
            .iter()
            .map(|entry| self.client.check(entry))
            .collect();
        let conflicts = check::conflicts(&checked?);
        if conflicts.is_empty() {
            Ok(entries)
        } else {
            Err(Fatal(conflicts))
        }
    }

    /// Opens input and output, lets `work` turn lines into lines, and waits until all of them are written.
    ///
    /// At most `window` items are read and not yet written.
    pub(crate) async fn lines<W>(
        self,
        window: usize,
        unordered: bool,
        work: W,
    ) -> Result<Exit, Fatal>
    where
        W: AsyncFnOnce(&mut Feed, &mut Calls, output::Lines, CancellationToken),
    {
        let common = &self.common;
        let (input, size) = open_input(&common.input)?;
        refuse_same_file(common)?;
        let output = create_output(&common.output)?;
        if let Some(path) = &common.attempts {
            let file = create(path)?;
            self.attempts
                .write_to(file, self.client.time().now(), self.start.0.elapsed());
        }
        let stop = Stop::on_signals().map_err(|e| format!("signals can't be watched: {e}"))?;
        let stats = Arc::<Stats>::default();
        let began = Instant::now();
        let bar = Bar::start(
            !common.quiet && !crate::is_tracing(),
            &self.client,
            &stats,
            size,
        );
        let output = match &bar {
            Some(bar) if common.output == Stream::Standard => bar.around(output),
            _ => output,
        };
        let (lines, writer) = Writer::start(
            output,
            unordered || common.unordered,
            Arc::clone(&stats),
            stop.token.clone(),
        );
        let window = window.min(tokio::sync::Semaphore::MAX_PERMITS);
        let mut feed = Feed::new(input::Lines::read(input), window, stop.token.clone());
        let mut calls = Calls::new(common.concurrency, common.timeout, stop.token.clone());

        work(&mut feed, &mut calls, lines, stop.token.clone()).await;
        let sound = calls.finish().await;
        let unread = feed.into_error();
        let written = writer.finish();

        if let Some(bar) = bar {
            bar.finish();
        }
        match &written {
            Err(error) if output::reader_left(error) => return Ok(Exit::Failed),
            Err(error) => crate::say(format_args!("the output can't be written: {error}")),
            Ok(()) => {}
        }
        if let Some(error) = &unread {
            crate::say(format_args!("the input can't be read: {error}"));
        }
        let interrupted = stop.interrupted();
        crate::say(progress::summary(
            &stats,
            &self.attempts,
            began.elapsed(),
            interrupted,
        ));
        Ok(if interrupted {
            Exit::Interrupted
        } else if stats.failed() > 0 || unread.is_some() || written.is_err() || !sound {
            Exit::Failed
        } else {
            Exit::Ok
        })
    }
}

type Input = (Box<dyn Read + Send>, Option<u64>);

/// The input, and its size where it has one.
fn open_input(stream: &Stream) -> Result<Input, Fatal> {
    let Stream::File(path) = stream else {
        return Ok((Box::new(io::stdin()), None));
    };
    let opened = File::open(path).and_then(|file| file.metadata().map(|about| (file, about)));
    match opened {
        Ok((_, about)) if about.is_dir() => {
            Err(format!("{}: it is a folder", path.display()).into())
        }
        Ok((file, about)) => Ok((Box::new(file), about.is_file().then_some(about.len()))),
        Err(error) => Err(format!("{}: {error}", path.display()).into()),
    }
}

fn create_output(stream: &Stream) -> Result<Box<dyn Write + Send>, Fatal> {
    match stream {
        Stream::Standard => Ok(Box::new(io::stdout())),
        Stream::File(path) => Ok(Box::new(create(path)?)),
    }
}

fn create(path: &Path) -> Result<File, Fatal> {
    File::create(path).map_err(|error| format!("{}: {error}", path.display()).into())
}

/// Creating a file empties it: what is read or written elsewhere in this run must not be it.
fn refuse_same_file(common: &Common) -> Result<(), Fatal> {
    let written = [common.output.path(), common.attempts.as_deref()];
    let read = [common.config.path(), common.input.path()];
    let real = |path: &Path| path.canonicalize().ok().filter(|path| path.is_file());
    let mut seen: Vec<_> = read.into_iter().flatten().filter_map(real).collect();
    for path in written.into_iter().flatten() {
        let known = real(path).unwrap_or_else(|| path.to_owned());
        if seen.contains(&known) {
            return Err(format!(
                "{}: it would be overwritten, and is in use by this run",
                path.display()
            )
            .into());
        }
        seen.push(known);
    }
    Ok(())
}

/// Writes lines to standard output.
pub(crate) fn write_lines(rows: impl Iterator<Item = impl Serialize>) -> Result<Exit, Fatal> {
    let mut out = io::stdout().lock();
    let mut write = |row| -> io::Result<()> {
        let mut line = serde_json::to_vec(&row)?;
        line.push(b'\n');
        out.write_all(&line)
    };
    for row in rows {
        match write(row) {
            Ok(()) => {}
            Err(error) if output::reader_left(&error) => return Ok(Exit::Failed),
            Err(error) => return Err(format!("the output can't be written: {error}").into()),
        }
    }
    Ok(Exit::Ok)
}
