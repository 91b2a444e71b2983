//! A binary heap of slot numbers whose members can be taken out from the middle.

/// Where the members live: their order, and room for each one's position.
pub(crate) trait Arena {
    /// Whether `a` comes before `b`.
    fn before(&self, a: u32, b: u32) -> bool;
    /// The position noted for `id`.
    fn position(&self, id: u32) -> usize;
    /// Notes the position of `id`.
    fn place(&mut self, id: u32, position: usize);
}

#[derive(Debug, Default)]
pub(crate) struct Heap {
    ids: Vec<u32>,
}

impl Heap {
    pub(crate) fn first(&self) -> Option<u32> {
        self.ids.first().copied()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    pub(crate) fn push(&mut self, arena: &mut impl Arena, id: u32) {
        if self.ids.len() == self.ids.capacity() {
            self.ids.reserve_exact(self.ids.len() / 4 + 8);
        }
        self.ids.push(id);
        self.rise(arena, self.ids.len() - 1, id);
    }

    /// Takes out `id`, which must be a member.
    pub(crate) fn remove(&mut self, arena: &mut impl Arena, id: u32) {
        let position = arena.position(id);
        if self.ids.get(position) != Some(&id) {
            return;
        }
        self.ids.swap_remove(position);
        if let Some(&moved) = self.ids.get(position) {
            // It came from the bottom and most likely belongs there: to the bottom with the gap, then up again.
            let gap = self.sink(arena, position);
            self.rise(arena, gap, moved);
        }
    }

    pub(crate) fn release(&mut self) {
        self.ids = Vec::new();
    }

    /// Moves the gap at `at` up to where `id` belongs and fills it.
    fn rise(&mut self, arena: &mut impl Arena, mut at: usize, id: u32) {
        while at > 0 {
            let parent = (at - 1) / 2;
            if !arena.before(id, self.ids[parent]) {
                break;
            }
            self.put(arena, at, self.ids[parent]);
            at = parent;
        }
        self.put(arena, at, id);
    }

    /// Moves the gap at `at` down to the bottom, always to where the lesser child was.
    fn sink(&mut self, arena: &mut impl Arena, mut at: usize) -> usize {
        loop {
            let (left, right) = (2 * at + 1, 2 * at + 2);
            if left >= self.ids.len() {
                return at;
            }
            let takes_right =
                right < self.ids.len() && arena.before(self.ids[right], self.ids[left]);
            let child = if takes_right { right } else { left };
            self.put(arena, at, self.ids[child]);
            at = child;
        }
    }

    fn put(&mut self, arena: &mut impl Arena, at: usize, id: u32) {
        self.ids[at] = id;
        arena.place(id, at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keys and positions.
    struct Keys(Vec<(u64, usize)>);

    impl Arena for Keys {
        fn before(&self, a: u32, b: u32) -> bool {
            self.0[a as usize].0 < self.0[b as usize].0
        }

        fn position(&self, id: u32) -> usize {
            self.0[id as usize].1
        }

        fn place(&mut self, id: u32, position: usize) {
            self.0[id as usize].1 = position;
        }
    }

    #[test]
    fn the_least_is_first_whatever_is_taken_out_of_the_middle() {
        let mut keys = Keys((0..500_u64).map(|n| (n * 7919 % 503, usize::MAX)).collect());
        let mut heap = Heap::default();
        let mut inside = Vec::new();
        for round in 0..2000_usize {
            let id = (round * 31 % 500) as u32;
            if inside.contains(&id) {
                heap.remove(&mut keys, id);
                inside.retain(|&other| other != id);
            } else {
                heap.push(&mut keys, id);
                inside.push(id);
            }
            let least = inside.iter().map(|&id| keys.0[id as usize].0).min();
            assert_eq!(heap.first().map(|id| keys.0[id as usize].0), least);
            assert!((0..heap.ids.len()).all(|at| keys.0[heap.ids[at] as usize].1 == at));
            if round % 3 == 0
                && let Some(first) = heap.first()
            {
                heap.remove(&mut keys, first);
                inside.retain(|&other| other != first);
            }
        }
    }
}
