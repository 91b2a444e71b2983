//! A fake SDK whose credentials expire and refresh: it speaks no HTTP, so that what is tested is the loop alone.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use antfly_framework::content::MediaSupport;
use antfly_framework::embed::EmbedPart;
use antfly_framework::limiter::ManualClock;
use antfly_framework::provider::*;
use antfly_framework::secret::CredentialSource;
use antfly_framework::testing::Gate;
use antfly_framework::{
    Client, Embeddings, EntryConfig, Env, Error, GenerateRequest, Generation, Instant, Kind,
    Registry, Result, StreamEvent, Time,
};
use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt as _;

/// What the fake SDK does with the next request.
#[derive(Debug)]
pub(crate) enum Answer {
    Vectors(usize),
    Fail(Kind, Option<Duration>),
    Expired,
    Status(u16),
    Stream(Vec<Result<StreamEvent>>),
    /// No answer ever begins.
    Never,
    /// One begins and does not end.
    HeadOnly,
}

/// The world of one test.
#[derive(Debug, Default)]
pub(crate) struct World {
    pub(crate) answers: Mutex<VecDeque<Answer>>,
    /// What was done, in order: `load`, `load!` (forced), `load dropped` (before its end), `send N`.
    pub(crate) log: Mutex<Vec<String>>,
    pub(crate) time: Mutex<Option<Time>>,
    /// How long a loaded credential is good.
    pub(crate) good_for: Mutex<Option<Duration>>,
    /// A load waits here, if there is a gate.
    pub(crate) gate: Mutex<Option<Gate>>,
    pub(crate) hidden: Mutex<bool>,
    /// A load panics at its end.
    pub(crate) panics: Mutex<bool>,
    /// A load is never ready in one poll.
    pub(crate) lazy: Mutex<bool>,
}

impl World {
    pub(crate) fn log(&self) -> Vec<String> {
        self.log.lock().unwrap().clone()
    }

    fn note(&self, what: impl Into<String>) {
        self.log.lock().unwrap().push(what.into());
    }

    pub(crate) fn answer(&self, answer: Answer) {
        self.answers.lock().unwrap().push_back(answer);
    }
}

static WORLDS: Mutex<Vec<(String, Arc<World>)>> = Mutex::new(Vec::new());

pub(crate) const PLUGIN: Plugin = Plugin {
    name: "fake-sdk",
    operations: &[Operation::Embed, Operation::Generate],
    env_prefix: None,
    resolve: |setup| {
        let entry = setup.entry;
        let world = WORLDS
            .lock()
            .unwrap()
            .iter()
            .find(|(name, _)| *name == entry.model)
            .map(|(_, w)| Arc::clone(w))
            .expect("the test made its world");
        Ok(Arc::new(Fake {
            world,
            declared: Declared::new(
                Identity {
                    provider: entry.provider.clone(),
                    endpoint: "fake".into(),
                    operation: entry.operation,
                    model: entry.model.clone(),
                    extra: vec![],
                },
                CredentialSource::custom("fake-chain"),
                TokenCost::Text,
                MediaSupport::None,
                1024,
            ),
        }))
    },
};

#[derive(Debug)]
struct Fake {
    world: Arc<World>,
    declared: Declared,
}

impl Provider for Fake {
    fn declare(&self) -> &Declared {
        &self.declared
    }
    fn route(&self) -> Route<'_> {
        Route::Engine(self)
    }
}

#[async_trait]
impl CredentialProvider for Fake {
    async fn credential(&self, freshness: Freshness) -> Result<Credential> {
        self.world.note(match freshness {
            Freshness::Cached => "load",
            Freshness::Forced => "load!",
        });
        let mut under_way = UnderWay(Some(Arc::clone(&self.world)));
        let lazy = *self.world.lazy.lock().unwrap();
        if lazy {
            tokio::task::yield_now().await;
        }
        let gate = self.world.gate.lock().unwrap().clone();
        if let Some(gate) = gate {
            gate.passed().await;
        }
        let panics = *self.world.panics.lock().unwrap();
        assert!(!panics, "a source that breaks off");
        let now = self
            .world
            .time
            .lock()
            .unwrap()
            .as_ref()
            .expect("a clock")
            .now();
        let validity = match (
            *self.world.good_for.lock().unwrap(),
            *self.world.hidden.lock().unwrap(),
        ) {
            (_, true) => Validity::Hidden,
            (Some(time), _) => Validity::Until(now.saturating_add(time)),
            (None, _) => Validity::Until(Instant::MAX),
        };
        under_way.0 = None;
        Ok(Credential::typed(Arc::new("fake"), validity))
    }
}

/// A load that has not come to its end.
struct UnderWay(Option<Arc<World>>);

impl Drop for UnderWay {
    fn drop(&mut self) {
        if let Some(world) = self.0.take() {
            world.note("load dropped");
        }
    }
}

impl Codec for Fake {
    fn embed(&self) -> Option<&dyn EmbedCodec> {
        Some(self)
    }
    fn generate(&self) -> Option<&dyn GenerateCodec> {
        Some(self)
    }
    fn classify(&self, head: &Head, _: &[u8]) -> Error {
        let kind = if head.status == 429 {
            Kind::RateLimited
        } else {
            Kind::Server
        };
        Error::new(kind, "told")
    }
}

fn body(text: String) -> Result<Prepared> {
    Prepared::json(url::Url::parse("http://fake/").unwrap(), &text)
}

impl EmbedCodec for Fake {
    fn limits(&self) -> BatchLimits {
        BatchLimits {
            max_items: 4,
            max_bytes: 1 << 20,
        }
    }
    fn prepare(&self, part: &EmbedPart<'_>) -> Result<Prepared> {
        body("x".repeat(part.inputs.len()))
    }
    fn decode(&self, _: &Head, body: Bytes, part: &EmbedPart<'_>) -> Result<Embeddings> {
        let count = body[0] as usize;
        let count = if count == 0 { part.inputs.len() } else { count };
        Embeddings::dense(2, vec![1.0; 2 * count])
    }
}

impl GenerateCodec for Fake {
    fn prepare(&self, _: &GenerateRequest, _: bool) -> Result<Prepared> {
        body("generate".into())
    }
    fn decode(&self, _: &Head, _: Bytes, _: &GenerateRequest) -> Result<Generation> {
        Ok(Generation {
            text: "hi".into(),
            ..Generation::default()
        })
    }
    fn stream_decoder(&self, _: &Head, _: &GenerateRequest) -> Box<dyn StreamDecoder> {
        unreachable!("an engine decodes its own stream")
    }
}

#[async_trait]
impl EngineProvider for Fake {
    async fn send(&self, _: &Prepared, credential: &Credential, attempt: Attempt) -> Result<Reply> {
        assert_eq!(credential.downcast::<&str>(), Some(&"fake"));
        self.world.note(format!("send {}", attempt.number()));
        let head = |status| Head {
            status,
            headers: http::HeaderMap::new(),
        };
        let answer = self.world.answers.lock().unwrap().pop_front();
        match answer {
            None => Ok(Reply::Bytes(head(200), Bytes::from_static(&[0]))),
            Some(Answer::Vectors(n)) => Ok(Reply::Bytes(head(200), Bytes::from(vec![n as u8]))),
            Some(Answer::Status(status)) => {
                Ok(Reply::Bytes(head(status), Bytes::from_static(&[0])))
            }
            Some(Answer::Fail(kind, wait)) => {
                let e = Error::new(kind, "failed");
                Err(match wait {
                    Some(wait) => e.with_retry_after(wait),
                    None => e,
                })
            }
            Some(Answer::Expired) => Err(Error::new(Kind::Auth, "ExpiredToken")
                .with_status(403)
                .with_credential_expired()),
            Some(Answer::Never) => futures::future::pending().await,
            Some(Answer::HeadOnly) => {
                attempt.heard(&head(200));
                futures::future::pending().await
            }
            Some(Answer::Stream(events)) => {
                // The attempt rides on the stream, as the contract asks.
                let stream = futures::stream::iter(events).map(move |e| {
                    let _ = &attempt;
                    e
                });
                Ok(Reply::Events(head(200), stream.boxed()))
            }
        }
    }
}

/// A client on a manual clock whose one provider is the fake, and the entry for it.
pub(crate) fn fake(
    name: &str,
    operation: Operation,
    more: serde_json::Value,
) -> (Client, EntryConfig, Arc<World>, ManualClock) {
    let (time, clock) = Time::manual();
    let world = Arc::new(World::default());
    *world.time.lock().unwrap() = Some(time.clone());
    WORLDS
        .lock()
        .unwrap()
        .push((name.to_owned(), Arc::clone(&world)));
    let mut registry = Registry::new();
    registry.register(PLUGIN).unwrap();
    let client = Client::builder()
        .registry(registry)
        .time(time)
        .env(Env::empty())
        .jitter_seed(1)
        .build()
        .unwrap();
    let mut json = serde_json::json!({"provider": "fake-sdk", "model": name});
    json.as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    let entry = EntryConfig::from_json(operation, "entries.x", json).unwrap();
    (client, entry, world, clock)
}

/// Runs `work` and moves the clock from alarm to alarm until it is done. Nothing here touches a socket, so when the work is
/// pending and an alarm is armed, only time can help.
pub(crate) async fn drive<T>(clock: &ManualClock, work: impl Future<Output = T>) -> T {
    let mut work = std::pin::pin!(work);
    loop {
        if let std::task::Poll::Ready(done) = futures::poll!(work.as_mut()) {
            return done;
        }
        tokio::task::yield_now().await;
        if let std::task::Poll::Ready(done) = futures::poll!(work.as_mut()) {
            return done;
        }
        let next = clock
            .next_alarm()
            .expect("the work waits for something that is not time");
        clock.set(next);
    }
}
