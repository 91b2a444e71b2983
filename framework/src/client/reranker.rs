//! Reranking calls.

use std::pin::pin;
use std::sync::Arc;

use super::options::CallOptions;
use super::plan;
use crate::attempt::{Call, Plain};
use crate::error::{Error, Kind, Result};
use crate::handle::Handle;
use crate::provider::{Head, LocalAnswer, LocalRequest, RerankCodec, Route};
use crate::rerank::{Document, Ranking, RerankRequest};

/// Scores documents against a query.
#[derive(Clone, Debug)]
pub struct Reranker {
    handle: Arc<Handle>,
}

impl Reranker {
    pub(super) fn new(handle: Arc<Handle>) -> Self {
        Reranker { handle }
    }

    /// Scores, best first: every document's, or the best `top_n`.
    ///
    /// # Errors
    /// Any kind of the table at [`Kind`].
    pub async fn rerank(&self, request: RerankRequest) -> Result<Ranking> {
        self.rerank_with(request, CallOptions::default()).await
    }

    /// [`Reranker::rerank`] with options.
    ///
    /// # Errors
    /// As for [`Reranker::rerank`].
    pub async fn rerank_with(
        &self,
        mut request: RerankRequest,
        options: CallOptions,
    ) -> Result<Ranking> {
        let handle = &self.handle;
        let call = Call::new(
            Arc::clone(handle),
            options.bound(handle),
            options.cancel.clone(),
        );
        call.within(pin!(async {
            request.top_n = request
                .top_n
                .or(handle.entry.rerank.top_n.map(|n| n as usize));
            self.checked(&request)?;
            let (documents, top_n) = (request.documents.len(), request.top_n);
            if documents == 0 {
                return Ok(Ranking::default());
            }
            if let Route::Local(local) = handle.provider.route() {
                return match local.run(LocalRequest::Rerank(request)).await? {
                    LocalAnswer::Ranking(ranking) => ranking.check(documents, top_n),
                    _ => Err(Error::new(
                        Kind::InvalidResponse,
                        "the in-process model answered something else than scores",
                    )),
                };
            }
            let codec = self.codec()?;
            if documents > codec.max_documents() {
                return Err(Error::new(
                    Kind::InvalidRequest,
                    format!(
                        "{documents} documents; this provider ranks at most {} at a time",
                        codec.max_documents()
                    ),
                ));
            }
            let prepared = codec.prepare(&request)?;
            plan::check_cost(handle, &prepared)?;
            let deliver = Plain(|head: &Head, body| {
                codec.decode(head, body, &request)?.check(documents, top_n)
            });
            call.run(&prepared, &deliver, None).await
        }))
        .await
    }

    fn checked(&self, request: &RerankRequest) -> Result<()> {
        if request.query.trim().is_empty() {
            return Err(Error::new(Kind::InvalidRequest, "the query is empty"));
        }
        if request.top_n == Some(0) {
            return Err(Error::new(
                Kind::InvalidRequest,
                "top_n is 0; it must be positive",
            ));
        }
        for (item, document) in request.documents.iter().enumerate() {
            if let Some(e) = self.item_error(document) {
                let message = format!("document {item}: {}", e.message());
                return Err(Error::new(e.kind(), message).with_item(item));
            }
        }
        Ok(())
    }

    /// What is wrong with one document, whatever call it comes in: empty, or media that can't go.
    pub fn item_error(&self, document: &Document) -> Option<Error> {
        if document.is_empty() {
            return Some(Error::new(Kind::InvalidRequest, "the document is empty"));
        }
        plan::check_media(&self.handle, document.media()).err()
    }

    fn codec(&self) -> Result<&dyn RerankCodec> {
        match self.handle.provider.route() {
            Route::Http(http) => http.rerank(),
            Route::Engine(engine) => engine.rerank(),
            Route::Local(_) => None,
        }
        .ok_or_else(|| Error::new(Kind::Unsupported, "this provider does not rerank"))
    }
}

super::scope_methods!(Reranker);
