//! Token-bucket pacing.

use antfly_framework::testing::Gate;
use serde_json::json;

use crate::support::*;

#[tokio::test]
async fn token_bucket_limits_admissions_permits_the_burst_and_then_keeps_the_rate() {
    let world = World::new();
    let server = good();
    let limits = json!({ "rate_limit": { "requests_per_minute": 60, "burst": 3 } });
    let caller = world.embedder(&server, limits);
    let calls: Vec<_> = (0..5).map(|_| caller.call()).collect();
    // The burst goes at once: no minimum interval between arrivals is kept.
    server.wait_for_requests(3).await;
    caller.queued(2).await;
    for left in [1, 0] {
        world.clock.advance(secs(1) - nanos(1));
        caller.still_queued(left + 1).await;
        world.clock.advance(nanos(1));
        caller.queued(left).await;
    }
    for call in calls {
        done(call).await.unwrap();
    }
    let zero = secs(0);
    assert_eq!(world.starts(5).await, [zero, zero, zero, secs(1), secs(2)]);
}

#[tokio::test]
async fn token_bucket_allows_overlap_up_to_max_concurrency() {
    let world = World::new();
    let gates = [Gate::new(), Gate::new(), Gate::new()];
    let server = gated(&gates);
    let limits =
        json!({ "rate_limit": { "requests_per_minute": 60, "burst": 5, "max_concurrency": 2 } });
    let caller = world.embedder(&server, limits);
    let calls: Vec<_> = (0..3).map(|_| caller.call()).collect();
    server.wait_for_requests(2).await;
    caller.still_queued(1).await;
    assert_eq!(caller.snap().active, 2);
    // Time gives no further slot; the end of an attempt does.
    world.clock.advance(secs(5));
    caller.still_queued(1).await;
    gates[0].open();
    server.wait_for_requests(3).await;
    for gate in gates {
        gate.open();
    }
    for call in calls {
        done(call).await.unwrap();
    }
    assert_eq!(server.peak_open_requests(), 2);
}

#[tokio::test]
async fn token_bucket_overlaps_without_a_concurrency_limit_and_waits_for_no_completion() {
    let world = World::new();
    let gate = Gate::new();
    let server = gated(&[gate.clone(), gate.clone()]);
    let limits = json!({ "rate_limit": { "requests_per_minute": 60 } });
    let caller = world.embedder(&server, limits);
    let one = caller.call();
    server.wait_for_requests(1).await;
    let two = caller.call();
    caller.queued(1).await;
    world.clock.advance(secs(1));
    // The first has not been answered yet.
    server.wait_for_requests(2).await;
    assert_eq!(server.open_requests(), 2);
    gate.open();
    done(one).await.unwrap();
    done(two).await.unwrap();
    assert_eq!(world.starts(2).await, [secs(0), secs(1)]);
}

#[tokio::test]
async fn token_bucket_retains_retry_handling() {
    for status in [429, 500, 503] {
        let world = World::new();
        let server = first([error(status)]);
        let limits = json!({ "rate_limit": { "requests_per_minute": 60, "burst": 2 } });
        let caller = world.embedder(&server, limits);
        world.drive(caller.call()).await.unwrap();
        assert_eq!(server.requests().len(), 2, "{status}");
        assert_eq!(caller.admitted(), 2, "{status}");
    }
}
