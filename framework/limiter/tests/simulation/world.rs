//! The scopes, the providers behind them, and who looks after the books.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use antfly_limiter::{
    Instant, Lease, Limiter, Pacing, Permit, Policy, PolicyConflict, ScopeKey, Time,
};

use crate::books::{Books, Wish};
use crate::clock::Clock;
use crate::common::policy;
use crate::dice::Dice;
use crate::executor::Excused;
use crate::provider::{Answer, Provider};

/// Scopes that hardly anyone uses, beside those that everyone does.
pub const RARE: usize = 500;
/// The one whose policy changes.
pub const SHIFTING: usize = 7;
/// The one whose provider takes everything, so that its rate alone keeps anyone waiting.
pub const STEADY: usize = 1;
/// The one without any limit of its own.
pub const UNLIMITED: usize = 4;

const SHIFT: u64 = 3 * 3_600_000_000_000;

pub struct World {
    pub clock: Arc<Clock>,
    pub time: Time,
    pub limiter: Limiter,
    pub end: Instant,
    pub excused: Excused,
    books: RefCell<Vec<Books>>,
    providers: RefCell<Vec<Provider>>,
    digest: Cell<u64>,
}

/// Name, policy, the provider's own limit.
type Popular = (&'static str, Policy, Option<(u64, u64)>);

fn popular() -> Vec<Popular> {
    vec![
        (
            "everything",
            policy(|p| {
                p.requests_per_minute(300)
                    .burst(10)
                    .max_concurrency(8)
                    .tokens_per_minute(60_000)
            }),
            Some((400, 60)),
        ),
        ("steady", policy(|p| p.requests_per_minute(120)), None),
        (
            "completion",
            policy(|p| p.requests_per_minute(120).pacing(Pacing::Completion)),
            Some((200, 2)),
        ),
        (
            "concurrency",
            policy(|p| p.max_concurrency(4)),
            Some((600, 200)),
        ),
        ("unlimited", Policy::UNLIMITED, Some((120, 20))),
        (
            "tokens",
            policy(|p| p.tokens_per_minute(30_000)),
            Some((1000, 100)),
        ),
        (
            "too generous",
            policy(|p| p.requests_per_minute(6000).burst(50).max_concurrency(30)),
            Some((100, 10)),
        ),
        ("shifting", shifting(0), Some((150, 10))),
    ]
}

fn shifting(turn: u64) -> Policy {
    match turn % 3 {
        0 => policy(|p| {
            p.requests_per_minute(120)
                .burst(5)
                .tokens_per_minute(50_000)
        }),
        // What was spent under the first is more than this allows at all, so it is long before anyone starts.
        1 => policy(|p| p.tokens_per_minute(20_000).max_concurrency(3)),
        _ => policy(|p| p.requests_per_minute(60)),
    }
}

fn rare() -> Policy {
    policy(|p| p.requests_per_minute(60))
}

impl World {
    pub fn new(days: f64, dice: &mut Dice) -> Rc<Self> {
        let clock = Arc::new(Clock::default());
        let start = Instant::from_nanos(1_000_000_000_000_000);
        clock.set(start);
        let time = Time::new(clock.clone());
        let end = start.saturating_add(Duration::from_secs_f64(days * 86_400.0));
        let (mut books, mut providers) = (Vec::new(), Vec::new());
        for (index, (name, policy, limit)) in popular().into_iter().enumerate() {
            let until = if index == STEADY { start } else { end };
            let provider = Provider::new(limit, dice, start, until);
            books.push(Books::new(name, policy, start, provider.outages()));
            providers.push(provider);
        }
        for _ in 0..RARE {
            books.push(Books::new("rare", rare(), start, &[]));
            providers.push(Provider::new(None, dice, start, start));
        }
        Rc::new(Self {
            limiter: Limiter::new(time.clone()),
            clock,
            time,
            end,
            excused: Excused::default(),
            books: RefCell::new(books),
            providers: RefCell::new(providers),
            digest: Cell::new(0),
        })
    }

    pub fn now(&self) -> Instant {
        self.time.now()
    }

    /// How many popular scopes there are; the rare come after them.
    pub fn popular(&self) -> usize {
        self.books.borrow().len() - RARE
    }

    /// What is configured for a scope at this time.
    pub fn configured(&self, scope: usize) -> Policy {
        if scope == SHIFTING {
            // A little after the hour, when there is a line.
            return shifting((self.now().as_nanos() - 40_000_000_000) / SHIFT);
        }
        self.books.borrow()[scope].policy()
    }

    pub fn key(scope: usize) -> ScopeKey {
        ScopeKey::new([("scope", scope.to_string())])
    }

    /// Takes a lease under what is configured now.
    pub fn lease(self: &Rc<Self>, scope: usize) -> Result<Leased, PolicyConflict> {
        let policy = self.configured(scope);
        let lease = self.limiter.lease(&Self::key(scope), policy);
        self.note(scope, 1, |books, now, _| {
            books.leased(now, policy, lease.is_ok())
        });
        lease.map(|lease| Leased {
            lease: Some(lease),
            scope,
            world: self.clone(),
        })
    }

    pub fn ask(&self, scope: usize, dice: &mut Dice) -> Answer {
        self.providers.borrow_mut()[scope].ask(self.now(), dice)
    }

    /// Enters something in the books of a scope, and what it was in the digest of the run.
    pub fn note<T>(
        &self,
        scope: usize,
        what: u64,
        f: impl FnOnce(&mut Books, Instant, &[Instant]) -> T,
    ) -> T {
        let now = self.now();
        let mut entry = Dice(self.digest.get() ^ (scope as u64) << 8 ^ what ^ now.as_nanos() << 20);
        self.digest.set(entry.roll(u64::MAX));
        f(
            &mut self.books.borrow_mut()[scope],
            now,
            &self.excused.borrow(),
        )
    }

    pub fn books(&self) -> std::cell::Ref<'_, Vec<Books>> {
        self.books.borrow()
    }

    pub fn digest(&self) -> u64 {
        self.digest.get()
    }

    pub fn suspended(&self, until: Instant, rest: Duration) {
        for books in self.books.borrow_mut().iter_mut() {
            books.suspended(until, rest);
        }
    }

    /// That the limiter's own account of each scope is ours, and that it holds no scope without a reason.
    pub fn audit(&self) {
        let (books, now) = (self.books.borrow(), self.now());
        let ours = books.iter().filter(|books| books.remembered(now)).count();
        let needed = books.iter().filter(|books| books.holds().2 > 0).count();
        let scopes = self.limiter.snapshot();
        assert!(
            scopes.len() <= ours && scopes.len() >= needed,
            "{} of {ours} scopes",
            scopes.len()
        );
        for scope in scopes {
            let (_, index) = scope.key.fields().next().expect("one field");
            let books = &books[index.parse::<usize>().expect("a number")];
            let theirs = (scope.active, scope.queued, scope.leases);
            assert_eq!(theirs, books.holds(), "{}", books.name);
            assert_eq!(scope.policy, books.policy(), "{}", books.name);
        }
    }
}

/// A lease, in the books while it lives.
pub struct Leased {
    lease: Option<Lease>,
    scope: usize,
    world: Rc<World>,
}

impl std::ops::Deref for Leased {
    type Target = Lease;

    fn deref(&self) -> &Lease {
        self.lease.as_ref().expect("taken only by the drop")
    }
}

impl Drop for Leased {
    fn drop(&mut self) {
        self.lease = None;
        self.world.note(self.scope, 2, |books, _, _| books.parted());
    }
}

/// A place in line, in the books until it is given up or leads to a start.
pub struct Place {
    pub seq: u64,
    scope: usize,
    world: Rc<World>,
    open: bool,
}

impl Place {
    pub fn new(world: &Rc<World>, scope: usize, wish: Wish) -> Self {
        let seq = world.note(scope, 3, |books, now, excused| {
            books.arrives(now, wish, excused)
        });
        Self {
            seq,
            scope,
            world: world.clone(),
            open: true,
        }
    }

    pub fn started(mut self, permit: Permit) -> InFlight {
        self.open = false;
        let now = self.world.now();
        assert_eq!(permit.admitted_at(), now);
        let cost = permit.cost();
        self.world.note(self.scope, 4, |books, now, excused| {
            books.starts(now, self.seq, cost, excused)
        });
        InFlight {
            permit: Some(permit),
            scope: self.scope,
            world: self.world.clone(),
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.open {
            self.world.note(self.scope, 5, |books, now, excused| {
                books.leaves(now, self.seq, excused)
            });
        }
    }
}

/// An attempt under way, in the books until its permit goes back.
pub struct InFlight {
    permit: Option<Permit>,
    scope: usize,
    world: Rc<World>,
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.permit = None;
        self.world
            .note(self.scope, 6, |books, now, _| books.finishes(now));
    }
}
