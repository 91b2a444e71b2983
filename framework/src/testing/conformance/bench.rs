//! What one check works on: a scripted server, a client on a manual clock, one handle.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant as WallInstant};

use antfly_limiter::{ManualClock, Time};
use serde_json::{Value, json};

use super::call::{Ask, Asker, SAID, Told, Way, said, score_of, vector_of};
use super::log::Log;
use super::subject::Subject;
use super::verdict::{Verdict, fail, short};
use super::wire::{Row, Score, Wire};
use crate::attempt::{AttemptObserver, AttemptRecord};
use crate::client::Client;
use crate::config::{EntryConfig, Env};
use crate::error::Error;
use crate::provider::{Declared, Operation, Provider, Route, Setup};
use crate::registry::Registry;
use crate::secret::Secrets;
use crate::testing::{Gate, Received, Reply, Server};

/// How long anything may take on the wall clock.
const PATIENCE: Duration = Duration::from_secs(30);
/// Alarms nearer than this are waits the call has asked for (backoff, cooldown); those beyond are its bounds.
const HORIZON: Duration = Duration::from_secs(20);

/// Which way requests leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Http,
    Engine,
    Local,
}

/// What all checks of one subject share.
pub(super) struct Context {
    pub(super) subject: Subject,
    /// `None` on the local route.
    pub(super) wire: Option<Arc<dyn Wire>>,
    pub(super) log: Log,
    pub(super) route: Kind,
    /// As declared for some server; its endpoint is not to be looked at.
    pub(super) declared: Declared,
    ticker: Ticker,
}

/// What the server answers to one request.
pub(super) enum Step {
    /// What the wire calls a good answer.
    Good,
    /// This.
    Say(Reply),
    /// Something made of the good answer.
    Make(Make),
}

type Make = Box<dyn Fn(&Received, Reply) -> Reply + Send + Sync>;

impl Step {
    pub(super) fn make(f: impl Fn(&Received, Reply) -> Reply + Send + Sync + 'static) -> Self {
        Step::Make(Box::new(f))
    }
}

impl Context {
    pub(super) fn new(subject: Subject, wire: Option<Arc<dyn Wire>>, log: Log) -> Verdict<Self> {
        // Nothing is opened: any address will do.
        let url = "http://127.0.0.1:9";
        let env = Env::from_pairs((subject.environment)(url));
        let entry = entry(&subject, url, &json!({}), false)?;
        let provider = resolve(&subject, &entry, &env)?;
        let route = match provider.route() {
            Route::Http(_) => Kind::Http,
            Route::Engine(_) => Kind::Engine,
            Route::Local(_) => Kind::Local,
        };
        Ok(Context {
            declared: provider.declare().clone(),
            subject,
            wire,
            log,
            route,
            ticker: Ticker::start(),
        })
    }

    /// The wire; skips the check where there is none.
    pub(super) fn wire(&self) -> Verdict<&Arc<dyn Wire>> {
        match &self.wire {
            Some(wire) => Ok(wire),
            None => super::verdict::skip("nothing leaves the process"),
        }
    }

    /// The ways this adapter can be asked.
    pub(super) fn ways(&self) -> Vec<Way> {
        match self.subject.operation {
            Operation::Embed => vec![Way::Embed],
            Operation::Rerank => vec![Way::Rerank],
            Operation::Generate => {
                let plain = self
                    .wire
                    .as_ref()
                    .is_none_or(|w| w.generation("x").is_some());
                let streams = self
                    .wire
                    .as_ref()
                    .is_none_or(|w| w.stream(&["x"]).is_some());
                [(plain, Way::Generate), (streams, Way::Stream)]
                    .into_iter()
                    .filter(|(has, _)| *has)
                    .map(|(_, way)| way)
                    .collect()
            }
        }
    }

    /// The first way, for checks to which the way makes no difference.
    pub(super) fn way(&self) -> Verdict<Way> {
        match self.ways().first() {
            Some(way) => Ok(*way),
            None => fail(
                "a wire that gives a good answer",
                "neither Wire::generation nor Wire::stream gives one",
            ),
        }
    }

    /// A server that answers by `steps` and then well, and a handle on the entry with `extra` in it.
    pub(super) fn bench(&self, way: Way, extra: Value, steps: Vec<Step>) -> Verdict<Bench<'_>> {
        self.bench_behind(None, way, extra, steps)
    }

    /// The same, with the answers to auxiliary requests (a token endpoint's) held back until `gate` is open.
    pub(super) fn bench_behind(
        &self,
        gate: Option<Gate>,
        way: Way,
        extra: Value,
        steps: Vec<Step>,
    ) -> Verdict<Bench<'_>> {
        let models: Arc<Mutex<Vec<Received>>> = Arc::default();
        let server = match self.wire.clone() {
            None => Server::start([]),
            Some(wire) => {
                let models = Arc::clone(&models);
                let steps = Mutex::new(VecDeque::from(steps));
                Server::with(move |request| {
                    if let Some(reply) = wire.auxiliary(request) {
                        return match &gate {
                            Some(gate) => reply.after(gate),
                            None => reply,
                        };
                    }
                    lock(&models).push(request.clone());
                    let step = lock(&steps).pop_front();
                    match step.unwrap_or(Step::Good) {
                        Step::Good => good(&*wire, way, request),
                        Step::Say(reply) => reply,
                        Step::Make(make) => make(request, good(&*wire, way, request)),
                    }
                })
            }
        };
        let url = server.url();
        let env = Env::from_pairs((self.subject.environment)(&url));
        let entry = entry(&self.subject, &url, &extra, self.route != Kind::Local)?;
        let (time, clock) = Time::manual();
        let mut registry = Registry::new();
        let records = Arc::new(Records::default());
        let built = registry.register(self.subject.plugin).and_then(|()| {
            let mut builder = Client::builder()
                .registry(registry)
                .time(time)
                .env(env)
                .jitter_seed(1)
                .observer(records.clone());
            if let Some(engine) = &self.subject.engine {
                builder = builder.engine(Arc::clone(engine));
            }
            builder.build()
        });
        let client = super::verdict::worked("the client", built)?;
        let asker = super::verdict::worked("the entry", open(&client, &entry))?;
        let bench = Bench {
            cx: self,
            server,
            client,
            clock,
            asker,
            entry,
            records,
            models,
            way,
        };
        bench.note();
        Ok(bench)
    }
}

/// A handle on an entry.
pub(super) fn open(client: &Client, entry: &EntryConfig) -> Result<Asker, Error> {
    match entry.operation {
        Operation::Embed => client.embedder(entry).map(Asker::Embed),
        Operation::Generate => client.generator(entry).map(Asker::Generate),
        Operation::Rerank => client.reranker(entry).map(Asker::Rerank),
    }
}

/// The subject's entry at a server, its fields replaced by those of `extra` (`null` takes one away).
pub(super) fn entry(
    subject: &Subject,
    url: &str,
    extra: &Value,
    outbound: bool,
) -> Verdict<EntryConfig> {
    let made = try_entry(subject, url, extra, outbound);
    super::verdict::worked("the entry parses", made)
}

pub(super) fn try_entry(
    subject: &Subject,
    url: &str,
    extra: &Value,
    outbound: bool,
) -> Result<EntryConfig, Error> {
    let mut value = (subject.entry)(url);
    let mut set = |name: &str, field: Value| {
        if let Value::Object(fields) = &mut value {
            fields.insert(name.to_owned(), field);
        }
    };
    if outbound {
        set("proxy", json!("none"));
        set(
            "retry",
            json!({"max_attempts": 3, "initial_backoff_ms": 1, "max_backoff_ms": 1}),
        );
    }
    for (name, field) in extra.as_object().into_iter().flatten() {
        set(name, field.clone());
    }
    let path = match subject.operation {
        Operation::Embed => "embedders.kit",
        Operation::Generate => "generators.kit",
        Operation::Rerank => "rerankers.kit",
    };
    EntryConfig::from_json(subject.operation, path, value)
}

pub(super) fn try_resolve(
    subject: &Subject,
    entry: &EntryConfig,
    env: &Env,
) -> Result<Arc<dyn Provider>, Error> {
    let secrets = Secrets::new(None, env.clone());
    (subject.plugin.resolve)(&Setup {
        entry,
        env,
        secrets: &secrets,
        engine: subject.engine.as_ref(),
        time: &Time::thread(),
    })
}

fn resolve(subject: &Subject, entry: &EntryConfig, env: &Env) -> Verdict<Arc<dyn Provider>> {
    super::verdict::worked("the plugin resolves", try_resolve(subject, entry, env))
}

/// The good answer to a request; a status that says so where the wire has none.
fn good(wire: &dyn Wire, way: Way, request: &Received) -> Reply {
    let reply = match way {
        Way::Embed => {
            let vectors: Vec<_> = wire.texts(request).iter().map(|t| vector_of(t)).collect();
            wire.embeddings(&rows(&vectors))
        }
        Way::Rerank => {
            let texts = wire.texts(request);
            let scores: Vec<_> = texts
                .iter()
                .enumerate()
                .map(|(index, text)| Score {
                    index,
                    score: score_of(text),
                })
                .collect();
            wire.ranking(&scores)
        }
        Way::Generate => wire.generation(&said()),
        Way::Stream => wire.stream(&SAID).map(|s| s.reply(s.whole())),
    };
    reply.unwrap_or_else(|| Reply::text(599, "the wire has no good answer for this operation"))
}

/// Vectors as rows in their order.
pub(super) fn rows(vectors: &[Vec<f32>]) -> Vec<Row<'_>> {
    vectors
        .iter()
        .enumerate()
        .map(|(index, vector)| Row { index, vector })
        .collect()
}

/// One server, one client, one handle.
pub(super) struct Bench<'a> {
    cx: &'a Context,
    pub(super) server: Server,
    pub(super) client: Client,
    pub(super) clock: ManualClock,
    pub(super) asker: Asker,
    pub(super) entry: EntryConfig,
    records: Arc<Records>,
    models: Arc<Mutex<Vec<Received>>>,
    pub(super) way: Way,
}

impl Bench<'_> {
    /// The requests of the model so far, auxiliary ones left out.
    pub(super) fn requests(&self) -> Vec<Received> {
        lock(&self.models).clone()
    }

    /// The subject's wire.
    pub(super) fn wire(&self) -> Verdict<&Arc<dyn Wire>> {
        self.cx.wire()
    }

    /// The attempts that have ended so far.
    pub(super) fn records(&self) -> Vec<AttemptRecord> {
        lock(&self.records.0).clone()
    }

    /// One call, to its end. Waits it asks for pass at once; an error is kept for the search for secrets.
    pub(super) async fn ask(&self, ask: Ask) -> Verdict<Result<Told, Error>> {
        let asked = self.drive(self.asker.ask(self.way, ask)).await?;
        if let Err(e) = &asked {
            self.keep(e);
        }
        Ok(asked)
    }

    /// Remembers how an error reads.
    pub(super) fn keep(&self, error: &Error) {
        self.cx.log.note(&format!("{error} {error:?} {error:#?}"));
    }

    /// Runs work to its end, moving the clock to alarms that are near.
    pub(super) async fn drive<T>(&self, work: impl Future<Output = T>) -> Verdict<T> {
        self.within(HORIZON, PATIENCE, work).await
    }

    /// Runs work to its end while the clock stands still.
    pub(super) async fn stand_still<T>(&self, work: impl Future<Output = T>) -> Verdict<T> {
        self.within(Duration::ZERO, PATIENCE / 3, work).await
    }

    async fn within<T>(
        &self,
        horizon: Duration,
        patience: Duration,
        work: impl Future<Output = T>,
    ) -> Verdict<T> {
        let mut work = std::pin::pin!(work);
        let started = WallInstant::now();
        std::future::poll_fn(|cx| {
            // Bounded: a fault that re-arms for ever must not hang the test.
            for _ in 0..256 {
                if let Poll::Ready(done) = work.as_mut().poll(cx) {
                    return Poll::Ready(Ok(done));
                }
                let near = self.clock.now().saturating_add(horizon);
                match self.clock.next_alarm() {
                    Some(at) if at <= near => self.clock.set(at),
                    _ => break,
                }
            }
            if started.elapsed() > patience {
                let state = format!("{:?}; {:?}", self.server, self.asker.snapshot());
                let seen = format!("it hung for {patience:?}: {}", short(&state));
                return Poll::Ready(fail("an end", seen));
            }
            self.cx.ticker.watch(cx.waker());
            Poll::Pending
        })
        .await
    }

    /// Polls work that must not end until something is so. The clock stands still.
    pub(super) async fn until<F: Future>(
        &self,
        work: Pin<&mut F>,
        what: &str,
        done: impl Fn(&Self) -> bool,
    ) -> Verdict {
        self.wait(PATIENCE, work, what, done).await
    }

    async fn wait<F: Future>(
        &self,
        patience: Duration,
        mut work: Pin<&mut F>,
        what: &str,
        done: impl Fn(&Self) -> bool,
    ) -> Verdict {
        let started = WallInstant::now();
        std::future::poll_fn(|cx| {
            if work.as_mut().poll(cx).is_ready() {
                return Poll::Ready(fail(format!("waiting, until {what}"), "it ended"));
            }
            if done(self) {
                return Poll::Ready(Ok(()));
            }
            if started.elapsed() > patience {
                let state = short(&format!("{:?}; {:?}", self.server, self.asker.snapshot()));
                return Poll::Ready(fail(what, format!("not so after {patience:?}: {state}")));
            }
            self.cx.ticker.watch(cx.waker());
            Poll::Pending
        })
        .await
    }

    /// Lets everything run until something is so. The clock stands still.
    pub(super) async fn eventually(&self, what: &str, done: impl Fn(&Self) -> bool) -> Verdict {
        self.until(std::pin::pin!(std::future::pending::<()>()), what, done)
            .await
    }

    /// The same for what must follow within seconds.
    pub(super) async fn soon(&self, what: &str, done: impl Fn(&Self) -> bool) -> Verdict {
        let never = std::pin::pin!(std::future::pending::<()>());
        self.wait(PATIENCE / 6, never, what, done).await
    }

    /// Nothing is held and nobody waits.
    pub(super) async fn free(&self, what: &str) -> Verdict {
        let what = format!("{what}: every permit is back and nobody is queued");
        self.eventually(&what, |b| {
            let s = b.asker.snapshot();
            s.active == 0 && s.queued == 0
        })
        .await
    }

    fn note(&self) {
        let shown = format!(
            "{:?} {:#?} {:?} {:?} {:?} {:?}",
            self.client,
            self.asker,
            self.entry,
            self.client.check(&self.entry),
            self.asker.snapshot(),
            self.records()
        );
        self.cx.log.note(&shown);
    }
}

impl Drop for Bench<'_> {
    fn drop(&mut self) {
        self.note();
    }
}

#[derive(Debug, Default)]
struct Records(Mutex<Vec<AttemptRecord>>);

impl AttemptObserver for Records {
    fn attempt(&self, record: &AttemptRecord) {
        lock(&self.0).push(record.clone());
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Wakes whoever waits for something that wakes nobody (a count at the server), every two milliseconds.
struct Ticker {
    waker: Arc<Mutex<Option<Waker>>>,
    stop: Arc<AtomicBool>,
}

impl Ticker {
    fn start() -> Self {
        let waker: Arc<Mutex<Option<Waker>>> = Arc::default();
        let stop = Arc::new(AtomicBool::new(false));
        let (watched, stopped) = (Arc::clone(&waker), Arc::clone(&stop));
        std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(2));
                let waker = lock(&watched).take();
                if let Some(waker) = waker {
                    waker.wake();
                }
            }
        });
        Ticker { waker, stop }
    }

    fn watch(&self, waker: &Waker) {
        *lock(&self.waker) = Some(waker.clone());
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}
