//! A scripted HTTP/1.1 server on the loopback interface, for tests that need to say exactly which bytes travel and when.
//!
//! [`Server`] runs on a thread and a runtime of its own, so it answers whatever the runtime under test does. It records every
//! request in full. Nothing in it sleeps: a [`Reply`] waits at a [`Gate`] until the test opens it.
//!
//! A fault of the script (no reply left, a handler that panics) is answered with status 599, kept in [`Server::failures`], and
//! fails the test when the server is dropped.

mod reply;
mod wire;

pub use reply::{Gate, Reply};

use std::collections::VecDeque;
use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::HeaderMap;
use tokio::net::TcpListener;
use tokio::sync::{Notify, oneshot};

/// How long the `wait_for_*` functions wait before they fail the test.
const PATIENCE: Duration = Duration::from_secs(30);

/// One request as it arrived.
#[derive(Clone, Debug)]
pub struct Received {
    /// The method.
    pub method: String,
    /// The request target as sent, with its query.
    pub path: String,
    /// The headers, in order of arrival within each name.
    pub headers: HeaderMap,
    /// The whole body.
    pub body: Bytes,
    /// When the last byte of it had arrived.
    pub at: Instant,
    /// Which connection it came on, from 0 in order of acceptance.
    pub connection: usize,
}

impl Received {
    /// The first value of a header, when it is there and is text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// The body as JSON; `null` when it is not JSON.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// A scripted server. It stops, and drops every connection, when it is dropped.
pub struct Server {
    address: SocketAddr,
    shared: Arc<Shared>,
    stop: Option<oneshot::Sender<()>>,
}

impl Server {
    /// A server that gives these replies in order, one a request.
    ///
    /// # Panics
    ///
    /// When the loopback interface can't be listened on.
    pub fn start(replies: impl IntoIterator<Item = Reply>) -> Server {
        Server::run(Script::Queue(Mutex::new(replies.into_iter().collect())))
    }

    /// A server that gives the same reply to every request. A gate in it, once open, is open for all.
    ///
    /// # Panics
    ///
    /// When the loopback interface can't be listened on.
    pub fn always(reply: Reply) -> Server {
        Server::with(move |_| reply.clone())
    }

    /// A server that asks `handler` for each reply.
    ///
    /// # Panics
    ///
    /// When the loopback interface can't be listened on.
    pub fn with(handler: impl Fn(&Received) -> Reply + Send + Sync + 'static) -> Server {
        Server::run(Script::Handler(Box::new(handler)))
    }

    /// Adds a reply to the end of the queue of [`Server::start`]; of no use to the other two.
    pub fn push(&self, reply: Reply) {
        match &self.shared.script {
            Script::Queue(queue) => lock(queue).push_back(reply),
            Script::Handler(_) => self.shared.fail("push on a server that has a handler"),
        }
    }

    /// `http://127.0.0.1:port`, without a trailing slash.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The address that is listened on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Every request so far, in order of arrival.
    pub fn requests(&self) -> Vec<Received> {
        self.shared.state().requests.clone()
    }

    /// How many requests wait for their reply or for the end of it.
    pub fn open_requests(&self) -> usize {
        self.shared.state().open_requests
    }

    /// The most requests that were open at once.
    pub fn peak_open_requests(&self) -> usize {
        self.shared.state().peak_open_requests
    }

    /// How many connections were ever accepted.
    pub fn connections(&self) -> usize {
        self.shared.state().connections
    }

    /// How many connections are open now.
    pub fn open_connections(&self) -> usize {
        self.shared.state().open_connections
    }

    /// How many connections the client closed or reset.
    pub fn disconnects(&self) -> usize {
        self.shared.state().disconnects
    }

    /// How many bytes of replies, heads included, the client's side has taken so far (what its buffers hold counts).
    pub(crate) fn sent_bytes(&self) -> usize {
        self.shared.state().sent_bytes
    }

    /// What was wrong with the script or with the requests. A test that expects such faults takes them with
    /// [`Server::take_failures`].
    pub fn failures(&self) -> Vec<String> {
        self.shared.state().failures.clone()
    }

    /// The failures, which then no longer fail the test.
    pub fn take_failures(&self) -> Vec<String> {
        std::mem::take(&mut self.shared.state().failures)
    }

    /// Waits until `count` requests have arrived in all.
    ///
    /// # Panics
    ///
    /// After 30 seconds, as do the other waits.
    pub async fn wait_for_requests(&self, count: usize) {
        self.wait(&format!("{count} requests"), |state| {
            state.requests.len() >= count
        })
        .await;
    }

    /// Waits until no request is open.
    pub async fn wait_until_idle(&self) {
        self.wait("no open request", |state| state.open_requests == 0)
            .await;
    }

    /// Waits until the client has closed or reset a connection.
    pub async fn wait_for_disconnect(&self) {
        self.wait_for_disconnects(1).await;
    }

    /// Waits until the client has closed or reset `count` connections in all.
    pub async fn wait_for_disconnects(&self, count: usize) {
        self.wait(&format!("{count} disconnects"), |state| {
            state.disconnects >= count
        })
        .await;
    }

    async fn wait(&self, what: &str, done: impl Fn(&State) -> bool) {
        // A thread keeps the time: tokio's clock may be paused, and its timer is not a feature of this crate.
        let (finished, watched) = channel::<()>();
        let shared = Arc::clone(&self.shared);
        let started = Instant::now();
        std::thread::spawn(move || {
            if watched.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
                shared.changed.notify_waiters();
            }
        });
        loop {
            let changed = self.shared.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if done(&self.shared.state()) {
                break;
            }
            if started.elapsed() >= PATIENCE {
                panic!("waited {PATIENCE:?} for {what}; {:?}", self.shared);
            }
            changed.await;
        }
        drop(finished);
    }

    fn run(script: Script) -> Server {
        match Server::try_run(script) {
            Ok(server) => server,
            Err(error) => panic!("the scripted server can't start: {error}"),
        }
    }

    fn try_run(script: Script) -> std::io::Result<Server> {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .build()?;
        let shared = Arc::new(Shared {
            state: Mutex::default(),
            changed: Notify::new(),
            script,
        });
        let (stop, stopped) = oneshot::channel::<()>();
        let accepting = Arc::clone(&shared);
        std::thread::Builder::new()
            .name("scripted-server".to_owned())
            .spawn(move || {
                runtime.block_on(async move {
                    tokio::select! {
                        _ = stopped => {}
                        error = accept(listener, Arc::clone(&accepting)) => accepting.fail(format!("accepting ended: {error}")),
                    }
                });
            })?;
        Ok(Server {
            address,
            shared,
            stop: Some(stop),
        })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stop.take());
        let failures = self.take_failures();
        if !failures.is_empty() && !std::thread::panicking() {
            panic!("the scripted server saw faults: {failures:#?}");
        }
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Server({}, {:?})", self.address, self.shared)
    }
}

enum Script {
    Queue(Mutex<VecDeque<Reply>>),
    Handler(Box<dyn Fn(&Received) -> Reply + Send + Sync>),
}

/// What the server's thread and the test both see.
struct Shared {
    state: Mutex<State>,
    changed: Notify,
    script: Script,
}

#[derive(Default)]
struct State {
    requests: Vec<Received>,
    open_requests: usize,
    peak_open_requests: usize,
    connections: usize,
    open_connections: usize,
    disconnects: usize,
    sent_bytes: usize,
    failures: Vec<String>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state());
        self.changed.notify_waiters();
    }

    fn fail(&self, problem: impl Into<String>) {
        let problem = problem.into();
        self.change(|state| state.failures.push(problem));
    }

    /// Records a request and finds its reply.
    fn reply_to(&self, request: Received) -> Reply {
        self.change(|state| {
            state.requests.push(request.clone());
            state.open_requests += 1;
            state.peak_open_requests = state.peak_open_requests.max(state.open_requests);
        });
        let reply = match &self.script {
            Script::Queue(queue) => lock(queue).pop_front(),
            Script::Handler(handler) => catch_unwind(AssertUnwindSafe(|| handler(&request))).ok(),
        };
        reply.unwrap_or_else(|| {
            self.fail(format!("no reply for {} {}", request.method, request.path));
            Reply::text(599, "the script has no reply for this request")
        })
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state();
        f.debug_struct("State")
            .field("requests", &state.requests.len())
            .field("open_requests", &state.open_requests)
            .field("connections", &state.connections)
            .field("disconnects", &state.disconnects)
            .field("failures", &state.failures)
            .finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn accept(listener: std::net::TcpListener, shared: Arc<Shared>) -> std::io::Error {
    let listener = match TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => return error,
    };
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let mut index = 0;
                shared.change(|state| {
                    index = state.connections;
                    state.connections += 1;
                    state.open_connections += 1;
                });
                let shared = Arc::clone(&shared);
                tokio::spawn(async move {
                    let gone = wire::serve(stream, index, &shared).await;
                    shared.change(|state| {
                        state.open_connections -= 1;
                        state.disconnects += usize::from(gone);
                    });
                });
            }
            Err(error) => return error,
        }
    }
}

#[cfg(test)]
mod tests;
