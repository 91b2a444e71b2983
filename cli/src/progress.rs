//! What people see while it runs: a bar on a terminal, and one line in the end.

use std::fmt;
use std::io::{self, IsTerminal as _, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use antfly_framework::Client;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::attempts::Attempts;

/// How often the bar is drawn.
const EVERY: Duration = Duration::from_millis(250);

/// What has become of the input so far.
#[derive(Debug, Default)]
pub(crate) struct Stats {
    pub(crate) ok: AtomicU64,
    pub(crate) failed: AtomicU64,
    /// Bytes of the input whose items are written.
    pub(crate) bytes: AtomicU64,
    /// Lines written.
    pub(crate) lines: AtomicU64,
}

impl Stats {
    pub(crate) fn ok(&self) -> u64 {
        self.ok.load(Ordering::Relaxed)
    }

    pub(crate) fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }
}

/// The bar, while it is shown.
pub(crate) struct Bar {
    bar: ProgressBar,
    task: tokio::task::JoinHandle<()>,
}

impl Bar {
    /// Shows the bar, if standard error is a terminal that nothing else writes to. `size`: bytes of the input, if known.
    pub(crate) fn start(
        shown: bool,
        client: &Client,
        stats: &Arc<Stats>,
        size: Option<u64>,
    ) -> Option<Self> {
        if !(shown && io::stderr().is_terminal()) {
            return None;
        }
        let bar = ProgressBar::with_draw_target(size, ProgressDrawTarget::stderr());
        let template = if size.is_some() {
            "{bar:24} {msg}"
        } else {
            "{spinner} {msg}"
        };
        bar.set_style(
            ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()),
        );
        let (client, stats, shown) = (client.clone(), Arc::clone(stats), bar.clone());
        let started = Instant::now();
        let task = tokio::spawn(async move {
            let mut tick = tokio::time::interval(EVERY);
            loop {
                tick.tick().await;
                shown.set_position(stats.bytes.load(Ordering::Relaxed));
                shown.set_message(line(&client, &stats, size, started.elapsed()));
                shown.tick();
            }
        });
        Some(Bar { bar, task })
    }

    /// An output that moves the bar out of the way, where both share the terminal.
    pub(crate) fn around(&self, sink: Box<dyn Write + Send>) -> Box<dyn Write + Send> {
        if !io::stdout().is_terminal() {
            return sink;
        }
        let bar = self.bar.clone();
        Box::new(Beside { bar, sink })
    }

    /// Takes the bar away.
    pub(crate) fn finish(self) {
        self.task.abort();
        self.bar.finish_and_clear();
    }
}

struct Beside {
    bar: ProgressBar,
    sink: Box<dyn Write + Send>,
}

impl Write for Beside {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bar.suspend(|| self.sink.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.sink.flush()
    }
}

fn line(client: &Client, stats: &Stats, size: Option<u64>, elapsed: Duration) -> String {
    let (failed, done) = (stats.failed(), stats.ok() + stats.failed());
    let mut text = format!("{done} done, {:.1}/s", rate(done, elapsed));
    if failed > 0 {
        text += &format!(", {failed} failed");
    }
    let scopes = client.snapshot();
    let waiting: usize = scopes.iter().map(|scope| scope.queued).sum();
    if waiting > 0 {
        text += &format!(", {waiting} waiting");
    }
    if let Some(cooldown) = scopes
        .iter()
        .filter_map(|scope| scope.cooldown_remaining)
        .max()
    {
        text += &format!(", cooldown {}", Span(cooldown));
    }
    if let Some(left) = time_left(stats.bytes.load(Ordering::Relaxed), size, elapsed) {
        text += &format!(", {} left", Span(left));
    }
    text
}

/// By the bytes of the input: how many lines there are is not known before the end.
fn time_left(done: u64, size: Option<u64>, elapsed: Duration) -> Option<Duration> {
    let rest = size?.saturating_sub(done) as f64;
    let seconds = elapsed.as_secs_f64() * rest / done as f64;
    Duration::try_from_secs_f64(seconds).ok()
}

fn rate(done: u64, elapsed: Duration) -> f64 {
    done as f64 / elapsed.as_secs_f64().max(1e-9)
}

/// A duration as people say it.
struct Span(Duration);

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs();
        match seconds {
            0..60 => write!(f, "{:.1}s", self.0.as_secs_f64()),
            60..3600 => write!(f, "{}m{:02}s", seconds / 60, seconds % 60),
            _ => write!(f, "{}h{:02}m", seconds / 3600, seconds / 60 % 60),
        }
    }
}

/// The one line in the end.
pub(crate) fn summary(
    stats: &Stats,
    attempts: &Attempts,
    elapsed: Duration,
    interrupted: bool,
) -> String {
    let done = stats.ok() + stats.failed();
    format!(
        "{}{} ok, {} failed, {} attempts, {}, {:.1} items/s",
        if interrupted { "interrupted: " } else { "" },
        stats.ok(),
        stats.failed(),
        attempts.count(),
        Span(elapsed),
        rate(done, elapsed),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_left_follows_the_bytes() {
        let ten = Duration::from_secs(10);
        assert_eq!(
            time_left(250, Some(1000), ten),
            Some(Duration::from_secs(30))
        );
        assert_eq!(time_left(1000, Some(1000), ten), Some(Duration::ZERO));
        assert_eq!(time_left(0, Some(1000), ten), None);
        assert_eq!(time_left(250, None, ten), None);
    }

    #[test]
    fn spans_are_short() {
        let text = |seconds| Span(Duration::from_secs_f64(seconds)).to_string();
        assert_eq!(text(0.25), "0.2s");
        assert_eq!(text(59.0), "59.0s");
        assert_eq!(text(61.0), "1m01s");
        assert_eq!(text(7384.0), "2h03m");
    }

    #[test]
    fn the_summary_is_one_line() {
        let stats = Stats::default();
        stats.ok.store(9, Ordering::Relaxed);
        stats.failed.store(1, Ordering::Relaxed);
        let line = summary(&stats, &Attempts::default(), Duration::from_secs(2), true);
        assert_eq!(
            line,
            "interrupted: 9 ok, 1 failed, 0 attempts, 2.0s, 5.0 items/s"
        );
    }
}
