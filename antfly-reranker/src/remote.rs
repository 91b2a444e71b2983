//! The remote route.

use antfly_framework::http::Endpoint;
use antfly_framework::provider::{
    Codec, Credential, CredentialProvider, Declared, Freshness, Head, HttpProvider, Prepared,
    Provider, RerankCodec, Route,
};
use antfly_framework::rerank::{Ranking, RerankRequest};
use antfly_framework::secret::ResolvedSecret;
use antfly_framework::{Error, Result};
use async_trait::async_trait;
use bytes::Bytes;
use http::header::{AUTHORIZATION, HeaderMap};
use serde_json::{Map, Value};

use crate::{error, wire};

/// One entry's adapter.
pub(crate) struct Remote {
    pub(crate) declared: Declared,
    pub(crate) endpoint: Endpoint,
    pub(crate) model: String,
    /// `None`: anonymous.
    pub(crate) key: Option<ResolvedSecret>,
    /// The field of a JSON document that is ranked.
    pub(crate) field: Option<String>,
    pub(crate) extra_body: Map<String, Value>,
}

impl Provider for Remote {
    fn declare(&self) -> &Declared {
        &self.declared
    }

    fn route(&self) -> Route<'_> {
        Route::Http(self)
    }
}

impl Codec for Remote {
    fn rerank(&self) -> Option<&dyn RerankCodec> {
        Some(self)
    }

    fn classify(&self, head: &Head, body: &[u8]) -> Error {
        error::classify(head, body)
    }
}

impl RerankCodec for Remote {
    fn max_documents(&self) -> usize {
        // The server documents no bound.
        usize::MAX
    }

    fn prepare(&self, request: &RerankRequest) -> Result<Prepared> {
        let with_media = request.documents.iter().any(|d| d.media().next().is_some());
        let path = if with_media {
            "rerank_multimodal"
        } else {
            "rerank"
        };
        let url = self.endpoint.join(path)?;
        let (model, query, extra) = (&self.model, &request.query, &self.extra_body);
        let field = self.field.as_deref();
        if with_media {
            Prepared::json(
                url,
                &wire::Multimodal::new(model, query, &request.documents, field, extra)?,
            )
        } else {
            Prepared::json(
                url,
                &wire::Texts::new(model, query, &request.documents, field, extra),
            )
        }
    }

    fn decode(&self, head: &Head, body: Bytes, _request: &RerankRequest) -> Result<Ranking> {
        let mut ranking = wire::decode(head, &body)?;
        ranking.request_id = self.request_id(head);
        Ok(ranking)
    }
}

#[async_trait]
impl CredentialProvider for Remote {
    async fn credential(&self, _freshness: Freshness) -> Result<Credential> {
        Credential::of_key(self.key.as_ref()).await
    }
}

impl HttpProvider for Remote {
    fn authorize(&self, _prepared: &Prepared, credential: &Credential) -> Result<HeaderMap> {
        let mut headers = HeaderMap::new();
        if let Some(bearer) = credential.bearer()? {
            headers.insert(AUTHORIZATION, bearer);
        }
        Ok(headers)
    }
}

impl std::fmt::Debug for Remote {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Remote")
            .field("endpoint", &self.endpoint)
            .field("model", &self.model)
            .field("credential", &self.declared.credential)
            .finish_non_exhaustive()
    }
}
