//! Credentials: outside the quota, single flight, fresh at the claim.

use std::task::Poll;
use std::time::Duration;

use antfly_framework::provider::Operation;
use antfly_framework::testing::Gate;
use antfly_framework::{CallOptions, CancellationToken, EmbedRequest, Kind};
use futures::FutureExt as _;
use futures::future::FusedFuture as _;
use serde_json::json;

use crate::support::{Answer, drive, fake};

fn texts() -> EmbedRequest {
    EmbedRequest::texts(["a"])
}

#[tokio::test]
async fn fifty_concurrent_first_calls_make_one_credential_load() {
    let (client, entry, world, clock) = fake("fifty", Operation::Embed, json!({}));
    let gate = Gate::new();
    *world.gate.lock().unwrap() = Some(gate.clone());
    let embedder = client.embedder(&entry).unwrap();
    let calls = futures::future::join_all((0..50).map(|_| embedder.embed(texts())));
    let mut calls = std::pin::pin!(calls);
    assert!(futures::poll!(calls.as_mut()).is_pending());
    let scope = embedder.scope_snapshot();
    assert_eq!(
        (scope.active, scope.queued, scope.counters.admitted),
        (0, 0, 0),
        "nothing held while it loads"
    );
    gate.open();
    let done = drive(&clock, calls).await;
    assert!(done.iter().all(Result::is_ok));
    assert_eq!(
        world.log().iter().filter(|l| l.starts_with("load")).count(),
        1
    );
    assert_eq!(embedder.scope_snapshot().counters.admitted, 50);
}

#[tokio::test]
async fn a_credential_that_went_stale_in_the_queue_is_refreshed_before_the_claim() {
    let limits = json!({"rate_limit": {"requests_per_minute": 6}});
    let (client, entry, world, clock) = fake("stale", Operation::Embed, limits);
    *world.good_for.lock().unwrap() = Some(Duration::from_secs(5));
    let embedder = client.embedder(&entry).unwrap();
    drive(&clock, embedder.embed(texts())).await.unwrap();
    // The next slot is 10 s away; the credential is good for 5 s.
    let start = clock.now();
    drive(&clock, embedder.embed(texts())).await.unwrap();
    assert_eq!(
        clock.now().saturating_duration_since(start),
        Duration::from_secs(10)
    );
    assert_eq!(world.log(), ["load", "send 1", "load", "send 1"]);
    assert_eq!(embedder.scope_snapshot().counters.admitted, 2);
}

#[tokio::test]
async fn a_refresh_at_the_head_of_the_queue_keeps_its_place_and_holds_nothing() {
    let limits = json!({"rate_limit": {"requests_per_minute": 6}});
    let (client, entry, world, clock) = fake("place", Operation::Embed, limits);
    *world.good_for.lock().unwrap() = Some(Duration::from_secs(5));
    let embedder = client.embedder(&entry).unwrap();
    drive(&clock, embedder.embed(texts())).await.unwrap();
    let mut first = Box::pin(embedder.embed(texts()));
    assert!(futures::poll!(first.as_mut()).is_pending());
    let gate = Gate::new();
    *world.gate.lock().unwrap() = Some(gate.clone());
    clock.advance(Duration::from_secs(10));
    // Invited, stale, refreshing: still in line, and no permit is held meanwhile.
    assert!(futures::poll!(first.as_mut()).is_pending());
    let scope = embedder.scope_snapshot();
    assert_eq!((scope.active, scope.queued), (0, 1));
    *world.gate.lock().unwrap() = None;
    gate.open();
    drive(&clock, first).await.unwrap();
    assert_eq!(world.log().last().map(String::as_str), Some("send 1"));
}

#[tokio::test]
async fn k02_an_expired_token_is_forced_once_and_then_an_auth_error() {
    let (client, entry, world, clock) = fake(
        "k02",
        Operation::Embed,
        json!({"retry": {"max_attempts": 1}}),
    );
    for _ in 0..3 {
        world.answer(Answer::Expired);
    }
    let embedder = client.embedder(&entry).unwrap();
    let e = drive(&clock, embedder.embed(texts())).await.unwrap_err();
    assert_eq!((e.kind(), e.attempts()), (Kind::Auth, 2));
    assert_eq!(world.log(), ["load", "send 1", "load!", "send 2"]);
    assert_eq!(
        embedder.scope_snapshot().counters.admitted,
        2,
        "the second attempt is admitted too"
    );
    world.answers.lock().unwrap().clear();
    world.answer(Answer::Expired);
    drive(&clock, embedder.embed(texts())).await.unwrap();
}

#[tokio::test]
async fn a_source_that_hides_its_expiry_is_asked_again_just_before_the_claim() {
    let limits = json!({"rate_limit": {"requests_per_minute": 60}});
    let (client, entry, world, clock) = fake("hidden", Operation::Embed, limits);
    *world.hidden.lock().unwrap() = true;
    let embedder = client.embedder(&entry).unwrap();
    drive(&clock, embedder.embed(texts())).await.unwrap();
    assert_eq!(world.log(), ["load", "load", "send 1"]);
}

#[tokio::test]
async fn a_slow_credential_costs_the_deadline_and_no_quota() {
    let (client, entry, world, clock) = fake(
        "slow",
        Operation::Embed,
        json!({"rate_limit": {"requests_per_minute": 1}}),
    );
    *world.gate.lock().unwrap() = Some(Gate::new());
    let embedder = client.embedder(&entry).unwrap();
    let options = CallOptions::default().with_timeout(Duration::from_secs(2));
    let e = drive(&clock, embedder.embed_with(texts(), options))
        .await
        .unwrap_err();
    assert_eq!((e.kind(), e.attempts()), (Kind::DeadlineExceeded, 0));
    let scope = embedder.scope_snapshot();
    assert_eq!(
        (scope.active, scope.queued, scope.counters.admitted),
        (0, 0, 0)
    );
}

#[tokio::test]
async fn a_load_that_all_its_callers_have_left_is_dropped_and_the_next_begins_anew() {
    let (client, entry, world, clock) = fake("left", Operation::Embed, json!({}));
    // Never opened: the first load is stuck for good.
    *world.gate.lock().unwrap() = Some(Gate::new());
    let embedder = client.embedder(&entry).unwrap();
    for leaves in ["deadline", "cancellation", "drop"] {
        world.log.lock().unwrap().clear();
        let cancel = CancellationToken::new();
        let options = CallOptions::default()
            .with_timeout(Duration::from_secs(2))
            .with_cancel(cancel.clone());
        let mut call = Box::pin(embedder.embed_with(texts(), options));
        assert!(futures::poll!(call.as_mut()).is_pending());
        match leaves {
            "deadline" => drop(drive(&clock, call).await.unwrap_err()),
            "cancellation" => {
                cancel.cancel();
                drop(call.await.unwrap_err());
            }
            _ => drop(call),
        }
        assert_eq!(world.log(), ["load", "load dropped"], "{leaves}");
    }
    *world.gate.lock().unwrap() = None;
    drive(&clock, embedder.embed(texts())).await.unwrap();
    assert_eq!(world.log().last().map(String::as_str), Some("send 1"));
}

#[tokio::test]
async fn a_caller_that_leaves_takes_nothing_from_those_who_still_wait() {
    let (client, entry, world, clock) = fake("leaver", Operation::Embed, json!({}));
    let gate = Gate::new();
    *world.gate.lock().unwrap() = Some(gate.clone());
    let embedder = client.embedder(&entry).unwrap();
    let mut first = Box::pin(embedder.embed(texts()));
    let mut second = Box::pin(embedder.embed(texts()));
    let mut third = Box::pin(embedder.embed(texts()));
    for call in [&mut first, &mut second, &mut third] {
        assert!(futures::poll!(call.as_mut()).is_pending());
    }
    // The one that began the load, and one that joined it.
    drop(first);
    drop(third);
    gate.open();
    drive(&clock, second).await.unwrap();
    assert_eq!(world.log(), ["load", "send 1"]);
}

#[tokio::test]
async fn a_load_that_has_been_under_way_for_a_minute_is_not_joined_and_not_taken_from_its_callers()
{
    let (client, entry, world, clock) = fake("stuck", Operation::Embed, json!({}));
    let gate = Gate::new();
    *world.gate.lock().unwrap() = Some(gate.clone());
    let embedder = client.embedder(&entry).unwrap();
    let mut first = Box::pin(embedder.embed(texts()));
    assert!(futures::poll!(first.as_mut()).is_pending());
    clock.advance(Duration::from_millis(59_999));
    let mut joins = Box::pin(embedder.embed(texts()));
    assert!(futures::poll!(joins.as_mut()).is_pending());
    clock.advance(Duration::from_millis(1));
    *world.gate.lock().unwrap() = None;
    drive(&clock, embedder.embed(texts())).await.unwrap();
    assert_eq!(world.log(), ["load", "load", "send 1"]);
    assert!(futures::poll!(first.as_mut()).is_pending());
    gate.open();
    drive(&clock, first).await.unwrap();
    drive(&clock, joins).await.unwrap();
    // What the older one brought late does not replace what the newer one did.
    drive(&clock, embedder.embed(texts())).await.unwrap();
    assert_eq!(world.log().iter().filter(|l| *l == "load").count(), 2);
}

#[tokio::test]
async fn a_forced_load_that_was_left_is_forced_again() {
    let (client, entry, world, clock) = fake("forced", Operation::Embed, json!({}));
    let embedder = client.embedder(&entry).unwrap();
    drive(&clock, embedder.embed(texts())).await.unwrap();
    world.log.lock().unwrap().clear();
    *world.gate.lock().unwrap() = Some(Gate::new());
    world.answer(Answer::Expired);
    let mut leaves = Box::pin(embedder.embed(texts()));
    assert!(futures::poll!(leaves.as_mut()).is_pending());
    drop(leaves);
    assert_eq!(world.log(), ["send 1", "load!", "load dropped"]);
    world.log.lock().unwrap().clear();
    *world.gate.lock().unwrap() = None;
    world.answer(Answer::Expired);
    drive(&clock, embedder.embed(texts())).await.unwrap();
    assert_eq!(world.log(), ["send 1", "load!", "send 2"]);
}

#[tokio::test]
async fn a_call_dropped_at_any_await_leaves_nothing_behind_and_spoils_nothing() {
    let mut finished = 0;
    for hidden in [false, true] {
        for polls in 1..12 {
            let name = format!("dropped {hidden} {polls}");
            let limits = json!({"rate_limit": {"max_concurrency": 1}});
            let (client, entry, world, clock) = fake(&name, Operation::Embed, limits);
            *world.lazy.lock().unwrap() = true;
            *world.hidden.lock().unwrap() = hidden;
            let embedder = client.embedder(&entry).unwrap();
            let mut other = embedder.embed(texts()).boxed().fuse();
            let mut call = Box::pin(embedder.embed(texts()));
            for _ in 0..polls {
                if futures::poll!(call.as_mut()).is_ready() {
                    finished += 1;
                    break;
                }
                // It joins what the other one began, and is left alone with it.
                if let Poll::Ready(done) = futures::poll!(&mut other) {
                    done.unwrap();
                }
                tokio::task::yield_now().await;
            }
            drop(call);
            if !other.is_terminated() {
                drive(&clock, other).await.unwrap();
            }
            drive(&clock, embedder.embed(texts())).await.unwrap();
            let scope = embedder.scope_snapshot();
            assert_eq!((scope.active, scope.queued), (0, 0), "{name}");
        }
    }
    assert!(finished > 0, "no call was ever polled to its end");
}

#[tokio::test]
async fn a_hidden_source_that_is_never_ready_in_one_poll_is_not_asked_for_ever() {
    let (client, entry, world, _clock) = fake("lazy", Operation::Embed, json!({}));
    *world.hidden.lock().unwrap() = true;
    *world.lazy.lock().unwrap() = true;
    let embedder = client.embedder(&entry).unwrap();
    let call = tokio::time::timeout(Duration::from_secs(10), embedder.embed(texts()));
    call.await.unwrap().unwrap();
    assert_eq!(world.log(), ["load", "load", "send 1"]);
}

#[tokio::test]
async fn a_source_that_panics_is_an_error_for_all_who_wait_and_the_next_call_asks_again() {
    let (client, entry, world, clock) = fake("panics", Operation::Embed, json!({}));
    let gate = Gate::new();
    *world.gate.lock().unwrap() = Some(gate.clone());
    *world.panics.lock().unwrap() = true;
    let embedder = client.embedder(&entry).unwrap();
    let mut calls: Vec<_> = (0..3).map(|_| Box::pin(embedder.embed(texts()))).collect();
    for call in &mut calls {
        assert!(futures::poll!(call.as_mut()).is_pending());
    }
    gate.open();
    for done in drive(&clock, futures::future::join_all(calls)).await {
        let e = done.unwrap_err();
        assert_eq!(e.kind(), Kind::Auth);
        assert!(e.message().contains("broke off"), "{e}");
    }
    assert_eq!(world.log(), ["load", "load dropped"]);
    *world.panics.lock().unwrap() = false;
    drive(&clock, embedder.embed(texts())).await.unwrap();
    let scope = embedder.scope_snapshot();
    assert_eq!((scope.active, scope.queued), (0, 0));
}

#[tokio::test]
async fn a_credential_that_expires_before_a_waiters_turn_is_loaded_again_for_it() {
    let (client, entry, world, clock) = fake("between", Operation::Embed, json!({}));
    let gate = Gate::new();
    *world.gate.lock().unwrap() = Some(gate.clone());
    *world.good_for.lock().unwrap() = Some(Duration::from_secs(5));
    let embedder = client.embedder(&entry).unwrap();
    let mut first = Box::pin(embedder.embed(texts()));
    let mut late = Box::pin(embedder.embed(texts()));
    assert!(futures::poll!(first.as_mut()).is_pending());
    assert!(futures::poll!(late.as_mut()).is_pending());
    gate.open();
    drive(&clock, first).await.unwrap();
    // Its task comes to its turn only now.
    clock.advance(Duration::from_secs(5));
    drive(&clock, late).await.unwrap();
    assert_eq!(world.log(), ["load", "send 1", "load", "send 1"]);
    // What has expired when it comes is the source's fault, and told as such.
    *world.good_for.lock().unwrap() = Some(Duration::ZERO);
    clock.advance(Duration::from_secs(5));
    let e = drive(&clock, embedder.embed(texts())).await.unwrap_err();
    assert_eq!(e.kind(), Kind::Auth);
    assert!(e.message().contains("already expired"), "{e}");
    assert_eq!(world.log().iter().filter(|l| *l == "load").count(), 3);
}

/// Numbers without a pattern, below `most`.
fn below(state: &mut u64, most: usize) -> usize {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    (*state >> 16) as usize % most
}

#[tokio::test]
async fn a_hundred_waiters_of_one_load_may_leave_in_any_order() {
    for seed in 1..=60 {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(seed);
        // Those who wait for the first credential, and those whose good one was refused.
        let refused = seed % 2 == 0;
        let name = format!("hundred {seed}");
        let (client, entry, world, clock) = fake(&name, Operation::Embed, json!({}));
        let embedder = client.embedder(&entry).unwrap();
        if refused {
            drive(&clock, embedder.embed(texts())).await.unwrap();
            (0..100).for_each(|_| world.answer(Answer::Expired));
        }
        let gate = Gate::new();
        *world.gate.lock().unwrap() = Some(gate.clone());
        world.log.lock().unwrap().clear();
        let mut calls: Vec<_> = (0..100)
            .map(|_| Box::pin(embedder.embed(texts())))
            .collect();
        for call in &mut calls {
            assert!(futures::poll!(call.as_mut()).is_pending());
        }
        let load = if refused { "load!" } else { "load" };
        let loads = || -> Vec<String> {
            let log = world.log().into_iter();
            log.filter(|l| l.starts_with("load")).collect()
        };
        assert_eq!(loads(), [load], "{name}");
        let stay = [0, 1, below(&mut state, 100)][below(&mut state, 3)];
        while calls.len() > stay {
            let leaver = below(&mut state, calls.len());
            drop(calls.swap_remove(leaver));
            if !calls.is_empty() {
                let other = below(&mut state, calls.len());
                assert!(futures::poll!(calls[other].as_mut()).is_pending());
                clock.advance(Duration::from_millis(1));
            }
        }
        match stay {
            0 => assert_eq!(loads(), [load, "load dropped"], "{name}"),
            _ => assert_eq!(loads(), [load], "{name}"),
        }
        gate.open();
        for done in drive(&clock, futures::future::join_all(calls)).await {
            done.unwrap();
        }
        drive(&clock, embedder.embed(texts())).await.unwrap();
        let begun = loads().iter().filter(|l| *l != "load dropped").count();
        // A good one that was refused is still kept when nobody waits for another.
        let anew = usize::from(stay == 0 && !refused);
        assert_eq!(begun, 1 + anew, "{name}");
        let scope = embedder.scope_snapshot();
        assert_eq!((scope.active, scope.queued), (0, 0), "{name}");
    }
}
