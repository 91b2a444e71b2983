//! What the benches share.
#![allow(dead_code, missing_docs, unreachable_pub)]

use std::time::Duration;

/// Whether only a quick look is wanted, which shows that everything runs and measures little: `BENCH_QUICK=1`.
pub fn quick() -> bool {
    std::env::var_os("BENCH_QUICK").is_some_and(|value| value != "0")
}

/// Processor time of all threads that are alive.
pub fn cpu_time() -> Duration {
    let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten();
    let nanos = threads.flatten().map(|thread| {
        let stat = std::fs::read_to_string(thread.path().join("schedstat")).unwrap_or_default();
        let running = stat.split(' ').next().unwrap_or("");
        running.parse().unwrap_or(0)
    });
    Duration::from_nanos(nanos.sum())
}

/// What a figure was measured on, and how busy that was.
pub fn machine() -> String {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let kernel = read("/proc/sys/kernel/osrelease");
    let load = read("/proc/loadavg");
    let load = load.split(' ').next().unwrap_or("unknown");
    format!(
        "{cores} cores, {} {}, load {load} at the start",
        std::env::consts::OS,
        kernel.trim()
    )
}
