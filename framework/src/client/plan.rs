//! Splits an embed call into parts before anything is sent: by count, by size, and by what one attempt may cost.

use std::ops::Range;

use crate::content::Media;
use crate::embed::{EmbedInput, EmbedPart};
use crate::error::{Error, Kind, Result};
use crate::handle::Handle;
use crate::provider::{BatchLimits, EmbedCodec, Prepared};

/// One part: the items it covers and its request, or why there is none.
pub(super) struct Part {
    pub(super) items: Range<usize>,
    pub(super) prepared: Result<Prepared>,
}

/// Whether media may go to this model under this policy.
pub(super) fn check_media<'a>(
    handle: &Handle,
    media: impl Iterator<Item = &'a Media>,
) -> Result<()> {
    let declared = handle.provider.declare();
    for item in media {
        if handle.lease.policy().tokens_per_minute().is_some() {
            return Err(Error::new(
                Kind::MediaNotAllowed,
                "media can't be priced in text tokens: remove tokens_per_minute from the rate_limit, or the media from the \
                 request",
            ));
        }
        if !declared.media.accepts(item.kind) {
            return Err(Error::new(
                Kind::MediaNotAllowed,
                format!("this model takes no {:?} input", item.kind).to_lowercase(),
            ));
        }
    }
    Ok(())
}

/// The price of one attempt must fit the budget at all.
pub(super) fn check_cost(handle: &Handle, prepared: &Prepared) -> Result<()> {
    let cost = handle.provider.declare().cost.of(prepared);
    match handle.lease.policy().tokens_per_minute() {
        Some(budget) if cost > u64::from(budget) => Err(Error::new(
            Kind::ExceedsTokenBudget,
            format!("one attempt costs {cost} tokens, tokens_per_minute allows {budget}"),
        )),
        _ => Ok(()),
    }
}

pub(super) fn check_input(handle: &Handle, item: usize, input: &EmbedInput) -> Result<()> {
    if input.is_empty() {
        return Err(
            Error::new(Kind::InvalidRequest, format!("item {item} is empty")).with_item(item),
        );
    }
    check_media(handle, input.media()).map_err(|e| e.with_item(item))
}

/// The parts of a call, in input order.
pub(super) fn parts(
    handle: &Handle,
    codec: &dyn EmbedCodec,
    inputs: &[EmbedInput],
    batch_size: Option<usize>,
) -> Result<Vec<Part>> {
    if batch_size == Some(0) {
        return Err(Error::new(
            Kind::InvalidRequest,
            "a batch size of 0 carries nothing",
        ));
    }
    let fixed = batch_size.or_else(|| handle.entry.embed.batch_size.map(|n| n as usize));
    let limits = match fixed {
        Some(max_items) => BatchLimits {
            max_items,
            max_bytes: usize::MAX,
        },
        None => codec.limits(),
    };
    let mut out = Vec::new();
    let mut start = 0;
    let mut bytes = 0_usize;
    for (item, input) in inputs.iter().enumerate() {
        if let Err(e) = check_input(handle, item, input) {
            flush(handle, codec, inputs, start..item, fixed, &mut out);
            out.push(Part {
                items: item..item + 1,
                prepared: Err(e),
            });
            (start, bytes) = (item + 1, 0);
            continue;
        }
        let size = input.byte_len();
        if item > start
            && (item - start >= limits.max_items
                || bytes.saturating_add(size) > limits.max_bytes
                || !codec.together(&inputs[start], input))
        {
            flush(handle, codec, inputs, start..item, fixed, &mut out);
            (start, bytes) = (item, 0);
        }
        bytes = bytes.saturating_add(size);
    }
    flush(handle, codec, inputs, start..inputs.len(), fixed, &mut out);
    Ok(out)
}

/// Prepares a range; one that costs more than the budget, or is larger than the provider takes, is halved by size, unless the
/// caller fixed the batch size.
fn flush(
    handle: &Handle,
    codec: &dyn EmbedCodec,
    inputs: &[EmbedInput],
    items: Range<usize>,
    fixed: Option<usize>,
    out: &mut Vec<Part>,
) {
    // A stack, not recursion: the right half waits while the left is looked at.
    let mut waiting = vec![items];
    while let Some(items) = waiting.pop() {
        if items.is_empty() {
            continue;
        }
        let part = EmbedPart {
            inputs: &inputs[items.clone()],
            options: &handle.entry.embed,
        };
        let prepared = codec
            .prepare(&part)
            .and_then(|prepared| check_cost(handle, &prepared).map(|()| prepared));
        match prepared {
            Err(e) if is_too_much(&e) && items.len() > 1 && fixed.is_none() => {
                let middle = middle(inputs, &items);
                waiting.push(middle..items.end);
                waiting.push(items.start..middle);
            }
            Err(e) => out.push(Part {
                prepared: Err(locate(e, items.start)),
                items,
            }),
            Ok(prepared) => out.push(Part {
                items,
                prepared: Ok(prepared),
            }),
        }
    }
}

fn is_too_much(error: &Error) -> bool {
    matches!(
        error.kind(),
        Kind::ExceedsTokenBudget | Kind::RequestTooLarge
    )
}

/// Where to cut a range so that both halves carry about the same bytes; never at an end.
fn middle(inputs: &[EmbedInput], items: &Range<usize>) -> usize {
    let total: usize = inputs[items.clone()].iter().map(EmbedInput::byte_len).sum();
    let mut seen = 0;
    for at in items.clone() {
        seen += inputs[at].byte_len();
        if seen * 2 >= total {
            return (at + 1).clamp(items.start + 1, items.end - 1);
        }
    }
    items.start + items.len() / 2
}

/// An error that names an item of a part, renamed to the item of the call.
pub(super) fn locate(error: Error, start: usize) -> Error {
    let item = error.item().unwrap_or(0);
    error.with_item(start + item)
}
