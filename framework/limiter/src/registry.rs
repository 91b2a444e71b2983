//! All scopes of a process.

use std::borrow::Borrow;
use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

use crate::error::PolicyConflict;
use crate::key::ScopeKey;
use crate::lease::Lease;
use crate::policy::Policy;
use crate::shared::Shared;
use crate::snapshot::ScopeSnapshot;
use crate::sync::{AtomicUsize, Mutex, MutexGuard, lock};
use crate::time::{Instant, Time};

/// Shards of the registry, each with a lock of its own. One under loom, where no step may depend on a random hash.
const SHARDS: usize = if cfg!(antfly_loom) { 1 } else { 32 };
/// How many idle scopes one lease or one ending looks at, in each of two shards.
const SWEEP: usize = 4;

/// A registry of scopes with one clock. Clones share it.
#[derive(Clone)]
pub struct Limiter(Arc<Registry>);

struct Registry {
    time: Time,
    hasher: RandomState,
    shards: [Mutex<Shard>; SHARDS],
    turn: AtomicUsize,
}

#[derive(Default)]
struct Shard {
    scopes: HashSet<Entry>,
    /// Drained scopes by the instant they owe nothing any more; the number tells two of the same instant apart.
    idle: BTreeMap<(Instant, usize), Arc<Shared>>,
}

struct Entry(Arc<Shared>);

impl Limiter {
    /// A registry of its own.
    #[must_use]
    pub fn new(time: Time) -> Self {
        let shards = std::array::from_fn(|_| Mutex::default());
        Self(Arc::new(Registry {
            time,
            hasher: RandomState::new(),
            shards,
            turn: AtomicUsize::new(0),
        }))
    }

    /// The process's registry, on the process's timer thread.
    #[must_use]
    pub fn global() -> Self {
        static GLOBAL: OnceLock<Limiter> = OnceLock::new();
        GLOBAL.get_or_init(|| Self::new(Time::thread())).clone()
    }

    /// The clock.
    #[must_use]
    pub fn time(&self) -> &Time {
        &self.0.time
    }

    /// Takes a lease on a scope. A drained scope adopts the policy and keeps what it owes.
    ///
    /// # Errors
    ///
    /// [`PolicyConflict`] if the scope has a lease, a permit or a waiter under a different policy.
    pub fn lease(&self, key: &ScopeKey, policy: Policy) -> Result<Lease, PolicyConflict> {
        let now = self.0.time.now();
        let joined = {
            let mut shard = self.shard(key);
            shard.sweep(now, SWEEP);
            let scope = if let Some(Entry(scope)) = shard.scopes.get(key) {
                scope.clone()
            } else {
                let scope = Shared::new(key.clone(), self.0.time.clone(), policy);
                shard.scopes.insert(Entry(scope.clone()));
                scope
            };
            scope.join(policy).map(|()| scope)
        };
        self.sweep_another(now);
        match joined {
            Ok(scope) => Ok(Lease::new(self.clone(), scope)),
            Err(active) => Err(PolicyConflict {
                scope: key.clone(),
                active,
                requested: policy,
            }),
        }
    }

    /// Every scope that is remembered, in the order of their keys. Each is read under its own lock.
    #[must_use]
    pub fn snapshot(&self) -> Vec<ScopeSnapshot> {
        let now = self.0.time.now();
        let mut scopes: Vec<Arc<Shared>> = Vec::new();
        for shard in &self.0.shards {
            let mut shard = lock(shard);
            shard.sweep(now, usize::MAX);
            scopes.extend(shard.scopes.iter().map(|entry| entry.0.clone()));
        }
        scopes.sort_by(|a, b| a.key.cmp(&b.key));
        scopes.iter().map(|scope| scope.snapshot()).collect()
    }

    /// How many scopes are remembered: those in use and those that owe something.
    #[must_use]
    pub fn scope_count(&self) -> usize {
        let now = self.0.time.now();
        let count = |shard: &Mutex<Shard>| {
            let mut shard = lock(shard);
            shard.sweep(now, usize::MAX);
            shard.scopes.len()
        };
        self.0.shards.iter().map(count).sum()
    }

    /// Ends the cooldown of a scope; says whether one was on.
    pub fn clear_cooldown(&self, key: &ScopeKey) -> bool {
        let scope = self.shard(key).scopes.get(key).map(|entry| entry.0.clone());
        let Some(scope) = scope else { return false };
        let cleared = scope.clear_cooldown();
        if cleared {
            let now = self.0.time.now();
            let mut shard = self.shard(key);
            if let Some((until, planned)) = scope.idle() {
                shard.retire(&scope, now, until, planned);
            }
        }
        cleared
    }

    /// Ends a lease.
    pub(crate) fn part(&self, scope: &Arc<Shared>) {
        let now = self.0.time.now();
        {
            let mut shard = self.shard(&scope.key);
            if let Some((until, planned)) = scope.part() {
                shard.retire(scope, now, until, planned);
            }
            shard.sweep(now, SWEEP);
        }
        self.sweep_another(now);
    }

    fn shard(&self, key: &ScopeKey) -> MutexGuard<'_, Shard> {
        let hash = self.0.hasher.hash_one(key);
        let shards = &self.0.shards;
        lock(&shards[(hash >> 32) as usize % shards.len()])
    }

    /// So that idle shards are swept as well.
    fn sweep_another(&self, now: Instant) {
        let turn = self.0.turn.fetch_add(1, Ordering::Relaxed);
        let shards = &self.0.shards;
        if let Ok(mut shard) = shards[turn % shards.len()].try_lock() {
            shard.sweep(now, SWEEP);
        }
    }
}

impl Shard {
    /// Forgets a drained scope that owes nothing; plans to look again at one that does.
    fn retire(
        &mut self,
        scope: &Arc<Shared>,
        now: Instant,
        until: Instant,
        planned: Option<Instant>,
    ) {
        let number = Arc::as_ptr(scope).addr();
        if let Some(planned) = planned {
            self.idle.remove(&(planned, number));
        }
        if until <= now {
            scope.plan_sweep(None);
            // Another scope may go by this name by now only if this one was forgotten before.
            if self
                .scopes
                .get(&scope.key)
                .is_some_and(|entry| Arc::ptr_eq(&entry.0, scope))
            {
                self.scopes.remove(&scope.key);
            }
        } else {
            scope.plan_sweep(Some(until));
            self.idle.insert((until, number), scope.clone());
        }
    }

    /// Forgets up to `limit` drained scopes that owe nothing any more.
    fn sweep(&mut self, now: Instant, limit: usize) {
        for _ in 0..limit {
            let Some(first) = self.idle.first_entry() else {
                break;
            };
            if first.key().0 > now {
                break;
            }
            let scope = first.remove();
            match scope.idle() {
                Some((until, _)) => self.retire(&scope, now, until, None),
                None => scope.plan_sweep(None),
            }
        }
        if self.scopes.capacity() > 64 && self.scopes.len() < self.scopes.capacity() / 8 {
            self.scopes.shrink_to(self.scopes.len() * 2);
        }
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.0.key == other.0.key
    }
}

impl Eq for Entry {}

impl Hash for Entry {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.key.hash(state);
    }
}

impl Borrow<ScopeKey> for Entry {
    fn borrow(&self) -> &ScopeKey {
        &self.0.key
    }
}

impl fmt::Debug for Limiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Limiter")
            .field("time", &self.0.time)
            .finish_non_exhaustive()
    }
}
