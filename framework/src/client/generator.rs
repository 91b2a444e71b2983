//! Generation calls: whole, streamed, and many under one scope.

use std::pin::pin;
use std::sync::Arc;

use futures::StreamExt as _;

use super::options::{Bound, CallOptions};
use super::plan;
use crate::attempt::{
    Call, LocalEvents, Plain, Streamed, Ticket, Turnstile, guard_local_stream, open_local_stream,
};
use crate::error::{Error, Kind, Result};
use crate::generate::{GenerateRequest, GenerateStream, Generation};
use crate::handle::Handle;
use crate::provider::{
    GenerateCodec, Head, LocalAnswer, LocalProvider, LocalRequest, Prepared, Route,
};

/// The most items of one batch in flight.
const ITEMS_IN_FLIGHT: usize = 8;

/// Turns messages into text and tool calls.
#[derive(Clone, Debug)]
pub struct Generator {
    handle: Arc<Handle>,
}

impl Generator {
    pub(super) fn new(handle: Arc<Handle>) -> Self {
        Generator { handle }
    }

    /// One answer.
    ///
    /// # Errors
    /// Any kind of the table at [`Kind`].
    pub async fn generate(&self, request: GenerateRequest) -> Result<Generation> {
        self.generate_with(request, CallOptions::default()).await
    }

    /// [`Generator::generate`] with options.
    ///
    /// # Errors
    /// As for [`Generator::generate`].
    pub async fn generate_with(
        &self,
        request: GenerateRequest,
        options: CallOptions,
    ) -> Result<Generation> {
        let call = self.call(&options);
        call.within(pin!(self.one(&call, request, options.raw, None)))
            .await
    }

    /// One answer as a stream of events. Returns when the first item is there; what fails before is retried as for a plain
    /// call. The entry's `timeout_ms` covers only that far; a deadline in `options` covers the stream to its end.
    ///
    /// # Errors
    /// As for [`Generator::generate`].
    pub async fn stream(&self, request: GenerateRequest) -> Result<GenerateStream> {
        self.stream_with(request, CallOptions::default()).await
    }

    /// [`Generator::stream`] with options.
    ///
    /// # Errors
    /// As for [`Generator::generate`].
    pub async fn stream_with(
        &self,
        request: GenerateRequest,
        options: CallOptions,
    ) -> Result<GenerateStream> {
        let call = self.call(&options);
        let own = options.own_bound(&self.handle);
        let request = self.checked(request).map_err(|e| call.name(e))?;
        if let Route::Local(local) = self.handle.provider.route() {
            let events = call.within(pin!(self.local_stream(local, request))).await?;
            let rest = Call::new(
                Arc::clone(&self.handle),
                own.unwrap_or(Bound::NONE),
                options.cancel,
            );
            return Ok(guard_local_stream(events, rest));
        }
        let prepared = self.prepare(&request, true).map_err(|e| call.name(e))?;
        let deliver = Streamed {
            request: &request,
            bound: own,
        };
        call.within(pin!(call.run(&prepared, &deliver, None))).await
    }

    /// Many answers under one scope, in the order of the requests; one that fails costs only itself. At most 8 are in flight,
    /// admitted in order.
    pub async fn generate_batch(&self, requests: Vec<GenerateRequest>) -> Vec<Result<Generation>> {
        self.generate_batch_with(requests, CallOptions::default())
            .await
    }

    /// [`Generator::generate_batch`] with options; the deadline covers the whole batch.
    pub async fn generate_batch_with(
        &self,
        requests: Vec<GenerateRequest>,
        options: CallOptions,
    ) -> Vec<Result<Generation>> {
        let bound = options.bound(&self.handle);
        let stile = Turnstile::new();
        futures::stream::iter(requests.into_iter().enumerate())
            .map(|(number, request)| {
                let call = Call::new(Arc::clone(&self.handle), bound, options.cancel.clone());
                let turn = stile.turn(number);
                let raw = options.raw;
                // Boxed: the buffer would else move a future of many kilobytes from hand to hand.
                Box::pin(async move {
                    let work = pin!(async {
                        let ticket = turn.await;
                        self.one(&call, request, raw, Some(ticket)).await
                    });
                    call.within(work).await.map_err(|e| e.with_item(number))
                })
            })
            .buffered(ITEMS_IN_FLIGHT)
            .collect()
            .await
    }

    async fn one(
        &self,
        call: &Call,
        request: GenerateRequest,
        raw: bool,
        ticket: Option<Ticket>,
    ) -> Result<Generation> {
        let request = self.checked(request)?;
        if let Route::Local(local) = self.handle.provider.route() {
            return match local.run(LocalRequest::Generate(request)).await? {
                LocalAnswer::Generation(generation) => Ok(*generation),
                _ => Err(wrong_answer()),
            };
        }
        let prepared = self.prepare(&request, false)?;
        let codec = self.codec()?;
        let deliver = Plain(|head: &Head, body: bytes::Bytes| {
            let kept = raw.then(|| body.clone());
            let mut generation = codec.decode(head, body, &request)?;
            generation.raw = kept.and_then(|body| serde_json::from_slice(&body).ok());
            Ok(generation)
        });
        call.run(&prepared, &deliver, ticket).await
    }

    async fn local_stream(
        &self,
        local: &dyn LocalProvider,
        request: GenerateRequest,
    ) -> Result<LocalEvents> {
        match local.run(LocalRequest::Stream(request)).await? {
            LocalAnswer::Stream(events) => open_local_stream(events, &self.handle).await,
            _ => Err(wrong_answer()),
        }
    }

    /// The request with the entry's defaults merged in, refused where it can't be sent.
    fn checked(&self, request: GenerateRequest) -> Result<GenerateRequest> {
        if request.messages.is_empty() {
            return Err(Error::new(Kind::InvalidRequest, "there are no messages"));
        }
        if request.max_tokens == Some(0) {
            return Err(Error::new(
                Kind::InvalidRequest,
                "max_tokens is 0; a generation needs a positive output cap",
            ));
        }
        plan::check_media(&self.handle, request.media())?;
        let mut request = request.or(&self.handle.entry.generate, &self.handle.entry.extra_body);
        if request.max_tokens.is_none() && self.handle.lease.policy().tokens_per_minute().is_some()
        {
            request.max_tokens = Some(self.handle.provider.declare().default_output_cap);
        }
        Ok(request)
    }

    fn prepare(&self, request: &GenerateRequest, stream: bool) -> Result<Prepared> {
        let mut prepared = self.codec()?.prepare(request, stream)?;
        if self.handle.lease.policy().tokens_per_minute().is_some() {
            // Whatever an adapter reports, the cap that was asked for is reserved.
            prepared.output_cap = prepared
                .output_cap
                .max(u64::from(request.max_tokens.unwrap_or(0)));
        }
        plan::check_cost(&self.handle, &prepared)?;
        Ok(prepared)
    }

    fn call(&self, options: &CallOptions) -> Call {
        Call::new(
            Arc::clone(&self.handle),
            options.bound(&self.handle),
            options.cancel.clone(),
        )
    }

    fn codec(&self) -> Result<&dyn GenerateCodec> {
        match self.handle.provider.route() {
            Route::Http(http) => http.generate(),
            Route::Engine(engine) => engine.generate(),
            Route::Local(_) => None,
        }
        .ok_or_else(|| Error::new(Kind::Unsupported, "this provider does not generate"))
    }
}

fn wrong_answer() -> Error {
    Error::new(
        Kind::InvalidResponse,
        "the in-process model answered something else than a generation",
    )
}

super::scope_methods!(Generator);
