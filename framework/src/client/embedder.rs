//! Embedding calls.

use std::future::Ready;
use std::pin::pin;
use std::sync::Arc;

use futures::StreamExt as _;

use super::options::CallOptions;
use super::plan;
use crate::attempt::{Call, Plain, Ticket, Turnstile};
use crate::embed::{EmbedInput, EmbedPart, EmbedPartResult, EmbedRequest, Embeddings};
use crate::error::{Error, Kind, Result};
use crate::handle::Handle;
use crate::provider::{
    BatchLimits, EmbedCodec, Head, LocalAnswer, LocalProvider, LocalRequest, Prepared, Route,
};

/// The most parts of one call in flight.
const PARTS_IN_FLIGHT: usize = 8;

/// Turns texts (and media, where the model takes them) into vectors.
#[derive(Clone, Debug)]
pub struct Embedder {
    handle: Arc<Handle>,
}

impl Embedder {
    pub(super) fn new(handle: Arc<Handle>) -> Self {
        Embedder { handle }
    }

    /// Embeds all inputs, or fails: `n x dim` vectors in input order.
    ///
    /// # Errors
    /// Any kind of the table at [`Kind`]; [`Error::item`] names the first item of the part that failed.
    pub async fn embed(&self, request: EmbedRequest) -> Result<Embeddings> {
        self.embed_with(request, CallOptions::default()).await
    }

    /// [`Embedder::embed`] with options.
    ///
    /// # Errors
    /// As for [`Embedder::embed`].
    pub async fn embed_with(
        &self,
        request: EmbedRequest,
        options: CallOptions,
    ) -> Result<Embeddings> {
        let call = self.call(&options);
        if let Route::Local(local) = self.handle.provider.route() {
            return self.local(&call, local, request).await;
        }
        let codec = self.codec()?;
        let mut parts = plan::parts(&self.handle, codec, &request.inputs, request.batch_size)
            .map_err(|e| call.name(e))?;
        // Every part is sound before the first is sent.
        if let Some(bad) = parts.iter().position(|p| p.prepared.is_err())
            && let Err(e) = parts.swap_remove(bad).prepared
        {
            return Err(call.name(e));
        }
        if let [_] = parts[..]
            && let Some(part) = parts.pop()
        {
            return self
                .part(codec, &request, &call, part, None::<Ready<Ticket>>)
                .await
                .result;
        }
        let mut all = Embeddings::default();
        let mut results = pin!(self.run(codec, &request, parts, &options));
        while let Some(part) = results.next().await {
            let vectors = part.result?;
            all.append(vectors).map_err(|e| call.name(e))?;
        }
        Ok(all)
    }

    /// Embeds part by part and hands each part's result out, in input order: one bad part costs only its own items.
    ///
    /// # Errors
    /// Only for what concerns the call as a whole (a batch size of 0).
    pub async fn embed_parts(
        &self,
        request: EmbedRequest,
        options: CallOptions,
    ) -> Result<Vec<EmbedPartResult>> {
        if let Route::Local(local) = self.handle.provider.route() {
            let items = 0..request.inputs.len();
            let result = self.local(&self.call(&options), local, request).await;
            return Ok(vec![EmbedPartResult { items, result }]);
        }
        let codec = self.codec()?;
        let parts = plan::parts(&self.handle, codec, &request.inputs, request.batch_size)
            .map_err(|e| self.call(&options).name(e))?;
        Ok(self.run(codec, &request, parts, &options).collect().await)
    }

    fn run<'a>(
        &'a self,
        codec: &'a dyn EmbedCodec,
        request: &'a EmbedRequest,
        parts: Vec<plan::Part>,
        options: &'a CallOptions,
    ) -> impl futures::Stream<Item = EmbedPartResult> + 'a {
        // One deadline for the whole call, fixed now.
        let bound = options.bound(&self.handle);
        let stile = Turnstile::new();
        futures::stream::iter(parts.into_iter().enumerate())
            .map(move |(number, part)| {
                let call = Call::new(Arc::clone(&self.handle), bound, options.cancel.clone());
                let turn = stile.turn(number);
                // Boxed: the buffer would else move a future of many kilobytes from hand to hand.
                Box::pin(async move { self.part(codec, request, &call, part, Some(turn)).await })
            })
            .buffered(PARTS_IN_FLIGHT)
    }

    /// One part, when it is its turn.
    async fn part(
        &self,
        codec: &dyn EmbedCodec,
        request: &EmbedRequest,
        call: &Call,
        part: plan::Part,
        turn: Option<impl Future<Output = Ticket>>,
    ) -> EmbedPartResult {
        let items = part.items;
        let first = items.start;
        let inputs = &request.inputs[items.clone()];
        let prepared = part.prepared;
        let work = pin!(async {
            let ticket = match turn {
                Some(turn) => Some(turn.await),
                None => None,
            };
            self.send(call, codec, inputs, &prepared?, ticket)
                .await
                .map_err(|e| plan::locate(e, first))
        });
        // A deadline or a cancellation names no item of its own: the part's first stands for it.
        let result = call.within(work).await.map_err(|e| match e.item() {
            Some(_) => e,
            None => e.with_item(first),
        });
        EmbedPartResult { items, result }
    }

    async fn send(
        &self,
        call: &Call,
        codec: &dyn EmbedCodec,
        inputs: &[EmbedInput],
        prepared: &Prepared,
        ticket: Option<Ticket>,
    ) -> Result<Embeddings> {
        let options = &self.handle.entry.embed;
        let part = EmbedPart { inputs, options };
        let deliver = Plain(|head: &Head, body| {
            let vectors = codec.decode(head, body, &part)?;
            vectors.check(inputs.len(), options.dimensions)?;
            Ok(vectors)
        });
        call.run(prepared, &deliver, ticket).await
    }

    async fn local(
        &self,
        call: &Call,
        local: &dyn LocalProvider,
        request: EmbedRequest,
    ) -> Result<Embeddings> {
        let inputs = request.inputs.len();
        for (item, input) in request.inputs.iter().enumerate() {
            plan::check_input(&self.handle, item, input).map_err(|e| call.name(e))?;
        }
        call.within(pin!(async {
            match local.run(LocalRequest::Embed(request)).await? {
                LocalAnswer::Embeddings(vectors) => {
                    vectors.check(inputs, self.handle.entry.embed.dimensions)?;
                    Ok(vectors)
                }
                _ => Err(Error::new(
                    Kind::InvalidResponse,
                    "the in-process model answered something else than vectors",
                )),
            }
        }))
        .await
    }

    fn call(&self, options: &CallOptions) -> Call {
        Call::new(
            Arc::clone(&self.handle),
            options.bound(&self.handle),
            options.cancel.clone(),
        )
    }

    fn codec(&self) -> Result<&dyn EmbedCodec> {
        match self.handle.provider.route() {
            Route::Http(http) => http.embed(),
            Route::Engine(engine) => engine.embed(),
            Route::Local(_) => None,
        }
        .ok_or_else(|| Error::new(Kind::Unsupported, "this provider does not embed"))
    }

    /// What is wrong with one input, whatever call it comes in: empty, media that can't go, too costly alone.
    pub fn item_error(&self, input: &EmbedInput) -> Option<Error> {
        if let Err(e) = plan::check_input(&self.handle, 0, input) {
            return Some(e);
        }
        let codec = self.codec().ok()?;
        // Only a text that could be too costly is prepared for the answer.
        let budget = self.policy().tokens_per_minute()?;
        if (input.byte_len() as u64)
            .saturating_mul(6)
            .saturating_add(4096)
            <= u64::from(budget)
        {
            return None;
        }
        let part = EmbedPart {
            inputs: std::slice::from_ref(input),
            options: &self.handle.entry.embed,
        };
        codec
            .prepare(&part)
            .and_then(|prepared| plan::check_cost(&self.handle, &prepared))
            .err()
    }

    /// How many inputs one attempt carries at most; on the in-process route, one call takes any number.
    pub fn batch_limits(&self) -> BatchLimits {
        let limits = self.codec().map_or(
            BatchLimits {
                max_items: 32,
                max_bytes: usize::MAX,
            },
            EmbedCodec::limits,
        );
        match self.handle.entry.embed.batch_size {
            Some(fixed) => BatchLimits {
                max_items: fixed as usize,
                ..limits
            },
            None => limits,
        }
    }
}

super::scope_methods!(Embedder);
