//! Work on disjoint pieces of one buffer, over candle's threads.

use std::sync::Mutex;

use candle_core::utils::barrier_pool;

/// The threads that take part, the calling one included.
pub(super) fn threads() -> usize {
    barrier_pool().n_workers() + 1
}

/// Calls `work(index, piece)` for every piece of `size` numbers (the last may be shorter), each once, on any thread.
pub(super) fn pieces(data: &mut [f32], size: usize, work: impl Fn(usize, &mut [f32]) + Sync) {
    let size = size.max(1);
    if data.len() <= size {
        if !data.is_empty() {
            work(0, data);
        }
        return;
    }
    // Each lock is taken once: it only proves to the compiler that no two threads share a piece.
    let parts: Vec<_> = data.chunks_mut(size).map(Mutex::new).collect();
    barrier_pool().execute_chunked(parts.len(), |range| {
        for index in range {
            if let Some(Ok(mut part)) = parts.get(index).map(Mutex::lock) {
                work(index, &mut part);
            }
        }
    });
}
