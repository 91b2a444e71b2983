//! Where the real models are; shared by the test programs that need one.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The folder of models: what `examples/fetch-models.sh` prints, which fetches them when they are nowhere yet. Without them there
/// is no test: this panics with what the script says.
pub(crate) fn models() -> &'static Path {
    static MODELS: OnceLock<PathBuf> = OnceLock::new();
    MODELS.get_or_init(|| {
        // One fetch, however many test programs run at once.
        let lock = Path::new(env!("CARGO_TARGET_TMPDIR")).join("fetch-models.lock");
        let lock = File::create(lock).unwrap();
        lock.lock().unwrap();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/fetch-models.sh");
        let run = Command::new("bash").arg(&script).output();
        let run = run.unwrap_or_else(|e| panic!("bash {}: {e}", script.display()));
        assert!(
            run.status.success(),
            "these tests need the models that {} fetches, or ANTFLY_MODELS_DIR with them; it says:\n{}",
            script.display(),
            String::from_utf8_lossy(&run.stderr)
        );
        let root = String::from_utf8(run.stdout).unwrap();
        PathBuf::from(root.trim())
    })
}
