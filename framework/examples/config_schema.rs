//! Writes `docs/config.schema.json` anew: `cargo run -p antfly-framework --example config_schema`.

fn main() -> std::io::Result<()> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/config.schema.json");
    std::fs::write(path, format!("{:#}\n", antfly_framework::config::schema()))
}
