//! The peak of the live heap while one large batch is fetched and decoded, beside typed serde over bare reqwest.
//!
//! ```sh
//! cargo bench -p antfly-providers --no-default-features --features openai --bench heap
//! ```
//! Apart from the times of `stack`, because an allocator that counts costs time.
#![forbid(unsafe_code)]
#![allow(
    missing_docs,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::print_stdout
)]

mod cases;
mod server;

use std::process::{Command, Stdio};

use cases::Case;
use peak_alloc::PeakAlloc;
use server::{DIM, VECTORS};

#[global_allocator]
static HEAP: PeakAlloc = PeakAlloc;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["serve"] => server::serve(),
        ["heap", case, url] => peak(case, url),
        _ => compare(),
    }
}

fn compare() {
    let server = server::Process::start();
    let vectors = VECTORS * DIM * 4;
    for case in ["floats-bytes", "floats", "floats-bare", "base64"] {
        let body = server.body_len(case);
        let out = Command::new(std::env::current_exe().unwrap())
            .args(["heap", case, &server.url])
            .stderr(Stdio::inherit())
            .output()
            .unwrap();
        let peak: usize = String::from_utf8_lossy(&out.stdout).trim().parse().unwrap();
        println!(
            "{case:<12} body {body} B, vectors {vectors} B, peak live heap {peak} B = body + {:.2}x the vectors (bar: body + 1.1x)",
            (peak as f64 - body as f64) / vectors as f64
        );
    }
}

/// Fetches once to open the connection and warm what is warmed once, then measures the second time.
fn peak(case: &str, url: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let case = Case::named(case, url);
    runtime.block_on(case.once());
    let before = HEAP.current_usage();
    HEAP.reset_peak_usage();
    runtime.block_on(case.once());
    println!("{}", HEAP.peak_usage() - before);
}
