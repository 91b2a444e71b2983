//! A request for a model: queued, run on a thread of the model's, answered.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

use antfly_framework::generate::{Accumulator, GenerateRequest, StreamEvent};
use antfly_framework::provider::{LocalAnswer, LocalProvider, LocalRequest};
use antfly_framework::{Error, Kind, Result};
use async_trait::async_trait;
use futures::StreamExt as _;
use futures::stream::BoxStream;
use tokio::sync::mpsc;

use super::admission::{CancelFlag, CancelOnDrop, Place, broke, guarded};
use super::embed::EmbedSettings;
use super::generate;
use super::models::Model;
use super::rerank::RerankSettings;

/// One entry's way to its model.
#[derive(Debug)]
pub(super) struct Local {
    model: Arc<Model>,
    settings: Settings,
}

/// What the entry says about its runs.
#[derive(Clone, Debug)]
pub(super) enum Settings {
    Embed(EmbedSettings),
    Rerank(RerankSettings),
    Generate,
}

impl Local {
    pub(super) fn new(model: Arc<Model>, settings: Settings) -> Self {
        Local { model, settings }
    }

    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Model, &CancelFlag) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let model = Arc::clone(&self.model);
        self.model
            .queue()
            .run(move |cancel| work(&model, cancel))
            .await
    }
}

#[async_trait]
impl LocalProvider for Local {
    fn model_path(&self) -> Option<&Path> {
        Some(self.model.path())
    }

    async fn run(&self, request: LocalRequest) -> Result<LocalAnswer> {
        match (request, &self.settings) {
            (LocalRequest::Embed(request), Settings::Embed(settings)) => {
                let settings = settings.clone();
                self.run(move |model, cancel| model.encoder()?.embed(&request, &settings, cancel))
                    .await
                    .map(LocalAnswer::Embeddings)
            }
            (LocalRequest::Rerank(request), Settings::Rerank(settings)) => {
                let settings = settings.clone();
                self.run(move |model, cancel| model.encoder()?.rerank(&request, &settings, cancel))
                    .await
                    .map(LocalAnswer::Ranking)
            }
            (LocalRequest::Generate(request), Settings::Generate) => {
                let request = generation(request)?;
                self.run(move |model, cancel| {
                    let mut all = Accumulator::default();
                    let mut keep = |event| all.push(&event);
                    model.generator()?.generate(&request, cancel, &mut keep)?;
                    Ok(LocalAnswer::Generation(Box::new(all.finish())))
                })
                .await
            }
            (LocalRequest::Stream(request), Settings::Generate) => {
                let events = self.stream(generation(request)?).await?;
                Ok(LocalAnswer::Stream(events))
            }
            _ => Err(Error::new(
                Kind::Unsupported,
                "this entry is for another operation",
            )),
        }
    }
}

/// The request with a cap on its output, refused where no model could follow it.
fn generation(mut request: GenerateRequest) -> Result<GenerateRequest> {
    generate::check_request(&request)?;
    request
        .max_tokens
        .get_or_insert(generate::DEFAULT_OUTPUT_CAP);
    Ok(request)
}

type Events = mpsc::UnboundedReceiver<Result<StreamEvent>>;

/// A stream that is under way. Dropped, it gives up its place or stops its run.
struct Running {
    /// What was read while the first item was waited for.
    begun: VecDeque<StreamEvent>,
    events: Events,
    /// Whether the end was told: the finish, or an error.
    ended: bool,
    _place: Place,
    _going: CancelOnDrop,
    /// Keeps the queue, and with it the run's slot, accounted for.
    _model: Arc<Model>,
}

impl Local {
    /// Starts a generation and waits for its first item. The events wait in memory, as many as the output cap allows: a consumer
    /// that is slow holds nobody else up.
    async fn stream(
        &self,
        request: GenerateRequest,
    ) -> Result<BoxStream<'static, Result<StreamEvent>>> {
        let cancel = CancelFlag::default();
        let going = CancelOnDrop(cancel.clone());
        let (send, events) = mpsc::unbounded_channel();
        let model = Arc::clone(&self.model);
        let place = self.model.queue().enter(Box::new(move || {
            let mut emit = |event| {
                if send.send(Ok(event)).is_err() {
                    cancel.cancel();
                }
            };
            let result = guarded(|| {
                cancel.check()?;
                model.generator()?.generate(&request, &cancel, &mut emit)
            });
            // The end is told once the slot is free.
            Box::new(move || {
                if let Err(e) = result {
                    drop(send.send(Err(e)));
                }
            })
        }))?;
        let mut running = Running {
            begun: VecDeque::new(),
            events,
            ended: false,
            _place: place,
            _going: going,
            _model: Arc::clone(&self.model),
        };
        loop {
            match running.events.recv().await {
                Some(Ok(event)) => {
                    let first = event.is_item();
                    running.ended |= matches!(event, StreamEvent::Finish { .. });
                    running.begun.push_back(event);
                    if first {
                        break;
                    }
                }
                Some(Err(e)) => return Err(e),
                None => return Err(broke()),
            }
        }
        Ok(futures::stream::unfold(running, next).boxed())
    }
}

async fn next(mut running: Running) -> Option<(Result<StreamEvent>, Running)> {
    if let Some(event) = running.begun.pop_front() {
        return Some((Ok(event), running));
    }
    let event = match running.events.recv().await {
        Some(event) => event,
        None if running.ended => return None,
        // The sender went without a word.
        None => Err(broke()),
    };
    running.ended |= matches!(event, Err(_) | Ok(StreamEvent::Finish { .. }));
    Some((event, running))
}
