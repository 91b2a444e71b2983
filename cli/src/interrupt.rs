//! The first interrupt stops the work in order, the second at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio_util::sync::CancellationToken;

/// What a process that was interrupted exits with.
pub(crate) const EXIT: u8 = 130;

/// Says that everything is to stop: calls in flight end, nothing new starts, what is finished is written.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stop {
    pub(crate) token: CancellationToken,
    interrupted: Arc<AtomicBool>,
}

impl Stop {
    /// Stops on SIGINT and SIGTERM from now on.
    pub(crate) fn on_signals() -> std::io::Result<Self> {
        let stop = Stop::default();
        let mut signals = Signals::new()?;
        let told = stop.clone();
        tokio::spawn(async move {
            signals.next().await;
            told.interrupted.store(true, Ordering::Relaxed);
            told.token.cancel();
            signals.next().await;
            std::process::exit(i32::from(EXIT));
        });
        Ok(stop)
    }

    /// Whether a signal was the reason.
    pub(crate) fn interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }
}

#[cfg(unix)]
struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    fn new() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Signals {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

#[cfg(not(unix))]
struct Signals;

#[cfg(not(unix))]
impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Signals)
    }

    async fn next(&mut self) {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
