//! Credentials that take two seconds to come, under each policy: requests at the model are spaced and counted as the policy says,
//! and nothing is held while the credentials are waited for.

use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use antfly_framework::testing::{ManualClock, Reply, Server};
use antfly_framework::{Client, EmbedRequest, Time};
use serde_json::{Value, json};

use crate::credentials::{Loads, container};
use crate::support::{Log, client_on, credentials, drive, embedder, vector};

/// What the agent sees of the scopes each time it is asked: how many attempts hold a permit.
type Held = Arc<Mutex<Vec<usize>>>;

struct World {
    client: Client,
    clock: ManualClock,
    agent: Server,
    models: Server,
    loads: Loads,
    held: Held,
    log: Log,
}

/// Credentials that live four seconds, from an agent that takes two on the client's clock.
fn world() -> World {
    let (time, clock) = Time::manual();
    let (loads, held, log) = (Loads::default(), Held::default(), Log::default());
    let known: Arc<OnceLock<Client>> = Arc::default();
    let agent = {
        let (loads, held, clock, known) = (
            loads.clone(),
            Arc::clone(&held),
            clock.clone(),
            Arc::clone(&known),
        );
        Server::with(move |_| {
            let active =
                |client: &Client| client.snapshot().iter().map(|s| s.active as usize).sum();
            let before: usize = known.get().map_or(0, active);
            clock.advance(Duration::from_secs(2));
            let after: usize = known.get().map_or(0, active);
            held.lock().unwrap().push(before.max(after));
            Reply::json(200, credentials(loads.next(), 4))
        })
    };
    let client = client_on(time, container(&agent), &log);
    known.set(client.clone()).unwrap();
    World {
        client,
        clock,
        agent,
        models: Server::with(|_| vector()),
        loads,
        held,
        log,
    }
}

impl World {
    /// Calls one after the other; every one has to load anew, as the last credentials have ended meanwhile.
    async fn call(&self, calls: usize, limit: Value) -> Vec<Duration> {
        let embedder = embedder(&self.client, &self.models, json!({ "rate_limit": limit }));
        for _ in 0..calls {
            drive(&self.clock, embedder.embed(EmbedRequest::texts(["a"])))
                .await
                .unwrap();
            self.clock.advance(Duration::from_secs(4));
        }
        assert_eq!(self.models.requests().len(), calls);
        assert_eq!(embedder.scope_snapshot().counters.admitted, calls as u64);
        assert_eq!(self.loads.count(), calls);
        assert!(
            self.held.lock().unwrap().iter().all(|held| *held == 0),
            "a permit was held meanwhile"
        );
        let at: Vec<_> = self.log.records().iter().map(|r| r.at).collect();
        at.windows(2)
            .map(|pair| pair[1].saturating_duration_since(pair[0]))
            .collect()
    }
}

#[tokio::test]
async fn requests_per_minute_keep_their_spacing() {
    let world = world();
    // One in 7.5 s: the slot is due while the credentials are fetched or after.
    let gaps = world.call(4, json!({"requests_per_minute": 8})).await;
    let (least, most) = (Duration::from_millis(7_500), Duration::from_millis(9_600));
    assert!(
        gaps.iter().all(|gap| (least..most).contains(gap)),
        "{gaps:?}"
    );
    assert_eq!(world.agent.requests().len(), 4);
}

#[tokio::test]
async fn completion_pacing_keeps_its_delay_after_each_end() {
    let world = world();
    let gaps = world
        .call(4, json!({"requests_per_minute": 8, "pacing": "completion"}))
        .await;
    let (least, most) = (Duration::from_millis(7_500), Duration::from_millis(9_600));
    assert!(
        gaps.iter().all(|gap| (least..most).contains(gap)),
        "{gaps:?}"
    );
}

#[tokio::test]
async fn one_at_a_time_is_not_taken_up_by_a_load() {
    let world = world();
    // Each call starts four seconds after the last and waits two for its credentials: no more than that.
    let gaps = world.call(4, json!({"max_concurrency": 1})).await;
    assert!(
        gaps.iter().all(|gap| *gap == Duration::from_secs(6)),
        "{gaps:?}"
    );
}

#[tokio::test]
async fn concurrent_calls_share_the_slow_load_and_then_the_policy() {
    let world = world();
    let limit = json!({"rate_limit": {"requests_per_minute": 60, "max_concurrency": 1}});
    let embedder = embedder(&world.client, &world.models, limit);
    let calls =
        futures::future::join_all((0..5).map(|_| embedder.embed(EmbedRequest::texts(["a"]))));
    let done = drive(&world.clock, calls).await;
    assert!(done.iter().all(Result::is_ok));
    assert_eq!(
        (
            world.models.requests().len(),
            world.models.peak_open_requests()
        ),
        (5, 1)
    );
    let at: Vec<_> = world.log.records().iter().map(|r| r.at).collect();
    assert!(
        at[0].saturating_duration_since(antfly_framework::Instant::default())
            >= Duration::from_secs(2)
    );
    let gaps: Vec<_> = at
        .windows(2)
        .map(|pair| pair[1].saturating_duration_since(pair[0]))
        .collect();
    assert!(
        gaps.iter().all(|gap| *gap >= Duration::from_secs(1)),
        "{gaps:?}"
    );
    assert!(world.loads.count() <= 3, "{}", world.loads.count());
}
