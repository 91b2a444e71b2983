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
        arena.place(id, self.ids.len() - 1);
        self.rise(arena, self.ids.len() - 1);
    }

    /// Takes out `id`, which must be a member.
    pub(crate) fn remove(&mut self, arena: &mut impl Arena, id: u32) {
        let position = arena.position(id);
        if self.ids.get(position) != Some(&id) {
            return;
        }
        self.ids.swap_remove(position);
        if let Some(&moved) = self.ids.get(position) {
            arena.place(moved, position);
            self.sink(arena, position);
            self.rise(arena, position);
        }
    }

    pub(crate) fn release(&mut self) {
        self.ids = Vec::new();
    }

    fn rise(&mut self, arena: &mut impl Arena, mut at: usize) {
        while at > 0 {
            let parent = (at - 1) / 2;
            if !arena.before(self.ids[at], self.ids[parent]) {
                break;
            }
            self.swap(arena, at, parent);
            at = parent;
        }
    }

    fn sink(&mut self, arena: &mut impl Arena, mut at: usize) {
        loop {
            let (left, right) = (2 * at + 1, 2 * at + 2);
            let mut least = at;
            for child in [left, right] {
                if child < self.ids.len() && arena.before(self.ids[child], self.ids[least]) {
                    least = child;
                }
            }
            if least == at {
                break;
            }
            self.swap(arena, at, least);
            at = least;
        }
    }

    fn swap(&mut self, arena: &mut impl Arena, a: usize, b: usize) {
        self.ids.swap(a, b);
        arena.place(self.ids[a], a);
        arena.place(self.ids[b], b);
    }
}
