//! What the whole stack costs beside bare reqwest, in one run: a small call, decoding a large batch of embeddings, a stream.
//!
//! ```sh
//! cargo bench -p antfly-providers --no-default-features --features openai --bench stack
//! ```
//! `-- --quick` takes a tenth of the rounds. Where valgrind is installed, instructions are counted too: those of a longer run less those of
//! a shorter one, so that start-up does not count. The servers run in a process of their own.
//!
//! `cases` is what is compared, `server` what answers, `counted` runs this program again under callgrind.
//! The peak of the heap is a bench of its own, `heap`.
#![forbid(unsafe_code)]
#![allow(
    missing_docs,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::print_stdout
)]

mod cases;
mod counted;
mod server;

use std::time::{Duration, Instant};

use cases::Case;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["serve"] => server::serve(),
        ["run", case, url, rounds] => runtime().block_on(run(case, url, rounds.parse().unwrap())),
        _ => compare(words.contains(&"--quick")),
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
}

async fn run(case: &str, url: &str, rounds: u64) {
    let case = Case::named(case, url);
    for _ in 0..rounds {
        case.once().await;
    }
}

/// A case of ours, what it stands beside, the rounds of a run and the bar.
const PAIRS: [(&str, &str, u64, &str); 5] = [
    (
        "chat",
        "chat-bare",
        300,
        "instructions <= 1.10x, <= 25 us more",
    ),
    (
        "embed",
        "embed-bare",
        300,
        "instructions <= 1.10x, <= 25 us more",
    ),
    ("floats", "floats-bare", 20, "<= 1.0x (aim 0.6x)"),
    ("base64", "floats-bare", 20, "<= 0.2x"),
    ("stream", "stream-bare", 40, "<= 1.3x"),
];

fn compare(quick: bool) {
    let server = server::Process::start();
    let runtime = runtime();
    println!(
        "{:<8} {:>12} {:>12} {:>7} {:>14}   {:<12} bar",
        "", "ours", "bare", "ratio", "paired median", "instructions"
    );
    for (ours, bare, rounds, bar) in PAIRS {
        let rounds = if quick { rounds.div_ceil(10) } else { rounds };
        let (a, b) = runtime.block_on(async {
            let pair = (
                Case::named(ours, &server.url),
                Case::named(bare, &server.url),
            );
            for _ in 0..rounds.div_ceil(10) {
                pair.0.once().await;
                pair.1.once().await;
            }
            let (mut a, mut b) = (Vec::new(), Vec::new());
            for round in 0..rounds {
                // Who goes first changes, so that neither always finds the caches warm.
                if round % 2 == 0 {
                    a.push(timed(&pair.0).await);
                    b.push(timed(&pair.1).await);
                } else {
                    b.push(timed(&pair.1).await);
                    a.push(timed(&pair.0).await);
                }
            }
            (a, b)
        });
        let mut apart: Vec<i128> = a
            .iter()
            .zip(&b)
            .map(|(a, b)| a.as_nanos() as i128 - b.as_nanos() as i128)
            .collect();
        apart.sort_unstable();
        let (a, b) = (median(a), median(b));
        let counted = counted::ratio(ours, bare, &server.url, quick);
        println!(
            "{ours:<8} {:>9.1} us {:>9.1} us {:>6.2}x {:>11.1} us   {counted:<12} {bar}",
            micros(a),
            micros(b),
            a.as_secs_f64() / b.as_secs_f64(),
            apart[apart.len() / 2] as f64 / 1e3,
        );
    }
    println!("connections opened: {}", server.connections());
}

async fn timed(case: &Case) -> Duration {
    let start = Instant::now();
    case.once().await;
    start.elapsed()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}
