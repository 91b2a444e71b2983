//! Thousands of callers for days.

use std::pin::Pin;
use std::time::Duration;

use antfly_limiter::Instant;

use crate::books::Tally;
use crate::caller::{self, Caller};
use crate::dice::Dice;
use crate::executor::{self, Weather};
use crate::world::{SHIFTING, STEADY, UNLIMITED, World};

struct Outcome {
    tallies: Vec<(&'static str, Tally)>,
    polls: u64,
    late_polls: u64,
    digest: u64,
}

fn run(seed: u64, days: f64, callers: usize) -> Outcome {
    let mut dice = Dice(seed);
    let world = World::new(days, &mut dice);
    let start = world.now();
    let tasks = (0..callers).map(|id| {
        let caller = Caller {
            id,
            world: world.clone(),
            dice: dice.split(),
        };
        let task: Pin<Box<dyn Future<Output = ()>>> = Box::pin(caller.live());
        task
    });
    let mut tasks: Vec<_> = tasks.collect();
    tasks.push(Box::pin(caller::audit(world.clone())));
    let weather = Weather {
        late_polls: 400,
        suspensions: suspensions(&mut dice, start, days),
    };
    let suspended = |until, rest| world.suspended(until, rest);
    let (polls, late_polls) = executor::run(
        &world.clock,
        &mut dice,
        &weather,
        &world.excused,
        suspended,
        tasks,
    );
    world.audit();
    let books = world.books();
    books.iter().for_each(|books| books.close());
    if callers >= 2000 {
        books[STEADY].assert_work_conserving();
    }
    // What is left is debt, and that does not last.
    world
        .clock
        .set(world.now().saturating_add(Duration::from_secs(86_400)));
    assert_eq!((world.limiter.scope_count(), world.clock.armed()), (0, 0));
    let popular = books[..world.popular()].iter();
    Outcome {
        tallies: popular.map(|books| (books.name, books.tally)).collect(),
        polls,
        late_polls,
        digest: world.digest(),
    }
}

/// An hour, minutes, seconds; once a day each, at any time.
fn suspensions(dice: &mut Dice, start: Instant, days: f64) -> Vec<(Instant, Duration)> {
    let mut all = Vec::new();
    for day in 0..days as u64 {
        for secs in [3600, 240, 3] {
            let at = Duration::from_secs(day * 86_400 + dice.roll(80_000));
            all.push((start.saturating_add(at), Duration::from_secs(secs)));
        }
    }
    all.sort();
    all
}

fn setting<T: std::str::FromStr>(name: &str, usual: T) -> T {
    let given = std::env::var(name).ok();
    given.map_or(usual, |text| {
        text.parse()
            .unwrap_or_else(|_| panic!("{name}={text} is not a number"))
    })
}

#[test]
fn thousands_of_callers_for_days_break_no_promise() {
    let (seed, days) = (setting("SIM_SEED", 1_u64), setting("SIM_DAYS", 2_u32));
    let callers = setting("SIM_CALLERS", 5000_usize);
    println!("SIM_SEED={seed} SIM_DAYS={days} SIM_CALLERS={callers}");
    let began = std::time::Instant::now();
    let outcome = run(seed, days.into(), callers);
    let all = &outcome.tallies;
    for (name, tally) in all {
        println!("{name}: {tally:?}");
    }
    println!(
        "{} polls, {} of them late, in {:?}",
        outcome.polls,
        outcome.late_polls,
        began.elapsed()
    );
    let sum = |f: fn(&Tally) -> u64| all.iter().map(|(_, tally)| f(tally)).sum::<u64>();
    for (what, count) in [
        ("late polls", outcome.late_polls),
        ("starts", sum(|t| t.started)),
        ("waits", sum(|t| t.waited)),
        ("429s with a hint", sum(|t| t.told)),
        ("429s without", sum(|t| t.refused_without_hint)),
        ("failures", sum(|t| t.broken)),
        ("refusals for a deadline", sum(|t| t.out_of_time)),
        ("refusals for a cost", sum(|t| t.too_large)),
        ("cancels", sum(|t| t.cancelled)),
        ("stale credentials", sum(|t| t.stale)),
        ("other policies adopted", all[SHIFTING].1.adopted),
        ("conflicts", all[SHIFTING].1.conflicts),
        ("slow restarts", all[UNLIMITED].1.slow_restarts),
    ] {
        assert!(
            count >= 5,
            "{what}: only {count}, this run proves too little"
        );
    }
}

#[test]
fn a_seed_replays_to_the_nanosecond() {
    let digest = |seed| run(seed, 0.5, 500).digest;
    assert_eq!(digest(3), digest(3));
    assert_ne!(digest(3), digest(4));
}
