//! Rerank models through InvokeModel: bodies and answers. Cohere's and Amazon's differ in one field.

use antfly_framework::provider::Head;
use antfly_framework::rerank::{Document, Ranked, Ranking, RerankRequest};
use antfly_framework::{Error, Kind, Result};
use serde::Serialize;
use serde_json::{Map, Value};

use super::{Owned, counted, unreadable};

/// Documents of one request.
pub(in crate::bedrock) const MAX_DOCUMENTS: usize = 1000;

/// What to name in an error about a model that is none of these.
pub(in crate::bedrock) const KNOWN: &str =
    "cohere.rerank-v3-5:0, amazon.rerank-v1:0, their inference profiles, or an ARN";

/// A rerank model's wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::bedrock) enum Model {
    Cohere,
    /// Amazon's, and what an ARN hides.
    Amazon,
}

impl Model {
    pub(in crate::bedrock) fn owned(self) -> Owned {
        match self {
            Model::Cohere => &[
                ("query", "the request's query"),
                ("documents", "the request's documents"),
                ("top_n", "the entry's `top_n`"),
                ("model", "the entry's `model`"),
                ("api_version", "nothing: the adapter speaks version 2"),
            ],
            Model::Amazon => &[
                ("query", "the request's query"),
                ("documents", "the request's documents"),
                ("top_n", "the entry's `top_n`"),
                ("model", "the entry's `model`"),
            ],
        }
    }

    pub(in crate::bedrock) fn of(id: &str) -> Option<Model> {
        if id.contains("cohere.rerank") {
            Some(Model::Cohere)
        } else if id.contains("amazon.rerank")
            || (id.starts_with("arn:") && !id.contains(":foundation-model/"))
        {
            Some(Model::Amazon)
        } else {
            None
        }
    }
}

#[derive(Serialize)]
struct Body<'a> {
    query: &'a str,
    documents: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_n: Option<usize>,
    /// Cohere's wire wants to be told that it is the second one.
    #[serde(skip_serializing_if = "Option::is_none")]
    api_version: Option<u8>,
    #[serde(flatten)]
    extra: &'a Map<String, Value>,
}

/// The body. `field`: of a document that is a JSON object, what is ranked.
pub(in crate::bedrock) fn body(
    model: Model,
    request: &RerankRequest,
    field: Option<&str>,
    extra: &Map<String, Value>,
) -> Result<Vec<u8>> {
    let body = Body {
        query: &request.query,
        documents: request.documents.iter().map(|d| text(d, field)).collect(),
        top_n: request.top_n.map(|n| n.min(request.documents.len())),
        api_version: (model == Model::Cohere).then_some(2),
        extra,
    };
    serde_json::to_vec(&body).map_err(|e| {
        Error::new(
            Kind::InvalidRequest,
            format!("the request can't be written as JSON: {e}"),
        )
    })
}

fn text(document: &Document, field: Option<&str>) -> String {
    let text = document.text();
    let Some(field) = field else {
        return text;
    };
    let object: Option<Map<String, Value>> = serde_json::from_str(&text).ok();
    match object.as_ref().and_then(|object| object.get(field)) {
        Some(Value::String(inner)) => inner.clone(),
        Some(other) if !other.is_null() => other.to_string(),
        _ => text,
    }
}

/// The scores. The framework checks indices and counts against the request.
pub(in crate::bedrock) fn decode(head: &Head, body: &[u8]) -> Result<Ranking> {
    let answer: Value = serde_json::from_slice(body).map_err(|e| unreadable(head, body, e))?;
    let Some(results) = answer.get("results").and_then(Value::as_array) else {
        return Err(unreadable(head, body, "there is no list of results in it"));
    };
    let results = results
        .iter()
        .enumerate()
        .map(|(at, result)| ranked(at, result))
        .collect::<Result<_>>()?;
    Ok(Ranking {
        results,
        usage: counted(head),
        request_id: None,
        limited_by_provider: true,
    })
}

fn ranked(at: usize, result: &Value) -> Result<Ranked> {
    let wrong = |field: &str, what: &str| {
        let value = result.get(field).unwrap_or(&Value::Null);
        Error::new(
            Kind::InvalidResponse,
            format!("results[{at}].{field} is {value}, not {what}"),
        )
        .with_item(at)
    };
    let index = result
        .get("index")
        .and_then(Value::as_u64)
        .and_then(|index| usize::try_from(index).ok())
        .ok_or_else(|| wrong("index", "an index"))?;
    let score = result
        .get("relevance_score")
        .and_then(Value::as_f64)
        .ok_or_else(|| wrong("relevance_score", "a number"))?;
    Ok(Ranked { index, score })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head() -> Head {
        Head {
            status: 200,
            headers: http::HeaderMap::new(),
        }
    }

    #[test]
    fn the_two_wires_differ_in_the_version() {
        let mut request = RerankRequest::new("q", ["a", "{\"title\": \"b\"}"]);
        request.top_n = Some(9);
        let write = |model| -> Value {
            serde_json::from_slice(&body(model, &request, Some("title"), &Map::new()).unwrap())
                .unwrap()
        };
        let cohere = write(Model::Cohere);
        assert_eq!(
            cohere,
            serde_json::json!({"query": "q", "documents": ["a", "b"], "top_n": 2, "api_version": 2})
        );
        assert_eq!(
            write(Model::Amazon),
            serde_json::json!({"query": "q", "documents": ["a", "b"], "top_n": 2})
        );
    }

    #[test]
    fn models_are_known_by_id_profile_and_arn() {
        for (id, model) in [
            ("cohere.rerank-v3-5:0", Some(Model::Cohere)),
            ("us.cohere.rerank-v3-5:0", Some(Model::Cohere)),
            (
                "arn:aws:bedrock:us-west-2::foundation-model/amazon.rerank-v1:0",
                Some(Model::Amazon),
            ),
            (
                "arn:aws:bedrock:us-west-2:1:application-inference-profile/x",
                Some(Model::Amazon),
            ),
            ("arn:aws:bedrock:us-west-2::foundation-model/other", None),
            ("cohere.embed-v4:0", None),
        ] {
            assert_eq!(Model::of(id), model, "{id}");
        }
    }

    #[test]
    fn i06_a_score_that_is_no_number_names_field_and_index() {
        for (body, word) in [
            (
                r#"{"results": [{"index": 0, "relevance_score": null}]}"#,
                "results[0].relevance_score is null",
            ),
            (
                r#"{"results": [{"index": 0}]}"#,
                "results[0].relevance_score",
            ),
            (
                r#"{"results": [{"index": 0, "relevance_score": "0.9"}]}"#,
                "\"0.9\"",
            ),
            (
                r#"{"results": [{"index": -1, "relevance_score": 1}]}"#,
                "results[0].index",
            ),
            (r#"{"result": []}"#, "no list of results"),
            ("<html>", "does not parse"),
        ] {
            let e = decode(&head(), body.as_bytes()).unwrap_err();
            assert!(
                e.kind() == Kind::InvalidResponse && e.message().contains(word),
                "{e}"
            );
        }
    }

    #[test]
    fn i08_scores_come_with_indices_alone() {
        let body = br#"{"results": [{"index": 1, "relevance_score": 0.9}, {"index": 0, "relevance_score": 0.1, "document": {}}]}"#;
        let ranking = decode(&head(), body).unwrap();
        assert_eq!(
            ranking.results[0],
            Ranked {
                index: 1,
                score: 0.9
            }
        );
    }
}
