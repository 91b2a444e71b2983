//! The in-process route: its own admission, no credential, no outbound limit.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use antfly_framework::generate::StreamEvent;
use antfly_framework::provider::{
    InferenceEngine, LocalAnswer, LocalProvider, LocalRequest, Operation,
};
use antfly_framework::testing::ManualClock;
use antfly_framework::{
    CallOptions, Client, EntryConfig, Env, Error, FinishReason, GenerateRequest, GenerateStream,
    Kind, Ranked, Ranking, RerankRequest, Result, Time,
};
use async_trait::async_trait;
use futures::StreamExt as _;
use serde_json::{Value, json};
use tokio::sync::{Semaphore, mpsc};

/// Ranks by length, one at a time; a second waiting request is refused.
#[derive(Debug)]
struct Lengths;

#[derive(Debug)]
struct Model {
    slots: Semaphore,
    queue: Semaphore,
}

impl InferenceEngine for Lengths {
    fn knows(&self, operation: Operation, model: &str) -> bool {
        operation == Operation::Rerank && model == "lengths"
    }
    fn open(&self, _: &EntryConfig) -> Result<Arc<dyn LocalProvider>> {
        Ok(Arc::new(Model {
            slots: Semaphore::new(1),
            queue: Semaphore::new(1),
        }))
    }
}

#[async_trait]
impl LocalProvider for Model {
    async fn run(&self, request: LocalRequest) -> Result<LocalAnswer> {
        let LocalRequest::Rerank(request) = request else {
            return Err(Error::new(Kind::Unsupported, "ranks only"));
        };
        let full = |_| Error::new(Kind::Overloaded, "the queue is full");
        let _place = self.queue.try_acquire().map_err(full)?;
        let _slot = self
            .slots
            .acquire()
            .await
            .map_err(|_| Error::new(Kind::Overloaded, "closed"))?;
        let score = |index: usize| Ranked {
            index,
            score: request.documents[index].text().len() as f64,
        };
        Ok(LocalAnswer::Ranking(Ranking {
            results: (0..request.documents.len()).map(score).collect(),
            ..Ranking::default()
        }))
    }
}

fn client(env: Env) -> Client {
    Client::builder()
        .registry(antfly_providers::registry().unwrap())
        .time(Time::manual().0)
        .env(env)
        .engine(Arc::new(Lengths))
        .build()
        .unwrap()
}

fn entry(more: Value) -> EntryConfig {
    let mut json = json!({"provider": "antfly", "model": "lengths"});
    json.as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    EntryConfig::from_json(Operation::Rerank, "rerankers.r", json).unwrap()
}

#[tokio::test]
async fn an_engine_that_knows_the_model_serves_it_in_process() {
    let reranker = client(Env::empty()).reranker(&entry(json!({}))).unwrap();
    let ranking = reranker
        .rerank(RerankRequest::new("q", ["a", "ccc", "bb"]))
        .await
        .unwrap();
    let order: Vec<_> = ranking.results.iter().map(|r| r.index).collect();
    assert_eq!(order, [1, 2, 0]);
    assert_eq!(
        reranker.scope_snapshot().counters.admitted,
        0,
        "nothing left the process"
    );
}

#[tokio::test]
async fn the_in_process_route_refuses_limits_and_resolves_no_credential() {
    // A reference that is found nowhere would be an error, were it looked at.
    let with_key = entry(json!({"api_key": "${secret:nowhere}"}));
    client(Env::empty()).reranker(&with_key).unwrap();
    let limited = entry(json!({"rate_limit": {"max_concurrency": 1}}));
    let e = client(Env::empty()).reranker(&limited).unwrap_err();
    assert_eq!(e.kind(), Kind::Config);
    assert!(e.message().starts_with("rerankers.r.rate_limit"), "{e}");
    client(Env::empty())
        .reranker(&entry(json!({"rate_limit": {}})))
        .unwrap();
}

#[tokio::test]
async fn a_url_makes_it_remote_whatever_the_engine_knows() {
    let env = Env::from_pairs([("ANTFLY_INFERENCE_URL", "http://127.0.0.1:9")]);
    for (client, entry) in [
        (client(env), entry(json!({}))),
        (
            client(Env::empty()),
            entry(json!({"url": "http://127.0.0.1:9"})),
        ),
    ] {
        let checked = client.check(&entry).unwrap();
        let endpoint = checked
            .scope
            .iter()
            .find(|(n, _)| *n == "endpoint")
            .unwrap();
        assert_eq!(endpoint.1, "http://127.0.0.1:9/ai/v1");
    }
}

/// Says what it is sent, when it is sent.
#[derive(Debug)]
struct Scripted(Mutex<Option<mpsc::UnboundedReceiver<Result<StreamEvent>>>>);

type Says = mpsc::UnboundedSender<Result<StreamEvent>>;

impl InferenceEngine for Scripted {
    fn knows(&self, operation: Operation, _: &str) -> bool {
        operation == Operation::Generate
    }
    fn open(&self, _: &EntryConfig) -> Result<Arc<dyn LocalProvider>> {
        let events = self.0.lock().unwrap().take();
        Ok(Arc::new(Scripted(Mutex::new(events))))
    }
}

#[async_trait]
impl LocalProvider for Scripted {
    async fn run(&self, request: LocalRequest) -> Result<LocalAnswer> {
        assert!(matches!(request, LocalRequest::Stream(_)));
        let events = self.0.lock().unwrap().take().unwrap();
        // Not one event has been waited for.
        let events = futures::stream::unfold(events, |mut events| async move {
            let event = events.recv().await?;
            Some((event, events))
        });
        Ok(LocalAnswer::Stream(events.boxed()))
    }
}

fn text(text: &str) -> Result<StreamEvent> {
    Ok(StreamEvent::Text(text.to_owned()))
}

/// A stream on a manual clock, and what makes its model speak.
fn opens(
    more: Value,
    options: CallOptions,
) -> (
    impl Future<Output = Result<GenerateStream>>,
    Says,
    ManualClock,
) {
    let (says, events) = mpsc::unbounded_channel();
    let (time, clock) = Time::manual();
    let client = Client::builder()
        .registry(antfly_providers::registry().unwrap())
        .time(time)
        .env(Env::empty())
        .engine(Arc::new(Scripted(Mutex::new(Some(events)))))
        .build()
        .unwrap();
    let mut json = json!({"provider": "antfly", "model": "m"});
    json.as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    let entry = EntryConfig::from_json(Operation::Generate, "generators.g", json).unwrap();
    let generator = client.generator(&entry).unwrap();
    let open = async move {
        generator
            .stream_with(GenerateRequest::prompt("hi"), options)
            .await
    };
    (open, says, clock)
}

const BOUNDS: [(&str, u64); 2] = [("timeout_ms", 600), ("stream_idle_timeout_ms", 1000)];

fn bounds() -> Value {
    Value::Object(
        BOUNDS
            .iter()
            .map(|(k, v)| ((*k).to_owned(), json!(v)))
            .collect(),
    )
}

#[tokio::test]
async fn d01_a_steady_local_stream_outlives_the_entrys_timeout() {
    let (open, says, clock) = opens(bounds(), CallOptions::default());
    says.send(text("first")).unwrap();
    let mut stream = open.await.unwrap();
    assert_eq!(
        stream.next().await.unwrap().unwrap(),
        text("first").unwrap()
    );
    for _ in 0..10 {
        let mut next = Box::pin(stream.next());
        assert!(futures::poll!(next.as_mut()).is_pending());
        clock.advance(Duration::from_millis(900));
        assert!(futures::poll!(next.as_mut()).is_pending());
        says.send(text("t")).unwrap();
        assert_eq!(next.await.unwrap().unwrap(), text("t").unwrap());
    }
    let finish = StreamEvent::Finish {
        reason: FinishReason::Stop,
        raw: "stop".to_owned(),
    };
    says.send(Ok(finish)).unwrap();
    drop(says);
    assert!(matches!(
        stream.next().await.unwrap().unwrap(),
        StreamEvent::Finish { .. }
    ));
    assert!(stream.next().await.is_none());
}

#[tokio::test]
async fn d12_a_local_stream_gone_silent_ends_by_its_idle_timeout() {
    let (open, says, clock) = opens(bounds(), CallOptions::default());
    says.send(text("first")).unwrap();
    let mut stream = open.await.unwrap();
    stream.next().await.unwrap().unwrap();
    // A consumer that takes its time is nobody's silence.
    clock.advance(Duration::from_secs(60));
    let mut next = Box::pin(stream.next());
    assert!(futures::poll!(next.as_mut()).is_pending());
    clock.advance(Duration::from_millis(999));
    assert!(futures::poll!(next.as_mut()).is_pending());
    clock.advance(Duration::from_millis(1));
    let e = next.await.unwrap().unwrap_err();
    assert_eq!(e.kind(), Kind::StreamInterrupted);
    assert!(e.message().contains("stream_idle_timeout_ms"), "{e}");
    assert!(!e.is_retryable());
    assert!(says.is_closed(), "the model is told that nobody listens");
    assert!(stream.next().await.is_none());
}

#[tokio::test]
async fn d12_a_local_model_that_shows_it_works_is_not_silent() {
    let (open, says, clock) = opens(bounds(), CallOptions::default());
    let works = || {
        Ok(StreamEvent::Meta {
            id: None,
            model: None,
        })
    };
    says.send(works()).unwrap();
    says.send(text("first")).unwrap();
    let mut stream = open.await.unwrap();
    let first = stream.next().await.unwrap().unwrap();
    assert_eq!(first, text("first").unwrap(), "nobody is told of the rest");
    let mut next = Box::pin(stream.next());
    for _ in 0..5 {
        assert!(futures::poll!(next.as_mut()).is_pending());
        clock.advance(Duration::from_millis(900));
        says.send(works()).unwrap();
    }
    assert!(futures::poll!(next.as_mut()).is_pending());
    says.send(text("call")).unwrap();
    assert_eq!(next.await.unwrap().unwrap(), text("call").unwrap());
}

#[tokio::test]
async fn the_entrys_timeout_covers_a_local_stream_up_to_its_first_item() {
    // Longer than the idle timeout: a model that reads a long prompt is not silent.
    let more = json!({"timeout_ms": 5000, "stream_idle_timeout_ms": 1000});
    let (open, says, clock) = opens(more, CallOptions::default());
    let mut open = Box::pin(open);
    assert!(futures::poll!(open.as_mut()).is_pending());
    // Counts and ids are no item.
    says.send(Ok(StreamEvent::Usage(Default::default())))
        .unwrap();
    assert!(futures::poll!(open.as_mut()).is_pending());
    clock.advance(Duration::from_millis(4999));
    assert!(futures::poll!(open.as_mut()).is_pending());
    clock.advance(Duration::from_millis(1));
    assert_eq!(open.await.unwrap_err().kind(), Kind::DeadlineExceeded);
    assert!(says.is_closed());
}

#[tokio::test]
async fn a_callers_own_deadline_covers_a_local_stream_to_its_end() {
    let options = CallOptions::default().with_timeout(Duration::from_secs(3));
    let (open, says, clock) = opens(json!({}), options);
    says.send(text("first")).unwrap();
    let mut stream = open.await.unwrap();
    stream.next().await.unwrap().unwrap();
    let mut next = Box::pin(stream.next());
    assert!(futures::poll!(next.as_mut()).is_pending());
    clock.advance(Duration::from_secs(3));
    let e = next.await.unwrap().unwrap_err();
    assert_eq!(e.kind(), Kind::DeadlineExceeded);
    assert!(!e.is_retryable(), "some of the answer was handed out");
    assert!(says.is_closed());
}

#[tokio::test]
async fn a_local_stream_that_fails_before_its_first_item_fails_the_call_and_after_it_the_stream() {
    let broken = || Err(Error::new(Kind::Overloaded, "too much"));
    let (open, says, _clock) = opens(json!({}), CallOptions::default());
    says.send(Ok(StreamEvent::Usage(Default::default())))
        .unwrap();
    says.send(broken()).unwrap();
    let e = open.await.unwrap_err();
    assert_eq!((e.kind(), e.is_retryable()), (Kind::Overloaded, true));

    let (open, says, _clock) = opens(json!({}), CallOptions::default());
    says.send(text("first")).unwrap();
    says.send(broken()).unwrap();
    let mut stream = open.await.unwrap();
    stream.next().await.unwrap().unwrap();
    let e = stream.next().await.unwrap().unwrap_err();
    assert_eq!((e.kind(), e.is_retryable()), (Kind::Overloaded, false));
}
