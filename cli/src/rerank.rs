//! `rerank`: all lines of the input in one call.

use antfly_framework::content::Part;
use antfly_framework::rerank::{Document, RerankRequest};
use antfly_framework::{Error, Operation};
use serde::Serialize;

use crate::args::RerankArgs;
use crate::flow;
use crate::input::{self, Id, Item};
use crate::output::Output;
use crate::run::{Exit, Fatal, Run, Start};

pub(crate) async fn run(args: RerankArgs, start: Start) -> Result<Exit, Fatal> {
    let mut run = Run::prepare(args.common, start, Operation::Rerank)?;
    let entry = run.entry(args.name)?;
    let reranker = run.open(|client| client.reranker(&entry))?;
    let query = args.query;
    // Best first is not the order of the input: lines are written as they are handed in.
    run.lines(usize::MAX, true, async move |feed, calls, lines, stop| {
        let (mut good, mut documents, mut bad) = (Vec::new(), Vec::new(), Vec::new());
        while let Some((ticket, line)) = feed.next().await {
            let (id, document) = document(&line);
            let document = document.and_then(|document| match reranker.item_error(&document) {
                None => Ok(document),
                Some(error) => Err(error),
            });
            match document {
                Ok(document) => {
                    documents.push(document);
                    good.push(Some((ticket, id, line.number)));
                }
                Err(error) => bad.push((ticket, id, error)),
            }
        }
        if feed.is_broken() {
            // Scores of a part of the documents would look like those of all.
            return;
        }
        let slot = if documents.is_empty() {
            None
        } else {
            calls.slot().await
        };
        let options = calls.options();
        let work = async move {
            let request = RerankRequest {
                documents,
                ..RerankRequest::new(query, [] as [&str; 0])
            };
            match reranker.rerank_with(request, options).await {
                Ok(ranking) => {
                    for ranked in ranking.results {
                        let Some((ticket, id, index)) =
                            good.get_mut(ranked.index).and_then(Option::take)
                        else {
                            continue;
                        };
                        let row = Row {
                            id: &id,
                            index,
                            score: ranked.score,
                        };
                        lines.ok(ticket, Output::json(&row));
                    }
                }
                Err(error) => bad.extend(
                    good.into_iter()
                        .flatten()
                        .map(|(ticket, id, _)| (ticket, id, error.duplicate())),
                ),
            }
            // What could not be ranked follows, in the order of the input.
            bad.sort_by_key(|(ticket, _, _)| ticket.place);
            for (ticket, id, error) in bad {
                flow::fail(&lines, ticket, &id, &error, &stop);
            }
        };
        match slot {
            Some(slot) => calls.start(slot, work),
            None => work.await,
        }
    })
    .await
}

#[derive(Serialize)]
struct Row<'a> {
    id: &'a Id,
    /// The document's line in the input.
    index: u64,
    score: f64,
}

/// What a line asks to rank.
fn document(line: &input::Line) -> (Id, Result<Document, Error>) {
    let (id, item) = input::parse(line);
    let document = item.and_then(|item| match item {
        Item::Text(text) => Ok(Document::Text(text)),
        Item::Object(fields) => {
            input::content(&fields).map(|mut parts| match parts.as_mut_slice() {
                [Part::Text(text)] => Document::Text(std::mem::take(text)),
                _ => Document::Parts(parts),
            })
        }
    });
    (id, document)
}
