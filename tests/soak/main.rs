//! Load with faults over real HTTP: more callers than slots, cancels, resets, stalls, storms of 429s, slow streams. At the end
//! every permit is back, nobody waits, no scope is left, and the live heap after the drain is what it was after the warm-up.
//!
//! Three seconds at concurrency 500 by default; `SOAK_SECONDS=300` for minutes. The seed is printed; `SOAK_SEED` replays the callers' choices.
#![forbid(unsafe_code)]
#![allow(missing_docs)]

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use antfly_framework::testing::{Gate, Received, Reply, Server};
use antfly_framework::{
    CallOptions, CancellationToken, Client, EmbedRequest, Embedder, EntryConfig, Env,
    GenerateRequest, Generator, Limiter, Operation, Time,
};
use peak_alloc::PeakAlloc;
use serde_json::json;

#[global_allocator]
static HEAP: PeakAlloc = PeakAlloc;

/// Callers at once, half of them for each scope.
const CALLERS: u64 = 1200;

/// Slots of each of the two scopes: the callers keep them full.
const CONCURRENCY: u64 = 250;

/// Of so many requests, as many in a row meet a storm of 429s.
const STORM: (u64, u64) = (4000, 300);

/// How long the provider thinks, and how long a slow stream takes over its next event.
const SLOW: Duration = Duration::from_millis(600);

/// Opens gates later: what makes a provider slow, and keeps the slots full.
struct Slow(mpsc::Sender<(Instant, Gate)>);

impl Slow {
    fn start() -> Slow {
        let (gates, due) = mpsc::channel::<(Instant, Gate)>();
        std::thread::spawn(move || {
            for (at, gate) in due {
                std::thread::sleep(at.saturating_duration_since(Instant::now()));
                gate.open();
            }
        });
        Slow(gates)
    }

    fn gate(&self) -> Gate {
        let gate = Gate::new();
        let _ = self.0.send((Instant::now() + SLOW, gate.clone()));
        gate
    }
}

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
fn answer(count: u64, request: &Received, never: &Gate, slow: &Slow) -> Reply {
    let streamed = request.json()["stream"] == true;
    if count % STORM.0 >= STORM.0 - STORM.1 {
        return Reply::json(429, json!({"error": {"message": "slow down, all of you"}}))
            .header("retry-after-ms", 50);
    }
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
        1 | 8 | 15 if streamed => Reply::stream(200, "text/event-stream")
            .event(r#"{"choices": [{"delta": {"content": "a"}}]}"#)
            .pause(&slow.gate())
            .event(r#"{"choices": [{"delta": {}, "finish_reason": "stop"}]}"#)
            .event("[DONE]"),
        _ if streamed => Reply::sse([
            r#"{"choices": [{"delta": {"content": "a"}}]}"#,
            r#"{"choices": [{"delta": {}, "finish_reason": "stop"}]}"#,
            "[DONE]",
        ])
        .after(&slow.gate()),
        _ => Reply::json(
            200,
            json!({"data": [{"index": 0, "embedding": [1.0, 2.0]}]}),
        )
        .after(&slow.gate()),
    }
}

async fn caller(embedder: Embedder, generator: Generator, seed: u64, until: Instant) -> u64 {
    let mut dice = Dice(seed);
    let mut good = 0;
    while Instant::now() < until {
        let cancel = CancellationToken::new();
        let options = CallOptions::default()
            .with_timeout(Duration::from_millis(800 + dice.roll(3000)))
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
        let patience = Duration::from_millis(1 + dice_of(seed, good) % 3000);
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
    let limits = json!({"requests_per_minute": 600_000, "burst": 500, "max_concurrency": CONCURRENCY, "tokens_per_minute": 400_000_000});
    let json = json!({"provider": "openai", "model": "m", "url": server.url(), "rate_limit": limits,
        "retry": {"initial_backoff_ms": 1, "max_backoff_ms": 5}, "stream_idle_timeout_ms": 1500});
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

/// The live heap when it has stood still for longer than the pool needs to notice closed connections (it looks every 4 s).
fn settled() -> usize {
    let mut last = HEAP.current_usage();
    let mut still = 0;
    for _ in 0..300 {
        std::thread::sleep(Duration::from_millis(100));
        let now = HEAP.current_usage();
        still = if now == last { still + 1 } else { 0 };
        last = now;
        if still == 45 {
            break;
        }
    }
    last
}

#[test]
fn after_load_with_every_fault_nothing_is_held_and_the_heap_is_flat() {
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
    let slow = Arc::new(Slow::start());
    let counter = Arc::new(AtomicU64::new(0));
    let client = Client::builder()
        .registry(antfly_providers::registry().unwrap())
        .limiter(Limiter::new(Time::thread()))
        .env(Env::empty())
        .build()
        .unwrap();
    let live = |round_seed: u64, time: Duration| {
        // A server a round: it keeps every request it got, which is not the client's heap.
        let (count, never, slow) = (Arc::clone(&counter), never.clone(), Arc::clone(&slow));
        let server = Server::with(move |request| {
            answer(
                count.fetch_add(1, Ordering::Relaxed),
                request,
                &never,
                &slow,
            )
        });
        let good = runtime.block_on(round(&client, &server, round_seed, time));
        let peak = server.peak_open_requests();
        drop(server);
        (good, peak, settled())
    };
    let (_, _, warm) = live(seed, Duration::from_secs(2));
    let (good, peak, after) = live(seed ^ 1, Duration::from_secs(seconds));
    assert!(good > 50, "seed {seed}: only {good} calls went well");
    eprintln!(
        "{good} calls went well, {peak} open at once at most, {warm} bytes live after the warm-up and {after} at the end"
    );
    assert!(
        peak as u64 >= CONCURRENCY,
        "seed {seed}: only {peak} open at once"
    );
    let most = warm + warm / 100;
    assert!(
        after <= most,
        "seed {seed}: {warm} bytes after the warm-up, {after} after the drain"
    );
    // What the last attempts spent is repaid in milliseconds; then there is nothing to remember.
    assert_eq!(client.snapshot(), [], "seed {seed}: no scope is left");
}
