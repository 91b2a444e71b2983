//! The least of many slot numbers, any of which can be taken out.
//!
//! Members that come in order, as deadlines mostly do, are kept in a list, where coming and going cost the same however
//! many there are. One that comes out of order goes to a binary heap; so does the last of the list if it alone is in the
//! way, so that a single late deadline does not send everyone after it to the heap.

const NONE: u32 = u32::MAX;
/// In the second half of a [`Spot`]: a member of the heap, and not a member at all.
const IN_HEAP: u32 = u32::MAX - 1;
const OUT: u32 = u32::MAX - 2;

/// Where a member is: its neighbours in the list, or its position in the heap.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Spot(u32, u32);

impl Spot {
    /// Of one that is not a member.
    pub(crate) const OUT: Self = Self(NONE, OUT);
}

/// Where the members live: their order, and room for each one's spot.
pub(crate) trait Arena {
    /// Whether `a` comes before `b`.
    fn before(&self, a: u32, b: u32) -> bool;
    /// The spot noted for `id`.
    fn spot(&self, id: u32) -> Spot;
    /// Notes the spot of `id`.
    fn place(&mut self, id: u32, spot: Spot);
}

#[derive(Debug)]
pub(crate) struct Heap {
    head: u32,
    tail: u32,
    ids: Vec<u32>,
}

impl Default for Heap {
    fn default() -> Self {
        Self {
            head: NONE,
            tail: NONE,
            ids: Vec::new(),
        }
    }
}

impl Heap {
    /// The least of all; `before` is the arena's order.
    pub(crate) fn first(&self, before: impl Fn(u32, u32) -> bool) -> Option<u32> {
        match (self.head, self.ids.first().copied()) {
            (NONE, least) => least,
            (head, Some(least)) if before(least, head) => Some(least),
            (head, _) => Some(head),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.head == NONE && self.ids.is_empty()
    }

    pub(crate) fn push(&mut self, arena: &mut impl Arena, id: u32) {
        let tail = self.tail;
        if tail == NONE || !arena.before(id, tail) {
            return self.append(arena, id);
        }
        let Spot(before, _) = arena.spot(tail);
        if before == NONE || !arena.before(id, before) {
            self.unlink(arena, Spot(before, NONE));
            self.heap_up(arena, tail);
            self.append(arena, id);
        } else {
            self.heap_up(arena, id);
        }
    }

    /// Takes out `id`, if it is a member.
    pub(crate) fn remove(&mut self, arena: &mut impl Arena, id: u32) {
        match arena.spot(id) {
            Spot::OUT => return,
            Spot(position, IN_HEAP) => self.remove_at(arena, position as usize),
            spot => self.unlink(arena, spot),
        }
        arena.place(id, Spot::OUT);
    }

    /// Gives memory back; nothing is a member.
    pub(crate) fn release(&mut self) {
        self.ids = Vec::new();
    }

    fn append(&mut self, arena: &mut impl Arena, id: u32) {
        let tail = std::mem::replace(&mut self.tail, id);
        arena.place(id, Spot(tail, NONE));
        if tail == NONE {
            self.head = id;
        } else {
            let Spot(before, _) = arena.spot(tail);
            arena.place(tail, Spot(before, id));
        }
    }

    /// Joins the neighbours of one that leaves the list.
    fn unlink(&mut self, arena: &mut impl Arena, Spot(before, after): Spot) {
        if before == NONE {
            self.head = after;
        } else {
            let Spot(further, _) = arena.spot(before);
            arena.place(before, Spot(further, after));
        }
        if after == NONE {
            self.tail = before;
        } else {
            let Spot(_, further) = arena.spot(after);
            arena.place(after, Spot(before, further));
        }
    }

    fn heap_up(&mut self, arena: &mut impl Arena, id: u32) {
        if self.ids.len() == self.ids.capacity() {
            self.ids.reserve_exact(self.ids.len() / 4 + 8);
        }
        self.ids.push(id);
        self.rise(arena, self.ids.len() - 1, id);
    }

    fn remove_at(&mut self, arena: &mut impl Arena, position: usize) {
        self.ids.swap_remove(position);
        if let Some(&moved) = self.ids.get(position) {
            // It came from the bottom and most likely belongs there: to the bottom with the gap, then up again.
            let gap = self.sink(arena, position);
            self.rise(arena, gap, moved);
        }
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
        arena.place(id, Spot(at as u32, IN_HEAP));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keys and spots.
    struct Keys(Vec<(u64, Spot)>);

    impl Arena for Keys {
        fn before(&self, a: u32, b: u32) -> bool {
            self.0[a as usize].0 < self.0[b as usize].0
        }

        fn spot(&self, id: u32) -> Spot {
            self.0[id as usize].1
        }

        fn place(&mut self, id: u32, spot: Spot) {
            self.0[id as usize].1 = spot;
        }
    }

    impl Heap {
        fn listed(&self, keys: &Keys) -> Vec<u32> {
            let mut listed = Vec::new();
            let (mut at, mut before) = (self.head, NONE);
            while at != NONE {
                assert_eq!(keys.spot(at).0, before, "linked both ways");
                listed.push(at);
                (before, at) = (at, keys.spot(at).1);
            }
            assert_eq!(self.tail, before);
            listed
        }
    }

    /// Takes in and out as `key` and `choose` say, and looks at everything after each step; says how many came to the
    /// list and how many to the heap.
    fn stir(key: impl Fn(u64) -> u64, choose: impl Fn(u64) -> u64) -> (usize, usize) {
        let mut keys = Keys((0..300).map(|n| (key(n), Spot::OUT)).collect());
        let mut heap = Heap::default();
        let mut inside = Vec::new();
        let mut most = (0, 0);
        for round in 0..3000_u64 {
            let id = (choose(round) % 300) as u32;
            if inside.contains(&id) {
                heap.remove(&mut keys, id);
                inside.retain(|&other| other != id);
                assert_eq!(keys.spot(id), Spot::OUT);
                heap.remove(&mut keys, id);
            } else {
                keys.0[id as usize].0 = key(round);
                heap.push(&mut keys, id);
                inside.push(id);
            }
            let least = inside.iter().map(|&id| keys.0[id as usize].0).min();
            let first = heap
                .first(|a, b| keys.before(a, b))
                .map(|id| keys.0[id as usize].0);
            assert_eq!((first, heap.is_empty()), (least, inside.is_empty()));
            let at = |at: usize| keys.spot(heap.ids[at]) == Spot(at as u32, IN_HEAP);
            assert!((0..heap.ids.len()).all(at));
            let listed = heap.listed(&keys);
            assert!(listed.is_sorted_by_key(|&id| keys.0[id as usize].0));
            assert_eq!(listed.len() + heap.ids.len(), inside.len());
            most = (most.0.max(listed.len()), most.1.max(heap.ids.len()));
            if round % 3 == 0
                && let Some(first) = heap.first(|a, b| keys.before(a, b))
            {
                heap.remove(&mut keys, first);
                inside.retain(|&other| other != first);
            }
        }
        most
    }

    #[test]
    fn the_least_is_first_whatever_is_taken_out_of_the_middle() {
        let (_, heaped) = stir(|n| n * 7919 % 503, |round| round * 31);
        assert!(heaped > 20, "{heaped} in the heap");
        let (listed, heaped) = stir(|n| n * 7919 % 50 + n, |round| round * 31);
        assert!(listed > 20 && heaped > 20, "{listed} and {heaped}");
    }

    #[test]
    fn members_that_come_in_order_never_see_the_heap_and_one_that_does_not_goes_there_alone() {
        assert_eq!(stir(|n| n / 4, |round| round * 31).1, 0);
        let (listed, heaped) = stir(|n| if n == 5 { 1_000_000 } else { n }, |round| round * 31);
        assert!(listed > 20 && heaped <= 1, "{listed} and {heaped}");
    }
}
