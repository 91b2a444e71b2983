//! The line of waiters, first in, first out.
//!
//! A waiter is *fresh* until it is invited for the first time. An invited one whose invitation lapses is a *sleeper*:
//! not in line, but with its seniority kept; when it shows up again it is a *senior*. Every senior came before every
//! fresh one, because invitations go out in order. Among the invited only the first may claim.

use std::collections::BTreeMap;
use std::task::Waker;

use crate::error::DeadlineCause;
use crate::heap::{Arena, Heap, Spot};
use crate::policy::Policy;
use crate::scope::{Ahead, GRACE, Scope};
use crate::time::{AlarmKey, Instant};
use crate::wakes::Wakes;

const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    Free,
    Fresh,
    Senior,
    Invited,
    Asleep,
    Failed(DeadlineCause),
}

#[derive(Debug)]
struct Slot {
    cost: u64,
    /// [`Instant::MAX`] is none.
    deadline: Instant,
    seq: u64,
    /// When the invitation lapses; after a failure, the end of the cooldown.
    until: Instant,
    /// In an invited slot: it came before its turn and is to be told when that is.
    waker: Option<Waker>,
    prev: u32,
    next: u32,
    by_deadline: Spot,
    by_slack: Spot,
    place: Place,
}

#[derive(Debug)]
struct List {
    head: u32,
    tail: u32,
    len: usize,
}

#[derive(Debug)]
pub(crate) struct Queue {
    /// The one timer of the scope.
    pub(crate) timer: Option<AlarmKey>,
    policy: Policy,
    slots: Vec<Slot>,
    free: u32,
    used: usize,
    next_seq: u64,
    fresh: List,
    invited: List,
    senior: BTreeMap<u64, u32>,
    line_tokens: u128,
    invited_tokens: u128,
    deadlines: Heap,
    slacks: Heap,
}

impl Queue {
    pub(crate) fn new(policy: Policy) -> Self {
        Self {
            timer: None,
            policy,
            slots: Vec::new(),
            free: NONE,
            used: 0,
            next_seq: 0,
            fresh: List::new(),
            invited: List::new(),
            senior: BTreeMap::new(),
            line_tokens: 0,
            invited_tokens: 0,
            deadlines: Heap::default(),
            slacks: Heap::default(),
        }
    }

    /// Everyone that waits, sleepers included.
    pub(crate) fn len(&self) -> usize {
        self.used
    }

    /// Those in line: everyone but the sleepers.
    pub(crate) fn in_line(&self) -> usize {
        self.fresh.len + self.senior.len() + self.invited.len
    }

    /// What all those in line will take.
    pub(crate) fn line(&self) -> Ahead {
        Ahead {
            requests: self.in_line() as u64,
            tokens: self.line_tokens,
        }
    }

    /// What the invited will take.
    pub(crate) fn booked(&self) -> Ahead {
        Ahead {
            requests: self.invited.len as u64,
            tokens: self.invited_tokens,
        }
    }

    /// Joins the line at its tail, or, if `asleep`, keeps a place without standing in line. An empty line only.
    pub(crate) fn join(
        &mut self,
        cost: u64,
        deadline: Option<Instant>,
        waker: Option<Waker>,
        asleep: bool,
    ) -> u32 {
        let slot = Slot {
            cost,
            deadline: deadline.unwrap_or(Instant::MAX),
            seq: self.next_seq,
            until: Instant::ZERO,
            waker,
            prev: NONE,
            next: NONE,
            by_deadline: Spot::OUT,
            by_slack: Spot::OUT,
            place: Place::Asleep,
        };
        self.next_seq += 1;
        self.used += 1;
        let id = if self.free == NONE {
            if self.slots.len() == self.slots.capacity() {
                self.slots.reserve_exact(self.slots.len() / 4 + 8);
            }
            self.slots.push(slot);
            (self.slots.len() - 1) as u32
        } else {
            let id = self.free;
            self.free = self.at(id).next;
            *self.at_mut(id) = slot;
            id
        };
        if deadline.is_some_and(|deadline| deadline < Instant::MAX) {
            self.deadlines.push(&mut ByDeadline(&mut self.slots), id);
            if self.policy.tokens_per_minute().is_some() && cost > 0 {
                self.slacks
                    .push(&mut BySlack(&mut self.slots, &self.policy), id);
            }
        }
        if !asleep {
            self.enter(id, Place::Fresh);
        }
        id
    }

    /// Gives a place up.
    pub(crate) fn remove(&mut self, id: u32, now: Instant, wakes: &mut Wakes) {
        self.detach(id, now, wakes);
        self.unwatch(id);
        let free = self.free;
        let slot = self.at_mut(id);
        slot.place = Place::Free;
        slot.next = free;
        wakes.discard(slot.waker.take());
        self.free = id;
        self.used -= 1;
        if self.used == 0 && self.slots.capacity() > 64 {
            self.slots = Vec::new();
            self.free = NONE;
            self.deadlines.release();
            self.slacks.release();
        }
    }

    pub(crate) fn place(&self, id: u32) -> Place {
        self.at(id).place
    }

    /// The end of the cooldown that made it fail.
    pub(crate) fn failed_until(&self, id: u32) -> Instant {
        self.at(id).until
    }

    pub(crate) fn cost(&self, id: u32) -> u64 {
        self.at(id).cost
    }

    /// Remembers whom to wake; gives back the one remembered before.
    pub(crate) fn set_waker(&mut self, id: u32, waker: Waker) -> Option<Waker> {
        self.at_mut(id).waker.replace(waker)
    }

    /// The most senior of those in line who have not been invited.
    pub(crate) fn candidate(&self) -> Option<u32> {
        self.senior
            .first_key_value()
            .map(|(_, &id)| id)
            .or((self.fresh.head != NONE).then_some(self.fresh.head))
    }

    /// Whether it is this one's turn to claim.
    pub(crate) fn may_claim(&self, id: u32) -> bool {
        self.at(id).place == Place::Invited && self.invited.head == id
    }

    /// Whether its invitation has lapsed, noticed or not.
    pub(crate) fn overslept(&self, id: u32, now: Instant) -> bool {
        match self.at(id).place {
            Place::Asleep => true,
            Place::Invited => self.at(id).until <= now,
            _ => false,
        }
    }

    /// Wakes one that waits to be told what it could know already.
    pub(crate) fn tell(&mut self, id: u32, wakes: &mut Wakes) {
        let told =
            matches!(self.at(id).place, Place::Asleep | Place::Failed(_)) || self.may_claim(id);
        if told {
            wakes.push(self.at_mut(id).waker.take());
        }
    }

    /// Invites the candidate.
    pub(crate) fn invite(&mut self, id: u32, now: Instant, wakes: &mut Wakes) {
        self.detach(id, now, wakes);
        self.enter(id, Place::Invited);
        let slot = self.at_mut(id);
        slot.until = lapse_after(now);
        wakes.push(slot.waker.take());
    }

    /// Takes an invitation back: the waiter is in line again, at its own place.
    pub(crate) fn uninvite(&mut self, id: u32, now: Instant, wakes: &mut Wakes) {
        self.detach(id, now, wakes);
        self.enter(id, Place::Senior);
    }

    /// Takes all invitations back.
    pub(crate) fn uninvite_all(&mut self) {
        while self.invited.head != NONE {
            let id = self.invited.head;
            self.leave(id);
            self.enter(id, Place::Senior);
        }
    }

    /// Keeps the place of one that cannot come now, without standing in the way.
    pub(crate) fn fall_asleep(&mut self, id: u32, now: Instant, wakes: &mut Wakes) {
        self.detach(id, now, wakes);
    }

    /// A sleeper shows up again, at its own place.
    pub(crate) fn rejoin(&mut self, id: u32) {
        if self.at(id).place == Place::Asleep {
            self.enter(id, Place::Senior);
        }
    }

    /// Lets lapse what was not claimed in time.
    pub(crate) fn lapse(&mut self, now: Instant, wakes: &mut Wakes) {
        while self.invited.head != NONE && self.at(self.invited.head).until <= now {
            self.detach(self.invited.head, now, wakes);
        }
    }

    /// Fails everyone with a deadline before `horizon` for `cause`, or before `now`.
    pub(crate) fn fail_hopeless(
        &mut self,
        now: Instant,
        (horizon, cause): (Instant, DeadlineCause),
        cooldown_until: Instant,
        wakes: &mut Wakes,
    ) {
        while let Some(id) = self.first_deadline() {
            let deadline = self.at(id).deadline;
            let cause = match () {
                () if deadline < now => DeadlineCause::Passed,
                () if deadline < horizon => cause,
                () => break,
            };
            self.fail(id, now, cause, cooldown_until, wakes);
        }
    }

    /// Fails everyone whose own cost needs longer than its deadline.
    pub(crate) fn fail_unaffordable(&mut self, now: Instant, pressure: i128, wakes: &mut Wakes) {
        while let Some(id) = self.least_slack() {
            if slack(&self.policy, self.at(id)) >= pressure {
                break;
            }
            self.fail(id, now, DeadlineCause::Tokens, Instant::ZERO, wakes);
        }
    }

    /// Fails those whose deadline is `now` and who have not been invited in time.
    pub(crate) fn fail_late(&mut self, now: Instant, wakes: &mut Wakes) {
        while let Some(id) = self.first_deadline() {
            if self.at(id).deadline > now || self.at(id).place == Place::Invited {
                break;
            }
            self.fail(id, now, DeadlineCause::Passed, Instant::ZERO, wakes);
        }
    }

    /// When a lapse or a deadline comes next.
    pub(crate) fn next_event(&self, now: Instant) -> Option<Instant> {
        let lapse = (self.invited.head != NONE).then(|| self.at(self.invited.head).until);
        let deadline = self.first_deadline().map(|id| {
            // One that is invited may still claim at its very deadline, and fails right after.
            self.at(id)
                .deadline
                .max(Instant::from_nanos(now.as_nanos().saturating_add(1)))
        });
        lapse.into_iter().chain(deadline).min()
    }

    fn first_deadline(&self) -> Option<u32> {
        self.deadlines
            .first(|a, b| self.at(a).deadline < self.at(b).deadline)
    }

    fn least_slack(&self) -> Option<u32> {
        let slack = |id| slack(&self.policy, self.at(id));
        self.slacks.first(|a, b| slack(a) < slack(b))
    }

    pub(crate) fn watches_nothing(&self) -> bool {
        self.deadlines.is_empty()
    }

    fn fail(
        &mut self,
        id: u32,
        now: Instant,
        cause: DeadlineCause,
        until: Instant,
        wakes: &mut Wakes,
    ) {
        self.detach(id, now, wakes);
        self.unwatch(id);
        let slot = self.at_mut(id);
        slot.place = Place::Failed(cause);
        slot.until = until;
        wakes.push(slot.waker.take());
    }

    fn unwatch(&mut self, id: u32) {
        self.deadlines.remove(&mut ByDeadline(&mut self.slots), id);
        self.slacks
            .remove(&mut BySlack(&mut self.slots, &self.policy), id);
    }

    /// Takes one out of line; if it was its turn, tells the next.
    fn detach(&mut self, id: u32, now: Instant, wakes: &mut Wakes) {
        let had_turn = self.invited.head == id;
        self.leave(id);
        if had_turn && self.invited.head != NONE {
            let next = self.at_mut(self.invited.head);
            if next.waker.is_some() {
                next.until = lapse_after(now);
                wakes.push(next.waker.take());
            }
        }
    }

    fn leave(&mut self, id: u32) {
        let (cost, seq, place) = (self.at(id).cost, self.at(id).seq, self.at(id).place);
        match place {
            Place::Fresh => List::unlink(|queue| &mut queue.fresh, self, id),
            Place::Invited => {
                List::unlink(|queue| &mut queue.invited, self, id);
                self.invited_tokens -= u128::from(cost) * crate::bucket::UNIT;
            }
            Place::Senior => {
                self.senior.remove(&seq);
            }
            Place::Free | Place::Asleep | Place::Failed(_) => return,
        }
        self.line_tokens -= u128::from(cost) * crate::bucket::UNIT;
        self.at_mut(id).place = Place::Asleep;
    }

    fn enter(&mut self, id: u32, place: Place) {
        let (cost, seq) = (self.at(id).cost, self.at(id).seq);
        match place {
            Place::Fresh => List::insert(|queue| &mut queue.fresh, self, id),
            Place::Invited => {
                List::insert(|queue| &mut queue.invited, self, id);
                self.invited_tokens += u128::from(cost) * crate::bucket::UNIT;
            }
            Place::Senior => {
                self.senior.insert(seq, id);
            }
            Place::Free | Place::Asleep | Place::Failed(_) => return,
        }
        self.line_tokens += u128::from(cost) * crate::bucket::UNIT;
        self.at_mut(id).place = place;
    }

    fn at(&self, id: u32) -> &Slot {
        &self.slots[id as usize]
    }

    fn at_mut(&mut self, id: u32) -> &mut Slot {
        &mut self.slots[id as usize]
    }
}

impl List {
    fn new() -> Self {
        Self {
            head: NONE,
            tail: NONE,
            len: 0,
        }
    }

    /// Takes it in at its seniority, looked for from the tail, where it nearly always is.
    fn insert(list: fn(&mut Queue) -> &mut List, queue: &mut Queue, id: u32) {
        let (mut prev, mut next) = (list(queue).tail, NONE);
        while prev != NONE && queue.at(prev).seq > queue.at(id).seq {
            (prev, next) = (queue.at(prev).prev, prev);
        }
        list(queue).len += 1;
        let slot = queue.at_mut(id);
        (slot.prev, slot.next) = (prev, next);
        if prev == NONE {
            list(queue).head = id;
        } else {
            queue.at_mut(prev).next = id;
        }
        if next == NONE {
            list(queue).tail = id;
        } else {
            queue.at_mut(next).prev = id;
        }
    }

    fn unlink(list: fn(&mut Queue) -> &mut List, queue: &mut Queue, id: u32) {
        let (prev, next) = (queue.at(id).prev, queue.at(id).next);
        if prev == NONE {
            list(queue).head = next;
        } else {
            queue.at_mut(prev).next = next;
        }
        if next == NONE {
            list(queue).tail = prev;
        } else {
            queue.at_mut(next).prev = prev;
        }
        list(queue).len -= 1;
    }
}

struct ByDeadline<'a>(&'a mut [Slot]);

impl Arena for ByDeadline<'_> {
    fn before(&self, a: u32, b: u32) -> bool {
        self.0[a as usize].deadline < self.0[b as usize].deadline
    }

    fn spot(&self, id: u32) -> Spot {
        self.0[id as usize].by_deadline
    }

    fn place(&mut self, id: u32, spot: Spot) {
        self.0[id as usize].by_deadline = spot;
    }
}

struct BySlack<'a>(&'a mut [Slot], &'a Policy);

impl Arena for BySlack<'_> {
    fn before(&self, a: u32, b: u32) -> bool {
        let slack = |id: u32| slack(self.1, &self.0[id as usize]);
        slack(a) < slack(b)
    }

    fn spot(&self, id: u32) -> Spot {
        self.0[id as usize].by_slack
    }

    fn place(&mut self, id: u32, spot: Spot) {
        self.0[id as usize].by_slack = spot;
    }
}

fn slack(policy: &Policy, slot: &Slot) -> i128 {
    Scope::token_slack(policy, slot.cost, slot.deadline)
}

fn lapse_after(now: Instant) -> Instant {
    Instant::from_nanos(now.as_nanos().saturating_add(GRACE))
}
