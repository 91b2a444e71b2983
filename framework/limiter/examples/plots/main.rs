//! Draws the plots of `docs/limits.md` from simulated runs of the limiter: `cargo run -p antfly-limiter --example plots`.
//!
//! `sim` runs calls through a scope on the manual clock, `svg` draws what became of them, `scenes` says which calls.

mod scenes;
mod sim;
mod svg;

fn main() -> std::io::Result<()> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/plots");
    std::fs::create_dir_all(folder)?;
    for (name, plot) in scenes::all() {
        std::fs::write(format!("{folder}/{name}.svg"), plot)?;
    }
    Ok(())
}
