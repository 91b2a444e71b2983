//! `links` wants a build script: two versions of this crate in one process would be two quotas. And `tests/loom.rs` is
//! built with a `cfg` of its own.

fn main() {
    println!("cargo::rustc-check-cfg=cfg(antfly_loom)");
    println!("cargo::rerun-if-changed=build.rs");
}
