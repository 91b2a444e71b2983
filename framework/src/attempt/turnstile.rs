//! Keeps the parts of one call in line: part `n + 1` asks for admission only after part `n` has joined the queue.

use std::sync::Arc;

use tokio::sync::watch;

/// Deals out tickets in order.
pub(crate) struct Turnstile {
    now: Arc<watch::Sender<usize>>,
}

impl Turnstile {
    pub(crate) fn new() -> Self {
        Turnstile {
            now: Arc::new(watch::Sender::new(0)),
        }
    }

    /// Waits for turn `number` (from 0). Every number must be asked for, in any order, and each ticket passed or dropped.
    pub(crate) fn turn(&self, number: usize) -> impl Future<Output = Ticket> + use<> {
        let now = Arc::clone(&self.now);
        async move {
            let ticket = Ticket { now, number };
            let mut seen = ticket.now.subscribe();
            // The sender lives in the ticket, so this can't fail.
            let _ = seen.wait_for(|now| *now >= number).await;
            ticket
        }
    }
}

/// The turn of one part. Dropping it passes the turn on, so a part that fails early holds nobody up.
pub(crate) struct Ticket {
    now: Arc<watch::Sender<usize>>,
    number: usize,
}

impl Ticket {
    pub(crate) fn pass(self) {}
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let next = self.number + 1;
        self.now.send_if_modified(|now| {
            let moved = *now < next;
            *now = (*now).max(next);
            moved
        });
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[test]
    fn turns_come_in_order_and_a_dropped_ticket_passes_its_turn() {
        let stile = Turnstile::new();
        let mut second = Box::pin(stile.turn(1));
        assert!(second.as_mut().now_or_never().is_none());
        let first = stile.turn(0).now_or_never().unwrap();
        assert!(second.as_mut().now_or_never().is_none());
        drop(first);
        second.now_or_never().unwrap().pass();
        assert!(stile.turn(2).now_or_never().is_some());
    }
}
