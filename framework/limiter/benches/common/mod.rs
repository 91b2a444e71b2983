//! What the benches share.
#![allow(dead_code, missing_docs, unreachable_pub)]

use std::time::Duration;

/// Whether only a quick look is wanted, which shows that everything runs and measures little: `BENCH_QUICK=1`.
pub fn quick() -> bool {
    std::env::var_os("BENCH_QUICK").is_some_and(|value| value != "0")
}

/// User and system time of the process, in ticks of 10 ms.
pub fn cpu_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<u64> = stat
        .rsplit(") ")
        .next()
        .unwrap_or("")
        .split(' ')
        .map(|field| field.parse().unwrap_or(0))
        .collect();
    Duration::from_millis(10 * (fields.get(11).unwrap_or(&0) + fields.get(12).unwrap_or(&0)))
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
