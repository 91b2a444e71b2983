//! The ranking API: records under ids out, ids and scores back, the best first.

use antfly_framework::provider::Head;
use antfly_framework::rerank::{Document, Ranked, Ranking, RerankRequest};
use antfly_framework::{Error, Kind, Result};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::google::error::{in_band, unreadable};
use crate::google::extra::Rules;
use crate::google::json::{Items, Word};
use crate::refusal::is_error;

/// Records of one request.
pub(in crate::vertex) const MAX_RECORDS: usize = 200;

/// What the body writes or owns.
pub(in crate::vertex) const RULES: Rules = Rules {
    owned: &[
        ("model", "the entry's `model`"),
        ("query", "the request's query"),
        ("records", "the request's documents"),
        ("topN", "the entry's `top_n`"),
        ("ignoreRecordDetailsInResponse", "nothing: texts stay here"),
    ],
    nested: None,
};

/// The body.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::vertex) struct Body<'a> {
    model: &'a str,
    query: &'a str,
    records: Vec<Record>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_n: Option<usize>,
    ignore_record_details_in_response: bool,
    #[serde(flatten)]
    extra: &'a Map<String, Value>,
}

#[derive(Serialize)]
struct Record {
    id: String,
    content: String,
}

/// The body of a request. `field`: of a document that is a JSON object, what is ranked.
pub(in crate::vertex) fn body<'a>(
    model: &'a str,
    request: &'a RerankRequest,
    field: Option<&str>,
    extra: &'a Map<String, Value>,
) -> Result<Body<'a>> {
    if request.documents.len() > MAX_RECORDS {
        return Err(Error::new(
            Kind::InvalidRequest,
            format!(
                "{} documents in one request; the ranking API takes at most {MAX_RECORDS}",
                request.documents.len()
            ),
        ));
    }
    let record = |(index, document): (usize, &Document)| Record {
        id: index.to_string(),
        content: text(document, field),
    };
    Ok(Body {
        model,
        query: &request.query,
        records: request.documents.iter().enumerate().map(record).collect(),
        top_n: request.top_n,
        ignore_record_details_in_response: true,
        extra,
    })
}

/// A document's text; of a JSON object, the text of `field` where it has one.
fn text(document: &Document, field: Option<&str>) -> String {
    let whole = document.text();
    let Some(field) = field.filter(|_| whole.trim_start().starts_with('{')) else {
        return whole;
    };
    match serde_json::from_str::<Map<String, Value>>(&whole) {
        Ok(object) => match object.get(field) {
            Some(Value::String(text)) => text.clone(),
            _ => whole,
        },
        Err(_) => whole,
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Answer {
    records: Option<Items<Score>>,
    error: Value,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Score {
    id: Word,
    score: Value,
}

/// The scores, by input index.
pub(in crate::vertex) fn decode(head: &Head, body: &[u8]) -> Result<Ranking> {
    let answer: Answer =
        serde_json::from_slice(body).map_err(|problem| unreadable(head, body, problem))?;
    if is_error(&answer.error) {
        return Err(in_band(head, &answer.error));
    }
    let bad = |what: String| Error::new(Kind::InvalidResponse, what);
    let Some(records) = answer.records else {
        return Err(bad("the answer has no records".to_owned()));
    };
    let mut results = Vec::with_capacity(records.0.len());
    for (place, record) in records.0.iter().enumerate() {
        let id = record.id.0.as_deref().unwrap_or("");
        let index = id
            .parse()
            .map_err(|_| bad(format!("records[{place}].id is {id:?}, which was not sent")))?;
        let score = match &record.score {
            Value::Number(score) => score.as_f64(),
            _ => None,
        };
        let score = score.ok_or_else(|| {
            bad(format!(
                "records[{place}].score of document {index} is not a number"
            ))
            .with_item(index)
        })?;
        results.push(Ranked { index, score });
    }
    Ok(Ranking {
        results,
        limited_by_provider: true,
        ..Ranking::default()
    })
}
