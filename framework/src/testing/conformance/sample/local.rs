//! The sample on the local route: a model of arithmetic in this process, with its own admission.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use async_trait::async_trait;
use futures::StreamExt as _;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::super::call::{score_of, vector_of};
use super::Fault;
use crate::content::MediaSupport;
use crate::embed::Embeddings;
use crate::error::{Error, Kind, Result};
use crate::generate::{FinishReason, GenerateRequest, Generation, StreamEvent, Usage};
use crate::provider::{
    Declared, Identity, LocalAnswer, LocalProvider, LocalRequest, Provider, Route, Setup, TokenCost,
};
use crate::rerank::{Ranked, Ranking};
use crate::secret::CredentialSource;

#[derive(Debug)]
pub(super) struct Local {
    declared: Declared,
    slots: Arc<Semaphore>,
    queued: AtomicU32,
    max_queue: u32,
    fault: Option<Fault>,
}

impl Local {
    pub(super) fn new(setup: &Setup<'_>) -> Result<Self> {
        let entry = setup.entry;
        entry.refuse_fields_not_in(&["admission"])?;
        let admission = entry.admission.unwrap_or_default();
        let identity = Identity::new(entry, "in-process");
        let source = CredentialSource::anonymous();
        Ok(Local {
            declared: Declared::new(identity, source, TokenCost::Text, MediaSupport::None, 256),
            slots: Arc::new(Semaphore::new(admission.max_concurrency as usize)),
            queued: AtomicU32::new(0),
            max_queue: admission.max_queue,
            fault: Fault::named(&entry.model),
        })
    }

    /// A slot, at once or after those who asked before; a full queue refuses.
    async fn slot(&self) -> Result<OwnedSemaphorePermit> {
        if let Ok(slot) = Arc::clone(&self.slots).try_acquire_owned() {
            return Ok(slot);
        }
        let queued = self.queued.fetch_add(1, Ordering::Relaxed);
        let _leaves = Leaves(&self.queued);
        if queued >= self.max_queue && self.fault != Some(Fault::EndlessQueue) {
            return Err(Error::new(Kind::Overloaded, "the queue is full"));
        }
        let slot = Arc::clone(&self.slots).acquire_owned().await;
        slot.map_err(|_| Error::new(Kind::Server, "the model is gone"))
    }
}

/// Counts one less in the queue when dropped.
struct Leaves<'a>(&'a AtomicU32);

impl Drop for Leaves<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Provider for Local {
    fn declare(&self) -> &Declared {
        &self.declared
    }

    fn route(&self) -> Route<'_> {
        Route::Local(self)
    }
}

#[async_trait]
impl LocalProvider for Local {
    async fn run(&self, request: LocalRequest) -> Result<LocalAnswer> {
        let slot = self.slot().await?;
        // The work takes a while: others come meanwhile.
        for _ in 0..4 {
            tokio::task::yield_now().await;
        }
        match request {
            LocalRequest::Embed(request) => {
                let mut texts: Vec<&str> =
                    request.inputs.iter().filter_map(|i| i.as_text()).collect();
                if self.fault == Some(Fault::SortsInputs) {
                    texts.sort_unstable();
                }
                let flat: Vec<f32> = texts.iter().flat_map(|t| vector_of(t)).collect();
                let dim = flat.len() / texts.len().max(1);
                Ok(LocalAnswer::Embeddings(Embeddings::dense(dim, flat)?))
            }
            LocalRequest::Rerank(request) => {
                let documents = request.documents.iter().enumerate();
                let results = documents.map(|(index, d)| Ranked {
                    index,
                    score: score_of(&d.text()),
                });
                Ok(LocalAnswer::Ranking(Ranking {
                    results: results.collect(),
                    ..Ranking::default()
                }))
            }
            LocalRequest::Generate(request) => {
                let words = self.words(&request);
                Ok(LocalAnswer::Generation(Box::new(Generation {
                    text: words.concat(),
                    finish_reason: Some(FinishReason::Stop),
                    usage: Some(Usage {
                        output_tokens: Some(words.len() as u64),
                        ..Usage::default()
                    }),
                    ..Generation::default()
                })))
            }
            LocalRequest::Stream(request) => {
                let finish = StreamEvent::Finish {
                    reason: FinishReason::Stop,
                    raw: "stop".to_owned(),
                };
                let words = self.words(&request).into_iter().map(StreamEvent::Text);
                let events: Vec<_> = words.chain([finish]).map(Ok).collect();
                let mut slot = Some(slot);
                if self.fault == Some(Fault::KeepsSlot)
                    && let Some(slot) = slot.take()
                {
                    slot.forget();
                }
                let stream = futures::stream::iter(events).map(move |event| {
                    let _ = &slot;
                    event
                });
                Ok(LocalAnswer::Stream(stream.boxed()))
            }
        }
    }
}

impl Local {
    /// The prompt's words, as many as the cap allows.
    fn words(&self, request: &GenerateRequest) -> Vec<String> {
        let cap = match self.fault {
            Some(Fault::IgnoresCap) => usize::MAX,
            _ => request.max_tokens.unwrap_or(256) as usize,
        };
        let parts = request.messages.iter().flat_map(|m| &m.content);
        let text: String = parts.filter_map(|p| p.as_text()).collect();
        let words = text.split_inclusive([' ', '\\', '"']);
        words.take(cap).map(str::to_owned).collect()
    }
}
