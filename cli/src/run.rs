//! A run of `embed`, `generate` or `rerank` from its options to its exit code.

use std::collections::HashSet;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use antfly_framework::{Client, EntryConfig, Error, Operation};
use serde::Serialize;
use tokio_util::sync::CancellationToken;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::args::{Common, Stream};
use crate::attempts::Attempts;
use crate::check;
use crate::config::Loaded;
use crate::files::{self, Files};
use crate::flow::{Calls, Feed};
use crate::input;
use crate::interrupt::{self, Stop};
use crate::output::{self, Writer};
use crate::progress::{self, Bar, Stats};

/// How long the last words may take when nothing else can be done.
const TELL: Duration = Duration::from_millis(100);

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
    /// Files that the configuration names.
    depends_on: Vec<PathBuf>,
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
        let depends_on = loaded.secrets_file(operation)?.into_iter().collect();
        Ok(Run {
            common,
            start,
            operation,
            loaded,
            client,
            attempts,
            depends_on,
        })
    }

    /// Makes what an entry is for. What there is to warn of was said when the entry was looked at.
    pub(crate) fn open<T>(
        &self,
        open: impl FnOnce(&Client) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let _quiet = quiet();
        open(&self.client)
    }

    pub(crate) fn concurrency(&self) -> usize {
        self.common.concurrency.get()
    }

    /// The entry named, or the only one.
    pub(crate) fn entry(&mut self, name: Option<String>) -> Result<EntryConfig, Fatal> {
        let names: Vec<String> = name.into_iter().collect();
        match self.entries(&names)?.pop() {
            Some(entry) => Ok(entry),
            None => Err(format!("there is no entry for {}", self.operation).into()),
        }
    }

    /// The entries named, or the only one. No other entry is looked at.
    pub(crate) fn entries(&mut self, names: &[String]) -> Result<Vec<EntryConfig>, Fatal> {
        let entries = self.loaded.entries(self.operation, names)?;
        for entry in &entries {
            let paths = [&entry.ca_file, &entry.credentials_path, &entry.model_path];
            let paths = paths.into_iter().flatten().map(PathBuf::from);
            self.depends_on.extend(paths);
        }
        let mut warned = HashSet::new();
        let checked: Result<Vec<_>, _> = entries
            .iter()
            .map(|entry| {
                let _quiet = (!warned.insert(&entry.path)).then(quiet);
                self.client.check(entry)
            })
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
        let stop = Stop::on_signals().map_err(|e| format!("signals can't be watched: {e}"))?;
        let Files {
            input,
            size,
            output,
            attempts,
        } = files::open(common, self.depends_on)?;
        if let Some(file) = attempts {
            self.attempts
                .write_to(file, self.client.time().now(), self.start.0.elapsed());
        }
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
        let Some(written) = writer.finish(|| stop.interrupted()).await else {
            // Standard error may be as stuck as the output, and the bar waits for the line that can't be written.
            let told = tokio::task::spawn_blocking(|| {
                crate::say("interrupted: nobody takes the output, the rest of it is lost");
            });
            let _ = tokio::time::timeout(TELL, told).await;
            return Ok(Exit::Interrupted);
        };

        if let Some(bar) = bar {
            bar.finish();
        }
        if let Err(error) = &written {
            output::complain(error);
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
        } else if stats.failed() > 0
            || unread.is_some()
            || written.is_err()
            || !sound
            || self.attempts.is_broken()
        {
            Exit::Failed
        } else {
            Exit::Ok
        })
    }
}

/// While it lives, this thread's tracing goes nowhere.
fn quiet() -> impl Drop {
    tracing_subscriber::registry().set_default()
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
            Err(error) => {
                output::complain(&error);
                return Ok(Exit::Failed);
            }
        }
    }
    Ok(Exit::Ok)
}
