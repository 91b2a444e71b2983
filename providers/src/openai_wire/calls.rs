//! Which piece of a tool call belongs to which call.
//!
//! OpenAI numbers the pieces. Relatives leave the number out, give every call the same one, or send the id with each piece.
//! Two calls are never merged into one.

use antfly_framework::generate::{StreamEvent, ToolCallDelta};

use super::chunk::Call;

/// The calls seen so far; the place in the list is the index handed out.
#[derive(Debug, Default)]
pub(super) struct Calls(Vec<Known>);

#[derive(Debug)]
struct Known {
    number: Option<u64>,
    id: Option<String>,
    named: bool,
}

impl Calls {
    /// Pieces of one chunk, in their order.
    pub(super) fn push(&mut self, pieces: Vec<Call>, out: &mut Vec<StreamEvent>) {
        let several = pieces.len() > 1;
        for (position, piece) in pieces.into_iter().enumerate() {
            let number = piece.index.0;
            let id = piece.id.get();
            let function = piece.function.unwrap_or_default();
            let name = function.name.get();
            let position = several.then_some(position);
            let index = self.find(number, id.as_deref(), name.is_some(), position);
            let index = index.unwrap_or_else(|| {
                self.0.push(Known {
                    number,
                    id: None,
                    named: false,
                });
                self.0.len() - 1
            });
            let Some(known) = self.0.get_mut(index) else {
                continue;
            };
            // Id and name go out once, with the first piece that has them.
            let id = id.filter(|_| known.id.is_none());
            known.id = known.id.take().or_else(|| id.clone());
            let name = name.filter(|_| !known.named);
            known.named |= name.is_some();
            let arguments = function.arguments.0;
            if id.is_some() || name.is_some() || !arguments.is_empty() {
                out.push(StreamEvent::ToolCall(ToolCallDelta {
                    index,
                    id,
                    name,
                    arguments,
                }));
            }
        }
    }

    /// The call a piece belongs to; `None`: a new one.
    fn find(
        &self,
        number: Option<u64>,
        id: Option<&str>,
        has_name: bool,
        position: Option<usize>,
    ) -> Option<usize> {
        if let Some(number) = number {
            // The last with this number: the number may have been used again under another id.
            let at = self.0.iter().rposition(|k| k.number == Some(number));
            return match (at, id) {
                (Some(at), Some(id)) if self.differs(at, id) => self.by_id(id),
                (at, _) => at,
            };
        }
        match (id, position) {
            (Some(id), _) => self.by_id(id),
            // A name without number and id begins a call.
            (None, _) if has_name => None,
            (None, Some(position)) if position < self.0.len() => Some(position),
            (None, Some(_)) => None,
            (None, None) => self.0.len().checked_sub(1),
        }
    }

    fn by_id(&self, id: &str) -> Option<usize> {
        self.0.iter().position(|k| k.id.as_deref() == Some(id))
    }

    fn differs(&self, at: usize, id: &str) -> bool {
        self.0
            .get(at)
            .and_then(|known| known.id.as_deref())
            .is_some_and(|known| known != id)
    }
}
