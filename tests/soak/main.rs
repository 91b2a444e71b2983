//! Load with faults over real HTTP: many callers, cancels, resets, stalls, 429s, slow streams. At the end every permit is back,
//! nobody waits, no scope is left, and the live heap after the drain is what it was after the warm-up.
//!
//! Three seconds by default; `SOAK_SECONDS=300` for minutes. The seed is printed; `SOAK_SEED` replays the callers' choices.
#![forbid(unsafe_code)]
#![allow(missing_docs)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use antfly_framework::testing::{Gate, Received, Reply, Server};
use antfly_framework::{
    CallOptions, CancellationToken, Client, EmbedRequest, Embedder, EntryConfig, Env,
    GenerateRequest, Generator, Limiter, Operation, Time,
};
use serde_json::json;

#[global_allocator]
static HEAP: dhat::Alloc = dhat::Alloc;

/// Callers at once.
const CALLERS: u64 = 100;

/// SplitMix64.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % sides
    }
}

/// A provider with moods: mostly well, now and then anything but.
fn answer(count: u64, request: &Received, never: &Gate) -> Reply {
    let streamed = request.json()["stream"] == true;
    match count % 17 {
        3 => Reply::reset(),
        5 => Reply::json(429, json!({"error": {"message": "slow down"}}))
            .header("retry-after-ms", 20),
        7 => Reply::json(503, json!({"error": {"message": "busy"}})),
        9 => Reply::hang(),
        11 => Reply::json(200, "{\"data\": [").cut_after(5),
        13 if streamed => Reply::stream(200, "text/event-stream")
            .event(r#"{"choices": [{"delta": {"content": "a"}}]}"#)
            .pause(never),
        _ if streamed => Reply::sse([
            r#"{"choices": [{"delta": {"content": "a"}}]}"#,
            r#"{"choices": [{"delta": {}, "finish_reason": "stop"}]}"#,
            "[DONE]",
        ]),
        _ => Reply::json(
            200,
            json!({"data": [{"index": 0, "embedding": [1.0, 2.0]}]}),
        ),
    }
}

async fn caller(embedder: Embedder, generator: Generator, seed: u64, until: Instant) -> u64 {
    let mut dice = Dice(seed);
    let mut good = 0;
    while Instant::now() < until {
        let cancel = CancellationToken::new();
        let options = CallOptions::timeout(Duration::from_millis(50 + dice.roll(400)))
            .with_cancel(cancel.clone());
        let call = async {
            if dice.roll(2) == 0 {
                return embedder
                    .embed_with(EmbedRequest::texts(["a"]), options)
                    .await
                    .is_ok();
            }
            match generator
                .stream_with(GenerateRequest::prompt("p"), options)
                .await
            {
                Ok(mut stream) => {
                    if dice.roll(4) == 0 {
                        return true; // Dropped after its first item.
                    }
                    while let Some(event) = stream.next().await {
                        if event.is_err() {
                            return false;
                        }
                    }
                    true
                }
                Err(_) => false,
            }
        };
        let patience = Duration::from_millis(1 + dice_of(seed, good) % 300);
        tokio::select! {
            ok = call => good += u64::from(ok),
            () = tokio::time::sleep(patience) => cancel.cancel(),
        }
    }
    good
}

fn dice_of(seed: u64, step: u64) -> u64 {
    Dice(seed ^ step).roll(u64::MAX)
}

async fn round(client: &Client, server: &Server, seed: u64, time: Duration) -> u64 {
    let limits = json!({"requests_per_minute": 60_000, "burst": 20, "max_concurrency": 16, "tokens_per_minute": 40_000_000});
    let json = json!({"provider": "openai", "model": "m", "url": server.url(), "rate_limit": limits,
        "retry": {"initial_backoff_ms": 1, "max_backoff_ms": 5}, "stream_idle_timeout_ms": 200});
    let embedder = client
        .embedder(&EntryConfig::from_json(Operation::Embed, "embedders.e", json.clone()).unwrap())
        .unwrap();
    let generator = client
        .generator(&EntryConfig::from_json(Operation::Generate, "generators.g", json).unwrap())
        .unwrap();
    let until = Instant::now() + time;
    let callers = (0..CALLERS).map(|n| {
        tokio::spawn(caller(
            embedder.clone(),
            generator.clone(),
            seed ^ (n << 32),
            until,
        ))
    });
    let mut good = 0;
    for done in futures::future::join_all(callers).await {
        good += done.unwrap();
    }
    for scope in [embedder.scope_snapshot(), generator.scope_snapshot()] {
        assert_eq!(
            (scope.active, scope.queued),
            (0, 0),
            "every permit is back: {scope:?}"
        );
    }
    good
}

#[test]
fn after_load_with_every_fault_nothing_is_held_and_the_heap_is_flat() {
    let _profiler = dhat::Profiler::builder().testing().build();
    let number = |name: &str, default: u64| {
        std::env::var(name)
            .ok()
            .and_then(|v| v.parse().ok())
            .unwrap_or(default)
    };
    let seconds = number("SOAK_SECONDS", 3);
    let seed = number("SOAK_SEED", 20_261_130);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    let never = Gate::new();
    let counter = Arc::new(AtomicU64::new(0));
    let client = Client::builder()
        .registry(antfly_providers::registry().unwrap())
        .limiter(Limiter::new(Time::thread()))
        .env(Env::empty())
        .build()
        .unwrap();
    let live = |round_seed: u64, time: Duration| {
        // A server a round: it keeps every request it got, which is not the client's heap.
        let (count, never) = (Arc::clone(&counter), never.clone());
        let server = Server::with(move |request| {
            answer(count.fetch_add(1, Ordering::Relaxed), request, &never)
        });
        let good = runtime.block_on(round(&client, &server, round_seed, time));
        let peak = server.peak_open_requests();
        drop(server);
        // Connections close in the background.
        std::thread::sleep(Duration::from_millis(500));
        (good, peak, dhat::HeapStats::get().curr_bytes)
    };
    let (_, _, warm) = live(seed, Duration::from_secs(2));
    let (good, peak, after) = live(seed ^ 1, Duration::from_secs(seconds));
    assert!(good > 50, "seed {seed}: only {good} calls went well");
    // Two scopes of 16; a request the client has dropped may still be open at the server for a moment.
    assert!(peak <= 2 * 16 + 24, "seed {seed}: {peak} open at once");
    let most = warm + warm / 100 + 64 * 1024;
    assert!(
        after <= most,
        "seed {seed}: {warm} bytes after the warm-up, {after} after the drain"
    );
    assert_eq!(
        client.snapshot().iter().filter(|s| s.leases > 0).count(),
        0,
        "seed {seed}: no lease is left"
    );
}
