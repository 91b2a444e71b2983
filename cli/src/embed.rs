//! `embed`: texts gathered into calls, dealt round robin over the entries.

use std::sync::Arc;
use std::time::Duration;

use antfly_framework::content::Part;
use antfly_framework::embed::{EmbedInput, EmbedRequest};
use antfly_framework::{CallOptions, Embedder, Error, Kind};
use tokio_util::sync::CancellationToken;

use crate::args::EmbedArgs;
use crate::flow::{self, Calls, Feed, Slot};
use crate::input::{self, Id, Item};
use crate::output::{Lines, Output, Ticket};
use crate::run::{Exit, Fatal, Run, Start};

/// How long a call that is not full waits for more input, when nobody said how full it must be. A pipe that pauses gets the
/// answers to what it sent.
const LINGER: Duration = Duration::from_millis(250);

pub(crate) async fn run(args: EmbedArgs, start: Start) -> Result<Exit, Fatal> {
    let mut run = Run::prepare(args.common, start, antfly_framework::Operation::Embed)?;
    let mut turns = Vec::new();
    for entry in run.entries(&args.names)? {
        let embedder = run.open(|client| client.embedder(&entry))?;
        let limits = embedder.batch_limits();
        turns.push(Turn {
            most: args.batch.map_or(limits.max_items.max(1), |n| n.get()),
            most_bytes: if args.batch.is_some() {
                usize::MAX
            } else {
                limits.max_bytes
            },
            // What the command line says beats the entry, and a limit of the provider's beats both.
            batch_size: entry.embed.batch_size.and(args.batch).map(|n| n.get()),
            embedder,
        });
    }
    let batch = turns.iter().map(|turn| turn.most).max().unwrap_or(1);
    let window = flow::window(run.concurrency(), batch);
    let linger = args.batch.is_none().then_some(LINGER);
    run.lines(window, false, async move |feed, calls, lines, stop| {
        let mut dealer = Dealer {
            turns,
            at: 0,
            group: Group::default(),
            left_over: None,
            // Behind an unfilled group nothing is written. It goes out, full or not, before what waits fills the window.
            span: window as u64 / 2,
            linger,
            lines,
            stop,
        };
        dealer.deal(feed, calls).await;
    })
    .await
}

/// One of the entries that calls are dealt to.
struct Turn {
    embedder: Embedder,
    most: usize,
    most_bytes: usize,
    batch_size: Option<usize>,
}

/// The items of the call that is being filled.
#[derive(Default)]
struct Group {
    items: Vec<(Ticket, Id)>,
    inputs: Vec<EmbedInput>,
    bytes: usize,
}

struct Dealer {
    turns: Vec<Turn>,
    /// Whose turn it is.
    at: usize,
    group: Group,
    /// The item that no longer fitted.
    left_over: Option<(Ticket, Id, EmbedInput)>,
    span: u64,
    linger: Option<Duration>,
    lines: Lines,
    stop: CancellationToken,
}

impl Dealer {
    async fn deal(&mut self, feed: &mut Feed, calls: &mut Calls) {
        // The slot comes first, so that no more input is held than calls can take.
        while let Some(slot) = calls.slot().await {
            let more = self.fill(feed).await;
            if self.stop.is_cancelled() {
                break;
            }
            self.send(slot, calls);
            if !more {
                return;
            }
        }
    }

    /// Gathers a call's items. Whether there may be more.
    async fn fill(&mut self, feed: &mut Feed) -> bool {
        let turn = &self.turns[self.at];
        let mut place = 0;
        loop {
            let oldest = self
                .group
                .items
                .first()
                .map_or(place, |(ticket, _)| ticket.place);
            if self.group.inputs.len() >= turn.most || place.saturating_sub(oldest) >= self.span {
                return true;
            }
            let (ticket, id, input) = match self.left_over.take() {
                Some(item) => item,
                None => {
                    let wait = self.linger.filter(|_| !self.group.inputs.is_empty());
                    let next = match wait {
                        None => feed.next().await,
                        Some(wait) => match tokio::time::timeout(wait, feed.next()).await {
                            Ok(next) => next,
                            Err(_) => return true,
                        },
                    };
                    let Some((ticket, line)) = next else {
                        return false;
                    };
                    match item(&line) {
                        (id, Ok(input)) => (ticket, id, input),
                        (id, Err(error)) => {
                            place = ticket.place;
                            self.lines.failed(ticket, &id, &error);
                            continue;
                        }
                    }
                }
            };
            let bytes = self.group.bytes.saturating_add(input.byte_len());
            if bytes > turn.most_bytes && !self.group.inputs.is_empty() {
                self.left_over = Some((ticket, id, input));
                return true;
            }
            place = ticket.place;
            if let Some(error) = turn.embedder.item_error(&input) {
                self.lines.failed(ticket, &id, &error);
                continue;
            }
            self.group.bytes = bytes;
            self.group.items.push((ticket, id));
            self.group.inputs.push(input);
        }
    }

    /// Sends the call that has been filled, and passes the turn on.
    fn send(&mut self, slot: Slot, calls: &mut Calls) {
        let group = std::mem::take(&mut self.group);
        if group.inputs.is_empty() {
            return;
        }
        let turn = &self.turns[self.at];
        self.at = (self.at + 1) % self.turns.len();
        let request = EmbedRequest {
            inputs: group.inputs,
            batch_size: turn.batch_size,
        };
        let call = call(
            turn.embedder.clone(),
            request,
            group.items,
            calls.options(),
            self.lines.clone(),
            self.stop.clone(),
        );
        calls.start(slot, call);
    }
}

/// One call, and a line for each of its items.
async fn call(
    embedder: Embedder,
    request: EmbedRequest,
    items: Vec<(Ticket, Id)>,
    options: CallOptions,
    lines: Lines,
    stop: CancellationToken,
) {
    let parts = match embedder.embed_parts(request, options).await {
        Ok(parts) => parts,
        Err(error) => {
            for (ticket, id) in items {
                flow::fail(&lines, ticket, &id, &error, &stop);
            }
            return;
        }
    };
    let mut items = items.into_iter();
    for part in parts {
        let items = items.by_ref().take(part.items.len());
        match part.result {
            Ok(vectors) => {
                let vectors = Arc::new(vectors);
                for (at, (ticket, id)) in items.enumerate() {
                    lines.ok(ticket, Output::Vector(id, Arc::clone(&vectors), at));
                }
            }
            Err(error) => {
                for (ticket, id) in items {
                    flow::fail(&lines, ticket, &id, &error, &stop);
                }
            }
        }
    }
    for (ticket, id) in items {
        let error = Error::new(
            Kind::InvalidResponse,
            "the call has no result for this item",
        );
        lines.failed(ticket, &id, &error);
    }
}

/// What a line asks to embed.
fn item(line: &input::Line) -> (Id, Result<EmbedInput, Error>) {
    let (id, item) = input::parse(line);
    let input = item.and_then(|item| match item {
        Item::Text(text) => Ok(EmbedInput::Text(text)),
        Item::Object(fields) => {
            input::content(&fields).map(|mut parts| match parts.as_mut_slice() {
                [Part::Text(text)] => EmbedInput::Text(std::mem::take(text)),
                _ => EmbedInput::Parts(parts),
            })
        }
    });
    (id, input)
}
